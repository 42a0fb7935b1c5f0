//! The table of the checks.

use crate::{
    case::Case,
    keys,
    report::{Finding, Verdict},
    requests, response, runs, start, stderr,
    table::{Check, check, findings},
};

type Judge = fn(&Case<'_>) -> Vec<Verdict>;

#[rustfmt::skip]
const CHECKS: [Check<Judge>; 26] = [
    check("start", "the file is there and can be run", start::start),
    check("protocol", "it speaks the kubelet's protocol, not that of docker's helpers", start::protocol),
    check("answer", "it answers for each image", response::answer),
    check("json", "the answer is one JSON object and a line break", response::json),
    check("api-version", "a request of v1 is answered in v1", response::api_version),
    check("kind", "the answer is a CredentialProviderResponse", response::kind),
    check("fields", "no field is unknown, repeated, misplaced or of the wrong type", response::fields),
    check("cache-key-type", "cacheKeyType is Image, Registry or Global", response::cache_key_type),
    check("cache-duration", "cacheDuration is a Go duration that makes sense", response::cache_duration),
    check("keys", "the keys of auth are registries, and one matches the image", keys::keys),
    check("logins", "each login has a user name and a password", keys::logins),
    check("older-versions", "v1beta1 and v1alpha1 are answered in kind, or refused", requests::older_versions),
    check("unknown-image", "a registry that nobody has gets no credentials", requests::unknown_image),
    check("no-stdin", "without a request it fails, and soon", requests::no_stdin),
    check("huge-request", "a mebibyte of annotations changes nothing", requests::huge_request),
    check("extra-fields", "fields that a later kubelet may send change nothing", requests::extra_fields),
    check("service-account", "the token of a service account is not handed out", requests::service_account),
    check("first-kep", "whether it knows the first KEP's dialect, for information", requests::first_kep),
    check("repeated", "asked again, it answers the same", runs::repeated),
    check("concurrent", "eight at once all answer", runs::concurrent),
    check("closed-stdout", "it notices when nobody reads its answer", runs::closed_stdout),
    check("time", "it is quick, and ends before the kubelet's minute does", runs::time),
    check("leftovers", "nothing that it started stays behind with its stdout or stderr", runs::leftovers),
    check("stderr-noise", "it is silent when all is well", stderr::noise),
    check("stderr-secrets", "no password and no token is on stderr", stderr::secrets),
    check("failure-message", "when it fails it says why", stderr::failure_message),
];

/// The name of each check, and what it looks at.
pub fn checks() -> impl Iterator<Item = (&'static str, &'static str)> {
    CHECKS.iter().map(|check| (check.name, check.about))
}

/// Everything there is to say.
pub(crate) fn judge(case: &Case<'_>) -> Vec<Finding> {
    findings(&CHECKS, |judge| judge(case))
}
