//! A table of checks.

use crate::{
    case::Case,
    protocol::Protocol,
    report::{Finding, Verdict},
};

/// One check of a protocol's plugins: its name, what it looks at, and the function that judges.
pub(crate) struct Check<P: Protocol> {
    name: &'static str,
    about: &'static str,
    judge: fn(&Case<'_, P>) -> Vec<Verdict>,
}

pub(crate) const fn check<P: Protocol>(
    name: &'static str,
    about: &'static str,
    judge: fn(&Case<'_, P>) -> Vec<Verdict>,
) -> Check<P> {
    Check { name, about, judge }
}

/// The name of each check, and what it looks at.
pub(crate) fn listed<P: Protocol>() -> impl Iterator<Item = (&'static str, &'static str)> {
    P::CHECKS.iter().map(|check| (check.name, check.about))
}

/// The findings of all checks, in their order. A check that had no run to look at says so.
pub(crate) fn judge<P: Protocol>(case: &Case<'_, P>) -> Vec<Finding> {
    let found = |check: &Check<P>| {
        let mut verdicts = (check.judge)(case);
        if verdicts.is_empty() {
            verdicts.push(Verdict::not_checked("it did not get that far"));
        }
        let name = check.name;
        verdicts.into_iter().map(move |verdict| verdict.found_by(name)).collect::<Vec<_>>()
    };
    P::CHECKS.iter().flat_map(found).collect()
}
