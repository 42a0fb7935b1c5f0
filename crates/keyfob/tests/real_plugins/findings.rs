//! The findings of `keyfob conformance`.

use crate::node::keyfob;

/// Every check that the plugin does not pass, as `GRADE CHECK: REASON`.
///
/// The check `time` is left out because it depends on the load of this machine.
pub(crate) fn findings(args: &[&str]) -> Vec<String> {
    let said = keyfob(&[&["conformance", "-o", "json"], args].concat());
    assert!(said.code < 2, "{}", said.stderr);
    let report = said.json();
    let all = report["findings"].as_array().unwrap().iter();
    let wrong = all.filter(|finding| finding["grade"] != "pass" && finding["check"] != "time");
    let found: Vec<_> = wrong
        .map(|finding| {
            let [grade, check, reason] =
                ["grade", "check", "reason"].map(|name| finding[name].as_str().unwrap());
            format!("{grade} {check}: {reason}")
        })
        .collect();
    assert_eq!(said.code == 1, found.iter().any(|it| it.starts_with("fail ")), "{found:#?}");
    found
}

/// A finding that all kubeconfig plugins tried here have in common.
pub(crate) const ANSWERS_UNASKED: &str =
    "warn no-info: it answers though nobody asked, in a version of its own choice";
