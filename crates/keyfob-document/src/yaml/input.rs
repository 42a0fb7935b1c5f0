//! Bytes to characters: the encoding, and which characters may occur at all.

use super::{Mark, YamlError, YamlProblem};
use crate::Secret;

/// Stands after the last character. It cannot be part of a text, because control characters are refused.
pub(super) const END: char = '\0';

/// Upstream reads in pieces of this many bytes and refuses a bad byte with its piece. What lies in later pieces than
/// the first document needs is never looked at.
const PIECE: usize = 512;

/// The characters of a text.
pub(super) struct Input {
    text: Secret<String>,
    cursor: Cursor,
    /// From which character on the text cannot be read, and why.
    unreadable: Option<(usize, YamlError)>,
    touched: bool,
}

impl Input {
    pub(super) fn new(text: &[u8]) -> Self {
        match text {
            [0xff, 0xfe, rest @ ..] => Self::utf16(rest, u16::from_le_bytes),
            [0xfe, 0xff, rest @ ..] => Self::utf16(rest, u16::from_be_bytes),
            [0xef, 0xbb, 0xbf, rest @ ..] => Self::utf8(rest, 3),
            _ => Self::utf8(text, 0),
        }
    }

    /// The character at an index, or [`END`].
    pub(super) fn at(&mut self, index: usize) -> char {
        if let Some((end, _)) = self.unreadable {
            self.touched |= index >= end;
        }
        self.cursor.go_to(index, self.text.expose())
    }

    /// Fails if anything was asked for that cannot be read.
    pub(super) fn check(&self) -> Result<(), YamlError> {
        match self.unreadable {
            Some((_, error)) if self.touched => Err(error),
            _ => Ok(()),
        }
    }

    fn utf8(text: &[u8], skipped: usize) -> Self {
        let mut builder = Builder::new(text.len(), skipped);
        let (valid, rest) = match std::str::from_utf8(text) {
            Ok(valid) => (valid, None),
            Err(error) => {
                let (valid, rest) = text.split_at(error.valid_up_to());
                (std::str::from_utf8(valid).unwrap_or_default(), Some(rest))
            }
        };
        for c in valid.chars() {
            builder.push(c, c.len_utf8());
        }
        match rest {
            Some(rest) if is_incomplete(rest) => {
                builder.fail_at_end("incomplete UTF-8 octet sequence");
            }
            Some(rest) => {
                let width = rest.first().map_or(1, |first| width(*first));
                builder.fail_within(width, not_utf8(rest));
            }
            None => {}
        }
        builder.finish()
    }

    fn utf16(text: &[u8], unit: fn([u8; 2]) -> u16) -> Self {
        let (pairs, odd) = text.as_chunks::<2>();
        let mut builder = Builder::new(pairs.len() * 3, 2);
        let mut left = pairs.len();
        for decoded in char::decode_utf16(pairs.iter().copied().map(unit)) {
            left -= decoded.as_ref().map_or(1, |c| c.len_utf16());
            match decoded {
                Ok(c) => builder.push(c, c.len_utf16() * 2),
                Err(error) if error.unpaired_surrogate() >= 0xdc00 => {
                    builder.fail("unexpected low surrogate area");
                }
                Err(_) if left == 0 => builder.fail_at_end("incomplete UTF-16 surrogate pair"),
                Err(_) => builder.fail("expected low surrogate area"),
            }
        }
        if !odd.is_empty() {
            builder.fail_at_end("incomplete UTF-16 character");
        }
        builder.finish()
    }
}

/// A place in a text. The scanner asks for places near the last one, so it need not know where every character begins.
#[derive(Default)]
struct Cursor {
    index: usize,
    byte: usize,
}

impl Cursor {
    /// The character at an index, or [`END`].
    fn go_to(&mut self, index: usize, text: &str) -> char {
        while self.index > index {
            let before = text.get(..self.byte).and_then(|before| before.chars().next_back());
            self.byte -= before.map_or(self.byte, char::len_utf8);
            self.index -= 1;
        }
        loop {
            let next = text.get(self.byte..).and_then(|rest| rest.chars().next());
            match next {
                Some(c) if self.index == index => return c,
                Some(c) => self.byte += c.len_utf8(),
                None => return END,
            }
            self.index += 1;
        }
    }
}

struct Builder {
    text: String,
    /// How many characters the text has.
    count: usize,
    unreadable: Option<(usize, YamlError)>,
    /// The byte after the last character, and the first character of the piece it is in.
    bytes: usize,
    piece_start: usize,
    mark: Mark,
}

impl Builder {
    fn new(capacity: usize, bytes: usize) -> Self {
        Self {
            text: String::with_capacity(capacity),
            count: 0,
            unreadable: None,
            bytes,
            piece_start: 0,
            mark: Mark::default(),
        }
    }

    fn push(&mut self, c: char, width: usize) {
        if self.unreadable.is_some() {
            return;
        }
        if !is_allowed(c) {
            self.fail("control characters are not allowed");
            return;
        }
        self.bytes += width;
        self.text.push(c);
        self.count += 1;
        self.mark.column += 1;
        if c == '\n' {
            self.mark = Mark { line: self.mark.line + 1, ..Mark::default() };
        }
        if self.bytes / PIECE != (self.bytes - width) / PIECE {
            self.piece_start = self.count;
        }
    }

    fn fail(&mut self, problem: &'static str) {
        let error = self.mark.error(YamlProblem::Encoding(problem));
        self.unreadable.get_or_insert((self.piece_start, error));
    }

    /// A character that begins in one piece and ends in the next is looked at with the next.
    fn fail_within(&mut self, width: usize, problem: &'static str) {
        if self.bytes / PIECE != (self.bytes + width - 1) / PIECE {
            self.piece_start = self.count;
        }
        self.fail(problem);
    }

    /// Half a character could become whole with the next piece, so it only fails when it is needed.
    fn fail_at_end(&mut self, problem: &'static str) {
        self.piece_start = self.count;
        self.fail(problem);
    }

    fn finish(self) -> Input {
        Input {
            text: self.text.into(),
            cursor: Cursor::default(),
            unreadable: self.unreadable,
            touched: false,
        }
    }
}

fn is_allowed(c: char) -> bool {
    matches!(c,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
}

/// Whether the first byte announces more bytes than there are.
fn is_incomplete(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| bytes.len() < width(*first))
}

/// How many bytes a first byte announces; one if it cannot be the first.
fn width(first: u8) -> usize {
    match first {
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf8 => 4,
        _ => 1,
    }
}

/// What Go says about the bytes with which a text stops being UTF-8.
fn not_utf8(bytes: &[u8]) -> &'static str {
    let width = bytes.first().map_or(1, |first| width(*first));
    let mut trailing = bytes.iter().take(width).skip(1);
    match bytes {
        _ if width == 1 => "invalid leading UTF-8 octet",
        _ if trailing.any(|byte| !matches!(byte, 0x80..0xc0)) => "invalid trailing UTF-8 octet",
        [0xc0 | 0xc1, ..] | [0xe0, ..0xa0, ..] | [0xf0, ..0x90, ..] => {
            "invalid length of a UTF-8 sequence"
        }
        _ => "invalid Unicode character",
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Document, YamlError};
    use crate::MAX_VALUES;

    fn read(text: &[u8]) -> Result<Document, YamlError> {
        super::super::read(text, MAX_VALUES)
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_with_the_reason() {
        let cases: [(&[u8], &str); 13] = [
            (b"a: \x80", "invalid leading UTF-8 octet"),
            (b"a: \xf8\x80\x80\x80\x80", "invalid leading UTF-8 octet"),
            (b"a: \xc3(", "invalid trailing UTF-8 octet"),
            (b"a: \xe6\x97(", "invalid trailing UTF-8 octet"),
            (b"a: \xc0\x80", "invalid length of a UTF-8 sequence"),
            (b"a: \xe0\x80\x80", "invalid length of a UTF-8 sequence"),
            (b"a: \xf0\x80\x80\x80", "invalid length of a UTF-8 sequence"),
            (b"a: \xed\xa0\x80", "invalid Unicode character"),
            (b"a: \xf4\x90\x80\x80", "invalid Unicode character"),
            (b"a: \xe6\x97", "incomplete UTF-8 octet sequence"),
            (b"\xff\xfe\x00\xdca\0", "unexpected low surrogate area"),
            (b"\xff\xfe\x00\xd8a\0", "expected low surrogate area"),
            (b"\xff\xfea\0\x00\xd8a", "incomplete UTF-16 surrogate pair"),
        ];
        for (text, want) in cases {
            let Err(error) = read(text) else { panic!("{text:x?} is read") };
            assert_eq!(error.problem.to_string(), want, "{text:x?}");
        }
    }

    #[test]
    fn half_a_character_at_the_end_of_a_piece_belongs_to_the_next() {
        let refused = |before: usize| {
            let blanks = vec![b' '; before - 8];
            read(&[b"a\n---\n%#", &*blanks, b"\xe6\x97(\n"].concat()).is_err()
        };
        assert_eq!([509, 510, 511].map(refused), [true, false, false]);
    }
}
