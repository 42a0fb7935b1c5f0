//! Reads a signed token as far as we need to; whether it is genuine is for whoever it is shown to.

use std::time::{Duration, SystemTime};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::Deserialize;

/// No token that fits into a header of HTTP is as long.
const LONGEST: usize = 1 << 20;

#[derive(Deserialize)]
struct Claims {
    exp: f64,
}

/// When the token ends, if it says so in a way that can be read.
pub(crate) fn expiry(token: &str) -> Option<SystemTime> {
    let mut parts = token.split('.').filter(|_| token.len() <= LONGEST);
    let (_header, claims, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    let Claims { exp } = serde_json::from_slice(&claims).ok()?;
    let since_1970 = Duration::try_from_secs_f64(exp.max(0.0)).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(since_1970)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims))
    }

    fn seconds(token: &str) -> Option<u64> {
        let end = expiry(token)?;
        end.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs())
    }

    #[test]
    fn the_end_is_an_integer_or_a_float() {
        assert_eq!(seconds(&token(r#"{"sub":"a","exp":1900000000}"#)), Some(1_900_000_000));
        assert_eq!(seconds(&token(r#"{"exp":1.9e9}"#)), Some(1_900_000_000));
        assert_eq!(seconds(&token(r#"{"exp":1900000000.75}"#)), Some(1_900_000_000));
    }

    #[test]
    fn an_end_before_time_began_is_long_past_and_not_unknown() {
        assert_eq!(seconds(&token(r#"{"exp":-5}"#)), Some(0));
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        let rows = [
            String::new(),
            "opaque".into(),
            "a.b".into(),
            "a.!.c".into(),
            token("{}"),
            token(r#"{"exp":null}"#),
            token(r#"{"exp":"1900000000"}"#),
            token(r#"{"exp":1e300}"#),
            token("[1900000000"),
            token(&format!(r#"{{"exp":1900000000,"pad":"{}"}}"#, "x".repeat(LONGEST))),
        ];
        for row in rows {
            assert_eq!(expiry(&row), None, "{}", row.get(..40).unwrap_or(&row));
        }
    }

    #[test]
    fn padding_is_no_obstacle() {
        assert_eq!(seconds("e30.eyJleHAiOjF9.c2ln"), Some(1));
        assert_eq!(seconds("e30.eyJleHAiOjEwfQ==.c2ln"), Some(10));
    }
}
