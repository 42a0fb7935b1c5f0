//! How it runs: again, at once, unheard, how long, and what is left.

use std::time::Duration;

use crate::{
    case::{Case, Likeness},
    common::{self, Purpose as _},
    observe::{End, Observed, span},
    plan::{KUBELETS_MINUTE, Probe, SLOW},
    report::Verdict,
    requests::alike,
};

pub(crate) fn repeated(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "answer each request for itself: a kubelet asks again whenever its cache is empty";
    case.for_run(Probe::Again, |run| alike(case.likeness(run), "the same answer", advice))
}

pub(crate) fn concurrent(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "share no file or port between runs without a lock: a kubelet runs a plugin for several pulls at once";
    let mut runs: Vec<_> = case.runs.iter().filter(|run| run.probe == Probe::AtOnce).collect();
    let all = runs.len();
    runs.sort_by_key(|run| run.elapsed);
    let likeness = |run: &&Observed| case.likeness(run);
    let broken: Vec<_> = runs.iter().map(likeness).filter(|it| *it != Likeness::Same).collect();
    let many = broken.len();
    let told = match broken.into_iter().next() {
        None if all == 0 => return Vec::new(),
        None => Verdict::pass(format!("all {all} answered")),
        Some(Likeness::Broke(reason)) => {
            Verdict::fail(format!("{many} of {all} had no answer: {reason}"), advice)
        }
        Some(other) => alike(other, "", advice),
    };
    vec![told]
}

pub(crate) fn closed_stdout(case: &Case<'_>) -> Vec<Verdict> {
    let had_an_answer = case.first_answer().is_some();
    case.for_run(Probe::ClosedStdout, |run| common::closed_stdout(run, had_an_answer))
}

pub(crate) fn time(case: &Case<'_>) -> Vec<Verdict> {
    if let Some(run) = case.run(Probe::Image(0))
        && let End::Hung(after) = run.end
    {
        return vec![Verdict::fail(
            format!("it was still running after {} and was killed{}", span(after), case.said(run)),
            "have a deadline of its own, below the kubelet's minute, and say what took so long",
        )];
    }
    let counts = |run: &&Observed| matches!(run.end, End::Ended(_)) && run.probe != Probe::FirstKep;
    let slowest = case.runs.iter().filter(counts).max_by_key(|run| run.elapsed);
    slowest.map(|run| quick(run.elapsed, run.probe)).into_iter().collect()
}

fn quick(slowest: Duration, probe: Probe) -> Verdict {
    let took = format!("the slowest run took {}, {}", span(slowest), probe.when());
    let advice = "a kubelet kills it after a minute, and the pod waits: cache, give up earlier, ask fewer servers";
    if slowest >= KUBELETS_MINUTE {
        Verdict::fail(took, advice)
    } else if slowest > SLOW {
        Verdict::warn(took, advice)
    } else {
        Verdict::pass(took)
    }
}

pub(crate) fn leftovers(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "wait for what it starts, or give that other streams: a kubelet waits until all have closed them, even \
                  beyond its minute";
    common::leftovers(&case.runs, advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Grade;

    #[test]
    fn time_is_graded_by_the_kubelets_patience() {
        let grade = |seconds| quick(Duration::from_secs(seconds), Probe::Again).grade;

        assert_eq!(
            [10, 11, 59, 60].map(grade),
            [Grade::Pass, Grade::Warn, Grade::Warn, Grade::Fail]
        );
    }
}
