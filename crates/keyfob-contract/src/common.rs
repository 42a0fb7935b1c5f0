//! What is judged alike, whoever asks.

use keyfob_exec::Status;

use super::{
    observe::{End, Observed, span},
    report::Verdict,
    secrets::Secrets,
};

/// Why a run was made.
pub(super) trait Purpose: Copy {
    /// Which run it is, in a report.
    fn when(self) -> &'static str;
}

pub(super) fn start<P>(run: &Observed<P>) -> Verdict {
    match &run.end {
        End::NotStarted(why) => Verdict::fail(
            why,
            "install a program for this machine, with its execute bit and its interpreter; a static one needs none",
        ),
        _ => Verdict::pass("it can be run"),
    }
}

/// A run whose answer nobody could read.
pub(super) fn closed_stdout<P>(run: &Observed<P>, had_an_answer: bool) -> Verdict {
    match &run.end {
        End::Hung(after) => Verdict::fail(
            format!("it was still running after {}", span(*after)),
            "give up when a write to stdout fails",
        ),
        _ if !had_an_answer => Verdict::not_checked("there was no answer to lose"),
        End::Ended(Status::Exited(0)) => Verdict::warn(
            "exit code 0, though its answer could not be written",
            "look at what writing and flushing stdout return, and exit with 1",
        ),
        End::Ended(status) => Verdict::pass(status.to_string()),
        End::Flood | End::NotStarted(_) => Verdict::not_checked("it did not get that far"),
    }
}

pub(super) fn leftovers<P: Purpose>(runs: &[Observed<P>], advice: &str) -> Vec<Verdict> {
    let Some(held) = runs.iter().find(|run| run.held) else {
        let ended = runs.iter().any(|run| matches!(run.end, End::Ended(_)));
        return ended.then(|| Verdict::pass("none")).into_iter().collect();
    };
    let when = held.probe.when();
    let reason =
        format!("something that it started held its stdout or stderr when it had exited, {when}");
    vec![Verdict::fail(reason, advice)]
}

pub(super) fn noise<P: Purpose>(
    runs: &[Observed<P>],
    secrets: &Secrets,
    advice: &str,
) -> Vec<Verdict> {
    let mut well = runs.iter().filter(|run| run.went_well()).peekable();
    if well.peek().is_none() {
        return vec![Verdict::not_checked("no run went well")];
    }
    vec![match well.find(|run| !run.stderr.expose().trim_ascii().is_empty()) {
        None => Verdict::pass("silent"),
        Some(run) => Verdict::warn(
            format!(
                "{} bytes on stderr of a run that went well, {}{}",
                run.stderr.expose().len(),
                run.probe.when(),
                secrets.said_by(run)
            ),
            advice,
        ),
    }]
}

pub(super) fn leaks<P: Purpose>(
    runs: &[Observed<P>],
    secrets: &Secrets,
    advice: &str,
) -> Vec<Verdict> {
    let leak = runs.iter().find_map(|run| {
        let what = secrets.found_in(run.stderr.expose())?;
        Some(format!("{what} is on stderr, {}", run.probe.when()))
    });
    match leak {
        Some(leak) => vec![Verdict::fail(leak, advice)],
        None if runs.iter().any(Observed::was_started) => vec![Verdict::pass("none seen")],
        None => Vec::new(),
    }
}

/// Failures must have words, but for those that are none of this protocol's.
pub(super) fn failure_message<P: Purpose>(
    runs: &[Observed<P>],
    is_excused: impl Fn(&Observed<P>) -> bool,
    advice: &str,
) -> Vec<Verdict> {
    let has_failed =
        |run: &&Observed<P>| matches!(run.end, End::Ended(Status::Exited(code)) if code != 0);
    let is_silent =
        |run: &&Observed<P>| run.stderr.expose().trim_ascii().is_empty() && !is_excused(run);
    match runs.iter().filter(has_failed).find(is_silent) {
        None if runs.iter().any(Observed::was_started) => {
            vec![Verdict::pass("no failure without its words")]
        }
        None => Vec::new(),
        Some(run) => vec![Verdict::warn(
            format!("it failed without a word on stderr, {}", run.probe.when()),
            advice,
        )],
    }
}
