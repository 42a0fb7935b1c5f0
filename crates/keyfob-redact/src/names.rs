//! Values that the name in front of them gives away as secrets: `password=…`, `Authorization: Basic …`, `--token …`.
//!
//! Sentences stay readable: "token expired", "failed to get token: context deadline exceeded" and "secret \"x\" not found"
//! assign nothing. A name in front of `=`, of a quoted text or of something that looks random does.

use std::ops::Range;

use super::REDACTED;

/// Whether the name of a variable, a flag or a field says that its value is a secret: `API_TOKEN`, `--client-secret`,
/// `Authorization`.
///
/// A name that ends in a place, a kind or a program (`TOKEN_FILE`, `secretName`, `ecr-credential-provider`) speaks of where or
/// what the secret is, or who has it.
pub fn speaks_of_a_secret(name: &str) -> bool {
    const WITHIN: [&str; 8] =
        ["token", "secret", "passw", "passphrase", "passcode", "pwd", "credential", "apikey"];
    const WORDS: [&str; 10] = [
        "pass",
        "pw",
        "auth",
        "authorization",
        "jwt",
        "cookie",
        "assertion",
        "signature",
        "sig",
        "psk",
    ];
    const ENDS: [&str; 27] = [
        // Programs and parts of programs that handle secrets.
        "provider",
        "providers",
        "helper",
        "helpers",
        "login",
        "plugin",
        "manager",
        "process",
        "server",
        "service",
        // Places and kinds.
        "file",
        "path",
        "dir",
        "uri",
        "url",
        "sock",
        "stdin",
        "name",
        "type",
        "expiry",
        "expires",
        "expiration",
        "ttl",
        "audience",
        "endpoint",
        "issuer",
        "namespace",
    ];
    const PUBLIC: [&str; 3] = ["public-key", "cache-key", "primary-key"];
    let words = words(name);
    let joined = words.join("-");
    let ends_elsewhere = words.last().is_some_and(|last| ENDS.contains(&last.as_str()))
        || PUBLIC.iter().any(|public| joined.ends_with(public));
    let speaks = WITHIN.iter().any(|word| joined.contains(word))
        || words.iter().any(|word| WORDS.contains(&word.as_str()))
        || words.iter().any(|word| word.ends_with("auth"))
        || joined.ends_with("-key");
    speaks && !ends_elsewhere
}

/// The words of a name in lower case: `AWS_SECRET_ACCESS_KEY`, `client-secret`, `clientSecret`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        let starts = !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && was_lower);
        if starts {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_ascii_alphanumeric()) {
            word.push(c.to_ascii_lowercase());
        }
        was_lower = c.is_ascii_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The values in a text that names give away.
pub(super) fn values(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let length = rest(text, at).iter().take_while(|byte| is_of_name(**byte)).count();
        if length == 0 {
            at += 1;
            continue;
        }
        let value = Name::read(text, at..at + length).and_then(|name| name.value());
        // What is hidden is not looked at again: many names in a row must not cost more than their length.
        at = value.as_ref().map_or(at + length, |value| value.end.max(at + length));
        found.extend(value);
    }
    found
}

/// A name that speaks of a secret, and the text around it.
struct Name<'a> {
    text: &'a [u8],
    at: Range<usize>,
    kind: Kind,
    is_flag: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The rest of the line is the value.
    Header,
    /// `Basic`, `Bearer`: the next word is the value.
    Scheme,
    /// No sentence puts a colon behind it: `password`, `client_secret`.
    Strong,
    /// `token`, `auth`, `signature`: sentences do.
    Weak,
}

impl<'a> Name<'a> {
    fn read(text: &'a [u8], at: Range<usize>) -> Option<Self> {
        const LONGEST: usize = 80;
        let full = std::str::from_utf8(text.get(at.clone())?).ok()?;
        let name = full.trim_start_matches(['-', '.', '_']);
        let is_flag = full.starts_with('-');
        let start = at.end - name.len();
        let lower = name.to_ascii_lowercase();
        let before = start.checked_sub(1).and_then(|before| text.get(before));
        let kind = match lower.as_str() {
            _ if name.len() > LONGEST => return None,
            "authorization" | "proxy-authorization" | "cookie" | "set-cookie" => Kind::Header,
            "basic" | "bearer" => Kind::Scheme,
            // The end of a signature in the addresses of Azure's storage.
            "se" if matches!(before, Some(b'?' | b'&')) => Kind::Weak,
            _ if !speaks_of_a_secret(name) => return None,
            lower if ["token", "auth", "sig"].iter().any(|word| lower.contains(word)) => Kind::Weak,
            _ => Kind::Strong,
        };
        Some(Self { text, at: start..at.end, kind, is_flag })
    }

    fn value(&self) -> Option<Range<usize>> {
        let mut at = self.at.end;
        at += count(self.text, at, |byte| matches!(byte, b'"' | b'\'' | b'`' | b'\\' | b']'));
        let is_quoted = at > self.at.end;
        let space = count(self.text, at, is_blank);
        if self.kind == Kind::Scheme {
            return self.scheme_value(at + space).filter(|_| space > 0 && !is_quoted);
        }
        match rest(self.text, at + space) {
            [b'>', ..] if space == 0 => self.element(at + 1),
            [b'=', ..] => self.assigned(at + space + 1),
            [b':', b':' | b'/', ..] => None,
            [b':', b'=', ..] => self.assigned(at + space + 2),
            [b':', ..] => self.described(at + space + 1, is_quoted),
            _ if self.is_flag && space > 0 => {
                let word = self.quoted(at + space).unwrap_or_else(|| self.word(at + space));
                (!word.is_empty() && self.text.get(word.start) != Some(&b'-')).then_some(word)
            }
            _ => None,
        }
    }

    /// Behind `Basic` or `Bearer`.
    fn scheme_value(&self, at: usize) -> Option<Range<usize>> {
        let word = self.word(at);
        let text = self.text.get(word.clone())?;
        let bare = text.iter().rev().skip_while(|byte| **byte == b'=').any(|byte| *byte == b'=');
        (!bare && looks_random(text)).then_some(word)
    }

    /// Behind `=`.
    fn assigned(&self, at: usize) -> Option<Range<usize>> {
        let at = at + count(self.text, at, |byte| matches!(byte, b'=' | b'>'));
        let at = at + count(self.text, at, is_blank);
        let value = self.quoted(at).or_else(|| self.line(at).filter(|_| self.kind == Kind::Header));
        let value = value.unwrap_or_else(|| self.word(at));
        self.unless_neutral(value)
    }

    /// Behind `:`.
    fn described(&self, at: usize, is_quoted: bool) -> Option<Range<usize>> {
        let space = count(self.text, at, is_blank);
        let at = at + space;
        if self.kind == Kind::Header {
            return self.header(at);
        }
        if let Some(value) = self.quoted(at).or_else(|| self.block(at)) {
            return self.unless_neutral(value);
        }
        let word = self.word(at);
        let text = self.text.get(word.clone())?;
        let is_error = text.ends_with(b":");
        let is_field = is_quoted || self.is_field();
        let is_value = match self.kind {
            Kind::Strong if is_field && self.is_password() => {
                return self.unless_neutral(self.line(at)?);
            }
            // A sentence has several words: "client_secret: missing in azure.json".
            Kind::Strong if is_field && self.line(at) == Some(word.clone()) => true,
            _ => !is_error && looks_random(text),
        };
        self.unless_neutral(word).filter(|_| is_value)
    }

    /// The value of a header, which may be folded behind its scheme.
    fn header(&self, at: usize) -> Option<Range<usize>> {
        let line = self.line(at).unwrap_or(at..at);
        let shown = self.text.get(line.clone()).unwrap_or_default();
        let is_folded =
            ["", "basic", "bearer"].iter().any(|it| shown.eq_ignore_ascii_case(it.as_bytes()));
        let next = line.end + count(self.text, line.end, |byte| byte.is_ascii_whitespace());
        let value = match self.line(next).filter(|_| is_folded) {
            Some(next) => line.start..next.end,
            None => line,
        };
        (!value.is_empty()).then_some(value)
    }

    /// The content of an XML element.
    fn element(&self, at: usize) -> Option<Range<usize>> {
        let before = self.at.start.checked_sub(1).and_then(|before| self.text.get(before));
        let length = count(self.text, at, |byte| byte != b'<');
        let value = at..at + length;
        self.unless_neutral(value).filter(|_| before == Some(&b'<') && length > 0)
    }

    /// Whether it is the name of something that people choose, perhaps in several words.
    fn is_password(&self) -> bool {
        const ENDS: [&str; 6] = ["password", "passwd", "passphrase", "passcode", "pass", "pwd"];
        let name = self.text.get(self.at.clone()).unwrap_or_default().to_ascii_lowercase();
        ENDS.iter().any(|end| name.ends_with(end.as_bytes()))
    }

    /// Whether it stands at the beginning of a line or behind punctuation, as the names of fields do.
    fn is_field(&self) -> bool {
        let before = self.text.get(..self.at.start).unwrap_or_default();
        let mut before = before.iter().rev().skip_while(|byte| {
            matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'`' | b'\\' | b'-' | b'.' | b'_')
        });
        before.next().is_none_or(|byte| b"\n\r,;:({[&?|".contains(byte))
    }

    /// What stands between quotes, or behind a quote that is never closed. In a quoted text the quotes have backslashes, the
    /// closing one as many as the opening one.
    fn quoted(&self, at: usize) -> Option<Range<usize>> {
        let escapes = count(self.text, at, |byte| byte == b'\\');
        let start = at + escapes + 1;
        let quote = *self.text.get(start - 1).filter(|byte| matches!(byte, b'"' | b'\'' | b'`'))?;
        let mut backslashes = 0;
        let mut inside = rest(self.text, start).iter().enumerate().peekable();
        while let Some((length, byte)) = inside.next() {
            if *byte == b'\\' {
                backslashes += 1;
                continue;
            }
            let closes = match escapes {
                0 => backslashes % 2 == 0,
                _ => backslashes == escapes,
            };
            if *byte == quote && closes {
                let is_doubled = inside.next_if(|(_, next)| **next == quote).is_some();
                if quote != b'\'' || !is_doubled {
                    return Some(start..start + length - escapes);
                }
            }
            backslashes = 0;
        }
        self.line(start)
    }

    /// The indented lines behind `|` or `>`, or a list in brackets.
    fn block(&self, at: usize) -> Option<Range<usize>> {
        let text = rest(self.text, at);
        if text.first() == Some(&b'[') {
            let length = text.iter().position(|byte| matches!(byte, b']' | b'\n'));
            return Some(at + 1..at + length.unwrap_or(text.len()));
        }
        let mut lines = text.split_inclusive(|byte| *byte == b'\n');
        let head = lines.next().filter(|head| matches!(head.first(), Some(b'|' | b'>')))?;
        let mark = head.trim_ascii().get(1..)?;
        mark.iter().all(|byte| b"+-0123456789".contains(byte)).then_some(())?;
        let indented = |line: &&[u8]| line.first().is_none_or(u8::is_ascii_whitespace);
        let length: usize = lines.take_while(indented).map(<[u8]>::len).sum();
        (length > 0).then_some(at + head.len()..at + head.len() + length)
    }

    /// The rest of the line, or of the quotes that it stands in.
    fn line(&self, at: usize) -> Option<Range<usize>> {
        let before = self.at.start.checked_sub(1).and_then(|before| self.text.get(before));
        let quote = before.copied().filter(|byte| matches!(byte, b'"' | b'\''));
        let ends = |byte: u8| byte == b'\n' || byte == b'\r' || Some(byte) == quote;
        let length = count(self.text, at, |byte| !ends(byte));
        let text = self.text.get(at..at + length)?;
        let length = text.trim_ascii_end().len();
        (length > 0).then_some(at..at + length)
    }

    /// Up to a space, a closing quote, or the next field of a query.
    fn word(&self, at: usize) -> Range<usize> {
        let text = rest(self.text, at);
        let ends = |(length, byte): (usize, &u8)| match byte {
            byte if byte.is_ascii_whitespace() => true,
            b'"' | b'\'' | b'`' | b'\\' | b'<' | b'>' => {
                text.get(length + 1).is_none_or(|next| !next.is_ascii_alphanumeric())
            }
            b'&' => {
                let next = rest(text, length + 1);
                let name = next.iter().take_while(|byte| is_of_name(**byte)).count();
                next.get(name) == Some(&b'=')
            }
            _ => false,
        };
        let length = text.iter().enumerate().position(ends).unwrap_or(text.len());
        let closing = |byte: &&u8| matches!(byte, b',' | b';' | b')' | b']' | b'}' | b'.');
        let word = text.get(..length).unwrap_or_default();
        at..at + length - word.iter().rev().take_while(closing).count()
    }

    /// A switch or nothing at all is no secret, nor is what was redacted before, whose brackets look like those of a list.
    fn unless_neutral(&self, value: Range<usize>) -> Option<Range<usize>> {
        const NEUTRAL: [&[u8]; 14] = [
            b"",
            b"true",
            b"false",
            b"null",
            b"nil",
            b"<nil>",
            b"none",
            b"yes",
            b"no",
            b"0",
            b"1",
            b"***",
            b"{",
            b"[redacted]",
        ];
        let list = value.start.saturating_sub(1);
        if [list, value.start]
            .iter()
            .any(|at| rest(self.text, *at).starts_with(REDACTED.as_bytes()))
        {
            return None;
        }
        let text = self.text.get(value.clone())?.to_ascii_lowercase();
        (!NEUTRAL.contains(&text.as_slice())).then_some(value)
    }
}

const SHORTEST_RANDOM: usize = 4;

/// Whether no sentence has such a word: letters and digits, or capitals in its middle, or signs.
fn looks_random(word: &[u8]) -> bool {
    const LONGEST_WORD: usize = 256;
    let has = |kind: fn(&u8) -> bool| word.iter().any(kind);
    let is_address = word.windows(3).any(|three| three == b"://");
    let is_camel = word
        .windows(2)
        .any(|two| matches!(two, [a, b] if a.is_ascii_lowercase() && b.is_ascii_uppercase()));
    let signs = has(|byte| b"!@#$%^&*+=~".contains(byte));
    let mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
    let is_word = is_address || !(mixed || is_camel || signs);
    word.len() > LONGEST_WORD || (word.len() >= SHORTEST_RANDOM && !is_word)
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn rest(text: &[u8], at: usize) -> &[u8] {
    text.get(at..).unwrap_or_default()
}

fn count(text: &[u8], at: usize, fits: impl Fn(u8) -> bool) -> usize {
    rest(text, at).iter().take_while(|byte| fits(**byte)).count()
}
