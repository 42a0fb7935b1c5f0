//! What an event says. The fields are documented in `docs/agent.md`.

use serde::Serialize;

/// One decision.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditEvent {
    /// When, in RFC 3339.
    pub(crate) time: String,
    /// The path of the request, such as `/v1/credentials`.
    pub(crate) request: &'static str,
    /// Who asked; missing if the caller could not be attested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) caller: Option<AuditCaller>,
    /// The user that connected, if the caller could not be attested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) peer_uid: Option<u32>,
    /// The image, or the registry of a docker client.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) image: String,
    /// What became of it.
    pub(crate) outcome: Outcome,
    /// The rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<String>,
    /// The providers that were asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) providers: Vec<String>,
    /// What was handed out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) credentials: Vec<AuditCredential>,
    /// Why nothing was handed out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// How many requests since the last event were not logged.
    #[serde(flatten)]
    pub(crate) suppressed: Suppressed,
}

/// How many requests were not logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Suppressed {
    /// Because their callers got nothing too often.
    #[serde(rename = "suppressedRefusals", skip_serializing_if = "is_zero")]
    pub(crate) refusals: u64,
    /// Because their callers got too often what they had been logged with before.
    #[serde(rename = "suppressedRepeats", skip_serializing_if = "is_zero")]
    pub(crate) repeats: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Outcome {
    /// Credentials were handed out.
    Allowed,
    /// No rule allows it, or the caller could not be attested.
    Denied,
    /// The request makes no sense.
    BadRequest,
    /// There are no credentials: no provider matches, or those that do have none.
    Empty,
    /// It was allowed, and no provider could answer.
    Failed,
    /// The caller asks too often, or has too many requests under way.
    RateLimited,
    /// The connection was closed before there was an answer.
    Abandoned,
}

/// Who asked.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditCaller {
    /// The user id.
    pub(crate) uid: u32,
    /// The group id.
    pub(crate) gid: u32,
    /// The process id.
    pub(crate) pid: i32,
    /// The program.
    pub(crate) executable: String,
    /// The system unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unit: Option<String>,
    /// The container's id; empty if the process is in a container without a known id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) container: Option<String>,
    /// The pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<AuditPod>,
    /// How the process was identified: `pidfd` or `proc-directory`.
    pub(crate) attested_by: &'static str,
}

/// The pod of a caller.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditPod {
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// Its uid.
    pub(crate) uid: String,
    /// Its service account.
    pub(crate) service_account: String,
}

/// A credential that was handed out.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditCredential {
    /// The provider it came from.
    pub(crate) provider: String,
    /// The keyed hash of user name and password.
    pub(crate) hash: String,
    /// When it expires, in RFC 3339, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<String>,
}
