//! `DIFFERENCES.md`: the list of what is not as upstream has it, on purpose.

use std::collections::BTreeSet;

const TEXT: &str = include_str!("../DIFFERENCES.md");

/// The rows of `DIFFERENCES.md`, by the name in their first column.
#[derive(Debug)]
pub struct Differences(BTreeSet<&'static str>);

impl Differences {
    /// Reads the list.
    pub fn list() -> Self {
        Self(TEXT.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect())
    }

    /// Whether there is a row of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// The files that the list says differ, below `crates`.
    pub fn code(&self) -> impl Iterator<Item = &'static str> {
        TEXT.split('`').filter(|word| word.starts_with("keyfob") && word.contains("/src/"))
    }

    /// The names of all rows.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().copied()
    }
}
