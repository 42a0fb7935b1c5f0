//! A table of checks.

use super::report::{Finding, Verdict};

/// What is looked at, and by whom.
pub(super) struct Check<J> {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    judge: J,
}

pub(super) const fn check<J: Copy>(name: &'static str, about: &'static str, judge: J) -> Check<J> {
    Check { name, about, judge }
}

/// What all of them say. One that had no run to look at says so.
pub(super) fn findings<J>(checks: &[Check<J>], judge: impl Fn(&J) -> Vec<Verdict>) -> Vec<Finding> {
    let found = |check: &Check<J>| {
        let mut verdicts = judge(&check.judge);
        if verdicts.is_empty() {
            verdicts.push(Verdict::not_checked("it did not get that far"));
        }
        let name = check.name;
        verdicts.into_iter().map(move |verdict| verdict.found_by(name)).collect::<Vec<_>>()
    };
    checks.iter().flat_map(found).collect()
}
