//! How a registry says where its tokens are: `Www-Authenticate: Bearer realm="…",service="…"`.
//!
//! The grammar is RFC 9110's. Upstream's reader, which splits at `="`, panics at `Basic` and at an unquoted last parameter,
//! and takes the rest of the line for an unquoted first one.

use std::collections::BTreeMap;

use thiserror::Error;

/// Where a token is to be had, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Challenge {
    pub(super) realm: String,
    pub(super) service: String,
}

/// Why an answer is no challenge.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum ChallengeError {
    #[error("registry did not issue a valid AAD challenge, status: {0}")]
    Status(u16),
    #[error("challenge response does not contain header 'Www-Authenticate'")]
    NoHeader,
    #[error("registry did not issue a valid AAD challenge, authenticate header [{0}]")]
    Several(String),
    #[error("Www-Authenticate: expected realm: Bearer, actual: {0}")]
    OtherScheme(String),
    #[error("Www-Authenticate: the parameters are not a list of name=\"value\"")]
    Malformed,
    #[error("Www-Authenticate: missing header \"{0}\"")]
    Missing(&'static str),
}

impl Challenge {
    /// Reads the status and the values of `Www-Authenticate`.
    pub(super) fn read(status: u16, headers: &[String]) -> Result<Self, ChallengeError> {
        if status != 401 {
            return Err(ChallengeError::Status(status));
        }
        match headers {
            [] => Err(ChallengeError::NoHeader),
            [header] => Self::parse(header),
            several => Err(ChallengeError::Several(shown(&several.join(", ")))),
        }
    }

    fn parse(header: &str) -> Result<Self, ChallengeError> {
        let (scheme, rest) = header.trim().split_once([' ', '\t']).unwrap_or((header.trim(), ""));
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(ChallengeError::OtherScheme(shown(&scheme.to_lowercase())));
        }
        let mut parameters = parameters(rest).ok_or(ChallengeError::Malformed)?;
        let mut required = |name| {
            let value = parameters.remove(name).filter(|value| !value.is_empty());
            value.ok_or(ChallengeError::Missing(name))
        };
        Ok(Self { service: required("service")?, realm: required("realm")? })
    }
}

/// A stranger's words, short enough for a line of a log.
fn shown(text: &str) -> String {
    const LONGEST: usize = 200;
    text.chars().take(LONGEST).collect()
}

/// `name=value, name="value"`: at least one, each once, the names in lower case. A second challenge in the line is no list.
fn parameters(mut text: &str) -> Option<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    loop {
        text = text.trim_start_matches([' ', '\t', ',']);
        if text.is_empty() {
            break;
        }
        let (name, rest) = token(text)?;
        let (value, rest) = value(blank(rest).strip_prefix('=').map(blank)?)?;
        if found.insert(name.to_lowercase(), value).is_some() {
            return None;
        }
        text = blank(rest);
        if !(text.is_empty() || text.starts_with(',')) {
            return None;
        }
    }
    (!found.is_empty()).then_some(found)
}

fn value(text: &str) -> Option<(String, &str)> {
    match text.strip_prefix('"') {
        Some(quoted) => end_of_quotes(quoted),
        None => token(text).map(|(value, rest)| (value.to_owned(), rest)),
    }
}

fn end_of_quotes(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.chars();
    loop {
        match characters.next()? {
            '"' => return Some((value, characters.as_str())),
            '\\' => value.push(characters.next()?),
            other => value.push(other),
        }
    }
}

fn token(text: &str) -> Option<(&str, &str)> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let (token, rest) = text.split_at(text.find(|c| !allowed(c)).unwrap_or(text.len()));
    (!token.is_empty()).then_some((token, rest))
}

fn blank(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REALM: &str = "https://test.azurecr.io/oauth2/token";

    fn read(status: u16, headers: &[&str]) -> Result<(String, String), String> {
        let headers: Vec<String> = headers.iter().map(|header| (*header).to_owned()).collect();
        let challenge = Challenge::read(status, &headers).map_err(|error| error.to_string())?;
        Ok((challenge.realm, challenge.service))
    }

    #[test]
    fn a_challenge_names_a_realm_and_a_service() {
        for header in [
            format!(r#"Bearer realm="{REALM}",service="test.azurecr.io""#),
            format!(r#"bearer  service="test.azurecr.io" , realm = "{REALM}" "#),
            format!(r#"Bearer service=test.azurecr.io,realm="{REALM}""#),
            format!(r#"Bearer realm="{REALM}",service=test.azurecr.io"#),
            format!(r#"Bearer ,Realm="{REALM}",, SERVICE="test\.azurecr.io",scope="a,b=\"c\"""#),
        ] {
            let expected = (REALM.to_owned(), "test.azurecr.io".to_owned());
            assert_eq!(read(401, &[&header]), Ok(expected), "{header}");
        }
    }

    #[test]
    fn anything_else_is_an_error_that_says_what() {
        let not_ours = "registry did not issue a valid AAD challenge";
        let other = "Www-Authenticate: expected realm: Bearer, actual:";
        let missing = |what: &str| format!("Www-Authenticate: missing header \"{what}\"");
        let malformed = ChallengeError::Malformed.to_string();
        let rows: &[(u16, &[&str], String)] = &[
            (200, &[], format!("{not_ours}, status: 200")),
            (401, &[], "challenge response does not contain header 'Www-Authenticate'".into()),
            (401, &["a", "b"], format!("{not_ours}, authenticate header [a, b]")),
            (401, &[r#"Auth realm="x",service="y""#], format!("{other} auth")),
            (401, &["Basic"], format!("{other} basic")),
            (401, &[""], format!("{other} ")),
            (401, &[r#"Bearer realm="test.azurecr.io",service="""#], missing("service")),
            (401, &[r#"Bearer service="x""#], missing("realm")),
            (401, &["Bearer"], malformed.clone()),
            (401, &[r#"Bearer realm="https://x"#], malformed.clone()),
            (401, &["Bearer realm=https://x/y,service=x"], malformed.clone()),
            (401, &[r#"Bearer realm="x",service="y",realm="z""#], malformed.clone()),
            (401, &[r#"Bearer realm="x",service="y", Basic realm="z""#], malformed),
        ];
        for (status, headers, error) in rows {
            assert_eq!(read(*status, headers).as_ref(), Err(error), "{headers:?}");
        }
    }

    #[test]
    fn parameters_are_read_one_by_one() {
        let found = |text: &str| {
            let found =
                parameters(text)?.into_iter().map(|(name, value)| format!("{name}:{value}"));
            Some(found.collect::<Vec<_>>().join(" "))
        };
        let rows = [
            ("", None),
            (r#"a="b",c="d""#, Some("a:b c:d")),
            (r#"a = "b", c ="d" "#, Some("a:b c:d")),
            (r#"a="",c="d" "#, Some("a: c:d")),
            ("a=b", Some("a:b")),
            ("a=", None),
            ("a", None),
            ("=b", None),
        ];
        for (text, expected) in rows {
            assert_eq!(found(text).as_deref(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic(header in r#"(Bearer |Basic)?[a-c="\\, \tä-]{0,24}"#) {
            let _read = read(401, &[&header]);
        }

        #[test]
        fn what_is_quoted_is_read_back(value in ".*") {
            let quoted = value.replace('\\', r"\\").replace('"', r#"\""#);
            let found = parameters(&format!(r#"a="{quoted}""#)).unwrap();
            prop_assert_eq!(&found["a"], &value);
        }
    }
}
