//! Runs the rows of upstream behaviour that lie outside the project, straight from their files.
//!
//! `KEYFOB_CASES=DIR cargo test -p keyfob --test upstream_cases -- --nocapture` walks every file below DIR. A row is
//! judged by the check that [`CHECKS`] names for its file and group; files and groups without one are listed loudly.
//! Without `KEYFOB_CASES` nothing is read, and the test says so. A relative DIR starts at the workspace's root, where
//! the command is typed.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a row that is not as its file promises must stop the run"
)]

mod accounts;
mod caching;
mod client_auth;
mod client_clientcmd;
mod client_connections;
mod client_integration;
mod client_kubeconfig;
mod client_policy;
mod client_refusal;
mod client_sdk;
mod config;
mod docker_config;
mod environment;
mod exec_wire;
mod host;
mod image_manager;
mod images;
mod keyring;
mod matching;
mod metrics;
mod node_restriction;
mod plugins;
mod processes;
mod provider_wire;
mod pull_records;
mod service_accounts;
mod stage;
mod token_manager;

use std::{
    fmt::{Debug, Write as _},
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use serde_json::Value;

/// Judges one row: the whole file (for its fixtures) and the row itself. An error says how ours differs.
type Check = fn(file: &Value, row: &Value) -> Result<(), String>;

/// Which check judges which group of which file.
const CHECKS: &[&[(&str, &str, Check)]] = &[
    caching::CHECKS,
    client_clientcmd::CHECKS,
    client_connections::CHECKS,
    client_integration::CHECKS,
    client_kubeconfig::CHECKS,
    client_policy::CHECKS,
    client_sdk::CHECKS,
    config::CHECKS,
    docker_config::CHECKS,
    environment::CHECKS,
    host::CHECKS,
    image_manager::CHECKS,
    images::CHECKS,
    keyring::CHECKS,
    matching::CHECKS,
    metrics::CHECKS,
    node_restriction::CHECKS,
    processes::CHECKS,
    provider_wire::CHECKS,
    service_accounts::CHECKS,
    token_manager::CHECKS,
];

#[test]
fn every_row_that_touches_what_is_built_holds() {
    let Some(root) = case_folder() else {
        println!("KEYFOB_CASES is not set: NO upstream row was run");
        return;
    };
    let mut report = Report::default();
    for file in json_files(&root) {
        let text = fs::read(root.join(&file)).unwrap();
        report.file(&file, &serde_json::from_slice(&text).unwrap());
    }
    println!("{}", report.summary());
    assert!(report.held > 0, "no row below {} was judged", root.display());
    assert!(
        report.failures.is_empty(),
        "{} rows differ:\n{}",
        report.failures.len(),
        report.failures.join("\n")
    );
}

#[expect(clippy::disallowed_methods, reason = "the runner's one switch")]
fn case_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("KEYFOB_CASES")?;
    Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder))
}

#[derive(Default)]
struct Report {
    held: usize,
    failures: Vec<String>,
    covered: Vec<String>,
    uncovered: Vec<String>,
}

impl Report {
    fn file(&mut self, name: &str, file: &Value) {
        for (group, rows) in groups(file) {
            let title = format!("{name}: {group} ({} rows)", rows.len());
            match check_for(name, &group) {
                None => self.uncovered.push(title),
                Some(check) => {
                    self.covered.push(title);
                    for row in &rows {
                        self.row(name, &group, judged(check, file, row), row);
                    }
                }
            }
        }
    }

    fn row(&mut self, file: &str, group: &str, verdict: Result<(), String>, row: &Value) {
        match verdict {
            Ok(()) => self.held += 1,
            Err(how) => {
                let mut row = row.to_string();
                row.truncate(row.floor_char_boundary(600));
                self.failures.push(format!("{file} / {group}: {how}\n    {row}"));
            }
        }
    }

    fn summary(&self) -> String {
        let mut text = format!("{} rows hold, {} differ\n", self.held, self.failures.len());
        for title in &self.covered {
            writeln!(text, "  covered: {title}").unwrap();
        }
        for title in &self.uncovered {
            writeln!(text, "  NOT COVERED: {title}").unwrap();
        }
        text
    }
}

/// One row that is not as expected, or makes us panic, must not hide the others.
fn judged(check: Check, file: &Value, row: &Value) -> Result<(), String> {
    let verdict = catch_unwind(AssertUnwindSafe(|| check(file, row)));
    verdict.unwrap_or_else(|_| Err("judging it panicked (the message is above)".to_owned()))
}

fn check_for(file: &str, group: &str) -> Option<Check> {
    CHECKS
        .iter()
        .chain(client_auth::CHECKS)
        .chain(plugins::CHECKS)
        .chain(pull_records::CHECKS)
        .copied()
        .flatten()
        .find(|(f, g, _)| (*f, *g) == (file, group))
        .map(|(_, _, check)| *check)
}

/// The groups of rows in a file: `groups[].cases` under their `test`, or any list (or object with `rows`) under its key.
fn groups(file: &Value) -> Vec<(String, Vec<Value>)> {
    let rows = |value: &Value| {
        let nested = || value.get("rows").or_else(|| value.get("cases"))?.as_array();
        value.as_array().or_else(nested).cloned()
    };
    if let Some(groups) = file.get("groups").and_then(Value::as_array) {
        return groups
            .iter()
            .map(|group| {
                (group["test"].as_str().unwrap().to_owned(), rows(&group["cases"]).unwrap())
            })
            .collect();
    }
    file.as_object()
        .unwrap()
        .iter()
        .filter_map(|(key, value)| Some((key.clone(), rows(value)?)))
        .filter(|(_, rows)| rows.iter().any(|row| row.is_object() || row.is_array()))
        .collect()
}

/// Every `.json` file two levels below the root, as `folder/file.json`, in order.
fn json_files(root: &Path) -> Vec<String> {
    let names = |dir: &Path| -> Vec<String> {
        let entries = fs::read_dir(dir)
            .unwrap_or_else(|error| panic!("cannot list {}: {error}", dir.display()));
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    names(root)
        .into_iter()
        .filter(|folder| root.join(folder).is_dir())
        .flat_map(|folder| {
            names(&root.join(&folder)).into_iter().map(move |file| format!("{folder}/{file}"))
        })
        .filter(|file| Path::new(file).extension().is_some_and(|extension| extension == "json"))
        .collect()
}

/// A text field that a row cannot do without.
fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_else(|| panic!("no text {field:?} in {row}"))
}

/// Compares one named fact of a row.
fn fact<T, U>(what: &str, ours: &T, upstream: &U) -> Result<(), String>
where
    T: PartialEq<U> + Debug + ?Sized,
    U: Debug + ?Sized,
{
    same(ours, upstream).map_err(|how| format!("{what}: {how}"))
}

/// Says how two values differ.
fn same<T, U>(ours: &T, upstream: &U) -> Result<(), String>
where
    T: PartialEq<U> + Debug + ?Sized,
    U: Debug + ?Sized,
{
    if ours == upstream { Ok(()) } else { Err(format!("ours {ours:?}, upstream {upstream:?}")) }
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}
