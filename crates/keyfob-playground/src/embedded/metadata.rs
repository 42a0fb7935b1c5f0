//! The part that every object has.

use std::time::{Duration, UNIX_EPOCH};

use aws_lc_rs::rand;
use keyfob_api::Timestamp;
use serde_json::{Map, Value};

use super::status::Refusal;

/// A text of the metadata; empty where there is none.
pub(super) fn get<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Sets a text of the metadata; an empty one is left out.
pub(super) fn set(object: &mut Value, field: &str, text: &str) {
    let Some(object) = object.as_object_mut() else { return };
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    let Some(metadata) = metadata.as_object_mut() else { return };
    if text.is_empty() {
        metadata.remove(field);
    } else {
        metadata.insert(field.to_owned(), Value::from(text));
    }
}

/// Seconds since the epoch, as Kubernetes writes them.
pub(super) fn timestamp(seconds: i64) -> String {
    let since = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    UNIX_EPOCH.checked_add(since).map(|time| Timestamp::from(time).to_string()).unwrap_or_default()
}

/// A fresh `uid`.
pub(super) fn uid() -> Result<String, Refusal> {
    let number = u128::from_be_bytes(random()?);
    // A random UUID says in two places that it is one.
    let number = number & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{number:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    Ok([part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-"))
}

/// Bytes that nobody can guess.
pub(super) fn random<const N: usize>() -> Result<[u8; N], Refusal> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| Refusal::internal("the system gives no random numbers"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_a_random_uuid() {
        let uid = uid().unwrap();
        let parts: Vec<usize> = uid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(uid.chars().nth(14), Some('4'));
        assert!("89ab".contains(uid.chars().nth(19).unwrap()));
    }
}
