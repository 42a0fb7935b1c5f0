//! Which providers an image concerns, at a cost that does not grow with the patterns that cannot match, but with the
//! number of shapes among them, which is small unless somebody makes it large on purpose.
//!
//! Each label of a pattern's host name fixes something of the image's label: all of it, or how it begins and ends.
//! Patterns that fix the same amounts are one *shape*: for it, what an image's name has in the fixed places is one
//! hash, which leads to the patterns that have the same there. Among those, the ones whose path begins the image's are
//! a chain, found by one binary search. Only what is left is compared in full.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use keyfob_api::{LabelPattern, MatchPattern, MatchTarget};

/// All patterns of all providers.
#[derive(Debug, Default)]
pub(crate) struct PatternIndex {
    /// By the number of labels.
    shapes: Vec<Vec<Shape>>,
}

impl PatternIndex {
    /// Patterns, each with the number of its provider.
    pub(crate) fn new(patterns: impl IntoIterator<Item = (MatchPattern, usize)>) -> Self {
        let mut by_fixed: HashMap<Vec<Fixed>, Shape> = HashMap::new();
        for (pattern, provider) in patterns {
            let fixed: Vec<Fixed> = pattern.labels().iter().map(Fixed::of).collect();
            let shape = by_fixed.entry(fixed).or_insert_with_key(|fixed| Shape::new(fixed));
            shape.add(pattern, provider);
        }
        let mut index = Self::default();
        for mut shape in by_fixed.into_values() {
            shape.buckets.values_mut().for_each(Bucket::link);
            index.insert(shape);
        }
        index
    }

    /// The numbers of the providers with a pattern that matches, in order, each once.
    pub(crate) fn providers(&self, target: &MatchTarget) -> Vec<usize> {
        let mut found = Vec::new();
        for shape in self.shapes.get(target.label_count()).into_iter().flatten() {
            if let Some(bucket) = shape.bucket(target) {
                bucket.providers(target, &mut found);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    fn insert(&mut self, shape: Shape) {
        let labels = shape.fixed.len();
        if self.shapes.len() <= labels {
            self.shapes.resize_with(labels + 1, Vec::new);
        }
        if let Some(shapes) = self.shapes.get_mut(labels) {
            shapes.push(shape);
        }
    }
}

/// What a label of a pattern fixes of an image's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fixed {
    Whole,
    /// So many bytes at its beginning and at its end.
    Ends(usize, usize),
}

impl Fixed {
    fn of(label: &LabelPattern) -> Self {
        match label {
            LabelPattern::Literal(_) => Self::Whole,
            LabelPattern::Glob(glob) => {
                let star_or_class = |byte: &u8| matches!(byte, b'*' | b'[');
                let start = glob.iter().position(star_or_class).unwrap_or(glob.len());
                let has_class = glob.contains(&b'[');
                let end = glob.iter().rev().position(|byte| *byte == b'*');
                Self::Ends(start, end.filter(|_| !has_class).unwrap_or(0))
            }
            // `Any`, and kinds of labels that this code does not know.
            _ => Self::Ends(0, 0),
        }
    }

    /// The fixed bytes of a label; nothing if it is too short for them.
    fn pieces(self, label: &[u8]) -> Option<(&[u8], &[u8])> {
        match self {
            Self::Whole => Some((label, &[])),
            Self::Ends(start, end) => {
                let (start, rest) = label.split_at_checked(start)?;
                let (_, end) = rest.split_at_checked(rest.len().checked_sub(end)?)?;
                Some((start, end))
            }
        }
    }
}

/// Patterns that fix the same amounts of the same labels.
#[derive(Debug)]
struct Shape {
    fixed: Vec<Fixed>,
    /// By the hash of what they fix.
    buckets: HashMap<u64, Bucket, BuildHasherDefault<AlreadyHashed>>,
}

impl Shape {
    fn new(fixed: &[Fixed]) -> Self {
        Self { fixed: fixed.into(), buckets: HashMap::default() }
    }

    fn add(&mut self, pattern: MatchPattern, provider: usize) {
        let labels = pattern.labels().iter().map(|label| match label {
            LabelPattern::Glob(text) | LabelPattern::Literal(text) => &**text,
            _ => &[],
        });
        if let Some(hash) = self.hash(labels, pattern.port()) {
            let ranked = Ranked { pattern, provider, shorter: None };
            self.buckets.entry(hash).or_default().0.push(ranked);
        }
    }

    fn bucket(&self, target: &MatchTarget) -> Option<&Bucket> {
        self.buckets.get(&self.hash(target.labels(), target.port())?)
    }

    /// Of the port and what the shape fixes: FNV-1a. What has equal hashes is compared in the end, so whoever makes an
    /// image's name collide with a pattern has gained nothing.
    fn hash<'a>(&self, labels: impl Iterator<Item = &'a [u8]>, port: Option<&str>) -> Option<u64> {
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        let mut hash = 0xcbf2_9ce4_8422_2325;
        for (fixed, label) in self.fixed.iter().zip(labels) {
            let (start, end) = fixed.pieces(label)?;
            hash = start.iter().chain(end).chain(b".").fold(hash, mix);
        }
        Some(port.unwrap_or_default().as_bytes().iter().fold(hash, mix))
    }
}

/// Hashes hashes: not at all.
#[derive(Debug, Default)]
struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Patterns that differ only in their paths and in what stars stand for, sorted by path.
#[derive(Debug, Default)]
struct Bucket(Vec<Ranked>);

#[derive(Debug)]
struct Ranked {
    pattern: MatchPattern,
    provider: usize,
    /// The last one before it whose path begins this one's.
    shorter: Option<usize>,
}

impl Bucket {
    fn link(&mut self) {
        self.0.sort_by(|a, b| a.pattern.path().cmp(b.pattern.path()));
        let mut open: Vec<usize> = Vec::new();
        for at in 0..self.0.len() {
            let Some(path) = self.path(at) else { continue };
            while open.last().is_some_and(|last| {
                !self.path(*last).is_some_and(|shorter| path.starts_with(shorter))
            }) {
                open.pop();
            }
            let shorter = open.last().copied();
            open.push(at);
            if let Some(ranked) = self.0.get_mut(at) {
                ranked.shorter = shorter;
            }
        }
    }

    fn path(&self, at: usize) -> Option<&[u8]> {
        self.0.get(at).map(|ranked| ranked.pattern.path())
    }

    /// Every path that begins the image's also begins the last one that is not beyond it: so they are all on its chain.
    fn providers(&self, target: &MatchTarget, found: &mut Vec<usize>) {
        let beyond = self.0.partition_point(|ranked| ranked.pattern.path() <= target.path());
        let mut next = beyond.checked_sub(1);
        while let Some(ranked) = next.and_then(|at| self.0.get(at)) {
            if ranked.pattern.matches(target) {
                found.push(ranked.provider);
            }
            next = ranked.shorter;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: [&str; 9] = ["a", "ab", "b", "*", "a*", "*b", "a*b", "**", "*a*"];
    const PATHS: [&str; 7] = ["", "/", "/t", "/te", "/team", "/team/", "/x*"];
    const PORTS: [&str; 3] = ["", ":80", ":"];

    fn every(labels: &[&str]) -> Vec<String> {
        let mut all = Vec::new();
        for (n, first) in labels.iter().enumerate() {
            for second in labels {
                for path in PATHS {
                    all.push(format!("{first}{}{path}", PORTS[n % 3]));
                    all.push(format!("{first}.{second}{path}"));
                    all.push(format!("{first}.{second}{}{path}", PORTS[n % 3]));
                }
            }
        }
        all
    }

    #[test]
    fn the_index_finds_exactly_what_comparing_with_every_pattern_finds() {
        let mut patterns = every(&LABELS);
        patterns.extend(["[::1]", "[::1]:80", "[a-c].b", "[", "", "a..b"].map(String::from));
        let patterns: Vec<MatchPattern> =
            patterns.iter().filter_map(|text| MatchPattern::parse(text).ok()).collect();
        let index = PatternIndex::new(patterns.iter().cloned().zip(0..));
        let names = ["a", "ab", "b", "aab", "axb", "", "ba", "1", ":"];
        let mut matched = 0;
        for target in every(&names).iter().filter_map(|text| MatchTarget::parse(text).ok()) {
            let naive: Vec<usize> =
                (0..patterns.len()).filter(|at| patterns[*at].matches(&target)).collect();

            assert_eq!(index.providers(&target), naive, "{target:?}");
            matched += naive.len();
        }
        assert!(matched > 10_000, "{matched}");
    }

    #[test]
    fn a_provider_with_several_matching_patterns_is_found_once() {
        let patterns = ["reg.test", "*.test", "reg.test/app"];
        let index = PatternIndex::new(patterns.map(|text| (MatchPattern::parse(text).unwrap(), 3)));

        assert_eq!(index.providers(&MatchTarget::parse("reg.test/app").unwrap()), [3]);
        assert_eq!(index.providers(&MatchTarget::parse("reg.example/app").unwrap()), [0; 0]);
    }
}
