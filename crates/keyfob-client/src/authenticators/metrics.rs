//! How a program sees what its authenticators count.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::gauge::ConstGauge,
    registry::Registry,
};

use super::{Authenticators, Shared};
use crate::metrics::{Metrics, seconds_from};

impl Authenticators {
    /// Adds what they count to a registry, also what they have counted before. Needs the feature `metrics`.
    ///
    /// ```
    /// use keyfob_client::Authenticators;
    /// use prometheus_client::{encoding::text::encode, registry::Registry};
    ///
    /// let authenticators = Authenticators::system();
    /// let mut registry = Registry::default();
    /// authenticators.register_metrics(&mut registry);
    ///
    /// let mut text = String::new();
    /// encode(&mut text, &registry)?;
    /// assert!(text.contains("# TYPE rest_client_exec_plugin_call counter"));
    /// # Ok::<(), std::fmt::Error>(())
    /// ```
    pub fn register_metrics(&self, registry: &mut Registry) {
        let metrics = self.shared.metrics.clone();
        let shared = Arc::downgrade(&self.shared);
        registry.register_collector(Box::new(Collected { metrics, shared }));
    }
}

impl Shared {
    /// How many seconds the certificate that ends first still has; infinitely many if there is none.
    fn time_to_live(&self) -> f64 {
        let known = self.known();
        let current =
            known.authenticators.values().filter_map(|entry| entry.authenticator.current());
        let ends = current.filter_map(|credential| Some(credential.identity()?.not_after()));
        ends.min().map_or(f64::INFINITY, |end| -seconds_from(end, self.world.clock.now()))
    }
}

/// What a registry reads.
struct Collected {
    metrics: Metrics,
    shared: Weak<Shared>,
}

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.metrics.encode(&mut encoder)?;
        let left = self.shared.upgrade().map_or(f64::INFINITY, |shared| shared.time_to_live());
        let gauge = ConstGauge::new(left);
        gauge.encode(encoder.encode_descriptor(
            "rest_client_exec_plugin_ttl_seconds",
            "[ALPHA] Gauge of the shortest TTL (time-to-live) of the client certificate(s) managed by the auth exec plugin. The value is in seconds until certificate expiry (negative if already expired). If auth exec plugins are unused or manage no TLS certificates, the value will be +INF.",
            None,
            gauge.metric_type(),
        )?)
    }
}

impl fmt::Debug for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collected")
    }
}
