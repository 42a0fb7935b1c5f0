//! A part of a blob.
//!
//! Upstream: RFC 9110, section 14.

/// Which part of a blob is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it: nothing else was asked for, or nothing that can be understood.
    Whole,
    /// From the first byte to the last, both counted.
    Between(u64, u64),
    /// Nothing that is there.
    Outside,
}

impl Part {
    /// Reads `bytes=first-last`, `bytes=first-` and `bytes=-count`. Several parts at once are all of it: that is allowed.
    pub(super) fn parse(range: Option<&str>, size: u64) -> Self {
        let Some(range) = range.and_then(|range| range.strip_prefix("bytes=")) else {
            return Self::Whole;
        };
        let Some((first, last)) = range.trim().split_once('-') else { return Self::Whole };
        let (first, last) = match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => (first, last),
            (Some(first), None) if last.is_empty() => (first, u64::MAX),
            (None, Some(0)) if first.is_empty() => return Self::Outside,
            (None, Some(count)) if first.is_empty() => (size.saturating_sub(count), u64::MAX),
            _ => return Self::Whole,
        };
        if first < size { Self::Between(first, last.min(size - 1)) } else { Self::Outside }
    }
}

/// Digits only: a sign is none. What does not fit is more than there is.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_understood() {
        let rows = [
            (None, 10, Part::Whole),
            (Some("bytes=0-3"), 10, Part::Between(0, 3)),
            (Some("bytes=4-"), 10, Part::Between(4, 9)),
            (Some("bytes=4-99"), 10, Part::Between(4, 9)),
            (Some("bytes=-3"), 10, Part::Between(7, 9)),
            (Some("bytes=-99"), 10, Part::Between(0, 9)),
            (Some("bytes=9-"), 10, Part::Between(9, 9)),
            (Some("bytes=10-"), 10, Part::Outside),
            (Some("bytes=10-12"), 10, Part::Outside),
            (Some("bytes=99999999999999999999999-"), 10, Part::Outside),
            (Some("bytes=-0"), 10, Part::Outside),
            (Some("bytes=0-"), 0, Part::Outside),
            (Some("bytes=5-4"), 10, Part::Whole),
            (Some("bytes=0-1,3-4"), 10, Part::Whole),
            (Some("bytes=+1-2"), 10, Part::Whole),
            (Some("bytes=a-b"), 10, Part::Whole),
            (Some("bytes=99-x"), 10, Part::Whole),
            (Some("bytes=-"), 10, Part::Whole),
            (Some("items=0-1"), 10, Part::Whole),
        ];
        for (range, size, want) in rows {
            assert_eq!(Part::parse(range, size), want, "{range:?} of {size}");
        }
    }
}
