//! Why a pattern does not match an image.

use thiserror::Error;

use super::{Difference, LabelPattern, MatchPattern, MatchTarget, NeverMatches};

/// Why a pattern does not match an image: the first reason, in the order in which the kubelet looks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// A label of the pattern is no well-formed glob; upstream gives up with these first words.
    #[error(
        "syntax error in pattern: label {number}, {pattern:?}, has a \"[\" that is never closed or an empty range"
    )]
    BadGlob {
        /// Which label, counted from 1.
        number: usize,
        /// The label.
        pattern: String,
    },
    /// A label does not match.
    #[error(
        "labels differ: label {number} of the image's host name is {image:?}, the pattern's is {pattern:?}"
    )]
    Label {
        /// Which label, counted from 1.
        number: usize,
        /// The pattern's label.
        pattern: String,
        /// The image's label.
        image: String,
    },
    /// The host names have different numbers of labels.
    #[error(
        "labels differ: the pattern's host name {pattern:?} has {}, the image's {image:?} has {}, and each \"*\" stands for one",
        pattern.split('.').count(),
        image.split('.').count()
    )]
    LabelCount {
        /// The pattern's host name.
        pattern: String,
        /// The image's host name.
        image: String,
    },
    /// The pattern matches no image at all.
    #[error("never matches because {0}")]
    Never(NeverMatches),
    /// The image's path does not begin with the pattern's.
    #[error(
        "path is not a prefix: the image's {image:?} does not begin with the pattern's {pattern:?}"
    )]
    Path {
        /// The pattern's path.
        pattern: String,
        /// The image's path.
        image: String,
    },
    /// The ports differ.
    #[error("{}", explain_ports(.pattern.as_deref(), .image.as_deref()))]
    Port {
        /// The pattern's port.
        pattern: Option<String>,
        /// The image's port.
        image: Option<String>,
    },
}

impl Mismatch {
    /// Puts a difference into words. That a pattern is useless says more than where this image shows it, but a
    /// malformed glob is an error upstream and stays one.
    pub(super) fn new(
        difference: Difference,
        pattern: &MatchPattern,
        target: &MatchTarget,
    ) -> Self {
        if let Difference::BadGlob(index) = difference {
            return Self::BadGlob { number: index + 1, pattern: label_text(pattern, index) };
        }
        pattern
            .never_matches()
            .map_or_else(|| Self::between(difference, pattern, target), Self::Never)
    }

    pub(super) fn between(
        difference: Difference,
        pattern: &MatchPattern,
        target: &MatchTarget,
    ) -> Self {
        match difference {
            Difference::Port => Self::Port {
                pattern: pattern.port().map(str::to_owned),
                image: target.port().map(str::to_owned),
            },
            Difference::LabelCount => {
                Self::LabelCount { pattern: pattern.name(), image: lossy(&target.name) }
            }
            Difference::Path => {
                Self::Path { pattern: lossy(&pattern.path), image: lossy(&target.path) }
            }
            Difference::Label(index) | Difference::BadGlob(index) => Self::Label {
                number: index + 1,
                pattern: label_text(pattern, index),
                image: target.labels().nth(index).map(lossy).unwrap_or_default(),
            },
        }
    }
}

fn label_text(pattern: &MatchPattern, index: usize) -> String {
    let label = pattern.labels.get(index).map(LabelPattern::text);
    label.unwrap_or_default().into_owned()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn explain_ports(pattern: Option<&str>, image: Option<&str>) -> String {
    let [ours, theirs] = [pattern, image].map(|port| port.unwrap_or("none"));
    let both = format!("port differs: the pattern has {ours}, the image {theirs}");
    match pattern {
        Some(_) => both,
        None => format!("{both}; a pattern without a port never matches an image with one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(pattern: &str, image: &str) -> String {
        let pattern = MatchPattern::parse(pattern).unwrap();
        let target = MatchTarget::parse(image).unwrap();
        pattern.check(&target).unwrap_err().to_string()
    }

    #[test]
    fn the_first_difference_is_explained_with_both_sides() {
        let cases = [
            (
                "reg.test/x",
                "eu.reg.test:5000/a",
                "port differs: the pattern has none, the image 5000; a pattern without a port never matches an image with one",
            ),
            ("reg.test:443", "reg.test/a", "port differs: the pattern has 443, the image none"),
            (
                "*.test/x",
                "eu.reg.test/a",
                r#"labels differ: the pattern's host name "*.test" has 2, the image's "eu.reg.test" has 3, and each "*" stands for one"#,
            ),
            (
                "*.x/team",
                "reg.test/a",
                r#"path is not a prefix: the image's "/a" does not begin with the pattern's "/team""#,
            ),
            (
                "*.x",
                "reg.test/a",
                r#"labels differ: label 2 of the image's host name is "test", the pattern's is "x""#,
            ),
            (
                "[::ffff:10.0.0.1]",
                "a.b.c.d/a",
                r#"syntax error in pattern: label 1, "[::ffff:10", has a "[" that is never closed or an empty range"#,
            ),
        ];
        for (pattern, image, expected) in cases {
            assert_eq!(reason(pattern, image), expected);
        }
    }

    #[test]
    fn a_useless_pattern_is_called_useless() {
        let never = MatchPattern::parse("reg.test/*").unwrap().never_matches();
        let expected = format!("never matches because {}", never.unwrap());
        assert_eq!(reason("reg.test/*", "reg.test/a"), expected);
    }
}
