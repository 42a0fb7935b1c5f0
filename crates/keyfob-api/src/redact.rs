//! Cuts secrets out of what a plugin says.
//!
//! A secret cannot be recognised in every disguise. What is looked for: the secrets handed to the plugin, whole or cut
//! off at the end of the text; whatever looks like a signed token; and, once the plugin has ended, what it printed on
//! stdout.

use std::{collections::BTreeSet, ops::Range};

use crate::{
    Secret,
    document::{Document, Value},
};

/// What stands where a secret was.
pub const REDACTED: &str = "[redacted]";

/// A piece of a secret that is shorter than this gives little away, and looking for it would ruin the text.
const SHORTEST_PIECE: usize = 8;

/// Knows the secrets of one run and cuts them out of text.
#[derive(Debug, Default)]
pub struct Redactor {
    known: Vec<Secret<String>>,
    printed: Printed,
}

/// What the plugin printed, as far as it is worth hiding.
#[derive(Debug)]
enum Printed {
    Pieces(Vec<Secret<String>>),
    /// Looking for each would take too long; nothing is shown.
    TooMuch,
}

impl Default for Printed {
    fn default() -> Self {
        Self::Pieces(Vec::new())
    }
}

impl Redactor {
    /// A redactor for these secrets, and for each line of those that have several.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret<String>>) -> Self {
        let pieces = secrets.into_iter().flat_map(|secret| pieces(secret.expose()));
        Self { known: distinct(pieces), printed: Printed::default() }
    }

    /// One that knows also what was printed on stdout.
    #[must_use]
    pub fn knowing(&self, stdout: &[u8]) -> Self {
        const MOST: usize = 1_000;
        let printed = printed_in(&String::from_utf8_lossy(stdout));
        let printed = distinct(printed.iter().flat_map(|text| pieces(text.expose())));
        let printed =
            if printed.len() > MOST { Printed::TooMuch } else { Printed::Pieces(printed) };
        Self { known: self.known.clone(), printed }
    }

    /// The text without its secrets.
    pub fn redact(&self, text: &str) -> String {
        self.redact_after(text, 0)
    }

    /// The text without its first bytes, and without its secrets, also those that begin in the first bytes.
    pub fn redact_after(&self, text: &str, dropped: usize) -> String {
        let Printed::Pieces(printed) = &self.printed else { return REDACTED.into() };
        let mut hidden: Vec<Range<usize>> = self
            .known
            .iter()
            .chain(printed)
            .flat_map(|secret| text.match_indices(secret.expose().as_str()))
            .map(|(at, secret)| at..at + secret.len())
            .chain(tokens(text))
            .chain(self.cut_off_at_the_end(text))
            .collect();
        hidden.sort_by_key(|range| range.start);
        let (mut shown, mut done) = (String::new(), text.ceil_char_boundary(dropped));
        for range in hidden {
            // Overlapping secrets are one.
            if range.start >= done {
                shown.push_str(text.get(done..range.start).unwrap_or_default());
                shown.push_str(REDACTED);
            }
            done = done.max(range.end);
        }
        shown + text.get(done..).unwrap_or_default()
    }

    /// The length of the longest secret handed over: how much of a text without its beginning may be the end of one.
    pub fn longest(&self) -> usize {
        self.known.iter().map(|secret| secret.expose().len()).max().unwrap_or_default()
    }

    /// The beginning of a secret with which the text ends: a killed plugin may have been in the middle of it.
    fn cut_off_at_the_end(&self, text: &str) -> Option<Range<usize>> {
        let cut = |secret: &Secret<String>| {
            (SHORTEST_PIECE..secret.expose().len())
                .rev()
                .filter_map(|length| secret.expose().get(..length))
                .find(|beginning| text.ends_with(beginning))
                .map(str::len)
        };
        let longest = self.known.iter().filter_map(cut).max()?;
        Some(text.len() - longest..text.len())
    }
}

/// A secret, and each line of it that is long enough to be one.
fn pieces(secret: &str) -> impl Iterator<Item = &str> {
    let lines = secret.lines().map(str::trim);
    let long = lines.filter(|line| line.len() >= SHORTEST_PIECE && !line.starts_with("-----"));
    std::iter::once(secret.trim()).chain(long).filter(|piece| !piece.is_empty())
}

fn distinct<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<Secret<String>> {
    texts.collect::<BTreeSet<&str>>().into_iter().map(Secret::from).collect()
}

/// Where something looks like a JSON Web Token, whole or cut off at its end.
fn tokens(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let start = from + text.get(from..)?.find("eyJ")?;
            let token = text.get(start..)?;
            let in_token = |c: char| c.is_ascii_alphanumeric() || "-_.=".contains(c);
            let length = token.find(|c| !in_token(c)).unwrap_or(token.len());
            // Another one inside it would end where it ends.
            from = start + length;
            if length >= 20 {
                return Some(start..from);
            }
        }
    })
}

/// The strings of an answer, and its longer words in case it is none that can be read.
fn printed_in(stdout: &str) -> Vec<Secret<String>> {
    let literals = literals(stdout).filter(|text| text.expose().len() >= SHORTEST_PIECE);
    let words = stdout
        .split(|c: char| c.is_whitespace() || "\"'{}[],".contains(c))
        .filter(|word| word.len() >= 2 * SHORTEST_PIECE);
    let values = stdout
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(_, value)| value.trim())
        .filter(|value| value.len() >= SHORTEST_PIECE);
    literals.chain(words.chain(values).map(Secret::from)).collect()
}

/// What stands between double quotes, with its escapes undone.
fn literals(text: &str) -> impl Iterator<Item = Secret<String>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, inside) = rest.split_once('"')?;
        let end = end_of_literal(inside);
        let literal = Secret::new(format!("\"{}\"", inside.get(..end).unwrap_or_default()));
        rest = inside.get(end + 1..).unwrap_or_default();
        let read = Document::read_json(literal.expose().as_bytes()).ok();
        Some(read.and_then(|document| match &document.root.value {
            Value::String(text) => Some(text.clone()),
            _ => None,
        }))
    })
    .flatten()
}

/// Where the closing quote is, or would be.
fn end_of_literal(inside: &str) -> usize {
    let mut escaped = false;
    let closes = |byte: u8| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    };
    inside.bytes().position(closes).unwrap_or(inside.len())
}

/// Whether the name of a variable, a flag or a field says that its value is a secret: `API_TOKEN`, `--client-secret`.
///
/// A name that ends in a place (`TOKEN_FILE`) speaks of where the secret is, not of the secret.
pub fn speaks_of_a_secret(name: &str) -> bool {
    const WORDS: [&str; 7] = ["token", "secret", "pass", "pwd", "auth", "credential", "apikey"];
    const PLACES: [&str; 6] = ["-file", "-path", "-dir", "-uri", "-url", "-sock"];
    let name = name.to_ascii_lowercase().replace('_', "-").replace("author", "");
    let is_a_place = PLACES.iter().any(|end| name.ends_with(end));
    let speaks = WORDS.iter().any(|word| name.contains(word)) || name.ends_with("-key");
    speaks && !is_a_place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor(secrets: &[&str]) -> Redactor {
        Redactor::new(&secrets.iter().copied().map(Secret::from).collect::<Vec<_>>())
    }

    fn redacted(secrets: &[&str], text: &str) -> String {
        redactor(secrets).redact(text)
    }

    fn after_printing(stdout: &str, text: &str) -> String {
        Redactor::default().knowing(stdout.as_bytes()).redact(text)
    }

    #[test]
    fn every_occurrence_of_a_secret_is_cut_out() {
        assert_eq!(
            redacted(&["hunter2"], "hunter2 is not hunter2!"),
            "[redacted] is not [redacted]!"
        );
    }

    #[test]
    fn secrets_within_and_over_each_other_leave_nothing_standing() {
        assert_eq!(redacted(&["hunter", "hunter2000"], "got hunter2000"), "got [redacted]");
        let both = ["abcdef-ghijkl", "ghijkl-mnopqr"];
        assert_eq!(redacted(&both, "got abcdef-ghijkl-mnopqr."), "got [redacted].");
        assert_eq!(redacted(&["e", "r"], "see"), "s[redacted][redacted]");
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
    fn a_secret_cut_off_in_its_middle_is_cut_out_too() {
        let secret = ["correct-horse-battery"];

        assert_eq!(redacted(&secret, "trying correct-horse"), "trying [redacted]");
        assert_eq!(redacted(&secret, "trying correct"), "trying correct", "too short to tell");
        assert_eq!(redactor(&secret).redact_after("xx correct-horse-battery!", 6), "!");
    }

    #[test]
    fn what_was_printed_is_recognised_with_its_escapes_undone() {
        let cases = [
            (r#"{"password":"abc\u0026defgh"}"#, "no abc&defgh here", "no [redacted] here"),
            (r#"{"key":"-----BEGIN\nMIIBOzCB46AD\n"}"#, "at MIIBOzCB46AD", "at [redacted]"),
            (r#"{"password":"two words"}"#, "tried two words", "tried [redacted]"),
            (r#"{"password":"half an ans"#, "tried half an ans", "tried [redacted]"),
            ("token: plain-yaml # note\n", "tried plain-yaml", "tried plain-yaml"),
            ("token: plain-yaml\n", "tried plain-yaml", "tried [redacted]"),
            (r#"{"username":"ada"}"#, "ada is unknown", "ada is unknown"),
        ];
        for (stdout, said, shown) in cases {
            assert_eq!(after_printing(stdout, said), shown, "{stdout}");
        }
    }

    #[test]
    fn more_than_can_be_looked_for_hides_everything() {
        let secrets: Vec<String> = (0..2_000).map(|n| format!("\"secret-number-{n}\"")).collect();

        assert_eq!(after_printing(&secrets.concat(), "anything at all"), REDACTED);
    }
}
