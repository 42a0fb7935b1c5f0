//! Judging a response part by part, as its caller reads it.

use keyfob_api::document::{Document, JsonError, JsonProblem, Value};
use keyfob_exec::{MOST_OUTPUT, Status};

use crate::{
    case::Case,
    observe::{End, Heard, Observed, span},
    protocol::Protocol,
    report::Verdict,
};

pub(crate) const ONE_OBJECT: &str =
    "print one JSON object and a line break on stdout, and everything else on stderr";

/// Whether there is a response at all; its parts are judged by other checks.
pub(crate) fn is_there<P: Protocol>(case: &Case<'_, P>, run: &Observed<P>) -> Verdict {
    let excerpt = || case.secrets.stderr_excerpt(run);
    match run.heard() {
        Heard::Answer(_) | Heard::Unreadable(_) => {
            Verdict::pass(format!("it answered in {}", span(run.elapsed)))
        }
        Heard::Nothing => {
            let (reason, advice) = P::TEXTS.no_output;
            Verdict::fail(reason, advice)
        }
        Heard::Failed(status @ Status::Signaled(_)) => Verdict::fail(
            format!("it crashed: {status}{}", excerpt()),
            "mend the crash; a failure is exit code 1 and a line on stderr",
        ),
        Heard::Failed(status) => case.no_response(format!("{status}{}", excerpt())),
        Heard::Hung(_) | Heard::Flood => Verdict::not_checked("it did not end by itself"),
        Heard::NotStarted => Verdict::not_checked("it could not be run"),
    }
}

/// The verdict on a run that has no output to read, or too much; `None` if there is output.
pub(crate) fn unreadable_output<P: Protocol>(run: &Observed<P>) -> Option<Verdict> {
    match run.heard() {
        Heard::Answer(_) | Heard::Unreadable(_) => None,
        _ if run.end == End::Flood => {
            let most = MOST_OUTPUT >> 20;
            let reason = format!("it printed more than {most} MiB on stdout and was killed");
            Some(Verdict::fail(reason, ONE_OBJECT))
        }
        _ => Some(nothing_to_read()),
    }
}

fn nothing_to_read() -> Verdict {
    Verdict::not_checked("there was no answer")
}

/// The verdict on a part that is at fault, or hidden by an earlier fault; `None` if it is as it should be.
pub(crate) fn fault_of_part<P: Protocol>(
    run: &Observed<P>,
    part: P::Part,
    advice: &str,
) -> Option<Verdict> {
    if !matches!(run.heard(), Heard::Answer(_) | Heard::Unreadable(_)) {
        return Some(nothing_to_read());
    }
    let faults = faults(run);
    if let Some(fault) = faults.iter().find(|fault| P::part_at_fault(fault) == part) {
        return Some(Verdict::fail(fault.to_string(), advice));
    }
    let hides = |fault: &P::Error| P::part_at_fault(fault) < part && !P::is_other_version(fault);
    let is_hidden = faults.iter().any(hides);
    is_hidden.then(|| Verdict::not_checked("the answer could not be read that far"))
}

/// What the caller reports first, and what comes to light when that is fixed.
fn faults<P: Protocol>(run: &Observed<P>) -> Vec<P::Error> {
    let Heard::Unreadable(first) = run.heard() else { return Vec::new() };
    let second = P::decode_any_version(run.stdout.expose()).err();
    let second = second.filter(|second| *second != first);
    std::iter::once(first).chain(second).collect()
}

/// In what way it is not JSON. Nothing of it is quoted.
pub(crate) fn not_json(stdout: &[u8], error: &JsonError) -> String {
    let rest = stdout.get(error.offset..).unwrap_or_default().trim_ascii_start();
    let object = stdout.iter().position(|byte| *byte == b'{').and_then(|at| stdout.get(at..));
    let begins_late = object.is_some_and(|object| Document::read_json(object).is_ok());
    if stdout.starts_with("\u{feff}".as_bytes()) {
        "stdout begins with a byte order mark, which is not JSON".to_owned()
    } else if error.problem == JsonProblem::TrailingData && rest.starts_with(b"{") {
        "there is more than one JSON object on stdout".to_owned()
    } else if error.problem == JsonProblem::TrailingData {
        format!("something stands behind the answer on stdout ({})", error.at)
    } else if begins_late {
        "something stands before the answer on stdout".to_owned()
    } else if is_yaml(stdout) {
        "the answer is YAML; a kubelet reads JSON only".to_owned()
    } else {
        format!("the answer is not JSON: {error}")
    }
}

pub(crate) fn is_yaml(stdout: &[u8]) -> bool {
    let read = Document::read_yaml(stdout);
    read.is_ok_and(|document| matches!(document.root.value, Value::Map(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_not_to_be_json_has_its_name() {
        let cases: [(&[u8], &str); 6] = [
            (b"\xef\xbb\xbf{}", "byte order mark"),
            (b"{}\n{}\n", "more than one JSON object"),
            (b"{}\nbye", "behind the answer on stdout (line 2, column 1)"),
            (b"hello\n{}\n", "before the answer"),
            (b"kind: CredentialProviderResponse\n", "YAML"),
            (b"{\"kind\":", "not JSON: invalid JSON at line 1, column 9"),
        ];
        for (stdout, want) in cases {
            let error = Document::read_json(stdout).unwrap_err();
            let message = not_json(stdout, &error);
            assert!(message.contains(want), "{message}");
        }
    }
}
