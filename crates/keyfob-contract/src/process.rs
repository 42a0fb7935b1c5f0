//! Checks of a plugin's processes: how they start and end, how long they take, and what they write to stderr.

use std::time::Duration;

use keyfob_exec::Status;

use crate::{
    case::{Case, Likeness},
    observe::{End, Observed, span},
    protocol::Protocol,
    report::Verdict,
};

pub(crate) fn start<P: Protocol>(case: &Case<'_, P>) -> Vec<Verdict> {
    case.for_run(P::FIRST, |run| match &run.end {
        End::NotStarted(why) => Verdict::fail(
            why,
            "install a program for this machine, with its execute bit and its interpreter; a static one needs none",
        ),
        _ => Verdict::pass("it can be run"),
    })
}

pub(crate) fn repeated<P: Protocol>(case: &Case<'_, P>) -> Vec<Verdict> {
    let (passed, advice) = P::TEXTS.repeated;
    case.for_run(P::AGAIN, |run| case.judge_likeness(run, passed, advice))
}

pub(crate) fn concurrent<P: Protocol>(case: &Case<'_, P>) -> Vec<Verdict> {
    let advice = P::TEXTS.concurrent;
    let mut runs: Vec<_> = case.runs.iter().filter(|run| run.probe == P::AT_ONCE).collect();
    let all = runs.len();
    runs.sort_by_key(|run| run.elapsed);
    let likeness = runs.iter().map(|run| case.likeness(run));
    let broken: Vec<_> = likeness.filter(|it| *it != Likeness::Same).collect();
    let many = broken.len();
    let verdict = match broken.into_iter().next() {
        None if all == 0 => return Vec::new(),
        None => Verdict::pass(format!("all {all} answered")),
        Some(Likeness::Broke(reason)) => {
            Verdict::fail(format!("{many} of {all} had no answer: {reason}"), advice)
        }
        Some(other) => Case::<P>::verdict_on(other, "", advice),
    };
    vec![verdict]
}

/// Judges a run whose answer nobody could read.
pub(crate) fn closed_stdout<P: Protocol>(case: &Case<'_, P>) -> Vec<Verdict> {
    let had_a_response = case.reference_response().is_some();
    case.for_run(P::CLOSED_STDOUT, |run| match &run.end {
        End::Hung(after) => Verdict::fail(
            format!("it was still running after {}", span(*after)),
            "give up when a write to stdout fails",
        ),
        _ if !had_a_response => Verdict::not_checked("there was no answer to lose"),
        End::Ended(Status::Exited(0)) => Verdict::warn(
            "exit code 0, though its answer could not be written",
            "look at what writing and flushing stdout return, and exit with 1",
        ),
        End::Ended(status) => Verdict::pass(status.to_string()),
        End::Flood | End::NotStarted(_) => Verdict::not_checked("it did not get that far"),
    })
}

/// The time of the slowest run that ended by itself, and a sentence about it.
pub(crate) fn slowest<'a, P: Protocol>(
    runs: impl IntoIterator<Item = &'a Observed<P>>,
) -> Option<(Duration, String)> {
    let ended = runs.into_iter().filter(|run| matches!(run.end, End::Ended(_)));
    let slowest = ended.max_by_key(|run| run.elapsed)?;
    let (time, when) = (span(slowest.elapsed), P::when(slowest.probe));
    Some((slowest.elapsed, format!("the slowest run took {time}, {when}")))
}

pub(crate) fn leftovers<P: Protocol>(case: &Case<'_, P>) -> Vec<Verdict> {
    let Some(held) = case.runs.iter().find(|run| run.held) else {
        let ended = case.runs.iter().any(|run| matches!(run.end, End::Ended(_)));
        return ended.then(|| Verdict::pass("none")).into_iter().collect();
    };
    let when = P::when(held.probe);
    let reason =
        format!("something that it started held its stdout or stderr when it had exited, {when}");
    vec![Verdict::fail(reason, P::TEXTS.leftovers)]
}

pub(crate) fn stderr_noise<P: Protocol>(case: &Case<'_, P>) -> Vec<Verdict> {
    let mut well = case.runs.iter().filter(|run| run.went_well()).peekable();
    if well.peek().is_none() {
        return vec![Verdict::not_checked("no run went well")];
    }
    vec![match well.find(|run| !run.is_silent()) {
        None => Verdict::pass("silent"),
        Some(run) => Verdict::warn(
            format!(
                "{} bytes on stderr of a run that went well, {}{}",
                run.stderr.expose().len(),
                P::when(run.probe),
                case.secrets.stderr_excerpt(run)
            ),
            P::TEXTS.stderr_noise,
        ),
    }]
}

pub(crate) fn stderr_secrets<P: Protocol>(case: &Case<'_, P>) -> Vec<Verdict> {
    let leak = case.runs.iter().find_map(|run| {
        let what = case.secrets.found_in(run.stderr.expose())?;
        Some(format!("{what} is on stderr, {}", P::when(run.probe)))
    });
    match leak {
        Some(leak) => vec![Verdict::fail(leak, P::TEXTS.stderr_secrets)],
        None if case.runs.iter().any(Observed::was_started) => vec![Verdict::pass("none seen")],
        None => Vec::new(),
    }
}

pub(crate) fn failure_message<P: Protocol>(case: &Case<'_, P>) -> Vec<Verdict> {
    let is_at_fault = |run: &&Observed<P>| {
        let failed = matches!(run.end, End::Ended(Status::Exited(code)) if code != 0);
        failed && run.is_silent() && !P::excuses_silence(case.plugin, run)
    };
    match case.runs.iter().find(is_at_fault) {
        None if case.runs.iter().any(Observed::was_started) => {
            vec![Verdict::pass("no failure without its words")]
        }
        None => Vec::new(),
        Some(run) => vec![Verdict::warn(
            format!("it failed without a word on stderr, {}", P::when(run.probe)),
            P::TEXTS.failure_message,
        )],
    }
}
