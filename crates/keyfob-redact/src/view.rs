//! A text as it reads once its encoding is undone, with the place in the original of every byte.

use std::ops::Range;

use zeroize::Zeroizing;

use super::widthless::is_widthless;

/// Decoded bytes, and which part of the original text each stands for.
pub(super) struct View {
    pub(super) bytes: Zeroizing<Vec<u8>>,
    origin: Vec<Range<usize>>,
}

/// Which escape sequences are undone. All of them at once finds mixtures; each kind alone finds a secret that happens to
/// stand behind a character that another kind would take for the beginning of an escape.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Escapes {
    /// Of the next three kinds.
    All,
    Percent,
    Backslash,
    Entity,
    /// Quoted-printable. It is never undone with the others: in `token=ab` it would take the value for an escape.
    Equals,
}

impl Escapes {
    const EACH: [Self; 5] = [Self::All, Self::Percent, Self::Backslash, Self::Entity, Self::Equals];

    fn has(self, kind: Self) -> bool {
        self == kind || (self == Self::All && kind != Self::Equals)
    }
}

impl View {
    pub(super) fn empty() -> Self {
        Self { bytes: Zeroizing::default(), origin: Vec::new() }
    }

    /// The text as it is.
    pub(super) fn of(text: &[u8]) -> Self {
        let origin = (0..text.len()).map(|at| at..at + 1).collect();
        Self { bytes: Zeroizing::new(text.to_vec()), origin }
    }

    /// The text as it is, and with its escapes undone, repeatedly: what is encoded twice reads plainly in the last of them.
    pub(super) fn unescaped(self) -> Vec<Self> {
        const ROUNDS: usize = 5;
        let visible = self.visible();
        let mut views = vec![self.copy()];
        if visible.bytes.len() < self.bytes.len() {
            views.push(visible.copy());
        }
        for escapes in Escapes::EACH {
            let mut last = visible.copy();
            for _ in 0..ROUNDS {
                let next = last.unescape(escapes).visible();
                if next.bytes == last.bytes {
                    break;
                }
                if views.iter().all(|view| view.bytes != next.bytes) {
                    views.push(next.copy());
                }
                last = next;
            }
        }
        views
    }

    fn copy(&self) -> Self {
        Self { bytes: self.bytes.clone(), origin: self.origin.clone() }
    }

    /// Without what a terminal does not show: sequences that steer it, and characters without width. A secret that is
    /// interspersed with them reads plainly.
    fn visible(&self) -> Self {
        let mut view = Self::empty();
        let mut at = 0;
        while let Some(rest) = self.bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match invisible(rest) {
                0 => {
                    let origin = self.origin(&(at..at + 1)).unwrap_or_default();
                    view.push(rest.get(..1).unwrap_or_default(), &origin);
                    at += 1;
                }
                length => at += length,
            }
        }
        view
    }

    /// Where a part of this view stands in the original.
    pub(super) fn origin(&self, part: &Range<usize>) -> Option<Range<usize>> {
        let start = self.origin.get(part.start)?.start;
        let end = self.origin.get(part.end.checked_sub(1)?)?.end;
        Some(start..end)
    }

    pub(super) fn push(&mut self, bytes: &[u8], origin: &Range<usize>) {
        self.bytes.extend_from_slice(bytes);
        self.origin.extend(bytes.iter().map(|_| origin.clone()));
    }

    fn unescape(&self, escapes: Escapes) -> Self {
        let mut view = Self::empty();
        let mut at = 0;
        while let Some(rest) = self.bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let decoded = match rest.first() {
                Some(b'%') if escapes.has(Escapes::Percent) => percent(rest),
                Some(b'\\') if escapes.has(Escapes::Backslash) => backslash(rest),
                Some(b'&') if escapes.has(Escapes::Entity) => entity(rest),
                Some(b'=') if escapes.has(Escapes::Equals) => percent(rest),
                _ => None,
            };
            let (bytes, length) =
                decoded.unwrap_or_else(|| (rest.iter().take(1).copied().collect(), 1));
            let origin = self.origin(&(at..at + length)).unwrap_or_default();
            view.push(&bytes, &origin);
            at += length;
        }
        view
    }

    /// Without white space, in lower case and in the standard alphabet of base64: a secret is found whatever the case, and
    /// however it was folded into lines.
    pub(super) fn compact(&self) -> Self {
        self.filtered(compact)
    }

    /// The hexadecimal digits. What separates bytes is left out: up to three characters, any number of the usual ones, and the
    /// affixes of programming languages: `68 75`, `68:75`, `(68)(75)`, `0x68, 0x75`, `\x68\x75`, `68h 75h`, `0x68u8,0x75u8`.
    pub(super) fn hex_digits(&self) -> Self {
        const LONGEST_GAP: usize = 3;
        let mut view = Self::empty();
        let mut at = 0;
        // The characters since the last digit that are not usual between bytes.
        let mut gap = 0;
        while let Some(rest) = self.bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let origin = self.origin(&(at..at + 1)).unwrap_or_default();
            let is_behind_a_digit = at.checked_sub(1).and_then(|before| self.bytes.get(before));
            let is_behind_a_digit = is_behind_a_digit.is_some_and(u8::is_ascii_hexdigit);
            at += match *rest {
                [b'0' | b'\\', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => 2,
                [b'u', b'8', ref behind @ ..]
                    if is_behind_a_digit && !starts_with_a_word(behind) =>
                {
                    2
                }
                [digit, ..] if digit.is_ascii_hexdigit() => {
                    if gap > LONGEST_GAP {
                        view.push(b"!", &origin);
                    }
                    gap = 0;
                    view.push(&[digit.to_ascii_lowercase()], &origin);
                    1
                }
                [byte, ..] => {
                    let is_usual = b" \t\r\n:-,;._|/[]\"'".contains(&byte);
                    // The first byte counts for the whole character.
                    gap += usize::from(!is_usual && byte & 0xc0 != 0x80);
                    1
                }
                [] => break,
            };
        }
        view
    }

    /// Decimal numbers without the zeros in front, one space between them: `[104, 117]`, `104 097`, as programs print bytes.
    pub(super) fn numbers(&self) -> Self {
        let mut view = Self::empty();
        for (at, byte) in self.bytes.iter().enumerate() {
            let origin = self.origin(&(at..at + 1)).unwrap_or_default();
            let is_first = view.bytes.last().is_none_or(|last| *last == b' ');
            let is_padding = *byte == b'0' && is_first && self.has_digit(at + 1);
            if is_padding {
                continue;
            }
            if byte.is_ascii_digit() {
                view.push(&[*byte], &origin);
            } else if view.bytes.last().is_some_and(|last| *last != b' ') {
                view.push(b" ", &origin);
            }
        }
        view
    }

    fn has_digit(&self, at: usize) -> bool {
        self.bytes.get(at).is_some_and(u8::is_ascii_digit)
    }

    fn filtered(&self, keep: impl Fn(u8) -> Option<u8>) -> Self {
        let mut view = Self::empty();
        for (byte, origin) in self.bytes.iter().zip(&self.origin) {
            if let Some(byte) = keep(*byte) {
                view.push(&[byte], origin);
            }
        }
        view
    }
}

/// What [`View::compact`] makes of a byte.
pub(super) fn compact(byte: u8) -> Option<u8> {
    match byte {
        b'-' => Some(b'+'),
        b'_' => Some(b'/'),
        byte if byte.is_ascii_whitespace() || byte.is_ascii_control() => None,
        byte => Some(byte.to_ascii_lowercase()),
    }
}

fn starts_with_a_word(text: &[u8]) -> bool {
    text.first().is_some_and(u8::is_ascii_alphanumeric)
}

/// How many bytes at the beginning of a text a terminal does not show.
fn invisible(text: &[u8]) -> usize {
    let sequence = |start: usize, is_end: fn(&u8) -> bool| {
        const LONGEST: usize = 64;
        let inside = text.get(start..text.len().min(start + LONGEST)).unwrap_or_default();
        inside.iter().position(is_end).map_or(start, |end| start + end + 1)
    };
    let ends_control: fn(&u8) -> bool = |byte| (0x40..=0x7e).contains(byte);
    let ends_command: fn(&u8) -> bool = |byte| matches!(byte, 0x07 | b'\\');
    match text {
        [0x1b, b'[', ..] | [0xc2, 0x9b, ..] => sequence(2, ends_control),
        [0x1b, b']' | b'P' | b'_' | b'^', ..] => sequence(2, ends_command),
        [0x1b, ..] => 1,
        [0xc2..=0xf4, ..] => {
            first_char(text).filter(|c| is_widthless(*c)).map_or(0, char::len_utf8)
        }
        _ => 0,
    }
}

fn first_char(text: &[u8]) -> Option<char> {
    const LONGEST: usize = 4;
    let chunk = text.get(..LONGEST.min(text.len()))?.utf8_chunks().next()?;
    chunk.valid().chars().next()
}

/// What an escape sequence at the beginning of a text stands for, and how long it is.
type Decoded = Option<(Vec<u8>, usize)>;

/// `%68`, and `=68`
fn percent(text: &[u8]) -> Decoded {
    Some((vec![hex_byte(text.get(1..3)?)?], 3))
}

/// The escapes of JSON, Go, Rust and shells: `\"`, `\n`, `\x68`, `\150`, `\u0068`, `\u{68}`, `\U00000068`.
fn backslash(text: &[u8]) -> Decoded {
    let one = |byte: u8| Some((vec![byte], 2));
    match *text.get(1)? {
        b'x' => Some((vec![hex_byte(text.get(2..4)?)?], 4)),
        b'u' if text.get(2) == Some(&b'{') => {
            let window = text.get(3..text.len().min(10))?;
            let digits = window.get(..window.iter().position(|byte| *byte == b'}')?)?;
            Some((utf8(number(digits, 16)?)?, digits.len() + 4))
        }
        b'u' => utf16(text),
        b'U' => Some((utf8(number(text.get(2..10)?, 16)?)?, 10)),
        b'0'..=b'3' if text.get(2..4).is_some_and(|two| two.iter().copied().all(is_octal)) => {
            Some((vec![u8::try_from(number(text.get(1..4)?, 8)?).ok()?], 4))
        }
        b'n' => one(b'\n'),
        b'r' => one(b'\r'),
        b't' => one(b'\t'),
        b'b' => one(8),
        b'f' => one(12),
        byte if byte.is_ascii_punctuation() || byte == b' ' => one(byte),
        _ => None,
    }
}

/// `\u0068`, or two of them for one character.
fn utf16(text: &[u8]) -> Decoded {
    let unit = |at: usize| -> Option<u16> {
        let escape = text.get(at..at + 6).filter(|escape| escape.starts_with(b"\\u"))?;
        u16::try_from(number(escape.get(2..)?, 16)?).ok()
    };
    let first = unit(0)?;
    if let Some(Ok(c)) = char::decode_utf16([first]).next() {
        return Some((c.to_string().into_bytes(), 6));
    }
    let c = char::decode_utf16([first, unit(6)?]).next()?.ok()?;
    Some((c.to_string().into_bytes(), 12))
}

/// `&#104;`, `&#x68;`, `&amp;`; browsers read `&#104` too.
fn entity(text: &[u8]) -> Decoded {
    const LONGEST: usize = 12;
    const NAMED: [(&[u8], u8); 24] = [
        (b"amp", b'&'),
        (b"lt", b'<'),
        (b"gt", b'>'),
        (b"quot", b'"'),
        (b"apos", b'\''),
        (b"nbsp", b' '),
        (b"sol", b'/'),
        (b"bsol", b'\\'),
        (b"plus", b'+'),
        (b"equals", b'='),
        (b"percnt", b'%'),
        (b"commat", b'@'),
        (b"colon", b':'),
        (b"semi", b';'),
        (b"comma", b','),
        (b"period", b'.'),
        (b"excl", b'!'),
        (b"quest", b'?'),
        (b"num", b'#'),
        (b"dollar", b'$'),
        (b"ast", b'*'),
        (b"lowbar", b'_'),
        (b"lpar", b'('),
        (b"rpar", b')'),
    ];
    let window = text.get(1..text.len().min(LONGEST))?;
    let end = window.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'#');
    let name = window.get(..end.unwrap_or(window.len()))?;
    let is_closed = window.get(name.len()) == Some(&b';');
    let length = 1 + name.len() + usize::from(is_closed);
    if let Some(digits) = name.strip_prefix(b"#") {
        let code = match digits.strip_prefix(b"x").or_else(|| digits.strip_prefix(b"X")) {
            Some(digits) => number(digits, 16)?,
            None => number(digits, 10)?,
        };
        return Some((utf8(code)?, length));
    }
    // Without a semicolon it is a parameter of a query: `&lt=1`.
    is_closed.then_some(())?;
    let (_, byte) = NAMED.iter().find(|(known, _)| *known == name)?;
    Some((vec![*byte], length))
}

fn is_octal(byte: u8) -> bool {
    (b'0'..=b'7').contains(&byte)
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    u8::try_from(number(digits, 16)?).ok()
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let digits = std::str::from_utf8(digits).ok()?;
    let plain = digits.chars().all(|c| c.is_digit(radix));
    u32::from_str_radix(digits, radix).ok().filter(|_| plain)
}

fn utf8(code: u32) -> Option<Vec<u8>> {
    char::from_u32(code).map(|c| c.to_string().into_bytes())
}
