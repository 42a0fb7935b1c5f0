//! The name of content: the SHA-256 of its bytes.
//!
//! Not `keyfob_oci::Digest`: tests of the client believe what this registry accepts, so the two share no code.

use std::fmt;

use aws_lc_rs::digest::{Context, SHA256};

/// `sha256:` and 64 digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Digest([u8; 32]);

impl Digest {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:")?;
        let mut bytes = [0; 32];
        hex::decode_to_slice(hex, &mut bytes).ok()?;
        (!hex.contains(|digit: char| digit.is_ascii_uppercase())).then_some(Self(bytes))
    }

    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut sum = Summing::default();
        sum.add(bytes);
        sum.digest()
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The digest of what has come so far.
#[derive(Clone)]
pub(super) struct Summing(Context);

impl Default for Summing {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl Summing {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn digest(&self) -> Digest {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.clone().finish().as_ref());
        Digest(bytes)
    }
}

impl fmt::Debug for Summing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Summing(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_digest_is_read_as_it_is_written() {
        assert_eq!(Digest::of(b"").to_string(), EMPTY);
        assert_eq!(Digest::parse(EMPTY), Some(Digest::of(b"")));
    }

    #[test]
    fn nothing_else_is_a_digest() {
        let rows = [
            String::new(),
            EMPTY.to_uppercase(),
            EMPTY.replace("sha256", "sha512"),
            EMPTY.replace(':', "/"),
            format!("{EMPTY}0"),
            EMPTY[..70].to_owned(),
            EMPTY.replace("e3", "é"),
            "sha256:../../../../../../../../../../../../../../../../../../../../etc".to_owned(),
        ];
        for row in rows {
            assert_eq!(Digest::parse(&row), None, "{row}");
        }
    }
}
