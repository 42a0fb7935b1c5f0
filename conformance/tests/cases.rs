//! Keyfob's side of every case, without the oracle: `.ci/run oracle` puts them to upstream too. And that the list of
//! differences is whole.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use keyfob_config::{FieldValue, ProviderConfig, TokenAttributes};
use keyfob_conformance::{Case, Differences};

#[test]
fn every_case_has_the_answer_that_its_file_says() {
    let failures: Vec<String> =
        Case::all().iter().filter_map(|case| case.check_ours().err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_case_says_why_it_differs_if_it_does() {
    for case in Case::all() {
        let (name, row) = (case.file.display(), case.differs.as_deref());
        assert_eq!(case.ours.is_some(), row.is_some(), "{name}: `ours` and `differs` go together");
        assert_ne!(case.ours.as_ref(), Some(&case.answer), "{name} differs in nothing");
    }
}

#[test]
fn every_difference_that_the_judge_sees_is_shown_by_a_case() {
    let cases = Case::all();
    let shown: BTreeSet<&str> = cases.iter().filter_map(|case| case.differs.as_deref()).collect();
    let listed: BTreeSet<&str> = Differences::list().names().collect();
    assert_eq!(shown, listed);
}

#[test]
fn the_list_names_the_code_that_differs_and_no_other() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let marked: BTreeSet<String> = sources(&crates)
        .into_iter()
        .filter(|source| fs::read_to_string(source).unwrap().contains("Differs:"))
        .map(|source| source.strip_prefix(&crates).unwrap().display().to_string())
        .filter(|source| source.contains("/src/"))
        .collect();
    assert_eq!(marked, Differences::list().code().map(str::to_owned).collect());
}

/// A field of a provider's configuration must be in the questions and in upstream's answers, or nobody compares it.
#[test]
fn every_field_of_a_configuration_is_put_to_the_judge() {
    let read =
        |path: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let questions = read("src/topics/config/document.rs");
    let upstream = read("oracle/config.go");
    let attributes = ProviderConfig {
        token_attributes: Some(TokenAttributes::default()),
        ..ProviderConfig::default()
    };
    let mut fields = attributes.fields();
    let mut seen = 0;
    while let Some((name, value)) = fields.pop() {
        seen += 1;
        assert!(questions.contains(&format!("(\"{name}\", ")), "no question has {name}");
        assert!(upstream.contains(&format!("json:\"{name}\"")), "the oracle does not tell {name}");
        if let FieldValue::Object(Some(inner)) = value {
            fields.extend(inner);
        }
    }
    assert!(seen > 10, "{seen}");
}

/// Otherwise the examination would not know the difference when it meets it.
#[test]
fn the_rule_of_its_row_explains_what_a_case_shows() {
    for case in Case::all() {
        let Some(ours) = &case.ours else { continue };
        let (topic, question) = case.question();
        let row = (topic.difference)(question, ours, &case.answer);
        assert_eq!(row, case.differs.as_deref(), "{}", case.file.display());
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}
