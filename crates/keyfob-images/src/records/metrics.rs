//! What can be counted about records, under upstream's names. Compiled with the feature `metrics` only; without it
//! `metrics/disabled.rs` is used.
//!
//! Upstream: `metrics.go`.
//! Differs: what lies on disk and in memory is counted when it is asked for (upstream: after each change of its own).

use std::{fmt, sync::Arc};

use keyfob_metrics::EncodeAs;
use prometheus_client::{
    collector::Collector,
    encoding::DescriptorEncoder,
    metrics::{counter::Counter, family::Family, gauge::ConstGauge},
    registry::Registry,
};

use super::{PullRecords, decide::CheckResult, files::RecordFiles, memory::RecordMemory};

type Label = [(&'static str, &'static str); 1];

/// How checks ended. A clone counts the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Metrics(Family<Label, Counter>);

impl Metrics {
    /// A check ended.
    pub(super) fn checked(&self, result: CheckResult) {
        let result = match result {
            CheckResult::PolicyAllowed => "credentialPolicyAllowed",
            CheckResult::RecordFound => "credentialRecordFound",
            CheckResult::MustAuthenticate => "mustAuthenticate",
            CheckResult::Error => "error",
        };
        self.0.get_or_create(&[("result", result)]).inc();
    }
}

impl PullRecords {
    /// Adds what is counted about records to a registry, under upstream's names, also what was counted before. Needs the
    /// feature `metrics`.
    pub fn register_metrics(&self, registry: &mut Registry) {
        let (metrics, files) = (self.metrics.clone(), self.files.clone());
        let collected = Collected { metrics, files, memory: self.memory.clone() };
        registry.register_collector(Box::new(collected));
    }
}

/// What a registry reads.
#[derive(Debug)]
struct Collected {
    metrics: Metrics,
    files: Arc<RecordFiles>,
    memory: Option<Arc<RecordMemory>>,
}

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (intents, records) = self.files.counts();
        let usage = self.memory.as_ref().map(|memory| memory.usage());
        let (intents_usage, records_usage) = usage.unwrap_or_default();
        for (name, help, value) in [
            (
                "kubelet_imagemanager_ondisk_pullintents",
                "[ALPHA] Number of ImagePullIntents stored on disk.",
                intents,
            ),
            (
                "kubelet_imagemanager_ondisk_pulledrecords",
                "[ALPHA] Number of ImagePulledRecords stored on disk.",
                records,
            ),
            (
                "kubelet_imagemanager_inmemory_pullintents_usage_percent",
                "[ALPHA] The ImagePullIntents in-memory cache usage in percent.",
                intents_usage,
            ),
            (
                "kubelet_imagemanager_inmemory_pulledrecords_usage_percent",
                "[ALPHA] The ImagePulledRecords in-memory cache usage in percent.",
                records_usage,
            ),
        ] {
            let value = ConstGauge::new(u64::try_from(value).unwrap_or(u64::MAX));
            value.encode_as(&mut encoder, name, help)?;
        }
        self.metrics.0.encode_as(
            &mut encoder,
            "kubelet_imagemanager_image_mustpull_checks",
            "[ALPHA] Counter for how many times kubelet checked whether credentials need to be re-verified to access an image",
        )
    }
}
