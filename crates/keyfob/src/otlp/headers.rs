//! The headers that a collector asks for, such as a key: `NAME=VALUE,NAME=VALUE`, as a W3C baggage without metadata.
//!
//! The values are percent-decoded. They are secrets.

use http::{HeaderMap, HeaderName, HeaderValue};
use keyfob_exec::Environment;
use thiserror::Error;

/// The variables that have them. That for traces replaces the one for everything.
const VARIABLES: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];

/// Why a variable cannot be used. It quotes nothing: what stands before the first `=` may be a part of a secret whose name was forgotten.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum HeadersError {
    #[error("{0} is not UTF-8")]
    NotUtf8(&'static str),
    #[error("entry {entry} of {variable} {fault}")]
    Entry {
        variable: &'static str,
        /// Counted from 1.
        entry: usize,
        fault: EntryFault,
    },
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(crate) enum EntryFault {
    #[error("has no `=`; write NAME=VALUE, with %2C for a comma in a value")]
    NoEquals,
    #[error("has a name that no HTTP header can have")]
    Name,
    #[error("has a `%` without two hexadecimal digits in its value; write %25 for a percent sign")]
    Percent,
    #[error("has a character in its value that no HTTP header can have")]
    Value,
}

/// The headers of the first variable that is not empty.
pub(super) fn headers(environment: &dyn Environment) -> Result<HeaderMap, HeadersError> {
    for variable in VARIABLES {
        let value = environment.var(variable).unwrap_or_default();
        let value = value.into_string().map_err(|_| HeadersError::NotUtf8(variable))?;
        if !value.trim().is_empty() {
            return parse(&value).map_err(|(entry, fault)| HeadersError::Entry {
                variable,
                entry,
                fault,
            });
        }
    }
    Ok(HeaderMap::new())
}

/// Of two entries with the same name the last counts, and empty ones do not.
fn parse(value: &str) -> Result<HeaderMap, (usize, EntryFault)> {
    let mut headers = HeaderMap::new();
    for (entry, number) in value.split(',').map(str::trim).zip(1..) {
        if !entry.is_empty() {
            let (name, value) = parse_entry(entry).map_err(|fault| (number, fault))?;
            headers.insert(name, value);
        }
    }
    Ok(headers)
}

fn parse_entry(entry: &str) -> Result<(HeaderName, HeaderValue), EntryFault> {
    let (name, value) = entry.split_once('=').ok_or(EntryFault::NoEquals)?;
    let name = name.trim().parse().map_err(|_| EntryFault::Name)?;
    let value = percent_decode(value.trim()).ok_or(EntryFault::Percent)?;
    let mut value = HeaderValue::from_bytes(&value).map_err(|_| EntryFault::Value)?;
    // Then it is not in what `Debug` writes.
    value.set_sensitive(true);
    Ok((name, value))
}

/// Nothing if a percent sign begins no escape. A plus sign is a plus sign.
fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut decoded = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        decoded.push(u8::from_str_radix(digits, 16).ok()?);
        decoded.extend_from_slice(rest.as_bytes());
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

    use keyfob_testkit::{LeakCheck, MapEnvironment};

    use super::*;

    const ALL: &str = "OTEL_EXPORTER_OTLP_HEADERS";
    const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";

    fn of(variables: &[(&str, &str)]) -> Result<HeaderMap, HeadersError> {
        headers(&variables.iter().copied().collect::<MapEnvironment>())
    }

    fn pairs(value: &str) -> Vec<(String, String)> {
        let headers = of(&[(ALL, value)]).unwrap();
        let pair = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.to_string(), String::from_utf8(value.as_bytes().to_vec()).unwrap())
        };
        headers.iter().map(pair).collect()
    }

    #[test]
    fn a_list_of_names_and_values_is_read() {
        for (value, expected) in [
            ("", &[][..]),
            (" , ", &[]),
            ("api-key=abc", &[("api-key", "abc")]),
            (" Api-Key = abc , x-tenant=blue,", &[("api-key", "abc"), ("x-tenant", "blue")]),
            ("authorization=Bearer%20a%2Cb%3d%25", &[("authorization", "Bearer a,b=%")]),
            ("authorization=Basic YTpi==", &[("authorization", "Basic YTpi==")]),
            ("a=1+1;b,a=", &[("a", "")]),
            ("a=1+1;b", &[("a", "1+1;b")]),
        ] {
            let expected: Vec<_> = expected
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect();
            assert_eq!(pairs(value), expected, "{value}");
        }
    }

    #[test]
    fn the_variable_for_traces_replaces_the_one_for_everything() {
        let headers = of(&[(ALL, "a=all,b=all"), (TRACES, "a=traces")]).unwrap();
        assert_eq!((headers.len(), headers["a"].as_bytes()), (1, b"traces".as_slice()));
        assert_eq!(of(&[(ALL, "a=all"), (TRACES, "")]).unwrap()["a"], "all");
    }

    #[test]
    fn what_is_wrong_is_said_without_a_value() {
        for (value, expected) in [
            ("a=1,hunter2", "entry 2 of OTEL_EXPORTER_OTLP_HEADERS has no `=`; "),
            ("=hunter2", "entry 1 of OTEL_EXPORTER_OTLP_HEADERS has a name that no "),
            ("Bearer hunter2=", "entry 1 of OTEL_EXPORTER_OTLP_HEADERS has a name that no "),
            ("a=hunter2%2", "entry 1 of OTEL_EXPORTER_OTLP_HEADERS has a `%` without "),
            ("a=%+2hunter2", "entry 1 of OTEL_EXPORTER_OTLP_HEADERS has a `%` without "),
            ("a=%ähunter2", "entry 1 of OTEL_EXPORTER_OTLP_HEADERS has a `%` without "),
            ("a=hunter2%0d%0Ab", "entry 1 of OTEL_EXPORTER_OTLP_HEADERS has a character "),
        ] {
            let error = of(&[(ALL, value)]).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{value}: {error}");
            LeakCheck::new(["hunter2"]).text("the error", &format!("{error} {error:?}"));
        }
        let environment = MapEnvironment::from_iter([(TRACES, OsStr::from_bytes(b"\xff"))]);
        assert_eq!(headers(&environment), Err(HeadersError::NotUtf8(TRACES)));
    }

    #[test]
    fn a_value_is_not_in_what_debug_writes() {
        let headers = of(&[(ALL, "authorization=Bearer%20hunter2")]).unwrap();
        LeakCheck::new(["hunter2"]).text("the headers", &format!("{headers:?}"));
    }
}
