//! Requests out of the ordinary.

use keyfob_api::{
    CredentialProviderResponse, ImageRef, ProviderVersion, RegistryCredentialPluginResponse,
    RegistryKey, ResponseError,
};
use keyfob_exec::Status;

use super::{
    Provider,
    keys::serves,
    plan::{Probe, UNKNOWN_IMAGE},
};
use crate::{
    case::{Case, NO_REFERENCE},
    observe::{End, Heard, Observed},
    protocol::Protocol as _,
    report::Verdict,
};

pub(super) fn older_versions(case: &Case<'_, Provider>) -> Vec<Verdict> {
    let probes = case.protocol.probes_after_the_first().filter_map(|probe| match probe {
        Probe::Version(version) => Some((version, case.run(probe)?)),
        _ => None,
    });
    probes.map(|(version, run)| older_version(case, version, run)).collect()
}

fn older_version(
    case: &Case<'_, Provider>,
    version: ProviderVersion,
    run: &Observed<Provider>,
) -> Verdict {
    let short = version.api_version().rsplit('/').next().unwrap_or_default();
    let advice =
        "answer in the apiVersion of the request, or exit with 1 and say that it is not supported";
    match run.heard_by(|stdout| CredentialProviderResponse::decode(stdout, version)) {
        Heard::Answer(_) => Verdict::pass(format!("{short} is answered in {short}")),
        Heard::Unreadable(ResponseError::Version { actual, .. }) => Verdict::fail(
            format!("{short} is answered in another version, which a kubelet refuses: {actual}"),
            advice,
        ),
        Heard::Failed(Status::Exited(_)) if case.reference_response().is_some() => {
            Verdict::pass(format!("{short} is refused{}", case.secrets.stderr_excerpt(run)))
        }
        heard => {
            let verdict = case.judge_failure(run, &heard, advice);
            Verdict { reason: format!("{short}: {}", verdict.reason), ..verdict }
        }
    }
}

pub(super) fn unknown_image(case: &Case<'_, Provider>) -> Vec<Verdict> {
    let advice = "answer with an empty auth, or exit with 1 and say why";
    case.for_run(Probe::UnknownImage, |run| match run.heard() {
        Heard::Answer(answer) => {
            let keys = answer.auth.iter().filter_map(|(key, _)| RegistryKey::parse(key).ok());
            let unknown = ImageRef::parse(UNKNOWN_IMAGE).ok();
            let handed_out = keys
                .filter(|key| unknown.as_ref().is_some_and(|image| serves(key, image)))
                .count();
            if handed_out > 0 {
                Verdict::warn(
                    "it hands out credentials for whatever registry it is asked about",
                    "refuse registries that are not yours before asking anybody: matchImages in the configuration is all that \
                     keeps the login from strangers",
                )
            } else {
                Verdict::pass("it has no login for a registry that nobody has")
            }
        }
        Heard::Failed(Status::Exited(_)) => Verdict::pass("it refuses a registry that nobody has"),
        heard => match (case.crash(&heard), case.reference_response()) {
            (Some(crash), _) => Verdict::fail(crash, advice),
            (None, Some(_)) => Verdict::fail(case.secrets.failure(run, &heard), advice),
            (None, None) => Verdict::not_checked(NO_REFERENCE),
        },
    })
}

pub(super) fn no_stdin(case: &Case<'_, Provider>) -> Vec<Verdict> {
    let advice = "read the request first; if there is none, say so on stderr and exit with 1";
    case.for_run(Probe::NoStdin, |run| match run.heard() {
        Heard::Failed(status @ Status::Exited(_)) => Verdict::pass(status.to_string()),
        Heard::Answer(_) | Heard::Unreadable(_) => {
            Verdict::fail("it answers though nobody asked: the request is not read", advice)
        }
        heard => Verdict::fail(case.secrets.failure(run, &heard), advice),
    })
}

pub(super) fn huge_request(case: &Case<'_, Provider>) -> Vec<Verdict> {
    let advice = "read stdin to its end, in pieces of any size";
    case.for_run(Probe::HugeRequest, |run| case.judge_likeness(run, "answered as before", advice))
}

pub(super) fn extra_fields(case: &Case<'_, Provider>) -> Vec<Verdict> {
    let advice = "ignore unknown fields of a request: when the next kubelet sends one, every pull of the node fails";
    case.for_run(Probe::ExtraFields, |run| case.judge_likeness(run, "ignored", advice))
}

/// With a token of the caller's it is the first run that shows; otherwise the one with the made-up token.
pub(super) fn service_account(case: &Case<'_, Provider>) -> Vec<Verdict> {
    let made_up = case.protocol.token.is_none();
    let probe = if made_up { Probe::ServiceAccount } else { Provider::FIRST };
    case.for_run(probe, |run| {
        if let Some(echo) = echoed(case, run) {
            return echo;
        }
        match run.heard() {
            Heard::Answer(_) => Verdict::pass("the token is not in the answer"),
            Heard::Failed(Status::Exited(_)) if made_up => {
                Verdict::pass("it refuses a made-up token; one of your own shows more")
            }
            heard => match case.crash(&heard) {
                Some(crash) if made_up => Verdict::fail(
                    crash,
                    "take a token that you cannot use for a failure: exit with 1",
                ),
                _ if made_up && case.reference_response().is_some() => Verdict::fail(
                    case.secrets.failure(run, &heard),
                    "answer, or exit with 1 and say why",
                ),
                _ => Verdict::not_checked("there was no answer"),
            },
        }
    })
}

/// What is wrong if the token stands on stdout.
fn echoed(case: &Case<'_, Provider>, run: &Observed<Provider>) -> Option<Verdict> {
    let token = case.protocol.token_or_made_up();
    let token = token.expose().as_str();
    let auth = run.response().map(|response| response.auth).unwrap_or_default();
    let in_name = |key: &str, username: &str| key.contains(token) || username.contains(token);
    if auth.iter().any(|(key, login)| in_name(key, &login.username)) {
        return Some(Verdict::fail(
            "the service account's token stands in a key or a user name, which are no secrets",
            "hand it out as a password, or not at all",
        ));
    }
    if auth.iter().any(|(_, login)| login.password.expose().contains(token)) {
        return Some(Verdict::warn(
            "the password is the service account's token that it was sent",
            "do this only for registries that take the pod's own token; others should never see it: exchange it",
        ));
    }
    let stands = String::from_utf8_lossy(run.stdout.expose()).contains(token);
    stands.then(|| {
        Verdict::fail(
            "the service account's token stands on stdout outside of an answer",
            "print the answer only",
        )
    })
}

/// Nobody needs it; some plugins have it.
pub(super) fn first_kep(case: &Case<'_, Provider>) -> Vec<Verdict> {
    case.for_run(Probe::FirstKep, |run| {
        let answered = run.end == End::Ended(Status::Exited(0))
            && RegistryCredentialPluginResponse::decode(run.stdout.expose())
                .is_ok_and(|answer| !answer.password.expose().is_empty());
        Verdict::pass(if answered {
            "it knows \"get-credentials\" and {\"image\":…} too"
        } else {
            "it does not know that dialect, and needs not"
        })
    })
}
