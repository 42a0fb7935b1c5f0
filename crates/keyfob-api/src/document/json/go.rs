//! What Go says about a text that is not JSON.
//!
//! Upstream: `scanner.go` of `encoding/json` (Go 1.26). Go looks at bytes, not at characters.

use super::{JsonError, JsonProblem, read};
use crate::{
    document::{MAX_VALUES, Shape},
    go_quote::Quoted,
};

impl JsonError {
    /// The error in the words of Go's `encoding/json`, for the text that was read. It quotes one character of the text.
    pub fn go_message(&self, text: &[u8]) -> String {
        let before = text.get(..self.offset).unwrap_or_default();
        let Some(found) = text.get(self.offset) else { return at_the_end(text) };
        let context = match self.problem {
            JsonProblem::UnexpectedEnd => return at_the_end(text),
            JsonProblem::Expected(what) => expected(what, before),
            JsonProblem::ControlCharacter => "in string literal".to_owned(),
            JsonProblem::InvalidEscape if before.ends_with(b"\\") => {
                "in string escape code".to_owned()
            }
            JsonProblem::InvalidEscape => "in \\u hexadecimal character escape".to_owned(),
            // Go has no such limit, and so no words for it.
            JsonProblem::TooManyValues(_) => return self.problem.to_string(),
            JsonProblem::TooDeep => "exceeded max depth".to_owned(),
            JsonProblem::TrailingData => "after top-level value".to_owned(),
        };
        format!("invalid character {} {context}", quoted(*found))
    }
}

/// Go ends every text with a space, which is wrong inside of numbers, words and escapes.
fn at_the_end(text: &[u8]) -> String {
    let ended = [text, b" "].concat();
    match read(&ended, &Shape::Nothing, MAX_VALUES) {
        Err(error) if error.problem != JsonProblem::UnexpectedEnd => error.go_message(&ended),
        _ => "unexpected end of JSON input".to_owned(),
    }
}

fn expected(what: &str, before: &[u8]) -> String {
    let context = match what {
        "a field name in double quotes" => "looking for beginning of object key string",
        "`:`" => "after object key",
        "`,` or `}`" => "after object key:value pair",
        "`,` or `]`" => "after array element",
        "a digit" => return digit(before).to_owned(),
        "`true`, `false` or `null`" => return literal(before),
        _ => "looking for beginning of value",
    };
    context.to_owned()
}

fn digit(before: &[u8]) -> &'static str {
    match before {
        [.., b'.'] => "after decimal point in numeric literal",
        [.., b'e' | b'E'] | [.., b'e' | b'E', b'+' | b'-'] => "in exponent of numeric literal",
        _ => "in numeric literal",
    }
}

/// The longest beginning of a literal that stands before the error tells which letter was due.
fn literal(before: &[u8]) -> String {
    let due = ["true", "false", "null"].into_iter().find_map(|word| {
        let length = (1..word.len()).rev().find(|length| {
            word.get(..*length).is_some_and(|start| before.ends_with(start.as_bytes()))
        })?;
        Some((word, word.get(length..=length)?))
    });
    due.map_or_else(String::new, |(word, due)| format!("in literal {word} (expecting '{due}')"))
}

/// A byte is shown as the character of that number.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        other => {
            let quoted = Quoted(char::from(other).to_string()).to_string();
            format!("'{}'", quoted.trim_matches('"'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use crate::document::{MAX_VALUES, Shape};

    #[test]
    fn refusals_are_told_in_gos_words() {
        let cases: &[(&[u8], &str)] = &[
            (b"", "unexpected end of JSON input"),
            (b"{\"a\":", "unexpected end of JSON input"),
            (b"[tru", "invalid character ' ' in literal true (expecting 'e')"),
            (b"[\"\\", "invalid character ' ' in string escape code"),
            (b"[\"a", "unexpected end of JSON input"),
            (b"{k:1}", "invalid character 'k' looking for beginning of object key string"),
            (b"{'k':1}", r"invalid character '\'' looking for beginning of object key string"),
            (b"{\"k\" 1}", "invalid character '1' after object key"),
            (b"{\"k\":1 \"l\"}", "invalid character '\"' after object key:value pair"),
            (b"[1 2]", "invalid character '2' after array element"),
            (b"{}x", "invalid character 'x' after top-level value"),
            (b"[\xe6]", "invalid character '\u{e6}' looking for beginning of value"),
            (b"[\x80]", r"invalid character '\u0080' looking for beginning of value"),
            (b"\"a\nb\"", r"invalid character '\n' in string literal"),
            (b"\"\\x\"", "invalid character 'x' in string escape code"),
            (b"\"\\u12x\"", r"invalid character 'x' in \u hexadecimal character escape"),
            (b"[-x]", "invalid character 'x' in numeric literal"),
            (b"[1.x]", "invalid character 'x' after decimal point in numeric literal"),
            (b"[1e-x]", "invalid character 'x' in exponent of numeric literal"),
            (b"[tru]", "invalid character ']' in literal true (expecting 'e')"),
            (b"[nil]", "invalid character 'i' in literal null (expecting 'u')"),
        ];
        for (text, want) in cases {
            assert_eq!(read(text, &Shape::Any, MAX_VALUES).unwrap_err().go_message(text), *want);
        }
    }
}
