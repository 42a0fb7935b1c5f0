//! Whether two refusals of an output are for the same reason, although ours never quotes the output.

use keyfob_api::document::{Document, DocumentError};

use crate::topics::syntax::{is_no_json, is_no_yaml};

/// The row of `DIFFERENCES.md` that explains why two refusals differ.
pub(in crate::topics) fn explained(
    stdout: &[u8],
    ours: &str,
    upstream: &str,
) -> Option<&'static str> {
    let upstream = upstream.strip_prefix("decoding stdout: ")?;
    let Some(ours) = ours.strip_prefix("decoding stdout: ") else {
        let internal = "plugin returned version client.authentication.k8s.io/__internal";
        let first = ours.ends_with(internal) && mistyped(upstream).is_some();
        return first.then_some("exec-no-version-first");
    };
    let same = match Document::read(stdout) {
        // Upstream decodes it as far as it goes, and has one reason or another.
        _ if ours == "protobuf is not supported" => stdout.starts_with(b"k8s\0"),
        Err(error) => is_no_document(&error, upstream),
        Ok(_) => same_reason(ours, upstream),
    };
    same.then_some("exec-decoding-words")
}

/// Whether Go too says that an output is not JSON, or not YAML.
fn is_no_document(error: &DocumentError, upstream: &str) -> bool {
    match error {
        DocumentError::Json(_) => {
            let words = upstream.strip_prefix("couldn't get version/kind; json parse error: ");
            words.is_some_and(is_no_json)
        }
        DocumentError::Yaml(_) => is_no_yaml(upstream),
        other => panic!("{other}"),
    }
}

/// Whether two refusals of a document are for the same reason: ours says it without quoting.
fn same_reason(ours: &str, upstream: &str) -> bool {
    const UNKNOWN: [&str; 4] = [
        "no kind \"",
        "unexpected GroupVersion string: ",
        "Object 'apiVersion' is missing in '",
        "converting (",
    ];
    // Some kinds are known in every group, and so read as what they are.
    let other = mistyped(upstream).is_some_and(|(object, _)| !OBJECTS.contains(&object));
    if ours.starts_with("version ") || ours.starts_with("expected kind ") {
        other || UNKNOWN.iter().any(|start| upstream.starts_with(start))
    } else {
        same_field(ours, upstream)
    }
}

/// The types that an answer is made of.
const OBJECTS: [&str; 4] =
    ["ExecCredential", "ExecCredentialSpec", "Cluster", "ExecCredentialStatus"];

/// Whether both refuse the same field.
fn same_field(ours: &str, upstream: &str) -> bool {
    let (path, problem) = ours.split_once(": ").unwrap_or_default();
    let is_type = problem.starts_with("expected ");
    if let Some((_, field)) = mistyped(upstream)
        && field != EXPIRY
    {
        let path = path.split('[').next().unwrap_or_default();
        return is_type && (path == field || (path == "message" && field.is_empty()));
    }
    let is_base64 = problem.starts_with("invalid base64");
    // Go goes on after a wrong type or wrong base64, and names the first in the end; but a wrong time is the end.
    if upstream.starts_with("parsing time ") || mistyped(upstream).is_some() {
        is_type || is_base64 || path == EXPIRY
    } else {
        is_base64 && upstream.starts_with("illegal base64 data at input byte ")
    }
}

const EXPIRY: &str = "status.expirationTimestamp";

/// The type and the path of the field that Go calls mistyped; both are empty for the whole object.
fn mistyped(upstream: &str) -> Option<(&str, &str)> {
    let (_, rest) = upstream.split_once("json: cannot unmarshal ")?;
    let Some((_, field)) = rest.split_once(" into Go struct field ") else { return Some(("", "")) };
    field.split_once(" of type ")?.0.split_once('.')
}
