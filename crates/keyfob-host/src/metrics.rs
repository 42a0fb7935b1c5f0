//! What can be counted: upstream's metrics under their own names, and ours. Compiled with the feature `metrics` only; without it
//! `metrics/disabled.rs` is used.
//!
//! Upstream: `pkg/credentialprovider/plugin/metrics.go`.
//! Differs: in the `OpenMetrics` format the metadata of a counter is under its name without `_total`.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use keyfob_metrics::{EncodeAs, label_value};
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{
        counter::Counter,
        family::{Family, MetricConstructor},
        gauge::ConstGauge,
        histogram::Histogram,
    },
};

pub(crate) type PluginName = [(&'static str, Arc<str>); 1];
type ReloadResult = [(&'static str, &'static str); 1];

/// Everything a host counts. A clone counts the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(Arc<Families>);

#[derive(Debug)]
struct Families {
    plugin_errors: Family<PluginName, Counter>,
    plugin_duration: Family<PluginName, Histogram, Durations>,
    config_hash: Mutex<Option<String>>,
    cache_hits: Family<PluginName, Counter>,
    cache_misses: Family<PluginName, Counter>,
    reloads: Family<ReloadResult, Counter>,
}

impl Default for Families {
    fn default() -> Self {
        Self {
            plugin_errors: Family::default(),
            plugin_duration: Family::new_with_constructor(Durations),
            config_hash: Mutex::default(),
            cache_hits: Family::default(),
            cache_misses: Family::default(),
            reloads: Family::default(),
        }
    }
}

/// The counters of one plugin that each lookup uses, so that none searches for them.
#[derive(Clone, Debug)]
pub(crate) struct PluginMetrics {
    hits: Counter,
    misses: Counter,
}

impl PluginMetrics {
    /// The cache had an answer.
    pub(crate) fn found(&self) {
        self.hits.inc();
    }

    /// The cache had no answer.
    pub(crate) fn missed(&self) {
        self.misses.inc();
    }
}

impl Metrics {
    pub(crate) fn plugin(&self, name: &Arc<str>) -> PluginMetrics {
        let name = label(name);
        PluginMetrics {
            hits: self.0.cache_hits.get_or_create(&name).clone(),
            misses: self.0.cache_misses.get_or_create(&name).clone(),
        }
    }

    /// A plugin that is gone is no longer shown.
    pub(crate) fn forget_plugin(&self, name: &Arc<str>) {
        self.0.cache_hits.remove(&label(name));
        self.0.cache_misses.remove(&label(name));
        self.0.plugin_errors.remove(&label(name));
        self.0.plugin_duration.remove(&label(name));
    }

    /// A run, however it ended.
    pub(crate) fn ran(&self, name: &Arc<str>, took: Duration) {
        if self.knows(name) {
            self.0.plugin_duration.get_or_create(&label(name)).observe(took.as_secs_f64());
        }
    }

    /// A run that could not be started, did not end in time or did not end well.
    pub(crate) fn failed(&self, name: &Arc<str>) {
        if self.knows(name) {
            self.0.plugin_errors.get_or_create(&label(name)).inc();
        }
    }

    /// Not a plugin that was removed while it ran.
    fn knows(&self, name: &Arc<str>) -> bool {
        self.0.cache_hits.get(&label(name)).is_some()
    }

    /// Only the last hash is shown.
    pub(crate) fn configured(&self, hash: Option<&str>) {
        *self.0.config_hash.lock().unwrap_or_else(PoisonError::into_inner) =
            hash.map(str::to_owned);
    }

    pub(crate) fn reloaded(&self, success: bool) {
        let result = if success { "success" } else { "failure" };
        self.0.reloads.get_or_create(&[("result", result)]).inc();
    }

    /// By hand, because the registry ends each help text with a full stop and upstream's have none.
    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let all = &*self.0;
        let mut each =
            |name: &str, help: &str, metric: &dyn EncodeAs| metric.encode_as(encoder, name, help);
        each(
            "kubelet_credential_provider_plugin_errors",
            "[ALPHA] Number of errors from credential provider plugin",
            &all.plugin_errors,
        )?;
        each(
            "kubelet_credential_provider_plugin_duration",
            "[ALPHA] Duration of execution in seconds for credential provider plugin",
            &all.plugin_duration,
        )?;
        each(
            "keyfob_credential_provider_cache_hits",
            "Answers that came from the cache",
            &all.cache_hits,
        )?;
        each(
            "keyfob_credential_provider_cache_misses",
            "Questions that the cache could not answer",
            &all.cache_misses,
        )?;
        each(
            "keyfob_credential_provider_config_reloads",
            "Reloads of the configuration by their result",
            &all.reloads,
        )?;
        let hash = all.config_hash.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(hash) = hash.as_deref() else { return Ok(()) };
        let mut info = encoder.encode_descriptor(
            "kubelet_credential_provider_config_info",
            "[ALPHA] Information about the last applied credential provider configuration with hash as label",
            None,
            prometheus_client::metrics::MetricType::Gauge,
        )?;
        ConstGauge::new(1_i64).encode(info.encode_family(&[("hash", hash)])?)
    }
}

/// The label of a plugin's series. Upstream allows quotes in names.
pub(crate) fn label(name: &Arc<str>) -> PluginName {
    let value = match label_value(name) {
        Cow::Borrowed(_) => name.clone(),
        Cow::Owned(escaped) => escaped.into(),
    };
    [("plugin_name", value)]
}

#[derive(Clone, Copy, Debug)]
struct Durations;

impl MetricConstructor<Histogram> for Durations {
    fn new_metric(&self) -> Histogram {
        Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0])
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::{collector::Collector, encoding::text::encode, registry::Registry};

    use super::*;

    #[derive(Debug)]
    struct Collected(Metrics);

    impl Collector for Collected {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
            self.0.encode(&mut encoder)
        }
    }

    fn text(metrics: &Metrics) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Collected(metrics.clone())));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn upstreams_metrics_have_upstreams_names_labels_and_buckets() {
        let (metrics, name) = (Metrics::default(), Arc::from("ecr"));
        drop(metrics.plugin(&name));
        metrics.failed(&name);
        metrics.ran(&name, Duration::from_millis(300));
        metrics.configured(Some("sha256:one"));
        metrics.configured(Some("sha256:two"));

        let text = text(&metrics);

        for line in [
            "# HELP kubelet_credential_provider_plugin_errors [ALPHA] Number of errors from credential provider plugin",
            r#"kubelet_credential_provider_plugin_errors_total{plugin_name="ecr"} 1"#,
            r#"kubelet_credential_provider_plugin_duration_sum{plugin_name="ecr"} 0.3"#,
            r#"kubelet_credential_provider_plugin_duration_bucket{le="0.25",plugin_name="ecr"} 0"#,
            r#"kubelet_credential_provider_plugin_duration_bucket{le="0.5",plugin_name="ecr"} 1"#,
            r#"kubelet_credential_provider_plugin_duration_bucket{le="+Inf",plugin_name="ecr"} 1"#,
            r#"kubelet_credential_provider_config_info{hash="sha256:two"} 1"#,
        ] {
            assert!(text.lines().any(|each| each == line), "no {line} in\n{text}");
        }
        assert!(!text.contains("sha256:one"), "{text}");
    }

    #[test]
    fn a_name_with_quotes_is_one_label() {
        let (metrics, name) = (Metrics::default(), Arc::from("a\"b"));
        drop(metrics.plugin(&name));
        metrics.failed(&name);
        let line = r#"kubelet_credential_provider_plugin_errors_total{plugin_name="a\"b"} 1"#;
        assert!(text(&metrics).lines().any(|each| each == line), "{}", text(&metrics));
        metrics.forget_plugin(&name);
        assert!(!text(&metrics).contains("plugin_name"), "{}", text(&metrics));
    }

    #[test]
    fn a_plugin_that_is_gone_does_not_come_back_when_its_last_run_ends() {
        let (metrics, name) = (Metrics::default(), Arc::from("gone"));
        drop(metrics.plugin(&name));
        metrics.ran(&name, Duration::ZERO);
        assert!(text(&metrics).contains("gone"));

        metrics.forget_plugin(&name);
        metrics.ran(&name, Duration::ZERO);
        metrics.failed(&name);

        assert!(!text(&metrics).contains("gone"), "{}", text(&metrics));
    }

    #[test]
    fn before_anything_happened_there_are_no_series() {
        let text = text(&Metrics::default());
        assert!(text.lines().all(|line| line.starts_with('#')), "{text}");
        assert!(!text.contains("config_info"), "{text}");
    }
}
