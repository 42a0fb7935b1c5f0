//! Sentences about what a plugin printed.

use serde_json::Value;

use super::Question;
use crate::topics::{exec_answer::reason, stand_ins::PAIRS};

/// All that differs are such sentences, and ours say the same without quoting.
pub(super) fn explained(
    question: &Question,
    ours: &Value,
    upstream: &Value,
) -> Option<&'static str> {
    let mut differing = Vec::new();
    sentences(ours, upstream, &mut differing)?;
    let outputs: Vec<String> =
        question.outputs().map(|output| PAIRS.stand_ins.in_json(&output)).collect();
    let explained = |(ours, upstream): &(&str, &str)| {
        let mut outputs = outputs.iter();
        outputs.find_map(|output| reason::explained(output.as_bytes(), ours, upstream))
    };
    let rows: Option<Vec<_>> = differing.iter().map(explained).collect();
    rows?.first().copied()
}

/// The sentences in which two answers differ; `None` if they differ in anything else.
fn sentences<'a>(
    ours: &'a Value,
    upstream: &'a Value,
    differing: &mut Vec<(&'a str, &'a str)>,
) -> Option<()> {
    match (ours, upstream) {
        _ if ours == upstream => {}
        (Value::Array(ours), Value::Array(upstream)) if ours.len() == upstream.len() => {
            for (ours, upstream) in ours.iter().zip(upstream) {
                sentences(ours, upstream, differing)?;
            }
        }
        (Value::Object(ours), Value::Object(upstream)) if ours.keys().eq(upstream.keys()) => {
            for (ours, upstream) in ours.values().zip(upstream.values()) {
                sentences(ours, upstream, differing)?;
            }
        }
        (Value::String(ours), Value::String(upstream)) => {
            let (beginning, ours) = taken_apart(ours)?;
            let (same, upstream) = taken_apart(upstream)?;
            (beginning == same).then(|| differing.push((ours, upstream)))?;
        }
        _ => return None,
    }
    Some(())
}

/// How a sentence about credentials begins, and what it says: `Get "SERVER/version": getting credentials: ` and so on.
fn taken_apart(text: &str) -> Option<(&str, &str)> {
    let beginnings = ["getting credentials: ", "refreshing credentials: "];
    let end = beginnings.iter().find_map(|word| Some(text.find(word)? + word.len()))?;
    text.split_at_checked(end)
}
