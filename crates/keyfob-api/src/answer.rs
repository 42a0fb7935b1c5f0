//! What the readers of all messages share: which version and kind a message says it is, and how its errors stay silent
//! about its contents.
//!
//! Upstream: `json.DefaultMetaFactory.Interpret`, `schema.ParseGroupVersion` (apimachinery).

use std::fmt;

use thiserror::Error;

use crate::document::{FieldError, FieldPath, Node, Position, Reading, folded_name};

/// A field of a message whose value cannot be what it must be. It never quotes the message: the path has only names
/// that the message's type defines, and numbers for the rest (`auth[2].password`).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {problem} ({at})")]
#[non_exhaustive]
pub struct InvalidField {
    /// Which field.
    pub path: String,
    /// What is wrong with it.
    pub problem: String,
    /// Where its value starts.
    pub at: Position,
}

impl From<FieldError> for InvalidField {
    fn from(error: FieldError) -> Self {
        let path = error.path.without_keys();
        Self {
            path: if path.is_empty() { "message".to_owned() } else { path },
            problem: error.problem.without_text(),
            at: error.at,
        }
    }
}

/// A version or kind that a message names. It is only shown if it looks like one of Kubernetes'; anything else could be a
/// secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenName(Option<String>);

impl SeenName {
    /// `group/v1beta1`, or a version alone.
    pub fn version(name: &str) -> Self {
        let (group, version) = name.rsplit_once('/').unwrap_or(("", name));
        Self::if_plausible(name, is_group(group) && is_version(version))
    }

    /// `Kind`, or `Kind.group`.
    pub fn kind(name: &str) -> Self {
        let (kind, group) = name.split_once('.').unwrap_or((name, ""));
        Self::if_plausible(name, is_kind(kind) && is_group(group))
    }

    fn if_plausible(name: &str, plausible: bool) -> Self {
        Self((name.is_empty() || plausible).then(|| name.to_owned()))
    }
}

/// None, or one of Kubernetes' own: a group of somebody else's making could be anything.
fn is_group(group: &str) -> bool {
    let in_group = |byte: u8| byte.is_ascii_lowercase() || b".-".contains(&byte);
    let own = group.strip_suffix("k8s.io");
    group.is_empty() || (group.len() <= 63 && own.is_some_and(|own| own.bytes().all(in_group)))
}

/// A word in camel case.
fn is_kind(kind: &str) -> bool {
    kind.len() <= 63
        && kind.starts_with(|c: char| c.is_ascii_uppercase())
        && kind.bytes().all(|byte| byte.is_ascii_alphabetic())
        && kind.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// A `v`, a number, and perhaps `alpha` or `beta` and another; the numbers have a digit or two.
fn is_version(version: &str) -> bool {
    let is_number = |text: &str| {
        (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let Some(rest) = version.strip_prefix('v') else { return false };
    let stage = rest.split_once("alpha").or_else(|| rest.split_once("beta"));
    stage.map_or_else(|| is_number(rest), |(number, stage)| is_number(number) && is_number(stage))
}

impl fmt::Display for SeenName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_deref() {
            Some("") => f.write_str("none"),
            Some(name) => f.write_str(name),
            None => f.write_str("something else"),
        }
    }
}

/// The version and kind that a message names.
#[derive(Default)]
pub(crate) struct TypeMeta {
    pub(crate) api_version: String,
    pub(crate) kind: String,
}

impl TypeMeta {
    /// Reads both without minding the case of the field names, as Go's plain JSON decoder does.
    pub(crate) fn sniff(root: &Node) -> Result<Self, InvalidField> {
        let mut meta = Self::default();
        let reading = Reading::default();
        reading.root(root).entries(|name, item| {
            let (name, target) = match folded_name(name.expose()).as_str() {
                "apiversion" => ("apiVersion", &mut meta.api_version),
                "kind" => ("kind", &mut meta.kind),
                _ => return Ok(()),
            };
            // Under the name that it should have.
            item.read_text(target).map_err(|mut error| {
                error.path = FieldPath::of(name);
                error
            })
        })?;
        Ok(meta)
    }

    /// The group and the version; `None` if there are too many parts.
    pub(crate) fn group_version(&self) -> Option<(&str, &str)> {
        match self.api_version.split_once('/') {
            None => Some(("", &self.api_version)),
            Some((_, version)) if version.contains('/') => None,
            Some(parts) => Some(parts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    #[test]
    fn names_are_sniffed_in_any_case_and_the_last_one_counts() {
        let text = "{\"KIND\":\"A\",\"kind\":null,\"api\u{17f}Version\":\"x\",\"APIVERSION\":\"g/v\",\"\u{212a}ind\":\"B\"}";
        let document = Document::read_json(text.replace('\u{17f}', "").as_bytes()).unwrap();
        let meta = TypeMeta::sniff(&document.root).unwrap();
        assert_eq!((meta.api_version.as_str(), meta.kind.as_str()), ("g/v", "B"));
        assert_eq!(meta.group_version(), Some(("g", "v")));
    }

    #[test]
    fn only_what_looks_like_a_name_is_shown() {
        let version = |name| SeenName::version(name).to_string();
        let kind = |name| SeenName::kind(name).to_string();

        for shown in ["v1", "batch.k8s.io/v1", "client.authentication.k8s.io/v2beta10"] {
            assert_eq!(version(shown), shown);
        }
        for shown in ["Secret", "ExecCredential.client.authentication.k8s.io"] {
            assert_eq!(kind(shown), shown);
        }
        assert_eq!((version(""), kind("")), ("none".into(), "none".into()));
        for hidden in [
            "hunter2",
            "hunter2/v1",
            "k8s.io/hunter2",
            "v1.hunter2",
            "v",
            "v1234",
            "v1beta2x",
            "Pass/v1",
        ] {
            assert_eq!(version(hidden), "something else", "{hidden}");
        }
        for hidden in ["hunter", "HUNTER", "pass word", "Secret.Hunter", "abcdef.0123456789abcdef"]
        {
            assert_eq!(kind(hidden), "something else", "{hidden}");
        }
    }
}
