//! YAML text to tree, as Kubernetes reads YAML: resolve by YAML 1.1, then convert to JSON.
//!
//! The stages, one file each: bytes to characters (`input`), characters to tokens (`scanner`, with `token`, `scalar` and `name`),
//! tokens to events (`parser`), events to nodes (`compose`), nodes to the tree (`convert`, with `map` and `resolve`). The scanner
//! is our own because its input is untrusted and its rules are particular: of the crates at hand, the libyaml port
//! panics on short texts (`[!a,b]`, a block scalar without a last line break) and the YAML 1.2 parser answers
//! differently too often.
//!
//! Upstream: `sigs.k8s.io/yaml` 1.6 over `go.yaml.in/yaml/v2` 2.4, a port of libyaml.
//! Differs: keys that are equal only after conversion to strings (`1` and `"1"`): the later one wins (upstream: random).
//! Differs: aliases may not repeat more than 32 MiB of text, nor cause more than four million steps; of a long tag prefix
//! only the beginning counts.
//! Differs: a document has at most [`super::MAX_VALUES`] values, those that aliases repeat included.
//! Differs: of repeated keys the first hundred are listed, and the others counted.
//! Differs: bytes of a `!!binary` value that are no text become U+FFFD itself (upstream writes its escape).
//! Differs: a byte order mark inside the text is always content (upstream: sometimes skips a character instead).
//! Differs: errors have line and column, and never quote the text.

mod compose;
mod convert;
mod input;
mod map;
mod name;
mod parser;
mod resolve;
mod scalar;
mod scanner;
mod token;
mod words;

use thiserror::Error;

use super::{Document, Position};
use crate::{Secret, go_quote::Quoted};

pub(super) fn read(text: &[u8], max_values: usize) -> Result<Document, YamlError> {
    let composed = compose::compose(text, max_values)?;
    convert::convert(&composed, max_values)
}

/// A key that a mapping sets twice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DuplicateKey {
    /// The line of the second value.
    pub line: usize,
    /// Where the second key starts.
    pub at: Position,
    /// The key in Go's notation: strings in double quotes, numbers and booleans bare.
    pub key: Secret<String>,
}

impl DuplicateKey {
    /// What Go says about it.
    pub fn message(&self) -> String {
        format!("line {}: key {} already set in map", self.line, self.key.expose())
    }

    fn of_text(line: usize, at: Position, key: &str) -> Self {
        Self { line, at, key: Quoted(key).to_string().into() }
    }
}

/// Why a text is not YAML that Kubernetes accepts, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("invalid YAML at {at}: {problem}")]
#[non_exhaustive]
pub struct YamlError {
    /// What is wrong.
    pub problem: YamlProblem,
    /// Where it is wrong.
    pub at: Position,
}

/// What can be wrong with a YAML text. Nothing of the text is quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum YamlProblem {
    /// The bytes are not text, or hold control characters.
    #[error("{0}")]
    Encoding(&'static str),
    /// The text breaks YAML's grammar.
    #[error("{0}")]
    Syntax(&'static str),
    /// A `:` and a value stand where no field can begin, such as a second one on a line.
    #[error("a `:` is not allowed here")]
    UnexpectedColon,
    /// The name of a field has no `:` behind it.
    #[error("the name of a field has no `:` behind it")]
    MissingColon,
    /// A text in quotes does not end.
    #[error("the quote that opens here is never closed")]
    UnclosedQuote,
    /// A tab stands where only spaces may indent.
    #[error("a tab stands where only spaces may indent")]
    TabInIndentation,
    /// A `%YAML` line names another version than 1.1.
    #[error("a version of YAML other than 1.1")]
    UnsupportedVersion,
    /// Lists and mappings lie too deep in each other.
    #[error("exceeded max depth of 10000")]
    TooDeep,
    /// There are too many values.
    #[error("more than {0} values")]
    TooManyValues(usize),
    /// An alias names an anchor that does not come before it.
    #[error("unknown anchor referenced")]
    UnknownAnchor,
    /// An alias stands inside what it names.
    #[error("anchor value contains itself")]
    SelfReference,
    /// Most of the document would come from repeating aliases.
    #[error("document contains excessive aliasing")]
    ExcessiveAliasing,
    /// A merge key (`<<`) has something else than mappings.
    #[error("map merge requires map or sequence of maps as the value")]
    MergeOfNonMap,
    /// A key is a list or a mapping.
    #[error("invalid map key")]
    InvalidKey,
    /// A key is null, or a number that JSON keys cannot be made of.
    #[error("unsupported map key")]
    UnsupportedKey,
    /// A tag and its value contradict each other.
    #[error("value does not fit its tag")]
    TagMismatch,
    /// A `!!binary` value is not base64.
    #[error("!!binary value contains invalid base64 data")]
    Base64,
    /// A number is infinite or not a number, which JSON cannot say.
    #[error("unsupported value: not a finite number")]
    NotFinite,
}

/// A place while scanning; everything counts from zero.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    index: usize,
    line: usize,
    column: usize,
}

impl Mark {
    fn position(self) -> Position {
        Position { line: self.line + 1, column: self.column + 1 }
    }

    fn error(self, problem: YamlProblem) -> YamlError {
        YamlError { problem, at: self.position() }
    }

    fn syntax(self, problem: &'static str) -> YamlError {
        self.error(YamlProblem::Syntax(problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MAX_VALUES, RawJson};

    fn read(text: &[u8]) -> Result<Document, YamlError> {
        super::read(text, MAX_VALUES)
    }

    fn json(text: &str) -> String {
        match read(text.as_bytes()) {
            Ok(document) => RawJson::from(&document.root).as_str().to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn scalars_resolve_by_yaml_1_1() {
        let cases = [
            ("[y, No, on, OFF, true]", "[true,false,true,false,true]"),
            ("[~, null, Null, ]", "[null,null,null]"),
            ("[0x10, 0o17, 017, 08, 0b11, 1_000, -0]", "[16,15,15,8,3,1000,0]"),
            (
                "[1e3, 1e21, 1e-7, .5, 12345678901234567890, 1:30]",
                "[1000,1e+21,1e-7,0.5,12345678901234567890,\"1:30\"]",
            ),
            (
                "[2030-01-01, 'yes', !!str 5, !!int \"7\", !x 1]",
                "[\"2030-01-01\",\"yes\",\"5\",7,\"1\"]",
            ),
            ("!!binary aGVsbG8=", "\"hello\""),
        ];
        for (text, want) in cases {
            assert_eq!(json(text), want, "{text}");
        }
    }

    #[test]
    fn keys_become_sorted_strings_and_merges_are_inlined() {
        let cases = [
            ("{b: 1, 2: x, true: w, 1.5: z}", r#"{"1.5":"z","2":"x","b":1,"true":"w"}"#),
            ("a: &a {x: 1, z: 2}\nb: {<<: *a, x: 3}\n", r#"{"a":{"x":1,"z":2},"b":{"x":3,"z":2}}"#),
            ("{x: 3, <<: [{x: 1}, {x: 2, z: 4}]}", r#"{"x":1,"z":4}"#),
        ];
        for (text, want) in cases {
            assert_eq!(json(text), want, "{text}");
        }
    }

    #[test]
    fn block_scalars_fold_and_chomp() {
        let cases = [
            ("|\n a\n b\n", r#""a\nb\n""#),
            ("|\n a", r#""a""#),
            (">-\n a\n b\n\n c\n", r#""a b\nc""#),
            ("|+\n a\n\n", r#""a\n\n""#),
            ("|2-\n   a\n", r#"" a""#),
            ("a: b\n  c\n", r#"{"a":"b c"}"#),
            ("\"a\\\n  b\\x41\\u00e9\"", r#""abAé""#),
        ];
        for (text, want) in cases {
            assert_eq!(json(text), want, "{text}");
        }
    }

    #[test]
    fn only_the_first_document_is_read() {
        assert_eq!(json("a: 1\n---\n}{\n"), r#"{"a":1}"#);
        assert_eq!(json("---\n---\na: 1\n"), "null");
        assert_eq!(
            json("%YAML 1.2\n---\na: 1\n"),
            "invalid YAML at line 1, column 1: a version of YAML other than 1.1"
        );
    }

    #[test]
    fn repeated_keys_are_recorded_as_go_reports_them() {
        let document =
            read(b"a: {x: 1, x: 2}\nb: &b {k: 1}\nc:\n  <<: *b\n  k: 2\n1: x\n1: y\na: 3\n")
                .unwrap();
        assert_eq!(
            document.duplicates_message().unwrap(),
            "yaml: unmarshal errors:\n  line 1: key \"x\" already set in map\n  line 5: key \"k\" already set in map\n  \
             line 7: key 1 already set in map\n  line 8: key \"a\" already set in map"
        );
    }

    #[test]
    fn utf_16_with_a_mark_is_text_too() {
        let text: Vec<u8> =
            "\u{feff}a: é\u{1f600}".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(RawJson::from(&read(&text).unwrap().root).as_str(), "{\"a\":\"é\u{1f600}\"}");
    }

    #[test]
    fn refusals_name_the_place() {
        let cases = [
            ("a: b: c", "line 1, column 5: a `:` is not allowed here"),
            ("a:\n\t- b", "line 2, column 1: no value can begin with this character"),
            ("? [a]\n: b", "line 1, column 3: invalid map key"),
            ("a: *b", "line 1, column 4: unknown anchor referenced"),
            ("&a [*a]", "line 1, column 5: anchor value contains itself"),
            ("a: .inf", "line 1, column 4: unsupported value: not a finite number"),
            ("<<: 1", "line 1, column 5: map merge requires map or sequence of maps as the value"),
            (
                "a: \"\\/\"",
                "line 1, column 5: a backslash is followed by a character that has no meaning there",
            ),
            ("a: \u{1}", "line 1, column 4: control characters are not allowed"),
            (
                "a:\n  b: c\n d: e",
                "line 3, column 2: expected the name of a field; the indentation may be wrong",
            ),
            (
                "a: b\nc: *.b",
                "line 2, column 4: expected a name of letters and digits after `*` or `&`",
            ),
            ("a:\r  b: *c", "line 2, column 6: unknown anchor referenced"),
            ("a: {{b}}", "line 1, column 5: invalid map key"),
            ("? a: b\n: c", "line 1, column 3: invalid map key"),
            ("a: !!int x", "line 1, column 4: value does not fit its tag"),
            ("a: 1\n~: x", "line 2, column 1: unsupported map key"),
            ("a: {<<: {~: x}}", "line 1, column 10: unsupported map key"),
            ("a: !k!x b", "line 1, column 4: no %TAG line declares this tag"),
            ("a: !k!x \"\\xq\"", "line 1, column 10: an escape lacks hexadecimal digits"),
        ];
        for (text, want) in cases {
            assert_eq!(json(text), format!("invalid YAML at {want}"), "{text:?}");
        }
    }
}
