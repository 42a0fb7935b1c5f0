//! What it says to people.

use keyfob_exec::Status;

use super::{
    case::Case,
    observe::{End, Observed},
    report::Verdict,
    start::speaks_docker,
};

pub(super) fn noise(case: &Case<'_>) -> Vec<Verdict> {
    let is_well = |run: &&Observed| run.end == End::Ended(Status::Exited(0));
    let mut well = case.runs.iter().filter(is_well).peekable();
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
                case.said(run)
            ),
            "keep quiet: a kubelet drops stderr unless the plugin fails",
        ),
    }]
}

pub(super) fn secrets(case: &Case<'_>) -> Vec<Verdict> {
    let leak = case.runs.iter().find_map(|run| {
        case.secrets
            .found_in(run.stderr.expose())
            .map(|what| format!("{what} is on stderr, {}", run.probe.when()))
    });
    match leak {
        Some(leak) => vec![Verdict::fail(
            leak,
            "never print it: a kubelet writes the stderr of a plugin that fails to its log",
        )],
        None if case.was_started() => vec![Verdict::pass("none seen")],
        None => Vec::new(),
    }
}

pub(super) fn failure_message(case: &Case<'_>) -> Vec<Verdict> {
    let has_failed =
        |run: &&Observed| matches!(run.end, End::Ended(Status::Exited(code)) if code != 0);
    let is_silent =
        |run: &&Observed| run.stderr.expose().trim_ascii().is_empty() && !speaks_docker(case, run);
    match case.runs.iter().filter(has_failed).find(is_silent) {
        None if case.was_started() => vec![Verdict::pass("no failure without its words")],
        None => Vec::new(),
        Some(run) => vec![Verdict::warn(
            format!("it failed without a word on stderr, {}", run.probe.when()),
            "say in one line what failed and what to do: it is all that the kubelet's log will have",
        )],
    }
}
