//! Why both answers may be right although they are not the same.

use keyfob_api::document::{Document, Value as Tree, folded_name};
use serde_json::Value;

use super::{super::texts::Text, Config, Entry, Question};
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
    // Upstream names one of several keys, at random: it must be able to say what Keyfob says.
    if let Some(others) = upstream.get("or").and_then(Value::as_array) {
        let mut texts = others.iter().filter_map(Value::as_str).chain([theirs]);
        let may_say = |text: &str| text == ours || is_concealed(question, ours, text);
        return texts.any(may_say).then_some("config-random-key");
    }
    if is_concealed(question, ours, theirs) {
        Some("config-concealed")
    } else if is_of_another_kind(question, ours, theirs) {
        Some("config-other-kind")
    } else if is_binary(question, ours, theirs) {
        Some("config-binary")
    } else if with_replacements(theirs) == ours {
        Some("yaml-binary-that-is-no-text")
    } else {
        None
    }
}

/// Whether a text begins with two byte order marks, of which the first says how it is encoded.
fn has_two_marks(text: &[u8]) -> bool {
    let marks: [&[u8]; 3] = [b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe"];
    marks.iter().any(|mark| text.strip_prefix(*mark).is_some_and(|rest| rest.starts_with(mark)))
}

const REDACTED: &str = "[redacted]";

/// A text with U+FFFD in the place of each byte that Go spells out.
fn with_replacements(text: &str) -> String {
    let mut pieces = text.split("\\x");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + "\u{fffd}" + piece.get(2..).unwrap_or_default())
}

/// Whether ours is upstream's text but for what may hold secrets: a whole file, or a value of one.
fn is_concealed(question: &Question, ours: &str, upstream: &str) -> bool {
    const VALUES: [(&str, &str); 4] =
        [("`", "` as a "), ("invalid map key: ", ""), (", value: ", ""), ("anchor '", "' ")];
    let Some((start, end)) = ours.split_once(REDACTED) else { return false };
    let hidden = upstream.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
    let Some(hidden) = hidden else { return false };
    if start.ends_with("' is missing in '") {
        return question.files.iter().any(|file| as_go_prints(&file.bytes()) == hidden);
    }
    let is_value =
        |(before, behind): (&str, &str)| start.ends_with(before) && end.starts_with(behind);
    VALUES.into_iter().any(is_value)
}

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
    const NO_TEXT: &str = ": yaml: control characters are not allowed";
    let file = ours.strip_suffix(NO_TEXT).filter(|file| upstream.starts_with(file));
    file.is_some() && question.files.iter().any(|file| file.bytes().starts_with(b"k8s\0"))
}

const ANNOTATIONS: &str = ".tokenAttributes.serviceAccountAnnotationKeys\"";
const STRICT: &str = ": strict decoding error: ";

/// Whether upstream takes KEP-4412's list of annotations for an unknown field. Everything else must be said by both.
fn has_one_list_of_annotations(ours: Option<&str>, upstream: &str) -> bool {
    let is_mistyped = |ours: &str| {
        ours.contains("json: cannot unmarshal ")
            && ours.contains("tokenAttributes.serviceAccountAnnotationKeys of type ")
    };
    if ours.is_some_and(is_mistyped) {
        // Upstream, which does not know it, goes on to what else is wrong.
        return upstream.contains(ANNOTATIONS) || upstream.contains("json: cannot unmarshal ");
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

/// Whether a file is of a kind that upstream knows the fields of, and finds something wrong in them.
fn is_of_another_kind(question: &Question, ours: &str, upstream: &str) -> bool {
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
    let kinds: Vec<String> = question.files.iter().filter_map(|file| kind(&file.bytes())).collect();
    let found = upstream.contains(STRICT) || upstream.contains(": json: cannot unmarshal ");
    let only_kind = |kind: &&str| {
        let wrong_kind = ours.ends_with(&format!("failed to decode \"{kind}\" (wrong Kind)"));
        kinds.iter().any(|known| known == kind) && (wrong_kind || names_fewer(ours, upstream))
    };
    found && KINDS.iter().any(only_kind)
}

/// Whether all that one text names is also named by the other.
fn names_fewer(ours: &str, upstream: &str) -> bool {
    let (ours, upstream) = (ours.split_once(STRICT), upstream.split_once(STRICT));
    let (Some((file, ours)), Some((same, upstream))) = (ours, upstream) else { return false };
    let upstream: Vec<&str> = upstream.split(", ").collect();
    file == same && ours.split(", ").all(|issue| upstream.contains(&issue))
}

fn kind(text: &[u8]) -> Option<String> {
    let document = Document::read(text).ok()?;
    let Tree::Map(fields) = &document.root.value else { return None };
    fields.iter().rev().find_map(|field| match &field.node.value {
        Tree::String(kind) if folded_name(field.name.expose()) == "kind" => {
            Some(kind.expose().clone())
        }
        _ => None,
    })
}
