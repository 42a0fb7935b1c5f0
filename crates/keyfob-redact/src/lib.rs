#![doc = include_str!("../README.md")]

mod decoded;
mod forms;
mod looks;
mod names;
mod printed;
mod set;
mod view;
mod widthless;

use std::{collections::BTreeSet, ops::Range, sync::OnceLock};

use self::{
    forms::{Depth, Needles},
    printed::Texts,
    view::View,
};
use keyfob_document::Secret;

pub use self::{names::speaks_of_a_secret, set::SecretSet};

/// What stands where a secret was.
pub const REDACTED: &str = "[redacted]";

/// A line of a secret that is shorter than this gives little away, and looking for it would ruin the text.
const SHORTEST_LINE: usize = 8;

/// Knows the secrets of one exchange and cuts them out of text.
///
/// ```
/// use keyfob_document::Secret;
/// use keyfob_redact::Redactor;
///
/// let redactor = Redactor::new([&Secret::from("correct-horse")]);
/// let said = "Basic YWRhOmNvcnJlY3QtaG9yc2U= is wrong; ?next=correct%2Dhorse; password=hunter2";
/// assert_eq!(
///     redactor.redact(said),
///     "Basic [redacted] is wrong; ?next=[redacted]; password=[redacted]"
/// );
/// assert_eq!(redactor.redact("the token is expired"), "the token is expired");
/// ```
#[derive(Debug, Default)]
pub struct Redactor {
    known: Vec<Secret<String>>,
    printed: Printed,
    /// What is looked for; made when there is something to look through.
    index: OnceLock<Index>,
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

#[derive(Debug, Default)]
struct Index {
    known: Needles,
    printed: Needles,
    words: Vec<Secret<Vec<u8>>>,
}

impl Redactor {
    /// A redactor for these secrets, and for each line of those that have several.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret<String>>) -> Self {
        let pieces = secrets.into_iter().flat_map(|secret| pieces(secret.expose()));
        Self { known: distinct(pieces), ..Self::default() }
    }

    /// One that knows also what was printed on stdout.
    #[must_use]
    pub fn knowing(&self, stdout: &[u8]) -> Self {
        const MOST: usize = 1_000;
        const LARGEST: usize = 1 << 20;
        if stdout.len() > LARGEST {
            return Self { printed: Printed::TooMuch, ..Self::default() };
        }
        let texts = Texts::of(stdout);
        let others = distinct(texts.others.iter().flat_map(|text| pieces(text.expose())));
        let secrets = texts.secrets.iter().chain(&self.known);
        let printed = if others.len() + texts.secrets.len() > MOST {
            Printed::TooMuch
        } else {
            Printed::Pieces(others)
        };
        Self { printed, ..Self::new(secrets) }
    }

    /// The text without its secrets.
    pub fn redact(&self, text: &str) -> String {
        self.redact_after(text, 0)
    }

    /// The text without its first bytes, and without its secrets, also those that begin in the first bytes.
    pub fn redact_after(&self, text: &str, dropped: usize) -> String {
        if matches!(self.printed, Printed::TooMuch) {
            return REDACTED.into();
        }
        let mut hidden = self.hidden(text);
        hidden.sort_by_key(|range| range.start);
        let (mut shown, mut done) = (String::new(), text.ceil_char_boundary(dropped));
        for range in hidden {
            let start = text.floor_char_boundary(range.start);
            // Overlapping and adjacent secrets are one.
            if start > done || (start == done && !shown.ends_with(REDACTED)) {
                shown.push_str(text.get(done..start).unwrap_or_default());
                shown.push_str(REDACTED);
            }
            done = done.max(text.ceil_char_boundary(range.end));
        }
        shown + text.get(done..).unwrap_or_default()
    }

    /// How long a known secret may be in a text, in its longest usual form: base64 of `\u0068` for each byte. So much of a text without its
    /// beginning may be the end of one.
    pub fn longest(&self) -> usize {
        const LONGEST_ESCAPE: usize = 8;
        let longest = self.known.iter().map(|secret| secret.expose().len()).max();
        longest.unwrap_or_default().saturating_mul(LONGEST_ESCAPE)
    }

    /// Where there are secrets, in no order.
    fn hidden(&self, text: &str) -> Vec<Range<usize>> {
        let index = self.index.get_or_init(|| self.index());
        let (mut hidden, mut encoded) = (Vec::new(), Vec::new());
        let views = View::of(text.as_bytes()).unescaped();
        for view in &views {
            let told = names::values(&view.bytes).into_iter().chain(looks::secrets(&view.bytes));
            let words = index.words.iter().flat_map(|word| words(&view.bytes, word.expose()));
            hidden.extend(told.chain(words).filter_map(|part| view.origin(&part)));
            index.find_in(view, &mut hidden, &mut encoded);
        }
        if !index.known.is_empty() {
            for view in decoded::decoded(&views) {
                index.find_encoded(&view, &mut encoded);
            }
        }
        hidden.extend(widened(text, encoded));
        hidden
    }

    fn index(&self) -> Index {
        let bytes = |secret: &'_ Secret<String>| Secret::new(secret.expose().as_bytes().to_vec());
        let printed = match &self.printed {
            Printed::Pieces(pieces) => pieces.as_slice(),
            Printed::TooMuch => &[],
        };
        let is_short = |secret: &&Secret<String>| secret.expose().len() < forms::SHORTEST;
        let exposed = |secrets: &[Secret<String>], depth| {
            let secrets: Vec<_> = secrets.iter().map(bytes).collect();
            Needles::new(secrets.iter().map(|secret| secret.expose().as_slice()), depth)
        };
        Index {
            known: exposed(&self.known, Depth::Nested),
            printed: exposed(printed, Depth::Once),
            words: self.known.iter().filter(is_short).flat_map(forms::short).collect(),
        }
    }
}

impl Index {
    /// Finds needles in what a view looks like without white space, as hexadecimal digits and as numbers.
    fn find_in(
        &self,
        view: &View,
        hidden: &mut Vec<Range<usize>>,
        encoded: &mut Vec<Range<usize>>,
    ) {
        for (needles, depth) in [(&self.known, Depth::Nested), (&self.printed, Depth::Once)] {
            if needles.is_empty() {
                continue;
            }
            for view in [view.compact(), view.hex_digits(), view.numbers()] {
                for found in needles.find(&view.bytes, depth) {
                    let part = view.origin(&found.at);
                    if found.is_encoded { &mut *encoded } else { &mut *hidden }.extend(part);
                }
            }
        }
    }

    /// Finds known secrets in what a part of the text stands for.
    fn find_encoded(&self, view: &View, encoded: &mut Vec<Range<usize>>) {
        for view in [view.compact(), view.hex_digits(), view.numbers()] {
            let found = self.known.find(&view.bytes, Depth::Nested);
            encoded.extend(found.iter().filter_map(|found| view.origin(&found.at)));
        }
    }
}

/// Parts that are encoded, each with all that was encoded together with it. Whatever lies within the one before is left out, so
/// that no part of the text is looked at twice.
fn widened(text: &str, mut parts: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+-_%".contains(*byte);
    let bytes = text.as_bytes();
    parts.sort_unstable_by_key(|part| (part.start, part.end));
    let (mut wide, mut done) = (Vec::new(), 0);
    for part in parts.into_iter().filter(|part| part.start <= part.end) {
        if part.end <= done {
            continue;
        }
        let start = part.start.max(done);
        let before = bytes.get(done..start).unwrap_or_default();
        let before = before.iter().rev().take_while(is_part).count();
        let behind = bytes.get(part.end..).unwrap_or_default();
        let behind = behind.iter().take_while(|byte| is_part(byte) || **byte == b'=').count();
        done = part.end + behind;
        wide.push(start - before..done);
    }
    wide
}

/// Where a word stands by itself.
fn words<'a>(text: &'a [u8], word: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
    let is_joint = |inside: Option<&u8>, outside: Option<&u8>| {
        let is_letter = |byte: &u8| byte.is_ascii_alphanumeric();
        inside.is_some_and(is_letter) && outside.is_some_and(is_letter)
    };
    memchr::memmem::find_iter(text, word).filter_map(move |start| {
        let end = start + word.len();
        let before = start.checked_sub(1).and_then(|before| text.get(before));
        let is_part = is_joint(word.first(), before) || is_joint(word.last(), text.get(end));
        (!is_part).then_some(start..end)
    })
}

/// A secret, and each line of it that is long enough to be one.
fn pieces(secret: &str) -> impl Iterator<Item = &str> {
    let lines = secret.lines().map(str::trim);
    let long = lines.filter(|line| line.len() >= SHORTEST_LINE && !line.starts_with("-----"));
    std::iter::once(secret.trim()).chain(long).filter(|piece| !piece.is_empty())
}

fn distinct<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<Secret<String>> {
    texts.collect::<BTreeSet<&str>>().into_iter().map(Secret::from).collect()
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
    }

    #[test]
    fn a_short_secret_is_hidden_where_it_is_a_word() {
        let said = "pw is wrong: not pw, but pwd; cHc= and 7077 too";

        assert_eq!(
            redacted(&["pw"], said),
            "[redacted] is wrong: not [redacted], but pwd; [redacted]= and [redacted] too"
        );
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
            ("token: plain-yaml # note\n", "tried plain-yaml", "tried [redacted]"),
            ("token: plain-yaml\n", "tried plain-yaml", "tried [redacted]"),
            (r#"{"username":"ada"}"#, "ada is unknown", "ada is unknown"),
        ];
        for (stdout, said, shown) in cases {
            assert_eq!(after_printing(stdout, said), shown, "{stdout}");
        }
    }

    #[test]
    fn what_was_printed_as_yaml_is_recognised() {
        let answers = [
            "auth: {r.io: {username: ada, password: 'it''s a secret'}}",
            "auth:\n  r.io:\n    password: \"it's\\x20a \\u0073ecret\"   # hers\n",
            "auth:\n  r.io:\n    password: >-\n      it's a\n      secret\n    username: ada\n",
            "auth:\n  r.io:\n    password: |\n      it's a secret\n",
            "auth:\n  r.io:\n    password: it's a secret # and hers\n",
            "secret: &s it's a secret\nauth:\n  r.io: {password: *s}\n",
            "---\nkind: A\n---\npassword: it's a secret\n",
            "auth:\n  r.io:\n    password: 'it''s a secret'\n  broken: [\n",
        ];
        for stdout in answers {
            let shown = after_printing(stdout, "sending it's a secret.");
            assert_eq!(shown, "sending [redacted].", "{stdout}");
        }
        let short = after_printing("password: hunter2\n", "got hunter2 for the password");
        assert_eq!(short, "got [redacted] for the password");
        let key = after_printing(r#"{"password":"hunter2"}"#, "password=hunter2");
        assert_eq!(key, "password=[redacted]");
    }

    #[test]
    fn more_than_can_be_looked_for_hides_everything() {
        let secrets: Vec<String> = (0..2_000).map(|n| format!("\"secret-number-{n}\"")).collect();

        assert_eq!(after_printing(&secrets.concat(), "anything at all"), REDACTED);
    }
}
