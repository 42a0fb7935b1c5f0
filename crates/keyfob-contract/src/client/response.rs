//! The answer itself, piece by piece, as a client reads it.

use keyfob_api::{
    ExecAnswerError, ExecCredentialStatus, ExecDecodingError, ExecVersion,
    document::{Document, Node, Value, documents},
};
use keyfob_exec::Status;

use super::{
    super::{
        observe::{End, Observed, span},
        report::Verdict,
        response::{ONE_OBJECT, flood, is_yaml, not_json},
    },
    case::{Case, Heard},
    plan::Probe,
};

/// A piece of an answer, in the order in which they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Json,
    Version,
    Kind,
    Fields,
    Expiry,
    Status,
}

impl Part {
    fn at_fault(error: &ExecAnswerError) -> Self {
        let ExecAnswerError::Decoding(error) = error else {
            return match error {
                ExecAnswerError::Version { .. } => Self::Version,
                _ => Self::Status,
            };
        };
        match error {
            ExecDecodingError::UnknownVersion(_) => Self::Version,
            ExecDecodingError::OtherKind(_) => Self::Kind,
            ExecDecodingError::Field(field) => match field.path.as_str() {
                "apiVersion" => Self::Version,
                "kind" => Self::Kind,
                "status.expirationTimestamp" => Self::Expiry,
                // Not even an object.
                "message" => Self::Json,
                _ => Self::Fields,
            },
            _ => Self::Json,
        }
    }
}

pub(super) fn answer(case: &Case<'_>) -> Vec<Verdict> {
    case.for_usual(|run| match run.heard(ExecVersion::V1) {
        Heard::Answer(_) | Heard::Unreadable(_) => {
            Verdict::pass(format!("it answered in {}", span(run.elapsed)))
        }
        Heard::Nothing => Verdict::fail(
            "exit code 0, and nothing on stdout: a client takes that for a broken plugin",
            "print an ExecCredential; if there is none to be had, say why on stderr and exit with 1",
        ),
        Heard::Failed(status @ Status::Signaled(_)) => Verdict::fail(
            format!("it crashed: {status}{}", case.secrets.said_by(run)),
            "mend the crash; a failure is exit code 1 and a line on stderr",
        ),
        Heard::Failed(status) => {
            case.no_answer(format!("{status}{}", case.secrets.said_by(run)))
        }
        Heard::Hung(_) | Heard::Flood => Verdict::not_checked("it did not end by itself"),
        Heard::NotStarted => Verdict::not_checked("it could not be run"),
    })
}

pub(super) fn json(case: &Case<'_>) -> Vec<Verdict> {
    case.for_usual(|run| {
        let stdout = run.stdout.expose();
        if run.end == End::Flood {
            return flood();
        }
        if !has_output(run) {
            return nothing_to_read();
        }
        match Document::read_json(stdout) {
            Ok(_) => part(run, Part::Json, ONE_OBJECT).unwrap_or_else(|| {
                Verdict::pass(format!("one JSON object of {} bytes", stdout.len()))
            }),
            Err(_) if is_yaml(stdout) => yaml(run),
            Err(error) => Verdict::fail(not_json(stdout, &error), ONE_OBJECT),
        }
    })
}

/// Whatever has a colon in it is YAML, so not every YAML is meant to be an answer.
fn yaml(run: &Observed<Probe>) -> Verdict {
    if text_at(run, &["apiVersion"]).is_none() {
        Verdict::fail("what is on stdout is no answer", ONE_OBJECT)
    } else if documents(run.stdout.expose()).len() > 1 {
        Verdict::fail("there is more than one document on stdout", ONE_OBJECT)
    } else {
        Verdict::warn(
            "the answer is YAML: kubectl reads it, other clients read JSON only",
            ONE_OBJECT,
        )
    }
}

pub(super) fn api_version(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "answer in the apiVersion of the request; it works only for kubeconfigs that name just that version";
    case.for_usual(|run| part(run, Part::Version, advice).unwrap_or(Verdict::pass("v1, as asked")))
}

pub(super) fn kind(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "write \"kind\": \"ExecCredential\"";
    case.for_usual(|run| {
        part(run, Part::Kind, advice).unwrap_or_else(|| match text_at(run, &["kind"]) {
            Some(_) => Verdict::pass("ExecCredential"),
            None => Verdict::warn("there is none: kubectl does not mind, other clients do", advice),
        })
    })
}

pub(super) fn fields(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "status has expirationTimestamp, token, clientCertificateData and clientKeyData, which are texts";
    case.for_usual(|run| {
        part(run, Part::Fields, advice).unwrap_or(Verdict::pass("all are of their types"))
    })
}

pub(super) fn status(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "give a token, or clientCertificateData with clientKeyData, or all of them; if there is none to be had, \
                  exit with 1";
    case.for_usual(|run| {
        part(run, Part::Status, advice).unwrap_or_else(|| {
            let status = run.answer().unwrap_or_default();
            Verdict::pass(match (&status.token, &status.identity) {
                (Some(_), Some(_)) => "a token, and a certificate with its key",
                (None, Some(_)) => "a certificate with its key",
                _ => "a token",
            })
        })
    })
}

/// What there is to say of a piece that is at fault, or beyond a fault; `None` if it is well.
pub(super) fn part(run: &Observed<Probe>, part: Part, advice: &str) -> Option<Verdict> {
    if !has_output(run) {
        return Some(nothing_to_read());
    }
    let faults = faults(run);
    if let Some(fault) = faults.iter().find(|fault| Part::at_fault(fault) == part) {
        return Some(Verdict::fail(fault.to_string(), advice));
    }
    // What comes behind another version is read all the same.
    let hides = |fault: &ExecAnswerError| {
        let is_version = matches!(fault, ExecAnswerError::Version { returned: Some(_), .. });
        Part::at_fault(fault) < part && !is_version
    };
    let is_hidden = faults.iter().any(hides);
    is_hidden.then(|| Verdict::not_checked("the answer could not be read that far"))
}

/// What a client says first, and what comes to light when that is mended.
fn faults(run: &Observed<Probe>) -> Vec<ExecAnswerError> {
    let Heard::Unreadable(first) = run.heard(ExecVersion::V1) else { return Vec::new() };
    let second = match &first {
        ExecAnswerError::Version { returned: Some(version), .. } => {
            ExecCredentialStatus::decode(run.stdout.expose(), *version).err()
        }
        _ => None,
    };
    std::iter::once(first).chain(second).collect()
}

fn has_output(run: &Observed<Probe>) -> bool {
    matches!(run.heard(ExecVersion::V1), Heard::Answer(_) | Heard::Unreadable(_))
}

fn nothing_to_read() -> Verdict {
    Verdict::not_checked("there was no answer")
}

/// A text of the answer as it is written. Whoever shows it knows what it is.
pub(super) fn text_at(run: &Observed<Probe>, path: &[&str]) -> Option<String> {
    let document = Document::read(run.stdout.expose()).ok()?;
    let mut node: &Node = &document.root;
    for name in path {
        let Value::Map(fields) = &node.value else { return None };
        node = &fields.iter().rfind(|field| field.name.expose() == name)?.node;
    }
    match &node.value {
        Value::String(text) if !text.expose().is_empty() => Some(text.expose().clone()),
        _ => None,
    }
}
