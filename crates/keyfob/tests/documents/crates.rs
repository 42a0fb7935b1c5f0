//! The dependency directions of `ARCHITECTURE.md`: its table of crates is compared with the manifests.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::{read, root};

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

fn declared() -> Edges {
    let folders = fs::read_dir(root().join("crates")).unwrap();
    folders
        .map(|folder| fs::read_to_string(folder.unwrap().path().join("Cargo.toml")).unwrap())
        .map(|manifest| {
            let name = manifest.lines().find_map(|line| line.strip_prefix("name = ")).unwrap();
            let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
            let section = section.split("\n[").next().unwrap_or_default();
            let uses = section.lines().filter(|line| line.starts_with("keyfob-"));
            let uses = uses.filter_map(|line| line.split(['.', ' ']).next()).map(str::to_owned);
            (name.trim_matches('"').to_owned(), uses.collect())
        })
        .collect()
}

#[test]
fn crates_depend_on_each_other_as_the_architecture_says() {
    let (documented, mut declared) = (documented(), declared());
    // The binary may use every crate; listing them would say nothing.
    let binary = declared.remove("keyfob").unwrap();
    assert!(binary.iter().all(|name| declared.contains_key(name)), "{binary:?}");

    assert_eq!(documented, declared, "ARCHITECTURE.md's table, and the manifests");
}

#[test]
fn no_library_depends_on_what_demos_and_tests_are_made_of() {
    for (name, uses) in declared().iter().filter(|(name, _)| *name != "keyfob") {
        for kit in ["keyfob-playground", "keyfob-testkit"] {
            assert!(!uses.contains(kit), "{name} depends on {kit}");
        }
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
    assert_eq!(paths.len(), 9, "{paths:?}");
    for (path, files) in &paths {
        assert!(files.len() > 3, "{path} names {files:?}");
        for (at, file) in files.iter().enumerate() {
            assert!(root().join(source_file(file)).is_file(), "{path} names {file}");
            assert!(!files[..at].contains(file), "{path} comes back to {file}");
        }
    }
}
