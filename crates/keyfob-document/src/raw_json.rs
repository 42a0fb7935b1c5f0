//! JSON that is passed on without being looked into.
//!
//! Upstream: `runtime.RawExtension` in apimachinery.
//! Differs: what is no JSON is refused as such (upstream judges its first byte before, and has other words for some).

use std::fmt;

use crate::{
    Document, Field, JsonError, Node, Secret, Shape, Value,
    encode::{JsonWriter, compact},
};

/// One valid JSON value, compact and HTML-safe as Go's encoder writes it. It may hold secrets, so `Debug` hides it.
///
/// ```
/// use keyfob_document::RawJson;
///
/// let config = RawJson::parse(r#"{ "b": 1.0e2, "a": "<" }"#)?;
/// assert_eq!(config.as_str(), r#"{"b":1.0e2,"a":"\u003c"}"#);
/// # Ok::<(), keyfob_document::JsonError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct RawJson(Secret<String>);

impl RawJson {
    /// Checks and compacts a JSON text; order, numbers and escapes stay as they are.
    pub fn parse(json: &str) -> Result<Self, JsonError> {
        Document::read_json_of(json.as_bytes(), &Shape::Nothing)?;
        Ok(Self(compact(json)))
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        self.0.expose()
    }
}

/// A tree as JSON again. For a tree read from YAML this is the text that Kubernetes makes of it.
impl From<&Node> for RawJson {
    fn from(node: &Node) -> Self {
        let mut json = JsonWriter::default();
        let mut rest = vec![Part::Node(node)];
        while let Some(part) = rest.pop() {
            part.write(&mut json, &mut rest);
        }
        Self(json.into_text())
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawJson(..)")
    }
}

/// What is still to be written: a list on the heap, because a tree may be too deep for the stack.
enum Part<'a> {
    Node(&'a Node),
    Field(&'a str, &'a Node),
    Close(char),
}

impl<'a> Part<'a> {
    fn write(self, json: &mut JsonWriter, rest: &mut Vec<Self>) {
        match self {
            Part::Close(bracket) => {
                json.close(bracket);
            }
            Part::Field(name, node) => {
                json.field(name);
                Self::write_node(node, json, rest);
            }
            Part::Node(node) => Self::write_node(node, json, rest),
        }
    }

    fn write_node(node: &'a Node, json: &mut JsonWriter, rest: &mut Vec<Self>) {
        let inside = |field: &'a Field| Part::Field(field.name.expose(), &field.node);
        match &node.value {
            Value::Null => json.raw("null"),
            Value::Bool(true) => json.raw("true"),
            Value::Bool(false) => json.raw("false"),
            Value::Number(text) => json.raw(text),
            Value::String(text) => json.string(text.expose()),
            Value::List(items) => {
                rest.push(Part::Close(']'));
                rest.extend(items.iter().rev().map(Part::Node));
                json.open('[')
            }
            Value::Map(fields) => {
                rest.push(Part::Close('}'));
                rest.extend(fields.iter().rev().map(inside));
                json.open('{')
            }
        };
    }
}
