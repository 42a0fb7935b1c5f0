//! Requests out of the ordinary.

use keyfob_api::{ExecAnswerError, ExecCredentialStatus, ExecVersion};
use keyfob_exec::Status;

use super::{Client, plan::Probe};
use crate::{
    case::{Case, Likeness, NO_REFERENCE},
    observe::{Heard, Observed},
    report::Verdict,
};

/// What kubeconfigs written by KEP-541 get wrong.
const EXTENSION: &str = "the cluster's extension client.authentication.k8s.io/exec (in KEP-541: exec) has no effect \
                         without provideClusterInfo: true";

pub(super) fn older_version(case: &Case<'_, Client>) -> Vec<Verdict> {
    let advice =
        "answer in the apiVersion of the request, or exit with 1 and say that it is not supported";
    let v1beta1 = |stdout: &[u8]| ExecCredentialStatus::decode(stdout, ExecVersion::V1Beta1);
    case.for_run(Probe::Older, |run| match run.heard_by(v1beta1) {
        Heard::Answer(_) => Verdict::pass("v1beta1 is answered in v1beta1"),
        Heard::Unreadable(error @ ExecAnswerError::Version { .. }) => {
            Verdict::fail(error.to_string(), advice)
        }
        Heard::Failed(Status::Exited(_)) if case.reference_response().is_some() => {
            Verdict::pass(format!("v1beta1 is refused{}", case.secrets.stderr_excerpt(run)))
        }
        heard => case.judge_failure(run, &heard, advice),
    })
}

/// Plugins that need the cluster may fail without it; those that do not may still use it.
pub(super) fn cluster_info(case: &Case<'_, Client>) -> Vec<Verdict> {
    let advice = "take the cluster's description as it comes, or leave it";
    let without = case.run(Probe::Plain).and_then(Observed::response);
    case.for_run(Probe::Cluster, |run| match (case.likeness(run), without) {
        (Likeness::Same, Some(_)) if has_config(case) => {
            Verdict::pass(format!("it answers with and without; {EXTENSION}"))
        }
        (Likeness::Same, Some(_)) => Verdict::pass("it answers with and without"),
        (Likeness::Same, None) => Verdict::pass(format!(
            "it needs it: the kubeconfig must say provideClusterInfo: true; {EXTENSION}"
        )),
        (Likeness::Differs, _) => {
            Verdict::warn("with it, there is another sort of credential", advice)
        }
        (Likeness::Broke(reason), _) if failed(run) && case.protocol.cluster.is_none() => {
            Verdict::warn(
                format!("told of a made-up cluster, it fails: {reason}"),
                "give it a real one (--exec-info), or look why it does not do without",
            )
        }
        (Likeness::Broke(reason), _) => Verdict::fail(reason, advice),
        (Likeness::Incomparable, _) => Verdict::not_checked(NO_REFERENCE),
    })
}

/// Whether the cluster has something for plugins.
fn has_config(case: &Case<'_, Client>) -> bool {
    case.protocol.cluster.as_ref().is_some_and(|cluster| cluster.config.is_some())
}

pub(super) fn large_authority(case: &Case<'_, Client>) -> Vec<Verdict> {
    let advice = "read the variable to its end: a cluster's authorities may be a hundred kilobytes";
    // A plugin that fails for the cluster at all was told so before.
    if case.run(Probe::Cluster).is_none_or(|run| run.response().is_none()) {
        return vec![Verdict::not_checked("there was no answer with a cluster")];
    }
    case.for_run(Probe::LargeAuthority, |run| {
        case.judge_likeness(run, "answered as before", advice)
    })
}

pub(super) fn extra_fields(case: &Case<'_, Client>) -> Vec<Verdict> {
    let advice = "ignore unknown fields of a request: the next kubectl may send one";
    case.for_run(Probe::ExtraFields, |run| case.judge_likeness(run, "ignored", advice))
}

pub(super) fn no_info(case: &Case<'_, Client>) -> Vec<Verdict> {
    let advice = "say on stderr that KUBERNETES_EXEC_INFO is not set, and exit with 1: without it nobody knows which \
                  version to answer in";
    case.for_run(Probe::NoInfo, |run| match run.heard() {
        Heard::Failed(status @ Status::Exited(_)) => Verdict::pass(status.to_string()),
        Heard::Answer(_)
        | Heard::Unreadable(ExecAnswerError::Version { returned: Some(_), .. }) => {
            Verdict::warn("it answers though nobody asked, in a version of its own choice", advice)
        }
        heard => Verdict::fail(case.secrets.failure(run, &heard), advice),
    })
}

fn failed(run: &Observed<Client>) -> bool {
    matches!(run.heard(), Heard::Failed(Status::Exited(_)))
}
