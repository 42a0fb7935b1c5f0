//! Rows about image names.

use keyfob_api::ImageRef;
use serde_json::Value;

use crate::{Check, fact, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("kubelet/image_names.json", "TestParseImageName", parse),
    ("kubelet/image_names.json", "TestApplyDefaultImageTag", default_tag),
    ("kubelet/image_names.json", "TestTrimImageTagDigest", trim),
    ("kubelet/go_verified_extra.json", "random image names", parse),
    ("kubelet/go_verified_extra.json", "chosen image names", parse),
];

fn parse(_: &Value, row: &Value) -> Result<(), String> {
    match ImageRef::parse(text(row, "input")) {
        Err(error) => refusal(row, &error.to_string()),
        Ok(image) => {
            fact("repository", image.repository(), text(row, "expected_repo"))?;
            fact("tag", image.tag().unwrap_or_default(), text(row, "expected_tag"))?;
            fact("digest", image.digest().unwrap_or_default(), text(row, "expected_digest"))?;
            let with_tag = image.with_default_tag();
            let expected = row.get("expected_with_default_tag").and_then(Value::as_str);
            fact("with default tag", with_tag.as_str(), expected.unwrap_or(&with_tag))
        }
    }
}

/// Upstream says no more than "invalid reference format" where we go on to say what is invalid.
fn refusal(row: &Value, ours: &str) -> Result<(), String> {
    if let Some(part) = row["expected_error_contains"].as_str() {
        let found = !part.is_empty() && ours.contains(part);
        return fact("error", ours, if found { ours } else { part });
    }
    let exact = text(row, "expected_error_exact");
    let is_open = exact.ends_with(": invalid reference format");
    let goes_on = is_open && ours.starts_with(&format!("{exact}: "));
    fact("error", if goes_on { exact } else { ours }, exact)
}

fn default_tag(_: &Value, row: &Value) -> Result<(), String> {
    let image = ImageRef::parse(text(row, "input")).map_err(|error| error.to_string())?;
    fact("with default tag", image.with_default_tag().as_str(), text(row, "expected"))
}

fn trim(_: &Value, row: &Value) -> Result<(), String> {
    let image = ImageRef::parse(text(row, "image")).ok();
    let ours = image.as_ref().map(ImageRef::name_as_written);
    fact("name", &ours, &row["want"].as_str())
}
