//! Rows about patterns and what they match.

use keyfob_api::{ImageRef, MatchPattern, MatchTarget, Mismatch, PatternError};
use serde_json::Value;

use crate::{Check, fact, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("kubelet/urls_match.json", "TestURLsMatch", upstream_pair),
    ("kubelet/derived_matching.json", "derived match", pair),
    ("kubelet/derived_matching.json", "derived registry cache key", registry_key),
    ("kubelet/go_verified_extra.json", "random pattern/image pairs", pair),
    ("kubelet/go_verified_extra.json", "chosen pattern/image pairs", pair),
    ("kubelet/go_verified_extra.json", "URL characters", url_characters),
    ("providers/kubelet-url-match.json", "cases", provider_pair),
    ("providers/kubelet-url-match.json", "errors", provider_error),
];

fn upstream_pair(_: &Value, row: &Value) -> Result<(), String> {
    let verdict = matches(text(row, "glob"), text(row, "target"));
    fact("match", &Value::from(verdict == Ok(true)), &row["expected_match"])
}

fn pair(_: &Value, row: &Value) -> Result<(), String> {
    let (pattern, image) = (text(row, "pattern"), text(row, "image"));
    let verdict = matches(pattern, image);
    let error = row.get("expected_error").or(row.get("expected_error_exact"));
    fact("error", &verdict.as_ref().err().map(String::as_str), &error.and_then(Value::as_str))?;
    fact("match", &Value::from(verdict == Ok(true)), &row["expected_match"])?;
    configured(row, MatchPattern::parse(pattern).err())
}

/// What the kubelet says to a configuration with the row's pattern.
fn configured(row: &Value, refusal: Option<PatternError>) -> Result<(), String> {
    let passes = Value::from(refusal.is_none());
    fact("configuration accepts the pattern", &passes, &row["pattern_passes_config_validation"])?;
    match (refusal, row.get("expected_validation_error").and_then(Value::as_str)) {
        (Some(refusal), Some(whole)) => {
            let (_, end) = whole.split_once("match image is invalid: ").unwrap();
            fact("configuration error", refusal.to_string().as_str(), end)
        }
        _ => Ok(()),
    }
}

fn provider_pair(_: &Value, row: &Value) -> Result<(), String> {
    let verdict = matches(row[0].as_str().unwrap(), row[1].as_str().unwrap());
    fact("match", &verdict.map(Value::from), &Ok(row[2].clone()))
}

/// The error of a row stands in another list, at the row's place.
fn provider_error(file: &Value, row: &Value) -> Result<(), String> {
    let list = |key: &str| file[key].as_array().unwrap().iter();
    let (_, expected) =
        list("errors").zip(list("errors_go_text")).find(|(other, _)| *other == row).unwrap();
    let verdict = matches(row[0].as_str().unwrap(), row[1].as_str().unwrap());
    fact("error", &verdict.map_err(Value::from), &Err(expected.clone()))
}

/// Upstream's `URLsMatchStr`.
fn matches(pattern: &str, image: &str) -> Result<bool, String> {
    let pattern = MatchPattern::parse(pattern).map_err(|error| error.to_string())?;
    let target = MatchTarget::parse(image).map_err(|error| error.to_string())?;
    match pattern.check(&target) {
        Err(Mismatch::BadGlob { .. }) => Err("syntax error in pattern".to_owned()),
        verdict => Ok(verdict.is_ok()),
    }
}

/// A template with each ASCII character, or each escaped byte, in its place: the row lists those that parse.
fn url_characters(_: &Value, row: &Value) -> Result<(), String> {
    let template = text(row, "template");
    let parses = |piece: &str| MatchPattern::parse(&template.replace("%s", piece)).is_ok();
    if let Some(accepted) = row.get("accepted_ascii") {
        let ours: String = ('\0'..='\x7f').filter(|c| parses(&c.to_string())).collect();
        return fact("accepted characters", &Value::from(ours), accepted);
    }
    let ours: Vec<u8> = (0..=u8::MAX).filter(|byte| parses(&format!("%{byte:02X}"))).collect();
    fact("accepted escapes", &Value::from(ours), &row["accepted_escape_values"])
}

/// The key is taken from a repository; what no image name has for one is never looked up.
fn registry_key(_: &Value, row: &Value) -> Result<(), String> {
    let repository = text(row, "image");
    let image = ImageRef::parse(repository).ok();
    match image.filter(|image| image.repository() == repository) {
        Some(image) => fact("key", image.registry(), text(row, "expected_registry_cache_key")),
        None => Ok(()),
    }
}
