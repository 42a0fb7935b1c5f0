//! How long an answer may be kept.

use std::time::Duration;

/// How much of a credential's life is left unused, for the clock's error and the time a pull takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Margin {
    /// Half of it, as Amazon's plugin does: for lives of many hours.
    Half,
    /// A tenth of it.
    Tenth,
    /// A fixed time.
    Fixed(Duration),
}

impl Margin {
    /// For how long a credential with this much life left may be kept, in whole seconds.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use keyfob_plugin::Margin;
    ///
    /// assert_eq!(Margin::Half.of(Duration::from_secs(43_200)), Duration::from_secs(21_600));
    /// assert_eq!(Margin::Fixed(Duration::from_secs(60)).of(Duration::from_secs(30)), Duration::ZERO);
    /// ```
    pub fn of(self, life: Duration) -> Duration {
        let kept = match self {
            Self::Half => life / 2,
            Self::Tenth => life.saturating_sub(life / 10),
            Self::Fixed(margin) => life.saturating_sub(margin),
        };
        Duration::from_secs(kept.as_secs())
    }
}
