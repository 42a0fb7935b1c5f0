//! How it runs, and what it says to people.

use super::{
    super::{
        case::Likeness,
        common::{self, Purpose as _},
        observe::{End, Observed, span},
        plan::SLOW,
        report::Verdict,
    },
    case::Case,
    plan::Probe,
    requests::alike,
};

pub(super) fn start(case: &Case<'_>) -> Vec<Verdict> {
    case.for_run(Probe::Plain, common::start)
}

pub(super) fn non_interactive(case: &Case<'_>) -> Vec<Verdict> {
    case.for_run(Probe::Plain, |run| match run.end {
        End::Hung(after) => Verdict::fail(
            format!(
                "it was still running after {} and was killed, though \"interactive\" is false and stdin is empty{}",
                span(after),
                case.secrets.said_by(run)
            ),
            "without a person, fail at once and say how to log in; give what it asks over the network a deadline",
        ),
        End::Ended(_) => Verdict::pass("it waits for nobody"),
        End::Flood | End::NotStarted(_) => Verdict::not_checked("it did not get that far"),
    })
}

pub(super) fn repeated(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "answer each request for itself: every kubectl asks again";
    case.for_run(Probe::Again, |run| alike(case.likeness(run), "the same sort of answer", advice))
}

pub(super) fn concurrent(case: &Case<'_>) -> Vec<Verdict> {
    let advice =
        "share no file or port between runs without a lock: people run several kubectls at once";
    let runs: Vec<_> = case.runs.iter().filter(|run| run.probe == Probe::AtOnce).collect();
    let all = runs.len();
    let likeness = |run: &&Observed<Probe>| case.likeness(run);
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

pub(super) fn closed_stdout(case: &Case<'_>) -> Vec<Verdict> {
    let had_an_answer = case.first_answer().is_some();
    case.for_run(Probe::ClosedStdout, |run| common::closed_stdout(run, had_an_answer))
}

pub(super) fn time(case: &Case<'_>) -> Vec<Verdict> {
    let ended = case.runs.iter().filter(|run| matches!(run.end, End::Ended(_)));
    let Some(slowest) = ended.max_by_key(|run| run.elapsed) else { return Vec::new() };
    let took = format!("the slowest run took {}, {}", span(slowest.elapsed), slowest.probe.when());
    vec![if slowest.elapsed > SLOW {
        Verdict::warn(
            took,
            "keep what it got until it ends, or ask fewer servers; \"keyfob kube exec-cache\" keeps it for any plugin",
        )
    } else {
        Verdict::pass(took)
    }]
}

pub(super) fn leftovers(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "wait for what it starts, or give that other streams: a client waits until all have closed its stdout, \
                  for ever";
    common::leftovers(&case.runs, advice)
}

pub(super) fn noise(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "keep quiet: a client shows stderr to the person at each command";
    common::noise(&case.runs, &case.secrets, advice)
}

pub(super) fn secrets(case: &Case<'_>) -> Vec<Verdict> {
    let advice =
        "never print it: a client shows stderr to the person, and pipelines keep it in their logs";
    common::leaks(&case.runs, &case.secrets, advice)
}

pub(super) fn failure_message(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "say in one line what failed and what to do: a client knows the exit code only";
    common::failure_message(&case.runs, |_| false, advice)
}
