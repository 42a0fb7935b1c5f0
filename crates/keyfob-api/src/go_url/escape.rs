//! Percent-decoding and -encoding, with what each part of a URL may hold.

use super::UrlFault;

/// The part of a URL a text stands in.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Host,
    /// The zone of an IPv6 address, from its `%25` on.
    Zone,
    /// User, password, path and fragment: anything goes, if its escapes are well-formed.
    Other,
}

/// Decodes a text, or names the first byte or escape that may not stand in its part.
pub(super) fn unescape(text: &[u8], part: Part) -> Result<Vec<u8>, UrlFault> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut left = text;
    while let Some((&byte, rest)) = left.split_first() {
        left = if byte == b'%' {
            let (value, rest) = escaped_byte(rest)
                .filter(|(value, _)| part.may_escape(*value))
                .ok_or_else(|| UrlFault::Escape(left.iter().take(3).copied().collect()))?;
            decoded.push(value);
            rest
        } else if part.may_hold(byte) {
            decoded.push(byte);
            rest
        } else {
            return Err(UrlFault::HostCharacter(byte));
        };
    }
    Ok(decoded)
}

impl Part {
    fn may_hold(self, byte: u8) -> bool {
        match self {
            Self::Host | Self::Zone => !byte.is_ascii() || host_allows(byte),
            Self::Other => true,
        }
    }

    fn may_escape(self, byte: u8) -> bool {
        match self {
            Self::Host => !byte.is_ascii() || byte == b'%',
            // The space is for Windows, whose zones are interface names.
            Self::Zone => matches!(byte, b'%' | b' ') || host_allows(byte),
            Self::Other => true,
        }
    }
}

fn host_allows(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
}

fn escaped_byte(digits: &[u8]) -> Option<(u8, &[u8])> {
    let ([high, low], rest) = digits.split_first_chunk()?;
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let value = u8::try_from(digit(high)? << 4 | digit(low)?).ok()?;
    Some((value, rest))
}

/// The part of a URL that a text is written into.
#[derive(Clone, Copy)]
pub(super) enum Into {
    User,
    Host,
    Path,
    Fragment,
}

/// Encodes a text for its part.
pub(super) fn escape(text: &[u8], into: Into) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text {
        if into.takes(*byte) {
            out.push(char::from(*byte));
        } else {
            out.extend([format!("%{byte:02X}")]);
        }
    }
    out
}

/// The text as it was written if that is an encoding, and otherwise a proper one of what it means.
pub(super) fn escape_again(written: &str, decoded: &[u8], into: Into) -> String {
    let stands = |byte| into.takes(byte) || b"!$&'()*+,;=:@[]%".contains(&byte);
    if written.bytes().all(stands) { written.to_owned() } else { escape(decoded, into) }
}

impl Into {
    fn takes(self, byte: u8) -> bool {
        let reserved: &[u8] = match self {
            Self::User => b"$&+,;=",
            Self::Host => return host_allows(byte),
            Self::Path => b"$&+,/:;=@",
            Self::Fragment => b"!$&()*+,/:;=?@",
        };
        byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || reserved.contains(&byte)
    }
}
