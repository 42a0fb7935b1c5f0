//! A document's tree as JSON, and back from a path in the JSON to the place in the document.

use keyfob_api::document::{Node, Value as Tree};
use serde_json::{Map, Number, Value};
use serde_path_to_error::{Path, Segment};

/// How deep an object may be. What Kubernetes serves is far from it.
const MAX_DEPTH: usize = 100;

/// The tree as JSON; `None` if it is too deep.
pub(super) fn json(node: &Node) -> Option<Value> {
    at_depth(node, 0)
}

fn at_depth(node: &Node, depth: usize) -> Option<Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    let inside = |node: &Node| at_depth(node, depth + 1);
    Some(match &node.value {
        Tree::Bool(value) => Value::Bool(*value),
        Tree::Number(text) => text.parse::<Number>().map_or(Value::Null, Value::Number),
        Tree::String(text) => Value::String(text.expose().clone()),
        Tree::List(items) => Value::Array(items.iter().map(inside).collect::<Option<_>>()?),
        Tree::Map(fields) => {
            let field = |field: &keyfob_api::document::Field| {
                Some((field.name.expose().clone(), inside(&field.node)?))
            };
            Value::Object(fields.iter().map(field).collect::<Option<Map<_, _>>>()?)
        }
        Tree::Null => Value::Null,
    })
}

/// The node that a path leads to, or the last on the way that is there.
pub(super) fn node_at<'a>(root: &'a Node, path: &Path) -> &'a Node {
    let mut node = root;
    for segment in path {
        match child(node, segment) {
            Some(inside) => node = inside,
            None => break,
        }
    }
    node
}

fn child<'a>(node: &'a Node, segment: &Segment) -> Option<&'a Node> {
    match (&node.value, segment) {
        (Tree::List(items), Segment::Seq { index }) => items.get(*index),
        (Tree::Map(_), Segment::Map { key }) => field(node, key),
        _ => None,
    }
}

/// The value of a field; of repeated ones, the last.
pub(super) fn field<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    let Tree::Map(fields) = &node.value else { return None };
    fields.iter().rfind(|field| field.name.expose() == name).map(|field| &field.node)
}
