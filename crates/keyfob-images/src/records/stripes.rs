//! A lock for each name, out of few.
//!
//! Upstream: `StripedLockSet` in `locks.go`.

use std::{
    iter,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Locks by name. Different names may share one.
#[derive(Debug)]
pub struct LockStripes {
    first: Mutex<()>,
    rest: Box<[Mutex<()>]>,
}

impl LockStripes {
    /// So many locks; at least one and at most 31.
    pub fn new(wanted: i32) -> Self {
        let rest = (1..wanted.clamp(1, 31)).map(|_| Mutex::default()).collect();
        Self { first: Mutex::default(), rest }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        1 + self.rest.len()
    }

    /// The lock of a name; nobody else has it until it is dropped.
    pub fn lock(&self, name: &str) -> MutexGuard<'_, ()> {
        let number = fnv1(name) as usize % self.count();
        let lock = number.checked_sub(1).and_then(|number| self.rest.get(number));
        lock.unwrap_or(&self.first).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All locks.
    pub fn lock_all(&self) -> Vec<MutexGuard<'_, ()>> {
        self.locks().map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner)).collect()
    }

    fn locks(&self) -> impl Iterator<Item = &Mutex<()>> {
        iter::once(&self.first).chain(&self.rest)
    }
}

/// The 32-bit FNV-1 hash.
fn fnv1(text: &str) -> u32 {
    let step = |hash: u32, byte: u8| hash.wrapping_mul(16_777_619) ^ u32::from(byte);
    text.bytes().fold(2_166_136_261, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv1() {
        assert_eq!(fnv1(""), 0x811c_9dc5);
        assert_eq!(fnv1("a"), 0x050c_5d7e);
        assert_eq!(fnv1("foobar"), 0x31f0_b262);
    }

    #[test]
    fn every_name_has_a_lock_that_only_one_may_have() {
        for wanted in [i32::MIN, 0, 7, i32::MAX] {
            let stripes = LockStripes::new(wanted);
            for name in ["", "a", "registry.test/team/app:v1"] {
                let held = stripes.lock(name);
                let free = stripes.locks().filter(|lock| lock.try_lock().is_ok()).count();
                assert_eq!(free, stripes.count() - 1);
                drop(held);
            }
            assert_eq!(stripes.lock_all().len(), stripes.count());
        }
    }
}
