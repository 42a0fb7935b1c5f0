#![doc = include_str!("../README.md")]
//!
//! Upstream: `k8s.io/apimachinery/pkg/runtime/serializer/json`, `sigs.k8s.io/json`, `sigs.k8s.io/yaml` 1.6.

mod buffer;
mod duration;
mod encode;
mod go_quote;
mod json;
mod path;
mod problem;
mod quote;
mod raw_json;
mod read;
mod secret;
mod shape;
mod split;
mod timestamp;
mod yaml;

use std::{fmt, mem};

use thiserror::Error;

pub use duration::{DurationError, GoDuration};
pub use encode::JsonWriter;
pub use go_quote::{Quoted, go_is_print};
pub use json::{JsonError, JsonProblem};
pub use path::FieldPath;
pub use problem::{FieldError, FieldProblem, StrictIssue, StrictProblem};
pub use quote::yaml_quoted;
pub use raw_json::RawJson;
pub use read::{FieldTable, Item, ReadField, Reading};
pub use secret::Secret;
pub use shape::Shape;
pub use split::documents;
pub use timestamp::{Timestamp, TimestampError};
pub use yaml::{DuplicateKey, YamlError, YamlProblem};

/// A field's name as Go's plain JSON decoder compares it: without regard to case. Two letters beyond ASCII fold into `s` and
/// `k`.
pub fn folded_name(name: &str) -> String {
    name.chars()
        .map(|c| match c {
            '\u{17f}' => 's',
            '\u{212a}' => 'k',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

/// How deep lists and objects may lie in each other: Go's limit.
const MAX_DEPTH: usize = 10_000;

/// How many values a document may have; the name of a field counts as one too.
///
/// A value that is two bytes of text (`0,`) takes tens of bytes in memory, so the length of a text alone does not bound
/// what reading it costs. The configurations and answers of Kubernetes have a few hundred values.
pub const MAX_VALUES: usize = 1 << 18;

/// How many repeated keys of a YAML document are kept; the others are counted.
const MAX_DUPLICATES: usize = 100;

/// A document that was read.
///
/// ```
/// use keyfob_document::{Document, Reading};
///
/// let document = Document::read(b"image: r.io/app\ntags: [a, b]\n")?;
/// let mut image = String::new();
/// let reading = Reading::default();
/// reading.root(&document.root).object(&["image"], |_, item| {
///     image = item.string()?.map(|text| text.expose().clone()).unwrap_or_default();
///     Ok(())
/// })?;
/// assert_eq!(image, "r.io/app");
/// assert_eq!(reading.into_issues()[0].to_string(), r#"unknown field "tags""#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Document {
    /// The value of the whole document.
    pub root: Node,
    /// Keys that a YAML mapping sets twice, in the order in which Go reports them: the first hundred. Always empty for
    /// JSON, where [`Reading`] finds repeated fields.
    pub duplicates: Vec<DuplicateKey>,
    /// How many more keys are set twice.
    pub more_duplicates: usize,
}

impl Document {
    /// Reads JSON if the first character that is not a space is `{`, and YAML otherwise. [`MAX_VALUES`] is the limit.
    pub fn read(text: &[u8]) -> Result<Self, DocumentError> {
        Self::read_up_to(text, MAX_VALUES)
    }

    /// Like [`Document::read`], with another limit: for files that list a whole cluster.
    pub fn read_up_to(text: &[u8], max_values: usize) -> Result<Self, DocumentError> {
        if looks_like_json(text) {
            Ok(Self::of_json(json::read(text, &Shape::Any, max_values)?))
        } else {
            Ok(yaml::read(text, max_values)?)
        }
    }

    /// Reads JSON as Go's `encoding/json` does. [`MAX_VALUES`] is the limit.
    pub fn read_json(text: &[u8]) -> Result<Self, JsonError> {
        Self::read_json_of(text, &Shape::Any)
    }

    /// Like [`Document::read_json`], but what the shape does not name is checked and skipped.
    pub fn read_json_of(text: &[u8], shape: &'static Shape) -> Result<Self, JsonError> {
        Ok(Self::of_json(json::read(text, shape, MAX_VALUES)?))
    }

    /// Like [`Document::read`], but what the shape does not name is skipped if it is JSON.
    pub fn read_of(text: &[u8], shape: &'static Shape) -> Result<Self, DocumentError> {
        if looks_like_json(text) {
            Ok(Self::read_json_of(text, shape)?)
        } else {
            Ok(Self::read_yaml(text)?)
        }
    }

    /// Reads the first YAML document as `sigs.k8s.io/yaml` does. [`MAX_VALUES`] is the limit.
    pub fn read_yaml(text: &[u8]) -> Result<Self, YamlError> {
        yaml::read(text, MAX_VALUES)
    }

    fn of_json(root: Node) -> Self {
        Self { root, duplicates: Vec::new(), more_duplicates: 0 }
    }

    /// What Kubernetes' strict decoders say about [`Document::duplicates`]; `None` if there are none.
    pub fn duplicates_message(&self) -> Option<String> {
        let mut lines: Vec<String> = self.duplicates.iter().map(DuplicateKey::message).collect();
        if self.more_duplicates > 0 {
            lines.push(format!("and {} more keys already set in map", self.more_duplicates));
        }
        (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:\n  {}", lines.join("\n  ")))
    }
}

/// Space is Unicode's, so a form feed or a no-break space before `{` leads to the JSON reader, which refuses it.
fn looks_like_json(text: &[u8]) -> bool {
    let valid = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => {
            let valid = text.get(..error.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(valid).unwrap_or_default()
        }
    };
    valid.trim_start().starts_with('{')
}

/// Why a text is not a document.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// It looks like JSON and is not.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// It is not YAML either.
    #[error(transparent)]
    Yaml(#[from] YamlError),
}

/// Where something starts in a text. Lines and columns count from one; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Position {
    /// The first character of a text.
    pub const START: Self = Self { line: 1, column: 1 };
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// A value and where it starts.
///
/// `Debug` shows the kind and the place, never the contents: they may be a password.
#[non_exhaustive]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Its first character.
    pub at: Position,
}

impl Node {
    pub(crate) fn new(value: Value, at: Position) -> Self {
        Self { value, at }
    }

    /// What sort of value this is.
    pub fn kind(&self) -> Kind {
        match self.value {
            Value::Null => Kind::Null,
            Value::Bool(_) => Kind::Bool,
            Value::Number(_) => Kind::Number,
            Value::String(_) => Kind::String,
            Value::List(_) => Kind::List,
            Value::Map(_) => Kind::Map,
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({} at {})", self.kind(), self.at)
    }
}

/// Takes the tree apart level by level: a chain of drops would overflow the stack on a deep tree.
impl Drop for Node {
    fn drop(&mut self) {
        let mut rest = Vec::new();
        self.value.give_children(&mut rest);
        while let Some(mut node) = rest.pop() {
            node.value.give_children(&mut rest);
        }
    }
}

/// What a node can be.
#[expect(clippy::exhaustive_enums, reason = "JSON has these kinds of values and no others")]
pub enum Value {
    /// `null`, or nothing at all in YAML.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number: its own text in JSON; in YAML the text that Go's encoder gives it.
    Number(Box<str>),
    /// A string.
    String(Secret<String>),
    /// A list.
    List(Box<[Node]>),
    /// An object.
    Map(Box<[Field]>),
}

impl Value {
    fn give_children(&mut self, to: &mut Vec<Node>) {
        match self {
            Self::List(items) => to.extend(mem::take(items)),
            Self::Map(fields) => to.extend(mem::take(fields).into_iter().map(|field| field.node)),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) => {}
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(items) => write!(f, "List({} items)", items.len()),
            Self::Map(fields) => write!(f, "Map({} fields)", fields.len()),
            Self::Null => f.write_str("Null"),
            Self::Bool(_) => f.write_str("Bool(..)"),
            Self::Number(_) => f.write_str("Number(..)"),
            Self::String(_) => f.write_str("String(..)"),
        }
    }
}

/// A field of an object.
#[derive(Debug)]
#[non_exhaustive]
pub struct Field {
    /// Its name. Plugins choose some names (registry hosts), so it is no more public than a value.
    pub name: Secret<String>,
    /// Where the name starts.
    pub at: Position,
    /// Its value.
    pub node: Node,
}

/// The sorts of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Nothing.
    Null,
    /// A boolean.
    Bool,
    /// A number.
    Number,
    /// A string.
    String,
    /// A list.
    List,
    /// An object.
    Map,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::List => "a list",
            Self::Map => "an object",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_character_decides_the_format() {
        assert!(looks_like_json(b" \n{\"a\":1}"));
        assert!(looks_like_json("\u{a0}\u{c}{".as_bytes()));
        assert!(!looks_like_json("\u{feff}{".as_bytes()));
        assert!(!looks_like_json(b"[1]"));
        assert!(looks_like_json(b"{\xff"));
        assert!(!looks_like_json(b"\xff{"));
    }

    #[test]
    fn debug_shows_no_contents() {
        let document = Document::read(br#"{"hunter2":"hunter3","n":[424242]}"#).unwrap();
        let text = format!("{document:?} {:?}", document.root.value);
        assert!(!text.contains("hunter") && !text.contains("4242"), "{text}");
    }

    #[test]
    fn a_tree_as_deep_as_go_allows_is_read_and_dropped() {
        for (depth, ok) in [(10_000, true), (10_001, false)] {
            let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            assert_eq!(Document::read_json(text.as_bytes()).is_ok(), ok);
            assert_eq!(Document::read_yaml(text.as_bytes()).is_ok(), ok);
        }
        let wide = format!("[{}]", "{a: [b]}, ".repeat(10_001));
        assert!(Document::read_yaml(wide.as_bytes()).is_ok());
        assert!(Document::read_json("[".repeat(1_000_000).as_bytes()).is_err());
        assert!(Document::read_yaml("[".repeat(1_000_000).as_bytes()).is_err());
    }
}
