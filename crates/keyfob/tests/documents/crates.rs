//! The dependency directions of `ARCHITECTURE.md`: its table of crates is compared with the manifests.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{read, readmes::metadata, root};

/// Crates by name, each with the crates of this workspace that it depends on. Dependencies of tests do not count.
type Edges = BTreeMap<String, BTreeSet<String>>;

/// The rows of the table: `| crate | purpose | uses |`.
fn documented() -> Edges {
    let page = read("ARCHITECTURE.md");
    let rows = page.lines().filter(|line| line.starts_with("| `keyfob"));
    rows.map(|row| {
        let [_, name, _, uses, _] = row.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("the table of crates has three columns: {row}");
        };
        let uses = uses.split(", ").filter(|uses| *uses != "nothing");
        (name.trim_matches('`').to_owned(), uses.map(|name| format!("keyfob-{name}")).collect())
    })
    .collect()
}

/// As cargo reads the manifests: dependencies of builds and of single platforms too.
fn declared() -> Edges {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let published = packages.filter(|package| package["name"] != "keyfob-conformance");
    published
        .map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            let uses = dependencies.filter(|dependency| dependency["kind"] != "dev");
            let uses = uses.map(|dependency| dependency["name"].as_str().unwrap().to_owned());
            let uses = uses.filter(|name| name.starts_with("keyfob-"));
            (package["name"].as_str().unwrap().to_owned(), uses.collect())
        })
        .collect()
}

/// Everything that a crate depends on, by way of others too.
fn reached<'a>(edges: &'a Edges, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut found = vec![from];
    while let Some(name) = found.pop() {
        found.extend(edges[name].iter().map(String::as_str).filter(|name| reached.insert(*name)));
    }
    reached
}

#[test]
fn crates_depend_on_each_other_as_the_architecture_says() {
    let (documented, mut declared) = (documented(), declared());
    // The binary may use every crate; listing them would say nothing.
    let binary = declared.remove("keyfob").unwrap();
    assert!(binary.iter().all(|name| declared.contains_key(name)), "{binary:?}");

    assert_eq!(documented, declared, "ARCHITECTURE.md's table, and the manifests");
}

/// The rules of the text below that table. Unlike the table, they do not follow the manifests: a commit that changes one of them changes
/// the architecture.
#[test]
fn no_crate_reaches_one_that_it_must_not_know() {
    let edges = declared();
    let never_each_other = ["keyfob-host", "keyfob-client", "keyfob-control"];
    let demos_and_tests = ["keyfob-playground", "keyfob-testkit"];
    for (name, uses) in &edges {
        let reached = reached(&edges, name);
        if never_each_other.contains(&name.as_str()) {
            assert!(
                never_each_other.iter().all(|other| !reached.contains(other)),
                "{name}: {reached:?}"
            );
        }
        let is_product_library = name != "keyfob" && !demos_and_tests.contains(&name.as_str());
        for kit in demos_and_tests {
            assert!(!is_product_library || !reached.contains(kit), "{name} reaches {kit}");
        }
        assert!(!reached.contains("keyfob"), "{name} reaches the binary");
        assert!(!uses.contains("keyfob-testkit"), "{name} depends on the test kit");
    }
    for bottom in ["keyfob-document", "keyfob-stdout", "keyfob-metrics"] {
        assert_eq!(edges[bottom], BTreeSet::new(), "{bottom}");
    }
    // It is started for every pull. Patterns must mean the same there as everywhere else, and nothing else of ours is loaded.
    assert_eq!(edges["keyfob-relay"], BTreeSet::from(["keyfob-api".to_owned()]));
    // Pulling knows neither the host nor the image manager, the messages do no I/O, and whoever wants the agent's rules links no server.
    for (name, other) in [
        ("keyfob-oci", "keyfob-host"),
        ("keyfob-oci", "keyfob-images"),
        ("keyfob-api", "keyfob-exec"),
        ("keyfob-redact", "keyfob-exec"),
        ("keyfob-agent-config", "keyfob-net"),
    ] {
        assert!(!reached(&edges, name).contains(other), "{name} reaches {other}");
    }
}

/// Each path of the section "The paths", by its name: the files it passes, in order.
fn paths() -> Vec<(String, Vec<String>)> {
    let page = read("ARCHITECTURE.md");
    let section = page.split("\n## The paths\n").nth(1).and_then(|rest| rest.split("\n## ").next());
    let mut paths = Vec::new();
    for line in section.unwrap().lines() {
        if let Some(name) = line.strip_prefix("**").and_then(|rest| rest.split("**").next()) {
            paths.push((name.to_owned(), Vec::new()));
        } else if let Some((_, files)) = paths.last_mut() {
            let named = line.split('`').skip(1).step_by(2).filter(|name| is_rust(name));
            files.extend(named.map(str::to_owned));
        }
    }
    paths
}

fn is_rust(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "rs")
}

/// `api/image.rs` stands for `crates/keyfob-api/src/image.rs`, and `keyfob/provider.rs` for a file of the binary.
fn source_file(short: &str) -> String {
    let (name, file) = short.split_once('/').unwrap();
    let name = if name == "keyfob" { name.to_owned() } else { format!("keyfob-{name}") };
    format!("crates/{name}/src/{file}")
}

#[test]
fn the_paths_of_the_architecture_name_files_once_and_files_that_exist() {
    let paths = paths();
    assert_eq!(paths.len(), 11, "{paths:?}");
    for (path, files) in &paths {
        assert!(files.len() > 3, "{path} names {files:?}");
        for (at, file) in files.iter().enumerate() {
            assert!(root().join(source_file(file)).is_file(), "{path} names {file}");
            assert!(!files[..at].contains(file), "{path} comes back to {file}");
        }
    }
}
