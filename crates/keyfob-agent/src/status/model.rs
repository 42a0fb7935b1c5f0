//! What the agent shows of itself, as `/v1/status` writes it. The fields are documented in `docs/agent-api.md`.

use serde::Serialize;

use super::{
    explanation::Explanation, history::ReloadRecord, hour::Minute, problems::Problem, time::Moment,
};
use crate::audit::AuditEvent;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) version: &'static str,
    pub(crate) node: String,
    pub(crate) now: Moment,
    pub(crate) started: Moment,
    /// The most important first; none if all is well.
    pub(crate) problems: Vec<Problem>,
    pub(crate) config_file: String,
    pub(crate) provider_config: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) provider_config_hash: Option<String>,
    pub(crate) reloads: ReloadStatus,
    pub(crate) providers: Vec<ProviderStatus>,
    pub(crate) cached_answers: usize,
    /// Those that expire first.
    pub(crate) cached: Vec<CachedStatus>,
    pub(crate) remembered_images: usize,
    pub(crate) rules: Vec<String>,
    pub(crate) audit: AuditStatus,
    /// The newest first, as in the audit log.
    pub(crate) decisions: Vec<AuditEvent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pull_records: Option<PullRecordsStatus>,
    /// Sixty, the oldest first.
    pub(crate) minutes: Vec<Minute>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReloadStatus {
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) restart_needed: Vec<&'static str>,
    /// The newest first.
    pub(crate) history: Vec<ReloadRecord>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProviderStatus {
    pub(crate) name: String,
    pub(crate) match_images: Vec<String>,
    pub(crate) state: ProviderState,
    pub(crate) cached_answers: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_expiry: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_renewal: Option<Moment>,
    pub(crate) runs: u64,
    pub(crate) failures: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failing_since: Option<Moment>,
    pub(crate) failures_in_a_row: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_run: Option<RunStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<ErrorStatus>,
}

/// How a provider is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ProviderState {
    /// The last attempt to get an answer failed.
    Failing,
    /// The last attempt succeeded.
    Working,
    /// There was none since the agent started, or since the provider was configured.
    NotAsked,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunStatus {
    pub(crate) time: Moment,
    pub(crate) image: String,
    pub(crate) succeeded: bool,
    /// Missing if no plugin was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) milliseconds: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorStatus {
    pub(crate) time: Moment,
    pub(crate) image: String,
    #[serde(flatten)]
    pub(crate) explanation: Explanation,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CachedStatus {
    pub(crate) provider: String,
    /// An image, a registry, or `<global>`.
    pub(crate) key: String,
    /// `NAMESPACE/NAME` if the answer is only for pods of a service account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) service_account: Option<String>,
    pub(crate) expires: Moment,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct AuditStatus {
    pub(crate) written: u64,
    pub(crate) lost: u64,
}

/// Which images were pulled, and whose pods may use them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PullRecordsStatus {
    pub(crate) directory: String,
    /// How many images have a record.
    pub(crate) images: usize,
    /// The latest, a name each.
    pub(crate) records: Vec<PullRecordStatus>,
    /// Images whose pulls have not ended.
    pub(crate) pulling: Vec<String>,
    /// Images whose pulls ended halfway.
    pub(crate) abandoned: Vec<String>,
    /// What cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) errors: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PullRecordStatus {
    pub(crate) image_id: String,
    pub(crate) name: String,
    /// Whose pods may use it.
    pub(crate) usable_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) updated: Option<String>,
}
