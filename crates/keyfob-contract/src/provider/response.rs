//! The answer itself, piece by piece, as a kubelet reads it.

use std::time::Duration;

use keyfob_api::{
    CredentialProviderResponse, GoDuration, ProviderVersion, ResponseError,
    document::{Document, JsonError, JsonProblem, Value},
};
use keyfob_exec::Status;

use crate::{
    case::Case,
    observe::{End, Heard, Observed, span},
    plan::MOST_OUTPUT,
    report::Verdict,
    start::speaks_docker,
};

/// A piece of an answer, in the order in which they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Json,
    Version,
    Kind,
    Fields,
    Duration,
    CacheKeyType,
}

impl Part {
    fn at_fault(error: &ResponseError) -> Self {
        match error {
            ResponseError::Json(_) => Self::Json,
            ResponseError::Version { .. } => Self::Version,
            ResponseError::Kind(_) => Self::Kind,
            ResponseError::Field(field) if field.path == "apiVersion" => Self::Version,
            ResponseError::Field(field) if field.path == "kind" => Self::Kind,
            ResponseError::Field(field) if field.path == "cacheDuration" => Self::Duration,
            ResponseError::Field(field) if field.path == "cacheKeyType" => Self::CacheKeyType,
            ResponseError::CacheKeyType(_) => Self::CacheKeyType,
            _ => Self::Fields,
        }
    }
}

pub(crate) fn answer(case: &Case<'_>) -> Vec<Verdict> {
    case.for_each_image(|_, run| match run.heard(ProviderVersion::V1) {
        Heard::Answer(answer) if answer.auth.is_empty() => {
            case.no_answer("it answered that it has no login for the image".to_owned())
        }
        Heard::Answer(_) | Heard::Unreadable(_) => {
            Verdict::pass(format!("it answered in {}", span(run.elapsed)))
        }
        Heard::Nothing => Verdict::fail(
            "exit code 0, and nothing on stdout: a kubelet takes that for a broken plugin",
            "print an answer with an empty auth if there is nothing to offer; if something failed, say so on stderr and exit with 1",
        ),
        Heard::Failed(_) if speaks_docker(case, run) => Verdict::not_checked("it is no credential provider"),
        Heard::Failed(status @ Status::Signaled(_)) => Verdict::fail(
            format!("it crashed: {status}{}", case.said(run)),
            "mend the crash; a failure is exit code 1 and a line on stderr",
        ),
        Heard::Failed(status) => case.no_answer(format!("{status}{}", case.said(run))),
        Heard::Hung(_) | Heard::Flood => Verdict::not_checked("it did not end by itself"),
        Heard::NotStarted => Verdict::not_checked("it could not be run"),
    })
}

pub(crate) fn json(case: &Case<'_>) -> Vec<Verdict> {
    case.for_each_image(|_, run| {
        let stdout = run.stdout.expose();
        if run.end == End::Flood {
            return flood();
        }
        let faults = faults(run);
        if let Some(ResponseError::Json(error)) = faults.first() {
            return Verdict::fail(not_json(stdout, error), ONE_OBJECT);
        }
        if !has_output(run) {
            return nothing_to_read();
        }
        if !stdout.ends_with(b"\n") {
            return Verdict::warn(
                "there is no line break at the end of the answer",
                "end it with one, as the plugins of the clouds do: line by line readers wait for it",
            );
        }
        Verdict::pass(format!("one JSON value of {} bytes", stdout.len()))
    })
}

pub(crate) fn api_version(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "answer in the apiVersion of the request";
    case.for_each_image(|_, run| part(run, Part::Version, "v1, as asked", advice))
}

pub(crate) fn kind(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "write \"kind\": \"CredentialProviderResponse\"";
    case.for_each_image(|_, run| part(run, Part::Kind, "CredentialProviderResponse", advice))
}

pub(crate) fn fields(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "at the top there are kind, apiVersion, cacheKeyType, cacheDuration and auth; each entry of auth has username \
                  and password, which are texts; a kubelet since 1.32 takes nothing else";
    case.for_each_image(|_, run| {
        part(run, Part::Fields, "all are known and in their place", advice)
    })
}

pub(crate) fn cache_key_type(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "cacheKeyType is required: Image, Registry or Global";
    case.for_each_image(|_, run| {
        let word = run.answer().map(|answer| answer.cache_key_type.as_str()).unwrap_or_default();
        part(run, Part::CacheKeyType, word, advice)
    })
}

pub(crate) fn cache_duration(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "write a Go duration, such as \"10m\" or \"1h30m\"";
    case.for_each_image(|_, run| match run.answer() {
        Some(answer) => sensible(answer.cache_duration),
        None => part(run, Part::Duration, "it can be read", advice),
    })
}

pub(crate) fn flood() -> Verdict {
    let most = MOST_OUTPUT >> 20;
    Verdict::fail(format!("it printed more than {most} MiB on stdout and was killed"), ONE_OBJECT)
}

pub(crate) const ONE_OBJECT: &str =
    "print one JSON object and a line break on stdout, and everything else on stderr";

/// One piece: at fault, beyond the fault, or well.
fn part(run: &Observed, part: Part, well: &str, advice: &str) -> Verdict {
    let faults = faults(run);
    if !has_output(run) {
        return nothing_to_read();
    }
    if let Some(fault) = faults.iter().find(|fault| Part::at_fault(fault) == part) {
        return Verdict::fail(fault.to_string(), advice);
    }
    // What comes behind a wrong version is read all the same.
    let hides = |fault: &ResponseError| {
        let at_fault = Part::at_fault(fault);
        at_fault < part && !matches!(fault, ResponseError::Version { .. })
    };
    if faults.iter().any(hides) {
        return Verdict::not_checked("the answer could not be read that far");
    }
    Verdict::pass(well)
}

/// What a kubelet says first, and what comes to light when that is mended.
fn faults(run: &Observed) -> Vec<ResponseError> {
    let Heard::Unreadable(first) = run.heard(ProviderVersion::V1) else { return Vec::new() };
    let second = CredentialProviderResponse::decode_any_version(run.stdout.expose()).err();
    let second = second.filter(|second| *second != first);
    std::iter::once(first).chain(second).collect()
}

fn has_output(run: &Observed) -> bool {
    matches!(run.heard(ProviderVersion::V1), Heard::Answer(_) | Heard::Unreadable(_))
}

fn nothing_to_read() -> Verdict {
    Verdict::not_checked("there was no answer")
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

fn sensible(duration: Option<GoDuration>) -> Verdict {
    const DAY: Duration = Duration::from_hours(24);
    match duration.map(GoDuration::to_std).zip(duration) {
        None => Verdict::pass("none, so the defaultCacheDuration of the configuration counts"),
        Some((None, negative)) => Verdict::fail(
            format!("cacheDuration is negative: {negative}"),
            "a credential that has ended is a failure, not an answer; 0s forbids caching",
        ),
        Some((Some(Duration::ZERO), _)) => {
            Verdict::pass("zero, so the answer is not cached and every pull asks again")
        }
        Some((Some(long), written)) if long > DAY => Verdict::warn(
            format!("the answer may be cached for {written}"),
            "keep it below the life of the credential: nobody can take it back from a node's cache",
        ),
        Some((Some(_), written)) => Verdict::pass(written.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Grade;

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
            let told = not_json(stdout, &error);
            assert!(told.contains(want), "{told}");
        }
    }

    #[test]
    fn durations_are_graded_by_their_sense() {
        let grade = |text: &str| sensible(Some(GoDuration::parse(text).unwrap())).grade;

        assert_eq!(sensible(None).grade, Grade::Pass);
        let rows =
            [("0s", Grade::Pass), ("24h", Grade::Pass), ("25h", Grade::Warn), ("-1s", Grade::Fail)];
        for (text, want) in rows {
            assert_eq!(grade(text), want, "{text}");
        }
    }
}
