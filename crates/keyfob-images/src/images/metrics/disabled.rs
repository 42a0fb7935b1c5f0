//! What stands in for the counters without the feature `metrics`: the same method, which does nothing.

use super::PullPolicy;

/// Counts nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Metrics(());

#[expect(clippy::unused_self, reason = "the same signature as with the feature `metrics`")]
impl Metrics {
    pub(super) fn ensured(&self, _: PullPolicy, _: Option<bool>, _: Option<bool>) {}
}
