//! Keyfob's side of every case, without the oracle: `.ci/run oracle` puts them to upstream too.

use keyfob_conformance::{Case, Differences};

#[test]
fn every_case_has_the_answer_that_its_file_says() {
    let failures: Vec<String> =
        Case::all().iter().filter_map(|case| case.check_ours().err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_difference_of_a_case_has_its_row() {
    let differences = Differences::list();
    for case in Case::all() {
        let (name, row) = (case.file.display(), case.differs.as_deref());
        assert_eq!(case.ours.is_some(), row.is_some(), "{name}: `ours` and `differs` go together");
        assert_ne!(case.ours.as_ref(), Some(&case.answer), "{name} differs in nothing");
        assert!(row.is_none_or(|row| differences.has(row)), "{name}: there is no row {row:?}");
    }
}
