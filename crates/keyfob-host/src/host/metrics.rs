//! How a program reads what a host counts.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use arc_swap::ArcSwap;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, gauge::ConstGauge},
    registry::Registry,
};

use super::{Host, Snapshot};
use crate::metrics::{Metrics, label};

impl Host {
    /// Adds what the host counts to a registry, also what it has counted before. Needs the feature `metrics`.
    ///
    /// ```
    /// use keyfob_host::Host;
    /// use prometheus_client::{encoding::text::encode, registry::Registry};
    ///
    /// let host = Host::without_providers().build()?;
    /// let mut registry = Registry::default();
    /// host.register_metrics(&mut registry);
    ///
    /// let mut text = String::new();
    /// encode(&mut text, &registry)?;
    /// assert!(text.contains("# TYPE kubelet_credential_provider_plugin_errors counter"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn register_metrics(&self, registry: &mut Registry) {
        let metrics = self.around.metrics.clone();
        let current = Arc::downgrade(&self.current);
        registry.register_collector(Box::new(Collected { metrics, current }));
    }
}

/// What a registry reads. It does not keep the providers alive, nor what is in their caches.
struct Collected {
    metrics: Metrics,
    current: Weak<ArcSwap<Snapshot>>,
}

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.metrics.encode(&mut encoder)?;
        let snapshot = self.current.upgrade().map(|current| current.load_full());
        let providers = || snapshot.iter().flat_map(|snapshot| &snapshot.providers);
        encode_gauge(
            &mut encoder,
            "keyfob_credential_provider_cache_entries",
            "Answers in the cache, expired ones that were not yet swept too",
            providers().map(|provider| (&provider.name, provider.cached_answers())),
        )?;
        encode_gauge(
            &mut encoder,
            "keyfob_credential_provider_waiters",
            "Callers that wait for a plugin",
            providers().map(|provider| (&provider.name, provider.waiters())),
        )
    }
}

/// Writes a gauge of each plugin.
fn encode_gauge<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (&'a Arc<str>, usize)>,
) -> Result<(), fmt::Error> {
    let mut gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (plugin, value) in values {
        let value = ConstGauge::new(u64::try_from(value).unwrap_or(u64::MAX));
        value.encode(gauge.encode_family(&label(plugin))?)?;
    }
    Ok(())
}

impl fmt::Debug for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collected")
    }
}
