//! Chance, with a number that brings it back.

use fastrand::Rng;

pub(crate) struct Dice(Rng);

impl Dice {
    /// `KEYFOB_SEED`, or another number each time. It is printed.
    pub(crate) fn new() -> Self {
        let seed = std::env::var("KEYFOB_SEED")
            .map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
        println!("KEYFOB_SEED={seed} brings these cases back");
        Self(Rng::with_seed(seed))
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.0.usize(..from.len())]
    }

    /// Whether something that happens this often in a hundred times happens.
    pub(crate) fn chance(&mut self, percent: u8) -> bool {
        self.0.u8(..100) < percent
    }

    pub(crate) fn number(&mut self, up_to: usize) -> usize {
        self.0.usize(..=up_to)
    }

    /// Some of these, in their order.
    pub(crate) fn some<T: Copy>(&mut self, from: &[T], percent: u8) -> Vec<T> {
        from.iter().copied().filter(|_| self.chance(percent)).collect()
    }
}
