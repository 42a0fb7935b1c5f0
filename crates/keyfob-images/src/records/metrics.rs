//! What can be counted about records, under upstream's names.
//!
//! Upstream: `metrics.go`.
//! Differs: what lies on disk and in memory is counted when it is asked for (upstream: after each change of its own).

use std::{fmt, sync::Arc};

use keyfob_metrics::EncodeAs;
use prometheus_client::{
    collector::Collector,
    encoding::DescriptorEncoder,
    metrics::{counter::Counter, family::Family, gauge::ConstGauge},
};

use super::{files::RecordFiles, memory::RecordMemory};

type Label = [(&'static str, &'static str); 1];

/// How checks ended. A clone counts the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Checks(Family<Label, Counter>);

/// How a check ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum CheckResult {
    PolicyAllowed,
    RecordFound,
    MustAuthenticate,
    Error,
}

impl Checks {
    pub(super) fn count(&self, result: CheckResult) {
        let result = match result {
            CheckResult::PolicyAllowed => "credentialPolicyAllowed",
            CheckResult::RecordFound => "credentialRecordFound",
            CheckResult::MustAuthenticate => "mustAuthenticate",
            CheckResult::Error => "error",
        };
        self.0.get_or_create(&[("result", result)]).inc();
    }
}

/// Everything that is shown.
#[derive(Debug)]
pub(super) struct RecordMetrics {
    pub(super) checks: Checks,
    pub(super) files: Arc<RecordFiles>,
    pub(super) memory: Option<Arc<RecordMemory>>,
}

impl Collector for RecordMetrics {
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
        self.checks.0.encode_as(
            &mut encoder,
            "kubelet_imagemanager_image_mustpull_checks",
            "[ALPHA] Counter for how many times kubelet checked whether credentials need to be re-verified to access an image",
        )
    }
}
