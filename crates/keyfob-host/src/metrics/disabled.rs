//! What stands in for the counters without the feature `metrics`: the same methods, which do nothing.

use std::{sync::Arc, time::Duration};

/// Counts nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(());

/// Counts nothing of one plugin.
#[derive(Clone, Debug)]
pub(crate) struct PluginMetrics(());

#[expect(clippy::unused_self, reason = "the same signatures as with the feature `metrics`")]
impl Metrics {
    pub(crate) fn plugin(&self, _: &Arc<str>) -> PluginMetrics {
        PluginMetrics(())
    }

    pub(crate) fn forget_plugin(&self, _: &Arc<str>) {}

    pub(crate) fn ran(&self, _: &Arc<str>, _: Duration) {}

    pub(crate) fn failed(&self, _: &Arc<str>) {}

    pub(crate) fn configured(&self, _: Option<&str>) {}

    pub(crate) fn reloaded(&self, _: bool) {}
}

#[expect(clippy::unused_self, reason = "the same signatures as with the feature `metrics`")]
impl PluginMetrics {
    pub(crate) fn found(&self) {}

    pub(crate) fn missed(&self) {}
}
