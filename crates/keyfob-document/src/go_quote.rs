//! Go's `%q`, for error texts that are to read exactly as upstream's.
//!
//! Upstream: `strconv.Quote` (Go 1.26).
//! Differs: a character that Unicode assigned after Go's tables (15.0) is printed as it is; Go escapes it.

use std::fmt::{self, Write as _};

/// Text, or what is left of it after percent-decoding, shown in Go's double quotes.
///
/// ```
/// assert_eq!(keyfob_document::Quoted("a\tb").to_string(), r#""a\tb""#);
/// ```
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper of one value that callers build")]
pub struct Quoted<T>(pub T);

impl<T: AsRef<[u8]>> fmt::Display for Quoted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for chunk in self.0.as_ref().utf8_chunks() {
            chunk.valid().chars().try_for_each(|c| character(c, f))?;
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        f.write_char('"')
    }
}

fn character(c: char, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match c {
        '"' | '\\' => write!(f, "\\{c}"),
        '\x07' => f.write_str("\\a"),
        '\x08' => f.write_str("\\b"),
        '\x0b' => f.write_str("\\v"),
        '\x0c' => f.write_str("\\f"),
        '\n' => f.write_str("\\n"),
        '\r' => f.write_str("\\r"),
        '\t' => f.write_str("\\t"),
        _ if go_is_print(c) => f.write_char(c),
        _ if c.is_ascii() => write!(f, "\\x{:02x}", u32::from(c)),
        '\0'..='\u{ffff}' => write!(f, "\\u{:04x}", u32::from(c)),
        _ => write!(f, "\\U{:08x}", u32::from(c)),
    }
}

/// Go's `strconv.IsPrint`: letters, marks, numbers, punctuation, symbols and the ASCII space.
pub fn go_is_print(c: char) -> bool {
    if c.is_ascii() {
        return c == ' ' || c.is_ascii_graphic();
    }
    // Rust's `escape_debug` leaves the same categories alone. The letter in front is there because a combining mark
    // is escaped at the start of a text only.
    String::from_iter(['a', c]).escape_debug().nth(1) == Some(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_as_go_quotes_it() {
        let cases: &[(&[u8], &str)] = &[
            (b"", r#""""#),
            (b"plain text's", r#""plain text's""#),
            (b"\"\\", r#""\"\\""#),
            (b"\0\x07\x08\x0b\x0c\n\r\t\x1b\x7f", r#""\x00\a\b\v\f\n\r\t\x1b\x7f""#),
            ("é日e\u{301}".as_bytes(), "\"é日e\u{301}\""),
            (
                "\u{a0}\u{ad}\u{200c}\u{2028}\u{fffd}".as_bytes(),
                "\"\\u00a0\\u00ad\\u200c\\u2028\u{fffd}\"",
            ),
            ("\u{e000}\u{10ffff}".as_bytes(), r#""\ue000\U0010ffff""#),
            (b"%a\xc3", r#""%a\xc3""#),
            (b"\xed\xa0\x80", r#""\xed\xa0\x80""#),
        ];
        for (raw, quoted) in cases {
            assert_eq!(Quoted(raw).to_string(), *quoted);
        }
    }
}
