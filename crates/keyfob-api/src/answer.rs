//! What the readers of all messages share: which version and kind a message says it is, and how its errors stay silent
//! about its contents.
//!
//! Upstream: `json.DefaultMetaFactory.Interpret`, `schema.ParseGroupVersion` (apimachinery).

use std::fmt;

use thiserror::Error;

use crate::document::{FieldError, Item, Node, Position, Reading};

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

/// A version or kind that a message names. It is only shown if it looks like one; anything else could be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenName(Option<String>);

impl SeenName {
    /// `group/v1beta1`, or a version alone.
    pub(crate) fn version(name: &str) -> Self {
        let (group, version) = name.rsplit_once('/').unwrap_or(("", name));
        Self::if_plausible(name, is_group(group) && is_version(version))
    }

    /// `Kind`, or `Kind.group`.
    pub(crate) fn kind(name: &str) -> Self {
        let (kind, group) = name.split_once('.').unwrap_or((name, ""));
        let is_kind = kind.len() <= 63 && kind.bytes().all(|byte| byte.is_ascii_alphabetic());
        Self::if_plausible(name, is_kind && is_group(group))
    }

    fn if_plausible(name: &str, plausible: bool) -> Self {
        Self((name.is_empty() || plausible).then(|| name.to_owned()))
    }
}

fn is_group(group: &str) -> bool {
    let in_group =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
    group.len() <= 253 && group.bytes().all(in_group)
}

/// A `v`, a number, and perhaps `alpha` or `beta` and another.
fn is_version(version: &str) -> bool {
    let Some(rest) = version.strip_prefix('v') else { return false };
    let stage = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = stage.trim_start_matches("alpha").trim_start_matches("beta");
    rest.len() <= 12 && stage.len() < rest.len() && number.bytes().all(|byte| byte.is_ascii_digit())
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
        reading.root(root).entries(|name, item| match fold(name.expose()).as_str() {
            "apiversion" => set(&mut meta.api_version, item),
            "kind" => set(&mut meta.kind, item),
            _ => Ok(()),
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

fn set(target: &mut String, item: Item<'_>) -> Result<(), FieldError> {
    if let Some(text) = item.string()? {
        target.clone_from(text.expose());
    }
    Ok(())
}

/// Go's case folding as far as it reaches ASCII: two letters beyond it fold into `s` and `k`.
fn fold(name: &str) -> String {
    name.chars()
        .map(|c| match c {
            '\u{17f}' => 's',
            '\u{212a}' => 'k',
            other => other.to_ascii_lowercase(),
        })
        .collect()
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

        for shown in ["v1", "example.com/v1", "example.com/v2beta10"] {
            assert_eq!(version(shown), shown);
        }
        for shown in ["Secret", "ExecCredential.example.com"] {
            assert_eq!(kind(shown), shown);
        }
        assert_eq!((version(""), kind("")), ("none".into(), "none".into()));
        for hidden in ["hunter2", "example.com/hunter2", "v1.hunter2", "v", "v1beta2x", "Pass/v1"] {
            assert_eq!(version(hidden), "something else");
        }
        for hidden in ["hunter2", "pass word", "Secret.Hunter"] {
            assert_eq!(kind(hidden), "something else");
        }
    }
}
