//! IP addresses inside brackets, with Go's words for what is wrong with one.
//!
//! Only the address's family is kept: nothing compares addresses as numbers.
//! Upstream: `net/netip.ParseAddr` (Go 1.26).

use std::fmt;

use crate::Quoted;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// Displays as Go's error, word for word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddressError {
    address: Vec<u8>,
    fault: Fault,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { reason, at } = &self.fault;
        write!(f, "ParseAddr({}): {reason}", Quoted(&self.address))?;
        match at.as_slice() {
            [] => Ok(()),
            at => write!(f, " (at {})", Quoted(at)),
        }
    }
}

/// What is wrong and, unless that is the address as a whole, from where on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    reason: &'static str,
    at: Vec<u8>,
}

impl Fault {
    fn new<T>(reason: &'static str) -> Result<T, Self> {
        Self::at(reason, b"")
    }

    fn at<T>(reason: &'static str, at: &[u8]) -> Result<T, Self> {
        let at = at.to_owned();
        Err(Self { reason, at })
    }
}

pub(super) fn parse(address: &[u8]) -> Result<Family, AddressError> {
    let telling = address.iter().find(|byte| matches!(byte, b'.' | b':' | b'%'));
    let parsed = match telling {
        Some(b'.') => check_v4(address).map(|()| Family::V4),
        Some(b':') => check_v6(address).map(|()| Family::V6),
        Some(_) => Fault::new("missing IPv6 address"),
        None => Fault::new("unable to parse IP"),
    };
    parsed.map_err(|fault| AddressError { address: address.to_owned(), fault })
}

fn check_v4(address: &[u8]) -> Result<(), Fault> {
    let mut octets = 0;
    let mut left = address;
    loop {
        let digits = check_octet(left)?;
        let after = left.split_at(digits).1;
        let has_neighbours = digits > 0 && after.len() > 1;
        match after.split_first() {
            None if octets < 3 => return Fault::new("IPv4 address too short"),
            None => return Ok(()),
            Some((b'.', _)) if !has_neighbours => {
                return Fault::at("IPv4 field must have at least one digit", after);
            }
            Some((b'.', _)) if octets == 3 => return Fault::new("IPv4 address too long"),
            Some((b'.', rest)) => left = rest,
            Some(_) => return Fault::at("unexpected character", after),
        }
        octets += 1;
    }
}

/// How many digits the octet has.
fn check_octet(text: &[u8]) -> Result<usize, Fault> {
    let mut value = 0;
    let mut length = 0;
    for digit in text.iter().take_while(|byte| byte.is_ascii_digit()) {
        if length == 1 && value == 0 {
            return Fault::new("IPv4 field has octet with leading zero");
        }
        value = value * 10 + u32::from(digit - b'0');
        if value > 255 {
            return Fault::new("IPv4 field has value >255");
        }
        length += 1;
    }
    Ok(length)
}

fn check_v6(address: &[u8]) -> Result<(), Fault> {
    let mut halves = address.splitn(2, |byte| *byte == b'%');
    let address = halves.next().unwrap_or_default();
    if halves.next().is_some_and(<[u8]>::is_empty) {
        return Fault::new("zone must be a non-empty string");
    }
    let groups = match address.strip_prefix(b"::") {
        Some([]) => return Ok(()),
        Some(rest) => Groups::read(rest, Ellipsis::Seen)?,
        None => Groups::read(address, Ellipsis::NotSeen)?,
    };
    match (groups.bytes, groups.ellipsis) {
        (0..16, Ellipsis::NotSeen) => Fault::new("address string too short"),
        (16.., Ellipsis::Seen) => Fault::new("the :: must expand to at least one field of zeros"),
        _ => Ok(()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ellipsis {
    Seen,
    NotSeen,
}

/// How far the groups of an IPv6 address fill its sixteen bytes.
struct Groups {
    bytes: usize,
    ellipsis: Ellipsis,
}

impl Groups {
    fn read(mut left: &[u8], ellipsis: Ellipsis) -> Result<Self, Fault> {
        let mut groups = Self { bytes: 0, ellipsis };
        while groups.bytes < 16 {
            let after = after_group(left)?;
            if after.starts_with(b".") {
                return groups.embedded_v4(left);
            }
            groups.bytes += 2;
            left = groups.separator(after)?;
            if left.is_empty() {
                return Ok(groups);
            }
        }
        Fault::at("trailing garbage after address", left)
    }

    /// Reads the colon, or two, between groups. Nothing is left at the address's end.
    fn separator<'a>(&mut self, text: &'a [u8]) -> Result<&'a [u8], Fault> {
        let Some((first, rest)) = text.split_first() else {
            return Ok(text);
        };
        if *first != b':' {
            return Fault::at("unexpected character, want colon", text);
        }
        let Some(after_ellipsis) = rest.strip_prefix(b":") else {
            return match rest {
                [] => Fault::at("colon must be followed by more characters", text),
                _ => Ok(rest),
            };
        };
        if self.ellipsis == Ellipsis::Seen {
            return Fault::at("multiple :: in address", rest);
        }
        self.ellipsis = Ellipsis::Seen;
        Ok(after_ellipsis)
    }

    fn embedded_v4(mut self, text: &[u8]) -> Result<Self, Fault> {
        if self.ellipsis == Ellipsis::NotSeen && self.bytes != 12 {
            return Fault::at(
                "embedded IPv4 address must replace the final 2 fields of the address",
                text,
            );
        }
        if self.bytes > 12 {
            return Fault::at(
                "too many hex fields to fit an embedded IPv4 at the end of the address",
                text,
            );
        }
        check_v4(text)?;
        self.bytes += 4;
        Ok(self)
    }
}

/// What follows a group of one to four hexadecimal digits.
fn after_group(text: &[u8]) -> Result<&[u8], Fault> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    match digits {
        0 => Fault::at("each colon-separated field must have at least one digit", text),
        1..=4 => Ok(text.split_at(digits).1),
        _ => Fault::at("each group must have 4 or less digits", text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_well_formed_address_has_a_family() {
        let cases = [
            ("10.0.0.255", Family::V4),
            ("::", Family::V6),
            ("::1", Family::V6),
            ("1::", Family::V6),
            ("2001:DB8::8:800:200c:417a", Family::V6),
            ("1:2:3:4:5:6:7:8", Family::V6),
            ("::ffff:10.0.0.1", Family::V6),
            ("1:2:3:4:5:6:10.0.0.1", Family::V6),
            ("fe80::1%eth0.%", Family::V6),
        ];
        for (address, family) in cases {
            assert_eq!(parse(address.as_bytes()), Ok(family), "{address}");
        }
    }

    #[test]
    fn a_malformed_address_is_refused_in_go_s_words() {
        let cases = [
            ("abc", "unable to parse IP"),
            ("%eth0", "missing IPv6 address"),
            ("1.2.3", "IPv4 address too short"),
            ("1.2.3.4.5", "IPv4 address too long"),
            ("1.02.3.4", "IPv4 field has octet with leading zero"),
            ("1.256.3.4", "IPv4 field has value >255"),
            ("1..2.3", r#"IPv4 field must have at least one digit (at ".2.3")"#),
            ("1.2.3.", r#"IPv4 field must have at least one digit (at ".")"#),
            ("1.2.3.x", r#"unexpected character (at "x")"#),
            ("::1%", "zone must be a non-empty string"),
            (":1", r#"each colon-separated field must have at least one digit (at ":1")"#),
            ("::12345", r#"each group must have 4 or less digits (at "12345")"#),
            ("1:2:3", "address string too short"),
            ("1:2:", r#"colon must be followed by more characters (at ":")"#),
            ("1::2::3", r#"multiple :: in address (at ":3")"#),
            ("1::2x", r#"unexpected character, want colon (at "x")"#),
            ("1:2:3:4:5:6:7:8:9", r#"trailing garbage after address (at "9")"#),
            ("1:2:3:4::5:6:7:8", "the :: must expand to at least one field of zeros"),
            (
                "1:2.3.4.5",
                r#"embedded IPv4 address must replace the final 2 fields of the address (at "2.3.4.5")"#,
            ),
            (
                "::1:2:3:4:5:6:7:8.9.1.2",
                r#"too many hex fields to fit an embedded IPv4 at the end of the address (at "8.9.1.2")"#,
            ),
        ];
        for (address, reason) in cases {
            let error = parse(address.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), format!("ParseAddr({address:?}): {reason}"));
        }
    }
}
