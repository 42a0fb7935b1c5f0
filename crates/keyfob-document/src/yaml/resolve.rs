//! What a scalar means by YAML 1.1, and how Go's JSON encoder writes its numbers.
//!
//! Upstream: `resolve.go` of `go.yaml.in/yaml/v2`; `encoding/json` and `strconv` for numbers.
//! Sexagesimal numbers are strings, and so are dates, unless a tag says otherwise; then they are strings all the same.

use super::{YamlProblem, parser::Scalar};
use crate::{Secret, json::push_lossy, read::decode_base64, timestamp::is_yaml_timestamp};

/// A scalar's meaning.
#[derive(Clone, PartialEq)]
pub(super) enum Resolved {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer beyond the signed range.
    Large(u64),
    Float(f64),
    Text(Secret<String>),
}

const PREFIX: &[u8] = b"tag:yaml.org,2002:";

pub(super) fn resolve(scalar: &Scalar) -> Result<Resolved, YamlProblem> {
    let text = scalar.text.expose().as_str();
    let as_text = || Resolved::Text(scalar.text.clone());
    let guessed = || guess(text).unwrap_or_else(as_text);
    if scalar.tag.is_empty() {
        return Ok(if scalar.implicit { guessed() } else { as_text() });
    }
    match scalar.tag.strip_prefix(PREFIX) {
        Some(b"binary") => binary(text),
        Some(b"bool") => only(guessed(), |found| matches!(found, Resolved::Bool(_))),
        Some(b"null") => only(guessed(), |found| matches!(found, Resolved::Null)),
        Some(b"int") => {
            only(guessed(), |found| matches!(found, Resolved::Int(_) | Resolved::Large(_)))
        }
        Some(b"float") => float(guessed()),
        Some(b"timestamp") if !is_yaml_timestamp(text) => Err(YamlProblem::TagMismatch),
        // `!!str`, and every tag that means nothing here.
        _ => Ok(as_text()),
    }
}

fn only(found: Resolved, fits: fn(&Resolved) -> bool) -> Result<Resolved, YamlProblem> {
    if fits(&found) { Ok(found) } else { Err(YamlProblem::TagMismatch) }
}

#[expect(clippy::cast_precision_loss, reason = "a tag asks for a float, and Go converts")]
fn float(found: Resolved) -> Result<Resolved, YamlProblem> {
    match found {
        Resolved::Float(_) => Ok(found),
        Resolved::Int(number) => Ok(Resolved::Float(number as f64)),
        _ => Err(YamlProblem::TagMismatch),
    }
}

fn binary(text: &str) -> Result<Resolved, YamlProblem> {
    let bytes = Secret::new(decode_base64(text).ok_or(YamlProblem::Base64)?);
    let mut text = String::with_capacity(bytes.expose().len() * 3);
    push_lossy(&mut text, bytes.expose());
    Ok(Resolved::Text(Secret::new(text)))
}

/// What a text means without a tag; `None`: just text.
fn guess(text: &str) -> Option<Resolved> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Some(Resolved::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Some(Resolved::Bool(true));
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Some(Resolved::Bool(false));
        }
        ".nan" | ".NaN" | ".NAN" => return Some(Resolved::Float(f64::NAN)),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Some(Resolved::Float(f64::INFINITY));
        }
        "-.inf" | "-.Inf" | "-.INF" => return Some(Resolved::Float(f64::NEG_INFINITY)),
        _ => {}
    }
    // Most texts that begin like a number are none.
    if !text.bytes().all(may_be_in_a_number) {
        return None;
    }
    match text.bytes().next() {
        Some(b'.') if underscores_separate_digits(text) => finite(plain(text).expose()),
        Some(b'+' | b'-' | b'0'..=b'9') => number(plain(text).expose()),
        _ => None,
    }
}

/// Without the underscores. A secret, because a token of digits begins like a number too.
fn plain(text: &str) -> Secret<String> {
    Secret::new(text.replace('_', ""))
}

fn may_be_in_a_number(byte: u8) -> bool {
    byte.is_ascii_hexdigit() || b"+-._oOxXpP".contains(&byte)
}

fn underscores_separate_digits(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_digit = |place: Option<usize>| {
        place.and_then(|place| bytes.get(place)).is_some_and(u8::is_ascii_digit)
    };
    bytes.iter().enumerate().all(|(place, byte)| {
        *byte != b'_' || (is_digit(place.checked_sub(1)) && is_digit(Some(place + 1)))
    })
}

fn number(text: &str) -> Option<Resolved> {
    integer(text).or_else(|| finite(text)).or_else(|| {
        // Go tries binary numbers once more on its own, and so takes a sign after the prefix.
        let signed = text.strip_prefix("0b")?;
        let digits = signed.strip_prefix(['+', '-'])?;
        let magnitude = magnitude(digits, 2)?;
        with_sign(magnitude, signed.starts_with('-')).map(Resolved::Int)
    })
}

/// Decimal, or with the prefixes `0x`, `0o`, `0b` or `0`.
fn integer(text: &str) -> Option<Resolved> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (digits, radix) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (unsigned.get(2..)?, 16),
        [b'0', b'o' | b'O', ..] => (unsigned.get(2..)?, 8),
        [b'0', b'b' | b'B', ..] => (unsigned.get(2..)?, 2),
        [b'0', _, ..] => (unsigned.get(1..)?, 8),
        _ => (unsigned, 10),
    };
    let magnitude = magnitude(digits, radix)?;
    match with_sign(magnitude, text.starts_with('-')) {
        Some(number) => Some(Resolved::Int(number)),
        None if unsigned.len() == text.len() => Some(Resolved::Large(magnitude)),
        None => None,
    }
}

fn magnitude(digits: &str, radix: u32) -> Option<u64> {
    let valid = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    valid.then(|| u64::from_str_radix(digits, radix).ok())?
}

fn with_sign(magnitude: u64, negative: bool) -> Option<i64> {
    if negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// A decimal number with a point or an exponent; one too large for a float stays text.
fn finite(text: &str) -> Option<Resolved> {
    let decimal = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
    if !text.chars().all(decimal) {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    number.is_finite().then_some(Resolved::Float(number))
}

/// A float as Go's JSON encoder writes it.
pub(super) fn json_float(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text,
    }
}

/// A float as a key: Go formats it as a 32-bit number with `%g`.
#[expect(clippy::cast_possible_truncation, reason = "upstream formats keys with 32 bits")]
pub(super) fn key_float(number: f64) -> String {
    let short = number as f32;
    if short.is_nan() {
        return ".nan".to_owned();
    }
    if short.is_infinite() {
        return if short > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    general(&format!("{short:e}"), &short.to_string())
}

/// A float as Go prints it for people.
pub(super) fn go_float(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    general(&format!("{number:e}"), &number.to_string())
}

/// Chooses between the two notations as `%g` does.
fn general(scientific: &str, plain: &str) -> String {
    let (digits, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return plain.to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}
