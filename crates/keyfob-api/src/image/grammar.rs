//! The grammar of image references, once the registry is filled in.
//!
//! Upstream: the regular expressions of `github.com/distribution/reference` v0.6.0, written out.

use super::ImageFault;

/// The longest path there may be.
pub(crate) const MAX_PATH: usize = 255;

/// The pieces of `registry/path:tag@digest`, each well-formed.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    pub(super) registry: &'a str,
    pub(super) path: &'a str,
    pub(super) tag: Option<&'a str>,
    pub(super) digest: Option<&'a str>,
}

impl<'a> Parts<'a> {
    pub(super) fn split(reference: &'a str) -> Result<Self, ImageFault> {
        let (registry, remainder) = reference.split_once('/').unwrap_or((reference, ""));
        let (remainder, digest) = split_off(remainder, '@');
        let (path, tag) = split_off(remainder, ':');
        // A host that is none may still be the first component of a path: `r_1.io/app`.
        if !is_registry(registry) && !is_component(registry) {
            return Err(ImageFault::Registry(registry.to_owned()));
        }
        check_path(path)?;
        if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
            return Err(ImageFault::Tag(tag.to_owned()));
        }
        if let Some(digest) = digest.filter(|digest| !is_digest(digest)) {
            return Err(ImageFault::Digest(digest.to_owned()));
        }
        Ok(Self { registry, path, tag, digest })
    }

    /// The length upstream limits: the path's, and the registry's too if that is no host, or if it does not matter.
    pub(super) fn counted_length(&self) -> usize {
        let whole = self.registry.len() + 1 + self.path.len();
        if whole > MAX_PATH && is_registry(self.registry) { self.path.len() } else { whole }
    }
}

/// An image's id: names are not read as one, nor told apart from one.
pub(super) fn is_identifier(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether some path of an image begins with this text.
pub(crate) fn is_path_prefix(text: &str) -> bool {
    text.len() <= MAX_PATH && check_path(&format!("{text}a")).is_ok()
}

fn split_off(text: &str, separator: char) -> (&str, Option<&str>) {
    match text.split_once(separator) {
        Some((before, behind)) => (before, Some(behind)),
        None => (text, None),
    }
}

fn check_path(path: &str) -> Result<(), ImageFault> {
    match path.split('/').find(|component| !is_component(component)) {
        None => Ok(()),
        Some("") => Err(ImageFault::EmptyComponent),
        Some(component) => Err(ImageFault::Component(component.to_owned())),
    }
}

fn is_registry(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[') {
        Some(inside) => match inside.split_once(']') {
            Some((address, port)) if is_address(address) => return is_port(port),
            _ => return false,
        },
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    host.as_bytes().split(|byte| *byte == b'.').all(is_label) && is_port(port)
}

/// Any hexadecimal digits and colons: whether they make an address is not asked here.
fn is_address(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
}

fn is_port(text: &str) -> bool {
    match text.strip_prefix(':') {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => text.is_empty(),
    }
}

fn is_label(label: &[u8]) -> bool {
    let dashed = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    !label.is_empty()
        && label.iter().all(dashed)
        && !label.starts_with(b"-")
        && !label.ends_with(b"-")
}

/// Runs of lower-case letters and digits, with one separator between two.
fn is_component(component: &str) -> bool {
    let in_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let mut left = component;
    loop {
        let separator = left.trim_start_matches(in_word);
        if separator.len() == left.len() {
            return false;
        }
        if separator.is_empty() {
            return true;
        }
        let word = separator.trim_start_matches(['.', '_', '-']);
        if !is_separator(separator.split_at(separator.len() - word.len()).0) {
            return false;
        }
        left = word;
    }
}

fn is_separator(text: &str) -> bool {
    matches!(text, "." | "_" | "__") || (!text.is_empty() && text.bytes().all(|byte| byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let in_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let allowed = |byte: u8| in_word(byte) || matches!(byte, b'.' | b'-');
    tag.len() <= 128 && tag.bytes().next().is_some_and(in_word) && tag.bytes().all(allowed)
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else {
        return false;
    };
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    algorithm.split(['-', '_', '+', '.']).all(is_name)
        && hex.len() >= 32
        && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_words_with_one_separator_between_two() {
        for good in ["a", "0", "a.b", "a_b", "a__b", "a-b", "a----b", "a.b_c__d-e"] {
            assert!(is_component(good), "{good}");
        }
        for bad in ["", "-a", "a-", "a..b", "a___b", "a._b", "a-_b", "A", "a:b", "é"] {
            assert!(!is_component(bad), "{bad}");
        }
    }

    #[test]
    fn a_registry_is_a_host_or_a_bracketed_address_with_an_optional_port() {
        for good in ["a", "A-1.b", "a:0", "1.2.3.4:99999", "[::1]", "[::1]:5", "[abc]", "a--b.c"] {
            assert!(is_registry(good), "{good}");
        }
        for bad in [
            "", "a.", ".a", "-a", "a-", "a_b", "a:", "a:b", "a:1:2", "[]", "[::1", "[::1]a",
            "[::g]", "[::1%0]",
        ] {
            assert!(!is_registry(bad), "{bad}");
        }
    }

    #[test]
    fn a_path_prefix_may_end_anywhere() {
        for good in ["", "a", "a/", "a/b.", "a__", "a--", &"a".repeat(MAX_PATH)] {
            assert!(is_path_prefix(good), "{good}");
        }
        for bad in ["/", "a//", "a___", "a*", "a:v", "A", &"a".repeat(MAX_PATH + 1)] {
            assert!(!is_path_prefix(bad), "{bad}");
        }
    }
}
