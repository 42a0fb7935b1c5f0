//! Why both answers may be right although they are not the same.

use serde_json::Value;

use super::{
    super::{
        syntax::{is_no_json, is_no_yaml},
        texts::Text,
    },
    Config, Entry, Question,
};
use crate::Topic as _;

pub(super) fn explain(question: &Question, ours: &Value, upstream: &Value) -> Option<&'static str> {
    if question.files.iter().any(|file| has_two_marks(&file.bytes())) {
        return Some("yaml-second-byte-order-mark");
    }
    let theirs = upstream.get("error")?.as_str()?;
    let said = ours.get("error").and_then(Value::as_str);
    if is_first_kep(said, theirs) {
        return Some("config-first-kep");
    }
    if has_one_list_of_annotations(said, theirs) {
        let as_meant = said.is_some() || is_read_as_optional(question, ours);
        return as_meant.then_some("config-kep-4412");
    }
    let ours = said?;
    if is_binary(question, ours, theirs) {
        return Some("config-binary");
    }
    let ((our_file, ours), (their_file, theirs)) = (split(ours)?, split(theirs)?);
    if our_file != their_file {
        None
    } else if is_not_quoted(question, ours, theirs) {
        Some("config-not-quoted")
    } else if is_of_another_kind(ours, theirs) {
        Some("config-other-kind")
    } else if is_no_document(ours, theirs) {
        Some("syntax-error-words")
    } else if is_wrong_value(ours, theirs) {
        Some("wrong-type-words")
    } else {
        None
    }
}

/// The file that cannot be decoded, and why.
fn split(error: &str) -> Option<(&str, &str)> {
    error.strip_prefix("error decoding config \"")?.split_once("\": ")
}

/// Whether a text begins with two byte order marks, of which the first says how it is encoded.
fn has_two_marks(text: &[u8]) -> bool {
    let marks: [&[u8]; 3] = [b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe"];
    marks.iter().any(|mark| text.strip_prefix(*mark).is_some_and(|rest| rest.starts_with(mark)))
}

/// Whether ours is upstream's text without the file that it quotes.
fn is_not_quoted(question: &Question, ours: &str, upstream: &str) -> bool {
    let quoted = upstream.strip_prefix(ours).and_then(|rest| rest.strip_prefix(" in '"));
    let quoted = quoted.and_then(|rest| rest.strip_suffix('\''));
    let is_quoted =
        |quoted| question.files.iter().any(|file| as_go_prints(&file.bytes()) == quoted);
    ours.ends_with("' is missing") && quoted.is_some_and(is_quoted)
}

/// Whether both say that a file is not JSON, or not YAML.
fn is_no_document(ours: &str, upstream: &str) -> bool {
    let json = upstream.strip_prefix(NO_VERSION).is_some_and(is_no_json);
    ours.starts_with("invalid JSON at line ") && json
        || ours.starts_with("invalid YAML at line ") && is_no_yaml(upstream)
}

const NO_VERSION: &str = "couldn't get version/kind; json parse error: ";

/// Whether both say that the same value is of a wrong type.
fn is_wrong_value(ours: &str, upstream: &str) -> bool {
    let Some((path, problem)) = ours.split_once(": ") else { return false };
    let is_type = problem.starts_with("expected ");
    if upstream.starts_with("time: ") {
        // A wrong duration ends Go's reading, also behind another wrong value.
        return is_type || problem.starts_with(upstream);
    }
    let upstream = upstream.strip_prefix(NO_VERSION).unwrap_or(upstream);
    let Some((found, into)) =
        upstream.strip_prefix(MISTYPED).and_then(|rest| rest.split_once(" into Go "))
    else {
        return false;
    };
    // Go puts the name of the struct before the path, and has no path for the whole document.
    let field = into.strip_prefix("struct field ").and_then(|rest| rest.split_once(" of type "));
    let field = field.and_then(|(field, _)| field.split_once('.')).map_or("document", |(_, f)| f);
    if field.to_ascii_lowercase().ends_with(".defaultcacheduration") {
        return is_type;
    }
    let found = match found {
        "bool" => "a boolean",
        "number" => "a number",
        "array" => "a list",
        "object" => "an object",
        _ => "a string",
    };
    let path: String = path.split(['[', ']']).step_by(2).collect();
    is_type && path == field && problem.contains(&format!(", found {found} (line "))
}

const MISTYPED: &str = "json: cannot unmarshal ";

/// Bytes as they come out of Go's JSON encoder.
fn as_go_prints(bytes: &[u8]) -> String {
    let chunk = |chunk: std::str::Utf8Chunk<'_>| {
        chunk.valid().to_owned() + &"\u{fffd}".repeat(chunk.invalid().len())
    };
    bytes.utf8_chunks().map(chunk).collect()
}

/// Whether upstream knows no such kind, and it is the first KEP's. Keyfob must have read that file.
fn is_first_kep(ours: Option<&str>, upstream: &str) -> bool {
    let Some((file, refusal)) = upstream.split_once(": no kind ") else { return false };
    let kinds = ["\"credentialprovider\"", "\"RegistryCredentialConfig\""];
    let is_first = |kind: &str| {
        refusal.starts_with(&format!("{kind} is registered for version \"v1alpha1\" in scheme "))
    };
    let same_file = format!("{file}: no kind ");
    kinds.into_iter().any(is_first) && ours.is_none_or(|ours| !ours.starts_with(&same_file))
}

/// Whether a file begins like Kubernetes' binary format, which is no text.
fn is_binary(question: &Question, ours: &str, upstream: &str) -> bool {
    const NO_TEXT: &str = ": invalid YAML at line 1, column 4: control characters are not allowed";
    let file = ours.strip_suffix(NO_TEXT).filter(|file| upstream.starts_with(file));
    file.is_some() && question.files.iter().any(|file| file.bytes().starts_with(b"k8s\0"))
}

const ANNOTATIONS: &str = ".tokenAttributes.serviceAccountAnnotationKeys\"";
const STRICT: &str = ": strict decoding error: ";

/// Whether upstream takes KEP-4412's list of annotations for an unknown field. Everything else must be said by both.
fn has_one_list_of_annotations(ours: Option<&str>, upstream: &str) -> bool {
    let is_mistyped = |ours: &str| {
        ours.contains("].tokenAttributes.serviceAccountAnnotationKeys")
            && ours.contains(": expected ")
    };
    if ours.is_some_and(is_mistyped) {
        // Upstream, which does not know it, goes on to what else is wrong.
        let others = [ANNOTATIONS, MISTYPED, ": time: "];
        return others.iter().any(|words| upstream.contains(words));
    }
    let Some((file, issues)) = upstream.split_once(STRICT) else { return false };
    let others = |issues: &str, what: &str| -> Vec<String> {
        let is_known = |issue: &&str| issue.starts_with(what) && issue.ends_with(ANNOTATIONS);
        issues.split(", ").filter(|issue| !is_known(issue)).map(str::to_owned).collect()
    };
    let rest = others(issues, "unknown field \"providers[");
    if rest.len() == issues.split(", ").count() {
        return false;
    }
    match ours.and_then(|ours| ours.strip_prefix(file)?.strip_prefix(STRICT)) {
        Some(ours) => others(ours, "duplicate field \"providers[") == rest,
        // The file is read then, and only another one may be refused.
        None => rest.is_empty() && ours.is_none_or(|ours| !ours.starts_with(file)),
    }
}

/// Whether a file with KEP-4412's list gives the providers that it gives with today's name for it.
fn is_read_as_optional(question: &Question, ours: &Value) -> bool {
    const TODAY: &str = "optionalServiceAccountAnnotationKeys";
    let mut today = question.clone();
    for file in &mut today.files {
        if let Entry::Content(Text::Plain(text)) = &mut file.entry {
            *text = text.replace("serviceAccountAnnotationKeys", TODAY);
        }
    }
    let providers = |answer: &Value| {
        let mut providers = answer.get("providers").cloned().unwrap_or_default();
        for provider in providers.as_array_mut().into_iter().flatten() {
            // The KEP knew neither, so what they are is filled in.
            let tokens = provider.get_mut("tokenAttributes").and_then(Value::as_object_mut);
            if let Some(tokens) = tokens {
                tokens.retain(|name, _| name != "cacheType" && name != "requireServiceAccount");
            }
        }
        providers
    };
    let today = Config::ours(&today);
    let has_both = today.get("error").is_some_and(|error| error.to_string().contains(TODAY));
    has_both || providers(&today) == providers(ours)
}

/// Whether a file is of a kind that upstream knows: it says so, or finds something wrong in the fields. Or upstream has other
/// words for it, since it is the internal version that does not know the kind.
fn is_of_another_kind(ours: &str, upstream: &str) -> bool {
    const KINDS: [&str; 12] = [
        "APIGroup",
        "APIGroupList",
        "APIResourceList",
        "APIVersions",
        "CredentialProviderRequest",
        "CredentialProviderResponse",
        "ImagePullIntent",
        "ImagePulledRecord",
        "KubeletConfiguration",
        "SerializedNodeConfigSource",
        "Status",
        "WatchEvent",
    ];
    let kind =
        ours.strip_prefix("no kind \"").and_then(|rest| rest.split_once("\" is registered "));
    let Some((kind, _)) = kind else { return false };
    let is_found = upstream.starts_with("strict decoding error: ")
        || upstream.starts_with(MISTYPED)
        || upstream == format!("failed to decode \"{kind}\" (wrong Kind)");
    let internal = format!("no kind \"{kind}\" is registered for the internal version of group ");
    is_found && KINDS.contains(&kind) || upstream.starts_with(&internal)
}
