//! The newest of many, by name.
//!
//! Upstream: `lruCache` in `mem_pullrecords.go`, over `k8s.io/utils/lru`.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

/// Values by name; when there are too many, those that were not asked for the longest time go.
pub(super) struct Lru<V> {
    by_name: HashMap<String, (u64, V)>,
    /// The names in the order of their last use.
    by_use: BTreeMap<u64, String>,
    uses: u64,
    most: usize,
    /// Whether what is not here is nowhere.
    pub(super) is_authoritative: bool,
}

impl<V: Clone> Lru<V> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            by_name: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            most: most.max(1),
            is_authoritative: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn get(&mut self, name: &str) -> Option<V> {
        let (last_use, value) = self.by_name.get_mut(name)?;
        let name = self.by_use.remove(last_use)?;
        self.uses += 1;
        *last_use = self.uses;
        self.by_use.insert(self.uses, name);
        Some(value.clone())
    }

    pub(super) fn set(&mut self, name: &str, value: V) {
        self.delete(name);
        self.uses += 1;
        self.by_use.insert(self.uses, name.to_owned());
        self.by_name.insert(name.to_owned(), (self.uses, value));
        if self.len() > self.most
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.by_name.remove(&oldest);
            self.is_authoritative = false;
        }
    }

    pub(super) fn delete(&mut self, name: &str) {
        if let Some((last_use, _)) = self.by_name.remove(name) {
            self.by_use.remove(&last_use);
        }
    }

    pub(super) fn clear(&mut self) {
        self.by_name.clear();
        self.by_use.clear();
        self.is_authoritative = false;
    }
}

impl<V> fmt::Debug for Lru<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lru({} of {})", self.by_name.len(), self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_was_used_last_stays_and_losing_one_ends_the_authority() {
        let mut lru = Lru::new(2);
        lru.set("a", 1);
        lru.set("b", 2);
        lru.is_authoritative = true;
        lru.delete("gone");
        assert_eq!((lru.get("a"), lru.is_authoritative), (Some(1), true));

        lru.set("c", 3);

        assert_eq!((lru.get("a"), lru.get("b"), lru.get("c")), (Some(1), None, Some(3)));
        assert!(!lru.is_authoritative);
        lru.set("c", 4);
        lru.delete("a");
        assert_eq!((lru.len(), lru.get("c")), (1, Some(4)));
    }
}
