//! The response itself, part by part, as a client reads it.

use keyfob_api::{
    ExecAnswerError, ExecDecodingError,
    document::{Document, Node, Value, documents},
};

use super::Client;
use crate::{
    case::Case,
    observe::Observed,
    report::Verdict,
    response::{self, ONE_OBJECT, fault_of_part, is_yaml, not_json, unreadable_output},
};

/// A part of a response, in the order in which they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Json,
    Version,
    Kind,
    Fields,
    Expiry,
    Status,
}

impl Part {
    pub(super) fn at_fault(error: &ExecAnswerError) -> Self {
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

pub(super) fn answer(case: &Case<'_, Client>) -> Vec<Verdict> {
    case.for_reference(|run| response::is_there(case, run))
}

pub(super) fn json(case: &Case<'_, Client>) -> Vec<Verdict> {
    case.for_reference(|run| {
        if let Some(verdict) = unreadable_output(run) {
            return verdict;
        }
        let stdout = run.stdout.expose();
        match Document::read_json(stdout) {
            Ok(_) => fault_of_part(run, Part::Json, ONE_OBJECT).unwrap_or_else(|| {
                Verdict::pass(format!("one JSON object of {} bytes", stdout.len()))
            }),
            Err(_) if is_yaml(stdout) => yaml(run),
            Err(error) => Verdict::fail(not_json(stdout, &error), ONE_OBJECT),
        }
    })
}

/// Whatever has a colon in it is YAML, so not every YAML is meant to be an answer.
fn yaml(run: &Observed<Client>) -> Verdict {
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

pub(super) fn api_version(case: &Case<'_, Client>) -> Vec<Verdict> {
    let advice = "answer in the apiVersion of the request; it works only for kubeconfigs that name just that version";
    case.for_reference(|run| {
        fault_of_part(run, Part::Version, advice).unwrap_or(Verdict::pass("v1, as asked"))
    })
}

pub(super) fn kind(case: &Case<'_, Client>) -> Vec<Verdict> {
    let advice = "write \"kind\": \"ExecCredential\"";
    case.for_reference(|run| {
        fault_of_part(run, Part::Kind, advice).unwrap_or_else(|| match text_at(run, &["kind"]) {
            Some(_) => Verdict::pass("ExecCredential"),
            None => Verdict::warn("there is none: kubectl does not mind, other clients do", advice),
        })
    })
}

pub(super) fn fields(case: &Case<'_, Client>) -> Vec<Verdict> {
    let advice = "status has expirationTimestamp, token, clientCertificateData and clientKeyData, which are texts";
    case.for_reference(|run| {
        fault_of_part(run, Part::Fields, advice).unwrap_or(Verdict::pass("all are of their types"))
    })
}

pub(super) fn status(case: &Case<'_, Client>) -> Vec<Verdict> {
    let advice = "give a token, or clientCertificateData with clientKeyData, or all of them; if there is none to be had, \
                  exit with 1";
    case.for_reference(|run| {
        fault_of_part(run, Part::Status, advice).unwrap_or_else(|| {
            let status = run.response().unwrap_or_default();
            Verdict::pass(match (&status.token, &status.identity) {
                (Some(_), Some(_)) => "a token, and a certificate with its key",
                (None, Some(_)) => "a certificate with its key",
                _ => "a token",
            })
        })
    })
}

/// A text of the answer as it is written. Whoever shows it knows what it is.
pub(super) fn text_at(run: &Observed<Client>, path: &[&str]) -> Option<String> {
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
