//! Which patterns make others needless.

use super::{LabelPattern, MatchPattern};

impl MatchPattern {
    /// Whether every image that `other` matches is certainly matched by this pattern too.
    ///
    /// ```
    /// use keyfob_api::MatchPattern;
    ///
    /// let pattern = MatchPattern::parse("*.registry.io").unwrap();
    /// assert!(pattern.covers(&MatchPattern::parse("eu-*.registry.io/team").unwrap()));
    /// assert!(!pattern.covers(&MatchPattern::parse("eu.registry.io:5000").unwrap()));
    /// ```
    pub fn covers(&self, other: &Self) -> bool {
        let labels = self.labels.iter().zip(&other.labels);
        self.port == other.port
            && self.labels.len() == other.labels.len()
            && other.path.starts_with(&self.path)
            && labels.into_iter().all(|(label, other)| label.covers(other))
    }
}

impl LabelPattern {
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (_, Self::Any) | (Self::Literal(_), Self::Glob(_)) => false,
            (Self::Literal(literal), Self::Literal(other)) => literal == other,
            (Self::Glob(glob), Self::Glob(other) | Self::Literal(other)) => {
                // A class is only compared with itself.
                glob == other || (!glob.contains(&b'[') && stars_cover(glob, other))
            }
        }
    }
}

/// Whether a text fits a glob that has no classes. A star of the text fits a star of the glob only: what stands for anything
/// needs something that takes anything.
fn stars_cover(glob: &[u8], text: &[u8]) -> bool {
    let pieces: Vec<&[u8]> = glob.split(|byte| *byte == b'*').collect();
    let [first, middle @ .., last] = pieces.as_slice() else { return false };
    let Some(mut rest) = text.strip_prefix(*first) else { return false };
    for piece in middle {
        let Some(place) = find(rest, piece) else { return false };
        rest = rest.get(place + piece.len()..).unwrap_or_default();
    }
    rest.ends_with(last) && !text.contains(&b'[')
}

fn find(text: &[u8], piece: &[u8]) -> Option<usize> {
    if piece.is_empty() {
        return Some(0);
    }
    text.windows(piece.len()).position(|window| window == piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(wide: &str, narrow: &str) -> bool {
        MatchPattern::parse(wide).unwrap().covers(&MatchPattern::parse(narrow).unwrap())
    }

    #[test]
    fn a_wider_pattern_covers_a_narrower_one() {
        for (wide, narrow) in [
            ("*.io", "r.io"),
            ("*.io", "*.io"),
            ("r.io", "r.io/team"),
            ("*.*.io", "a.b-*.io"),
            ("a*.io", "ab*.io"),
            ("a*c*e.io", "abcde.io"),
            ("a*c*e.io", "a*c-e.io"),
            ("r.io/te", "r.io/team"),
            ("r.io:", "r.io"),
        ] {
            assert!(covers(wide, narrow), "{wide} {narrow}");
        }
    }

    #[test]
    fn what_is_not_certain_is_not_said() {
        for (wide, narrow) in [
            ("r.io", "*.io"),
            ("ab*.io", "a*.io"),
            ("*a.io", "*.io"),
            ("a*a.io", "a.io"),
            ("*.io", "r.io:5000"),
            ("*.io", "a.b.io"),
            ("r.io/team", "r.io"),
            ("[::1]", "1"),
            ("*.io", "*.com"),
        ] {
            assert!(!covers(wide, narrow), "{wide} {narrow}");
        }
    }
}
