//! Just enough of DER to walk to a field; what certificates and keys mean is left to those who verify them.

/// `INTEGER`
pub const INTEGER: u8 = 0x02;
/// `SEQUENCE`
pub const SEQUENCE: u8 = 0x30;

/// Values one behind the other.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "it may be a key")]
#[expect(clippy::exhaustive_structs, reason = "a wrapper of one value that callers build")]
pub struct Der<'a>(pub &'a [u8]);

impl<'a> Der<'a> {
    /// The first value if it has this tag, and what is behind it.
    pub fn take(self, tag: u8) -> Option<(Self, Self)> {
        let (rest, (found, value)) = self.any()?;
        (found == tag).then_some((rest, Self(value)))
    }

    /// The same, with tag and length still before the value.
    pub fn take_whole(self, tag: u8) -> Option<(Self, &'a [u8])> {
        let (rest, _) = self.take(tag)?;
        Some((rest, self.0.get(..self.0.len() - rest.0.len())?))
    }

    /// The first value with its tag, and what is behind it.
    pub fn any(self) -> Option<(Self, (u8, &'a [u8]))> {
        let (tag, rest) = self.0.split_first()?;
        let (length, rest) = length(rest)?;
        let (value, rest) = rest.split_at_checked(length)?;
        Some((Self(rest), (*tag, value)))
    }
}

/// One byte, or how many bytes follow that say it.
fn length(der: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = der.split_first()?;
    match *first {
        short @ 0..=0x7f => Some((usize::from(short), rest)),
        long @ 0x81..=0x83 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            Some((bytes.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)), rest))
        }
        _ => None,
    }
}
