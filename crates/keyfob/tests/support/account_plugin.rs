//! A plugin that is asked as a service account, and keeps what it was asked.

use std::fs;

use serde_json::Value;

use crate::node::{Node, answer};

pub(crate) const IMAGE: &str = "r.example/team/app:v1";
/// What the plugin answers.
pub(crate) const PASSWORD: &str = "hunter2-ada";

/// Adds a provider with this plugin.
pub(crate) fn with_plugin(node: Node, name: &str, token_attributes: Value) -> Node {
    let kept = node.path("asked.json");
    let script = answer(&[["r.example", "ada", PASSWORD]]);
    let script = script.replace("/dev/null", kept.to_str().unwrap());
    node.with(name, &["r.example"], &script).having("tokenAttributes", token_attributes)
}

/// What the plugin was asked, if it was.
pub(crate) fn asked(node: &Node) -> Option<Value> {
    let asked = fs::read(node.path("asked.json")).ok()?;
    Some(serde_json::from_slice(&asked).unwrap())
}
