//! The environment: of this process, and the one a plugin gets.
//!
//! Upstream: `os/exec` of Go 1.26 (`dedupEnv`), through `pkg/credentialprovider/plugin` and `client-go`'s exec plugin.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fmt,
    os::unix::ffi::OsStrExt as _,
};

use keyfob_api::{Secret, speaks_of_a_secret};

/// The environment of the host process, as an argument. It is read anew for every run.
pub trait Environment: Send + Sync + fmt::Debug {
    /// The value of one variable.
    fn var(&self, name: &str) -> Option<OsString>;

    /// Every variable, in order.
    fn vars(&self) -> Vec<(OsString, OsString)>;
}

/// The real environment of this process.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "has no fields, and callers name it as a value")]
pub struct SystemEnvironment;

#[expect(clippy::disallowed_methods, reason = "this is the boundary to the system")]
impl Environment for SystemEnvironment {
    fn var(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn vars(&self) -> Vec<(OsString, OsString)> {
        std::env::vars_os().collect()
    }
}

/// The value of `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` or `NO_PROXY`, or of the same name in lower case: the first that is
/// not empty.
///
/// A web server hands the `Proxy` header of a request to a CGI program as `HTTP_PROXY`, so there is none in such a program.
///
/// Upstream: `FromEnvironment` in `golang.org/x/net/http/httpproxy`.
pub fn proxy_variable(name: &str, environment: &dyn Environment) -> Option<String> {
    let value = |name: &str| {
        let value = environment.var(name).and_then(|value| value.into_string().ok());
        value.filter(|value| !value.is_empty())
    };
    if name == "HTTP_PROXY" && value("REQUEST_METHOD").is_some() {
        return None;
    }
    value(name).or_else(|| value(&name.to_lowercase()))
}

/// The address of the proxy that a variable names, as [`proxy_variable`] finds it. Without a scheme it is one of plain http.
pub fn proxy_address(name: &str, environment: &dyn Environment) -> Option<String> {
    let address = proxy_variable(name, environment)?;
    Some(if address.contains("://") { address } else { format!("http://{address}") })
}

/// The `NAME=value` list a plugin gets: the host's variables, then the configured ones; the last of a name wins and
/// keeps its place.
///
/// As in Go a name ends at the first `=` that is not its first byte, so an empty name is passed on as `=value`.
pub fn overlay(
    host: impl IntoIterator<Item = (OsString, OsString)>,
    configured: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<OsString> {
    let entries: Vec<OsString> = host.into_iter().chain(configured).map(joined).collect();
    let mut seen = HashSet::new();
    let mut kept: Vec<OsString> =
        entries.into_iter().rev().filter(|entry| seen.insert(name_of(entry).to_vec())).collect();
    kept.reverse();
    kept
}

fn joined((mut entry, value): (OsString, OsString)) -> OsString {
    entry.push("=");
    entry.push(value);
    entry
}

/// The name of a `NAME=value` entry.
pub(crate) fn name_of(entry: &OsStr) -> &[u8] {
    let bytes = entry.as_bytes();
    let end = bytes.iter().skip(1).position(|byte| *byte == b'=').map_or(0, |at| at + 1);
    bytes.get(..end).unwrap_or_default()
}

/// The value of an environment entry whose name says that it is a secret.
pub(crate) fn secret_of(entry: &OsStr) -> Option<Secret<String>> {
    /// `USE_TOKEN_CACHE=1` is a switch, and cutting out every `1` would leave no message standing.
    const SHORTEST: usize = 6;
    let name = name_of(entry);
    let value = entry.as_bytes().get(name.len() + 1..).filter(|value| value.len() >= SHORTEST)?;
    // Headers are where OTEL_EXPORTER_OTLP_HEADERS and its like have keys.
    let speaks = speaks_of_a_secret(&String::from_utf8_lossy(name)) || name.ends_with(b"_HEADERS");
    speaks.then(|| Secret::new(String::from_utf8_lossy(value).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn the_last_of_a_name_wins_and_keeps_its_place() {
        let host = pairs(&[("REGION", "north"), ("HOME", "/root"), ("LANG", "C")]);
        let configured = pairs(&[("HOME", "/tmp"), ("REGION", "south"), ("HOME", "/srv")]);

        assert_eq!(overlay(host, configured), ["LANG=C", "REGION=south", "HOME=/srv"]);
    }

    #[test]
    fn an_empty_name_and_a_name_with_an_equals_sign_are_read_as_go_reads_them() {
        let host = pairs(&[("", "one"), ("A", "1")]);
        let configured = pairs(&[("", "two"), ("A=B", "2"), ("", "x=3")]);

        assert_eq!(overlay(host, configured), ["=two", "A=B=2", "=x=3"]);
    }

    #[test]
    fn names_are_case_sensitive() {
        let kept = overlay(pairs(&[("path", "a")]), pairs(&[("PATH", "b")]));

        assert_eq!(kept, ["path=a", "PATH=b"]);
    }

    #[test]
    fn a_variable_named_like_a_secret_is_one_unless_it_names_a_place_or_is_a_switch() {
        let secret = |entry: &[u8]| {
            let entry: OsString = OsStr::from_bytes(entry).into();
            secret_of(&entry).map(|secret| secret.expose().clone())
        };

        assert_eq!(secret(b"registry_password=hunter2").as_deref(), Some("hunter2"));
        assert_eq!(secret(b"\xff\xff_TOKEN=hunter2").as_deref(), Some("hunter2"));
        assert_eq!(secret(b"AWS_WEB_IDENTITY_TOKEN_FILE=/var/run/token"), None);
        let headers = secret(b"OTEL_EXPORTER_OTLP_HEADERS=x-team=hunter2");
        assert_eq!(headers.as_deref(), Some("x-team=hunter2"));
        assert_eq!(secret(b"AWS_REGION=eu-west-1"), None);
        assert_eq!(secret(b"USE_TOKEN_CACHE=1"), None);
    }
}
