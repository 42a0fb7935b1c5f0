//! What it says to people.

use crate::{case::Case, common, report::Verdict, start::speaks_docker};

pub(crate) fn noise(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "keep quiet: a kubelet drops stderr unless the plugin fails";
    common::noise(&case.runs, &case.secrets, advice)
}

pub(crate) fn secrets(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "never print it: a kubelet writes the stderr of a plugin that fails to its log";
    common::leaks(&case.runs, &case.secrets, advice)
}

pub(crate) fn failure_message(case: &Case<'_>) -> Vec<Verdict> {
    let advice =
        "say in one line what failed and what to do: it is all that the kubelet's log will have";
    common::failure_message(&case.runs, |run| speaks_docker(case, run), advice)
}
