//! The README of each crate: one screen, an example that a test runs, and the features of the manifest.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use serde_json::Value;

use crate::{
    page::{blocks, prose},
    read, root,
};

/// More than this does not fit on a screen.
const MOST_LINES: usize = 60;

#[test]
fn every_crate_has_a_readme_of_one_screen() {
    for name in crates() {
        let lines = readme(&name).lines().count();
        assert!(lines <= MOST_LINES, "the README of {name} has {lines} lines");
    }
}

#[test]
fn the_readme_of_a_library_is_its_front_page_and_its_example_a_doctest() {
    let is_library = |name: &String| root().join(format!("crates/{name}/src/lib.rs")).exists();
    for name in crates().into_iter().filter(is_library) {
        let library = read(format!("crates/{name}/src/lib.rs"));
        let includes = library.starts_with("#![doc = include_str!(\"../README.md\")]");
        assert!(includes, "the documentation of {name} does not begin with its README");

        let page = readme(&name);
        let languages: Vec<_> = blocks(&page).iter().map(|block| block.language).collect();
        let is_example = |language: &&str| matches!(*language, "rust" | "rust,no_run");
        assert!(languages.iter().any(is_example), "{name} has no example: {languages:?}");
    }
}

#[test]
fn every_readme_says_what_the_crate_does_not_do() {
    for name in crates() {
        let page = readme(&name);
        let has_list = section(&page, "## What it does not do").any(|line| line.starts_with("- "));
        assert!(has_list, "the README of {name} does not say it");
    }
}

#[test]
fn a_readme_lists_exactly_the_features_of_the_manifest() {
    let manifests = features();
    for name in crates() {
        let page = readme(&name);
        let rows = section(&page, "## Features").filter(|line| line.starts_with("| `"));
        let listed: BTreeMap<_, _> = rows.map(feature).collect();
        assert_eq!(listed, manifests[&name], "features of {name}: name, and whether it is on");
        let says_none = section(&page, "## Features").any(|line| line == "None.");
        assert_eq!(says_none, listed.is_empty(), "features of {name}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "asks the program")]
fn the_readme_of_the_program_has_every_command() {
    let help = Command::new(env!("CARGO_BIN_EXE_keyfob")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = lines.take_while(|line| !line.is_empty());
    // A description that is wrapped goes on further to the right.
    let commands = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let commands: BTreeSet<_> = commands.filter(|name| !matches!(*name, "" | "help")).collect();

    let page = readme("keyfob");
    let rows = prose(&page).map(|(_, line)| line).skip_while(|line| !line.starts_with("| command"));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let listed: BTreeSet<_> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(!commands.is_empty());
    assert_eq!(listed, commands, "the table of commands, and keyfob --help");
}

/// The names of the crates, which are those of their directories.
pub(crate) fn crates() -> BTreeSet<String> {
    let entries = fs::read_dir(root().join("crates")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn readme(name: &str) -> String {
    read(format!("crates/{name}/README.md"))
}

/// The lines below a heading, up to the next one.
fn section<'a>(page: &'a str, heading: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = prose(page).map(|(_, line)| line);
    lines.skip_while(move |line| *line != heading).skip(1).take_while(|line| !line.starts_with('#'))
}

/// A row of the table of features: the name, and whether it is on by default.
fn feature(row: &str) -> (String, bool) {
    let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
    let [name, default, about] = cells[..] else { panic!("three columns, not {row}") };
    assert!(!about.is_empty() && matches!(default, "yes" | "no"), "{row}");
    (name.trim_matches('`').to_owned(), default == "yes")
}

/// The features of each package and whether they are on by default, as cargo reads the manifests. A feature is also on if
/// another that is on needs it.
fn features() -> BTreeMap<String, BTreeMap<String, bool>> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages.map(|package| (package["name"].as_str().unwrap().to_owned(), of(package))).collect()
}

/// What cargo says about the packages of the workspace.
#[expect(clippy::disallowed_methods, reason = "asks cargo")]
pub(crate) fn metadata() -> Value {
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .arg("--manifest-path")
        .arg(root().join("Cargo.toml"))
        .output()
        .unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    serde_json::from_slice(&cargo.stdout).unwrap()
}

fn of(package: &Value) -> BTreeMap<String, bool> {
    let features = package["features"].as_object().unwrap();
    let mut on = BTreeSet::new();
    let mut found = vec!["default"];
    while let Some(name) = found.pop() {
        // What is not a feature of the package is a dependency, or a feature of one.
        let Some(implied) = features.get(name) else { continue };
        if on.insert(name) {
            found.extend(implied.as_array().unwrap().iter().filter_map(Value::as_str));
        }
    }
    let named = features.keys().filter(|name| *name != "default");
    named.map(|name| (name.clone(), on.contains(name.as_str()))).collect()
}
