//! Cuts secrets out of what a plugin says.

use std::{collections::BTreeSet, ffi::OsStr, os::unix::ffi::OsStrExt as _};

use keyfob_api::Secret;

use crate::environment::name_of;

/// What stands where a secret was.
pub const REDACTED: &str = "[redacted]";

/// Knows the secrets of one run and cuts them out of text.
///
/// Beside the secrets it is told of it cuts out anything that has the look of a signed token (`eyJ…`), and the single
/// lines of secrets that have several.
#[derive(Debug, Default)]
pub struct Redactor {
    /// Longest first, so that a secret within another does not leave the rest of it standing.
    secrets: Vec<Secret<String>>,
}

impl Redactor {
    /// A redactor for these secrets.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret<String>>) -> Self {
        let texts: BTreeSet<&str> =
            secrets.into_iter().flat_map(|secret| parts(secret.expose())).collect();
        let mut secrets: Vec<Secret<String>> = texts.into_iter().map(Secret::from).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        Self { secrets }
    }

    /// The text without its secrets.
    pub fn redact(&self, text: &str) -> String {
        let cut = self
            .secrets
            .iter()
            .fold(text.to_owned(), |text, secret| text.replace(secret.expose().as_str(), REDACTED));
        without_tokens(&cut)
    }

    /// The length of the longest secret: how much of a cut-off beginning may still be the end of one.
    pub(crate) fn longest(&self) -> usize {
        self.secrets.first().map_or(0, |secret| secret.expose().len())
    }
}

/// A secret, and each line of it that is long enough to be one.
fn parts(secret: &str) -> impl Iterator<Item = &str> {
    let lines =
        secret.lines().map(str::trim).filter(|line| line.len() >= 8 && !line.starts_with("-----"));
    std::iter::once(secret.trim()).chain(lines).filter(|part| !part.is_empty())
}

/// Cuts out whatever looks like a JSON Web Token, whole or beheaded at its end.
fn without_tokens(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("eyJ") {
        let (before, token) = rest.split_at(at);
        let end = token
            .find(|c: char| !c.is_ascii_alphanumeric() && !"-_.=".contains(c))
            .unwrap_or(token.len());
        kept.push_str(before);
        let (token, after) = token.split_at(end);
        kept.push_str(if token.len() >= 20 { REDACTED } else { token });
        rest = after;
    }
    kept + rest
}

/// The value of an environment entry whose name says that it is a secret.
pub(crate) fn secret_of(entry: &OsStr) -> Option<Secret<String>> {
    const WORDS: [&str; 7] =
        ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PRIVATE_KEY", "API_KEY"];
    const PLACES: [&str; 4] = ["_FILE", "_PATH", "_DIR", "_URI"];
    let name = String::from_utf8_lossy(name_of(entry)).to_ascii_uppercase();
    let value = entry.as_bytes().get(name.len() + 1..)?;
    let speaks = WORDS.iter().any(|word| name.contains(word))
        && !PLACES.iter().any(|end| name.ends_with(end));
    speaks.then(|| Secret::new(String::from_utf8_lossy(value).into_owned()))
}

/// The longer words of a plugin's answer: what it prints on stdout must not come back through its stderr.
pub(crate) fn words_of(stdout: &[u8]) -> Vec<Secret<String>> {
    String::from_utf8_lossy(stdout)
        .split(|c: char| c.is_whitespace() || "\"'{}[],".contains(c))
        .filter(|word| word.len() >= 16)
        .map(Secret::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(secrets: &[&str], text: &str) -> String {
        let secrets: Vec<Secret<String>> = secrets.iter().copied().map(Secret::from).collect();
        Redactor::new(&secrets).redact(text)
    }

    #[test]
    fn every_occurrence_of_a_secret_is_cut_out() {
        assert_eq!(
            redacted(&["hunter2"], "hunter2 is not hunter2!"),
            "[redacted] is not [redacted]!"
        );
    }

    #[test]
    fn a_secret_within_another_does_not_leave_the_rest_standing() {
        assert_eq!(redacted(&["hunter", "hunter2000"], "got hunter2000"), "got [redacted]");
    }

    #[test]
    fn an_empty_secret_redacts_nothing() {
        assert_eq!(redacted(&["", "\n"], "all is well\n"), "all is well\n");
    }

    #[test]
    fn each_line_of_a_key_is_cut_out() {
        let key = "-----BEGIN KEY-----\nMIIBOzCB46AD\nAgECAggY6FM2\n-----END KEY-----\n";

        assert_eq!(redacted(&[key], "bad line: AgECAggY6FM2."), "bad line: [redacted].");
    }

    #[test]
    fn a_token_is_recognised_by_its_look() {
        let text = "token eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln refused, eyJ is not one";

        assert_eq!(redacted(&[], text), "token [redacted] refused, eyJ is not one");
    }

    #[test]
    fn a_variable_named_like_a_secret_is_one_unless_it_names_a_place() {
        let secret =
            |entry: &str| secret_of(OsStr::new(entry)).map(|secret| secret.expose().clone());

        assert_eq!(secret("registry_password=hunter2").as_deref(), Some("hunter2"));
        assert_eq!(secret("AWS_WEB_IDENTITY_TOKEN_FILE=/var/run/token"), None);
        assert_eq!(secret("AWS_REGION=eu-west-1"), None);
    }

    #[test]
    fn only_the_longer_words_of_an_answer_count() {
        let words = words_of(br#"{"username":"ada","password":"correct-horse-battery"}"#);

        assert_eq!(words, [Secret::from("correct-horse-battery")]);
    }
}
