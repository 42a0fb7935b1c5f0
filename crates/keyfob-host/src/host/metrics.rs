//! How a program reads what a host counts.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::SystemTime,
};

use arc_swap::ArcSwap;
use keyfob_exec::Clock;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, gauge::ConstGauge},
    registry::Registry,
};

use super::{Host, Snapshot};
use crate::{
    metrics::{Metrics, label},
    provider::Provider,
};

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
        let (current, clock) = (Arc::downgrade(&self.current), self.around.clock.clone());
        registry.register_collector(Box::new(Collected { metrics, current, clock }));
    }
}

/// What a registry reads. It does not keep the providers alive, nor what is in their caches.
struct Collected {
    metrics: Metrics,
    current: Weak<ArcSwap<Snapshot>>,
    clock: Arc<dyn Clock>,
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
        )?;
        let now = self.clock.now();
        let next = |provider: &Arc<Provider>| {
            let expires = provider.next_expiry(now)?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
            Some((provider.name.clone(), expires.as_secs_f64()))
        };
        let mut gauge = encoder.encode_descriptor(
            "keyfob_credential_provider_next_expiry_timestamp_seconds",
            "When the answer in the cache expires that expires next, in seconds since 1970",
            None,
            MetricType::Gauge,
        )?;
        for (plugin, expires) in providers().filter_map(next) {
            ConstGauge::new(expires).encode(gauge.encode_family(&label(&plugin))?)?;
        }
        Ok(())
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
