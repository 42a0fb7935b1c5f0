//! Go's file-name patterns, for one label of a host name.
//!
//! A name is bytes, since a percent-encoded host may decode to anything; classes look at characters, as Go does. Every
//! star settles on its first fit and is never revisited, and plain text is searched for in linear time, so that long
//! names and patterns of strangers cost no more than reading them.
//! Upstream: `path/filepath.Match` (Go 1.26) as it works on Linux.

use memchr::memmem;

/// Upstream's `syntax error in pattern`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadPattern;

/// Whether the whole name fits the pattern. A malformed pattern is an error only once the malformed piece is reached.
pub(crate) fn matches(mut pattern: &[u8], mut name: &[u8]) -> Result<bool, BadPattern> {
    while !pattern.is_empty() {
        let chunk = Chunk::first_of(pattern);
        if chunk.after_star && chunk.terms.is_empty() {
            return Ok(!name.contains(&b'/'));
        }
        let Some(rest) = chunk.find(name)? else {
            return Ok(false);
        };
        (pattern, name) = (chunk.rest, rest);
    }
    Ok(name.is_empty())
}

/// Whether some piece of the pattern is malformed, reached or not. Such a pattern matches no name.
pub(crate) fn is_malformed(mut pattern: &[u8]) -> bool {
    while !pattern.is_empty() {
        let chunk = Chunk::first_of(pattern);
        if match_terms(chunk.terms, b"").is_err() {
            return true;
        }
        pattern = chunk.rest;
    }
    false
}

/// A run of terms without a star, possibly after one.
struct Chunk<'p> {
    after_star: bool,
    terms: &'p [u8],
    rest: &'p [u8],
}

impl<'p> Chunk<'p> {
    fn first_of(pattern: &'p [u8]) -> Self {
        let stars = pattern.iter().take_while(|byte| **byte == b'*').count();
        let (_, pattern) = pattern.split_at(stars);
        let (terms, rest) = pattern.split_at(next_star(pattern));
        Self { after_star: stars > 0, terms, rest }
    }

    /// What is left of the name after these terms, at the first place where they fit.
    fn find<'n>(&self, name: &'n [u8]) -> Result<Option<&'n [u8]>, BadPattern> {
        if !self.terms.iter().any(|byte| matches!(byte, b'[' | b'?' | b'\\')) {
            return Ok(self.find_text(name));
        }
        let mut start = name;
        loop {
            if let Some(rest) = match_terms(self.terms, start)?
                && (rest.is_empty() || !self.rest.is_empty())
            {
                return Ok(Some(rest));
            }
            match start.split_first() {
                Some((skipped, later)) if self.after_star && *skipped != b'/' => start = later,
                _ => return Ok(None),
            }
        }
    }
}

impl Chunk<'_> {
    /// The same for terms that stand for themselves.
    fn find_text<'n>(&self, name: &'n [u8]) -> Option<&'n [u8]> {
        let at = if !self.after_star {
            name.starts_with(self.terms).then_some(0)?
        } else if self.rest.is_empty() {
            name.strip_suffix(self.terms)?.len()
        } else {
            memmem::find(name, self.terms)?
        };
        let skipped = name.get(..at)?;
        if skipped.contains(&b'/') { None } else { name.get(at + self.terms.len()..) }
    }
}

/// The position of the first star that is neither escaped nor inside a class, or the pattern's length.
fn next_star(pattern: &[u8]) -> usize {
    let mut escaped = false;
    let mut in_class = false;
    let is_star = |byte: &u8| {
        if escaped {
            escaped = false;
            return false;
        }
        match byte {
            b'\\' => escaped = true,
            b'[' => in_class = true,
            b']' => in_class = false,
            _ => {}
        }
        *byte == b'*' && !in_class
    };
    pattern.iter().position(is_star).unwrap_or(pattern.len())
}

/// Fits terms to the start of a name and gives what is left of it, `None` if they do not fit.
///
/// The terms are read to their end in either case, so that a malformed one behind a mismatch is still reported.
fn match_terms<'n>(mut terms: &[u8], name: &'n [u8]) -> Result<Option<&'n [u8]>, BadPattern> {
    let mut left = Some(name);
    while let Some((term, rest)) = terms.split_first() {
        let next = left.and_then(<[u8]>::split_first);
        (terms, left) = match term {
            b'[' => match_class(rest, left.filter(|name| !name.is_empty()))?,
            b'?' => (
                rest,
                next.filter(|(byte, _)| **byte != b'/').and(left).map(|name| first_char(name).1),
            ),
            b'\\' => {
                let (literal, rest) = rest.split_first().ok_or(BadPattern)?;
                (rest, same_byte(*literal, next))
            }
            literal => (rest, same_byte(*literal, next)),
        };
    }
    Ok(left)
}

fn same_byte<'n>(literal: u8, next: Option<(&u8, &'n [u8])>) -> Option<&'n [u8]> {
    next.filter(|(byte, _)| **byte == literal).map(|(_, rest)| rest)
}

/// Reads a class from behind its `[` and fits it to the first character: the terms behind it, and the name behind that.
fn match_class<'p, 'n>(
    class: &'p [u8],
    name: Option<&'n [u8]>,
) -> Result<(&'p [u8], Option<&'n [u8]>), BadPattern> {
    let first = name.map(first_char);
    let negated = class.starts_with(b"^");
    let mut members = class.strip_prefix(b"^").unwrap_or(class);
    let mut hit = false;
    loop {
        let (low, rest) = class_member(members)?;
        let (high, rest) = match rest.strip_prefix(b"-") {
            Some(rest) => class_member(rest)?,
            None => (low, rest),
        };
        hit |= first.is_some_and(|(c, _)| low <= c && c <= high);
        members = rest;
        if let Some(terms) = members.strip_prefix(b"]") {
            let fits = first.filter(|_| hit != negated);
            return Ok((terms, fits.map(|(_, rest)| rest)));
        }
    }
}

/// One character of a class, possibly escaped, and the rest, which cannot be empty: the class is not closed yet.
fn class_member(class: &[u8]) -> Result<(char, &[u8]), BadPattern> {
    if matches!(class.first(), None | Some(b'-' | b']')) {
        return Err(BadPattern);
    }
    let class = class.strip_prefix(b"\\").unwrap_or(class);
    let (c, rest) = first_char(class);
    let invalid = c == char::REPLACEMENT_CHARACTER && class.len() - rest.len() <= 1;
    if invalid || rest.is_empty() {
        return Err(BadPattern);
    }
    Ok((c, rest))
}

/// The first character; a byte that starts none is U+FFFD, one byte long, as in Go.
fn first_char(text: &[u8]) -> (char, &[u8]) {
    let window = text.get(..char::MAX_LEN_UTF8).unwrap_or(text);
    let valid = window.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let (c, width) = match valid.chars().next() {
        Some(c) => (c, c.len_utf8()),
        None => (char::REPLACEMENT_CHARACTER, 1),
    };
    (c, text.get(width..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_behind_a_star_is_found_at_its_first_place_or_at_the_end() {
        for (pattern, name, expected) in [
            ("*ab", "aab", true),
            ("*ab", "aba", false),
            ("*ab*", "xxabxx", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "acb", false),
            ("*a", "x/a", false),
            ("a*", "a/", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                Ok(expected),
                "{pattern} {name}"
            );
        }
        let (pattern, name) = (format!("*{}b*", "a".repeat(200_000)), "a".repeat(400_000));
        assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), Ok(false), "in linear time");
    }

    #[test]
    fn a_pattern_matches_as_in_go() {
        let cases: &[(&str, &str, Result<bool, BadPattern>)] = &[
            ("", "", Ok(true)),
            ("", "a", Ok(false)),
            ("reg", "reg", Ok(true)),
            ("reg", "regs", Ok(false)),
            ("*", "", Ok(true)),
            ("*", "anything", Ok(true)),
            ("*", "a/b", Ok(false)),
            ("*b", "a/b", Ok(false)),
            ("eu-**-1", "eu-west-1", Ok(true)),
            ("eu-*-1", "eu-west-2", Ok(false)),
            ("*ab*ab", "xabab", Ok(true)),
            ("*aab", "aaab", Ok(true)),
            ("?", "é", Ok(true)),
            ("?", "/", Ok(false)),
            ("??", "é", Ok(false)),
            ("[a-c]x", "bx", Ok(true)),
            ("[a-c]x", "dx", Ok(false)),
            ("[^a-c]", "d", Ok(true)),
            ("[^a-c]", "b", Ok(false)),
            ("[é]", "é", Ok(true)),
            ("[::1]", "1", Ok(true)),
            ("[::1]", "[::1]", Ok(false)),
            ("[*]", "*", Ok(true)),
            (r"[\]]", "]", Ok(true)),
            (r"\*", "*", Ok(true)),
            (r"\*", "a", Ok(false)),
            ("[", "a", Err(BadPattern)),
            ("[]", "a", Err(BadPattern)),
            ("[-]", "-", Err(BadPattern)),
            ("[a-]", "a", Err(BadPattern)),
            ("[^]", "a", Err(BadPattern)),
            ("x[", "a", Err(BadPattern)),
            (r"\", "a", Err(BadPattern)),
            (r"[\", "a", Err(BadPattern)),
        ];
        for (pattern, name, expected) in cases {
            let ours = matches(pattern.as_bytes(), name.as_bytes());
            assert_eq!(ours, *expected, "{pattern} and {name}");
        }
    }

    #[test]
    fn a_malformed_piece_is_reported_only_when_reached() {
        assert_eq!(matches(b"a*[", b"b"), Ok(false));
        assert_eq!(matches(b"a*[", b"a"), Err(BadPattern));
        assert!(is_malformed(b"a*["));
        assert!(!is_malformed(b"a*[b]*"));
    }

    #[test]
    fn a_byte_that_is_no_character_counts_as_one_replacement_character() {
        assert_eq!(matches(b"?", b"\xff"), Ok(true));
        assert_eq!(matches(b"?", b"\xe3\x81"), Ok(false));
        assert_eq!(matches("[\u{fffd}]".as_bytes(), b"\xff"), Ok(true));
        assert_eq!(matches(b"\xff*", b"\xff\xfe"), Ok(true));
        assert_eq!(matches(b"[\xff]", b"\xff"), Err(BadPattern));
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let pattern = b"a*".repeat(500);
        let name = [b"a".repeat(2000), b"b".to_vec()].concat();
        assert_eq!(matches(&[pattern.as_slice(), b"c"].concat(), &name), Ok(false));
        assert_eq!(matches(&[pattern.as_slice(), b"b"].concat(), &name), Ok(true));
    }
}
