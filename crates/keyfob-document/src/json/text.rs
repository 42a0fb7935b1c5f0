//! What a JSON string says.

/// The text of a string whose escapes have been checked.
pub(super) fn unquote(raw: &[u8]) -> String {
    // Big enough from the start: growing would leave a copy of a secret behind.
    let bound = if std::str::from_utf8(raw).is_ok() { raw.len() } else { raw.len() * 3 };
    let mut out = String::with_capacity(bound);
    let mut rest = raw;
    while let Some(backslash) = rest.iter().position(|byte| *byte == b'\\') {
        let (plain, escape) = rest.split_at(backslash);
        push_lossy(&mut out, plain);
        let (c, length) = unescape(escape);
        out.push(c);
        rest = escape.get(length..).unwrap_or_default();
    }
    push_lossy(&mut out, rest);
    out
}

/// The character an escape stands for and how many bytes it takes.
fn unescape(escape: &[u8]) -> (char, usize) {
    match escape.get(1) {
        Some(b'b') => ('\u{8}', 2),
        Some(b'f') => ('\u{c}', 2),
        Some(b'n') => ('\n', 2),
        Some(b'r') => ('\r', 2),
        Some(b't') => ('\t', 2),
        Some(b'u') => unescape_utf16(escape),
        Some(other) => (char::from(*other), 2),
        None => (char::REPLACEMENT_CHARACTER, 1),
    }
}

fn unescape_utf16(escape: &[u8]) -> (char, usize) {
    let first = code_unit(escape).unwrap_or_default();
    let second = escape.get(6..).and_then(code_unit);
    let decode = |units: &[u16]| char::decode_utf16(units.iter().copied()).next()?.ok();
    if let Some(c) = decode(&[first]) {
        return (c, 6);
    }
    match second.and_then(|second| decode(&[first, second])) {
        Some(c) => (c, 12),
        None => (char::REPLACEMENT_CHARACTER, 6),
    }
}

fn code_unit(escape: &[u8]) -> Option<u16> {
    let digits = escape.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Appends bytes as text; each byte that is not UTF-8 becomes one U+FFFD, as in Go.
pub(crate) fn push_lossy(out: &mut String, bytes: &[u8]) {
    let mut rest = bytes;
    while let Err(error) = std::str::from_utf8(rest) {
        let (valid, bad) = rest.split_at(error.valid_up_to());
        out.push_str(std::str::from_utf8(valid).unwrap_or_default());
        out.push(char::REPLACEMENT_CHARACTER);
        rest = bad.get(1..).unwrap_or_default();
    }
    out.push_str(std::str::from_utf8(rest).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &[u8]) -> String {
        let inside = &text[1..text.len() - 1];
        unquote(inside)
    }

    #[test]
    fn strings_are_read_as_go_reads_them() {
        let cases: [(&[u8], &str); 6] = [
            (br#""\"\\\/\b\f\n\r\t\u00e9""#, "\"\\/\u{8}\u{c}\n\r\té"),
            (br#""\ud83d\ude00""#, "\u{1f600}"),
            (br#""\ud83dx\ude00""#, "\u{fffd}x\u{fffd}"),
            (br#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (b"\"a\xffb\xe2\x82\"", "a\u{fffd}b\u{fffd}\u{fffd}"),
            (b"\"\xed\xa0\x80\x7f\"", "\u{fffd}\u{fffd}\u{fffd}\u{7f}"),
        ];
        for (text, want) in cases {
            assert_eq!(string(text), want);
        }
    }
}
