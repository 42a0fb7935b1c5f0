//! The table of the checks.

use super::{
    super::{
        report::{Finding, Verdict},
        table::{Check, check, findings},
    },
    case::Case,
    credential, requests, response, runs,
};

type Judge = fn(&Case<'_>) -> Vec<Verdict>;

#[rustfmt::skip]
const CHECKS: [Check<Judge>; 24] = [
    check("start", "the file is there and can be run", runs::start),
    check("non-interactive", "without a person at the terminal it does not wait for one", runs::non_interactive),
    check("answer", "it answers", response::answer),
    check("json", "the answer is one JSON object, and nothing else is on stdout", response::json),
    check("api-version", "a request of v1 is answered in v1", response::api_version),
    check("kind", "the answer is an ExecCredential", response::kind),
    check("fields", "no field is of the wrong type", response::fields),
    check("status", "there is a token, or a certificate with its key, or both", response::status),
    check("token", "the token can stand in a header", credential::token),
    check("identity", "certificate and key are PEM", credential::identity),
    check("expiry", "expirationTimestamp is RFC 3339, in UTC and in the future", credential::expiry),
    check("older-version", "v1beta1 is answered in kind, or refused", requests::older_version),
    check("cluster-info", "it copes with the cluster's description, and without", requests::cluster_info),
    check("large-authority", "a cluster with many authorities changes nothing", requests::large_authority),
    check("extra-fields", "fields that a later client may send change nothing", requests::extra_fields),
    check("no-info", "without KUBERNETES_EXEC_INFO it fails, and says so", requests::no_info),
    check("repeated", "asked again, it answers alike", runs::repeated),
    check("concurrent", "eight at once all answer", runs::concurrent),
    check("closed-stdout", "it notices when nobody reads its answer", runs::closed_stdout),
    check("time", "it is quick: somebody waits for each command", runs::time),
    check("leftovers", "nothing that it started stays behind with its stdout or stderr", runs::leftovers),
    check("stderr-noise", "it is silent when all is well", runs::noise),
    check("stderr-secrets", "no token and no key is on stderr", runs::secrets),
    check("failure-message", "when it fails it says why", runs::failure_message),
];

/// The name of each check of a kubeconfig's plugin, and what it looks at.
pub fn client_checks() -> impl Iterator<Item = (&'static str, &'static str)> {
    CHECKS.iter().map(|check| (check.name, check.about))
}

/// Everything there is to say.
pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    findings(&CHECKS, |judge| judge(case))
}
