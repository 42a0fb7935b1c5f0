//! Which providers an image concerns, at a cost that does not grow with the patterns that cannot match.
//!
//! Each label of a pattern's host name fixes something of the image's label: all of it, or how it begins and ends.
//! Patterns that fix the same amounts are one *shape*: for it, what an image's name has in the fixed places is one
//! hash, which leads to the patterns that have the same there. Among those, the ones whose path begins the image's are
//! a chain, found by one binary search. Only what is left is compared in full.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::{BuildHasher as _, Hasher as _},
};

use keyfob_api::{LabelPattern, MatchPattern, MatchTarget};

/// All patterns of all providers.
#[derive(Debug, Default)]
pub(crate) struct PatternIndex {
    by_label_count: HashMap<usize, Vec<Shape>>,
    state: RandomState,
}

impl PatternIndex {
    /// Patterns, each with the number of its provider.
    pub(crate) fn new(patterns: impl IntoIterator<Item = (MatchPattern, usize)>) -> Self {
        let mut index = Self::default();
        for (pattern, provider) in patterns {
            let fixed: Vec<Fixed> = pattern.labels().iter().map(Fixed::of).collect();
            let shapes = index.by_label_count.entry(fixed.len()).or_default();
            let at = shapes.iter().position(|shape| shape.fixed == fixed).unwrap_or_else(|| {
                shapes.push(Shape { fixed, buckets: HashMap::new() });
                shapes.len() - 1
            });
            if let Some(shape) = shapes.get_mut(at) {
                shape.add(pattern, provider, &index.state);
            }
        }
        let shapes = index.by_label_count.values_mut().flatten();
        shapes.flat_map(|shape| shape.buckets.values_mut()).for_each(Bucket::link);
        index
    }

    /// The numbers of the providers with a pattern that matches, in order, each once.
    pub(crate) fn providers(&self, target: &MatchTarget) -> Vec<usize> {
        let mut found = Vec::new();
        let shapes = self.by_label_count.get(&target.labels().count());
        for shape in shapes.into_iter().flatten() {
            if let Some(bucket) = shape.bucket(target, &self.state) {
                bucket.providers(target, &mut found);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// What a label of a pattern fixes of an image's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    buckets: HashMap<u64, Bucket, RandomState>,
}

impl Shape {
    fn add(&mut self, pattern: MatchPattern, provider: usize, state: &RandomState) {
        let labels = pattern.labels().iter().map(|label| match label {
            LabelPattern::Glob(text) | LabelPattern::Literal(text) => &**text,
            _ => &[],
        });
        if let Some(hash) = self.hash(labels, pattern.port(), state) {
            self.buckets.entry(hash).or_default().0.push(Ranked {
                pattern,
                provider,
                shorter: None,
            });
        }
    }

    fn bucket(&self, target: &MatchTarget, state: &RandomState) -> Option<&Bucket> {
        self.buckets.get(&self.hash(target.labels(), target.port(), state)?)
    }

    /// Of the port and what the shape fixes. Texts with equal hashes are compared in the end, so a collision is harmless.
    fn hash<'a>(
        &self,
        labels: impl Iterator<Item = &'a [u8]>,
        port: Option<&str>,
        state: &RandomState,
    ) -> Option<u64> {
        let mut hasher = state.build_hasher();
        for (fixed, label) in self.fixed.iter().zip(labels) {
            let (start, end) = fixed.pieces(label)?;
            hasher.write(start);
            hasher.write(end);
            hasher.write_u8(b'.');
        }
        hasher.write(port.unwrap_or_default().as_bytes());
        Some(hasher.finish())
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
