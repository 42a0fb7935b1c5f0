//! Go's URL parser: whole ones ([`GoUrl`]), and what `https://` in front of a pattern or an image name makes of it.
//!
//! The kubelet compares what this parser makes of the text, so its oddities decide what a pattern matches and its error
//! texts are what a configuration error shows. There, query, fragment and user are checked and dropped.
//! Upstream: `net/url.Parse` and `net.SplitHostPort` (Go 1.26, with strict colons).

mod address;
mod escape;
mod url;

use std::fmt;

use memchr::{memchr, memmem, memrchr};
use zeroize::Zeroizing;

pub use self::url::{GoUrl, InvalidUrl};
use self::{
    address::AddressError,
    escape::{Part, unescape},
};
use crate::Quoted;

/// A parsed `https://` URL: percent-decoded, so neither part need be UTF-8.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SchemelessUrl {
    /// Host and port, an IPv6 address in its brackets.
    pub(crate) host: Vec<u8>,
    pub(crate) path: Vec<u8>,
}

impl SchemelessUrl {
    /// Parses the text as if `https://` stood in front of it. It is bytes because decoded text is parsed again.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, UrlError> {
        let (url, fragment) = cut(text, memchr(b'#', text));
        let parsed = Self::without_fragment(url).map_err(|fault| UrlError::new(url, fault))?;
        unescape(fragment, Part::Other).map_err(|fault| UrlError::new(text, fault))?;
        Ok(parsed)
    }

    /// Host name and port. Both are the whole host and nothing where Go finds no port it understands.
    pub(crate) fn name_and_port(&self) -> (&[u8], &[u8]) {
        split_host_port(&self.host).unwrap_or((&self.host, b""))
    }

    fn without_fragment(url: &[u8]) -> Result<Self, UrlFault> {
        if url.iter().any(u8::is_ascii_control) {
            return Err(UrlFault::ControlCharacter);
        }
        let (url, _query) = cut(url, memchr(b'?', url));
        let (authority, path) = url.split_at(memchr(b'/', url).unwrap_or(url.len()));
        let Authority { host, .. } = parse_authority(authority, Colons::Strict)?;
        Ok(Self { host, path: unescape(path, Part::Other)? })
    }
}

/// The decoded path of `scheme://rest`.
///
/// ```
/// assert_eq!(keyfob_api::go_url_path("aws", "zone/vol%2d1?a")?, b"/vol-1");
/// assert_eq!(
///     keyfob_api::go_url_path("aws", "a b/").unwrap_err().to_string(),
///     r#"parse "aws://a b/": invalid character " " in host name"#
/// );
/// # Ok::<(), keyfob_api::UrlPathError>(())
/// ```
pub fn go_url_path(scheme: &str, rest: &str) -> Result<Vec<u8>, UrlPathError> {
    let url = SchemelessUrl::parse(rest.as_bytes()).map_err(|UrlError { url, fault }| {
        let rest = url.strip_prefix(b"https").unwrap_or(&url);
        UrlPathError(UrlError { url: [scheme.as_bytes(), rest].concat(), fault })
    })?;
    Ok(url.path)
}

/// A text that has no path, because it is no URL. Displays as Go's error, word for word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UrlPathError(UrlError);

/// Why a text is no URL. Displays as Go's error, word for word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UrlError {
    url: Vec<u8>,
    pub(crate) fault: UrlFault,
}

impl UrlError {
    fn new(text: &[u8], fault: UrlFault) -> Self {
        Self { url: [b"https://", text].concat(), fault }
    }
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parse {}: {}", Quoted(&self.url), self.fault)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UrlFault {
    #[error("invalid host: {0}")]
    Address(AddressError),
    #[error("net/url: invalid control character in URL")]
    ControlCharacter,
    #[error("invalid URL escape {}", Quoted(.0))]
    Escape(Vec<u8>),
    #[error("invalid character {} in host name", Quoted([*.0]))]
    HostCharacter(u8),
    #[error("invalid IP-literal")]
    IpLiteral,
    #[error("missing ']' in host")]
    MissingBracket,
    #[error("invalid port {} after host", Quoted(.0))]
    Port(Vec<u8>),
    #[error("net/url: invalid userinfo")]
    Userinfo,
}

/// Whether a host may have more than the one colon before its port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Colons {
    /// Not in http and https.
    Strict,
    /// Elsewhere the last one counts.
    Lax,
}

/// `user:password@host:port`, decoded.
struct Authority {
    user: Option<User>,
    host: Vec<u8>,
}

struct User {
    name: Vec<u8>,
    password: Option<Zeroizing<Vec<u8>>>,
}

/// Go looks at the host first, so its error wins.
fn parse_authority(authority: &[u8], colons: Colons) -> Result<Authority, UrlFault> {
    let Some(at) = memrchr(b'@', authority) else {
        return Ok(Authority { user: None, host: parse_host(authority, colons)? });
    };
    let (userinfo, host) = cut(authority, Some(at));
    let host = parse_host(host, colons)?;
    if !userinfo.iter().copied().all(userinfo_allows) {
        return Err(UrlFault::Userinfo);
    }
    // User and password are decoded apart, so that an escape cannot reach over the colon between them.
    let colon = memchr(b':', userinfo);
    let (name, password) = cut(userinfo, colon);
    let name = unescape(name, Part::Other)?;
    let password = Zeroizing::new(unescape(password, Part::Other)?);
    Ok(Authority { user: Some(User { name, password: colon.map(|_| password) }), host })
}

fn userinfo_allows(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)
}

fn parse_host(host: &[u8], colons: Colons) -> Result<Vec<u8>, UrlFault> {
    match memrchr(b'[', host) {
        Some(0) => return parse_ip_literal(host),
        Some(_) => return Err(UrlFault::IpLiteral),
        None => {}
    }
    let colon = match colons {
        Colons::Strict => memchr(b':', host),
        Colons::Lax => memrchr(b':', host),
    };
    if let Some(colon) = colon {
        check_port(host.split_at(colon).1)?;
    }
    unescape(host, Part::Host)
}

/// `[address]`, `[address%25zone]`, either with a port behind it.
fn parse_ip_literal(host: &[u8]) -> Result<Vec<u8>, UrlFault> {
    let (bracketed, port) = match memrchr(b']', host) {
        Some(bracket) => host.split_at(bracket + 1),
        None => return Err(UrlFault::MissingBracket),
    };
    check_port(port)?;
    let inside = bracketed.strip_prefix(b"[").unwrap_or(bracketed);
    let inside = inside.strip_suffix(b"]").unwrap_or(inside);
    let (address, zone) = inside.split_at(memmem::find(inside, b"%25").unwrap_or(inside.len()));
    let literal = [unescape(address, Part::Host)?, unescape(zone, Part::Zone)?].concat();
    match address::parse(&literal).map_err(UrlFault::Address)? {
        address::Family::V4 => Err(UrlFault::IpLiteral),
        address::Family::V6 => Ok([b"[", literal.as_slice(), b"]", port].concat()),
    }
}

fn check_port(port: &[u8]) -> Result<(), UrlFault> {
    let digits = port.strip_prefix(b":").or(port.is_empty().then_some(&[]));
    match digits {
        Some(digits) if digits.iter().all(u8::is_ascii_digit) => Ok(()),
        _ => Err(UrlFault::Port(port.to_owned())),
    }
}

/// What stands before and behind the byte at a place; all and nothing without one.
fn cut(text: &[u8], at: Option<usize>) -> (&[u8], &[u8]) {
    match at {
        Some(at) => (text.get(..at).unwrap_or(text), text.get(at + 1..).unwrap_or_default()),
        None => (text, &[]),
    }
}

/// `net.SplitHostPort` without its error texts: nobody shows them.
fn split_host_port(host: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = host.iter().rposition(|byte| *byte == b':')?;
    let (before, after) = host.split_at(colon);
    let name = match before.strip_prefix(b"[") {
        Some(inside) => inside.strip_suffix(b"]")?,
        None if before.contains(&b':') => return None,
        None => before,
    };
    let no_bracket = |text: &[u8]| !text.iter().any(|byte| matches!(byte, b'[' | b']'));
    let port = after.strip_prefix(b":")?;
    (no_bracket(name) && no_bracket(port)).then_some((name, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, String, String) {
        let url = SchemelessUrl::parse(text.as_bytes()).unwrap();
        let (name, port) = url.name_and_port();
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        (shown(name), shown(port), shown(&url.path))
    }

    #[test]
    fn a_text_falls_into_host_name_port_and_path() {
        let cases = [
            ("", ("", "", "")),
            ("reg.test", ("reg.test", "", "")),
            ("reg.test:", ("reg.test", "", "")),
            ("reg.test:0080/a/b", ("reg.test", "0080", "/a/b")),
            ("reg.test/a?b=%zz#c", ("reg.test", "", "/a")),
            ("reg.test#\t", ("reg.test", "", "")),
            ("reg?stry.test/a", ("reg", "", "")),
            ("me:pa%20ss@wo@reg.test/a", ("reg.test", "", "/a")),
            ("a]b:1", ("a]b:1", "", "")),
            ("reg%C3%A9%FF%25.test", (r"reg\xc3\xa9\xff%.test", "", "")),
            ("reg.test/%2a%00", ("reg.test", "", r"/*\x00")),
            ("[::1]", ("[::1]", "", "")),
            ("[::1]:", ("::1", "", "")),
            ("[fe80::1%25eth%200]:5000", ("fe80::1%eth 0", "5000", "")),
            ("[fe80::1%25a%5Db]:80", ("[fe80::1%a]b]:80", "", "")),
            ("[fe80::1%25a%5Bb]:80", ("[fe80::1%a[b]:80", "", "")),
            ("https://reg.test", ("https", "", "//reg.test")),
        ];
        for (text, (name, port, path)) in cases {
            let expected = (name.to_owned(), port.to_owned(), path.to_owned());
            assert_eq!(parts(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused_in_go_s_words() {
        let cases = [
            ("reg.test:80*", r#"parse "https://reg.test:80*": invalid port ":80*" after host"#),
            ("a:1:2", r#"parse "https://a:1:2": invalid port ":1:2" after host"#),
            ("[::1]x", r#"parse "https://[::1]x": invalid port "x" after host"#),
            ("a b", r#"parse "https://a b": invalid character " " in host name"#),
            ("a\\b", r#"parse "https://a\\b": invalid character "\\" in host name"#),
            ("a\tb#c", r#"parse "https://a\tb": net/url: invalid control character in URL"#),
            ("a%2e", r#"parse "https://a%2e": invalid URL escape "%2e""#),
            ("a/%aé", r#"parse "https://a/%aé": invalid URL escape "%a\xc3""#),
            ("a#%1", r#"parse "https://a#%1": invalid URL escape "%1""#),
            ("u%:1@a", r#"parse "https://u%:1@a": invalid URL escape "%""#),
            ("ü@a", r#"parse "https://ü@a": net/url: invalid userinfo"#),
            ("ü@a^", r#"parse "https://ü@a^": invalid character "^" in host name"#),
            ("a[b]", r#"parse "https://a[b]": invalid IP-literal"#),
            ("[1.2.3.4]", r#"parse "https://[1.2.3.4]": invalid IP-literal"#),
            ("[::1", r#"parse "https://[::1": missing ']' in host"#),
            ("[::1%25a%2Fb]", r#"parse "https://[::1%25a%2Fb]": invalid URL escape "%2F""#),
            (
                "[::1%25]",
                r#"parse "https://[::1%25]": invalid host: ParseAddr("::1%"): zone must be a non-empty string"#,
            ),
        ];
        for (text, expected) in cases {
            let error = SchemelessUrl::parse(text.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
