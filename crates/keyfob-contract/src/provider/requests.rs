//! Requests out of the ordinary.

use keyfob_api::{
    ImageRef, ProviderVersion, RegistryCredentialPluginResponse, RegistryKey, ResponseError,
};
use keyfob_exec::Status;

use crate::{
    case::{Case, Likeness},
    keys::serves,
    observe::{End, Heard, Observed},
    plan::{Probe, UNKNOWN_IMAGE},
    report::Verdict,
};

const NO_ANSWER: &str = "there was no answer to compare with";

pub(crate) fn older_versions(case: &Case<'_>) -> Vec<Verdict> {
    let probes = case.subject.further_probes().filter_map(|probe| match probe {
        Probe::Version(version) => Some((version, case.run(probe)?)),
        _ => None,
    });
    probes.map(|(version, run)| older_version(case, version, run)).collect()
}

fn older_version(case: &Case<'_>, version: ProviderVersion, run: &Observed) -> Verdict {
    let short = version.api_version().rsplit('/').next().unwrap_or_default();
    let advice =
        "answer in the apiVersion of the request, or exit with 1 and say that it is not supported";
    match run.heard(version) {
        Heard::Answer(_) => Verdict::pass(format!("{short} is answered in {short}")),
        Heard::Unreadable(ResponseError::Version { actual, .. }) => Verdict::fail(
            format!("{short} is answered in another version, which a kubelet refuses: {actual}"),
            advice,
        ),
        Heard::Failed(Status::Exited(_)) if case.first_answer().is_some() => {
            Verdict::pass(format!("{short} is refused{}", case.said(run)))
        }
        heard => match (case.crash(&heard), case.first_answer()) {
            (_, Some(_)) => Verdict::fail(format!("{short}: {}", case.told(run, &heard)), advice),
            (Some(crash), None) => Verdict::fail(format!("{short}: {crash}"), advice),
            (None, None) => Verdict::not_checked(format!("{short}: {NO_ANSWER}")),
        },
    }
}

pub(crate) fn unknown_image(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "answer with an empty auth, or exit with 1 and say why";
    case.for_run(Probe::UnknownImage, |run| match run.heard(ProviderVersion::V1) {
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
        heard => match (case.crash(&heard), case.first_answer()) {
            (Some(crash), _) => Verdict::fail(crash, advice),
            (None, Some(_)) => Verdict::fail(case.told(run, &heard), advice),
            (None, None) => Verdict::not_checked(NO_ANSWER),
        },
    })
}

pub(crate) fn no_stdin(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "read the request first; if there is none, say so on stderr and exit with 1";
    case.for_run(Probe::NoStdin, |run| match run.heard(ProviderVersion::V1) {
        Heard::Failed(status @ Status::Exited(_)) => Verdict::pass(status.to_string()),
        Heard::Answer(_) | Heard::Unreadable(_) => {
            Verdict::fail("it answers though nobody asked: the request is not read", advice)
        }
        heard => Verdict::fail(case.told(run, &heard), advice),
    })
}

pub(crate) fn huge_request(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "read stdin to its end, in pieces of any size";
    case.for_run(Probe::HugeRequest, |run| alike(case.likeness(run), "answered as before", advice))
}

pub(crate) fn extra_fields(case: &Case<'_>) -> Vec<Verdict> {
    let advice = "ignore unknown fields of a request: when the next kubelet sends one, every pull of the node fails";
    case.for_run(Probe::ExtraFields, |run| alike(case.likeness(run), "ignored", advice))
}

/// What is said of a run that should have gone as the first did.
pub(crate) fn alike(likeness: Likeness, well: &str, advice: &str) -> Verdict {
    match likeness {
        Likeness::Same => Verdict::pass(well),
        Likeness::Differs => {
            Verdict::warn("the answer has other keys, or another cacheKeyType, than before", advice)
        }
        Likeness::Broke(reason) => Verdict::fail(reason, advice),
        Likeness::Incomparable => Verdict::not_checked(NO_ANSWER),
    }
}

/// With a token of the caller's it is the first run that shows; otherwise the one with the made-up token.
pub(crate) fn service_account(case: &Case<'_>) -> Vec<Verdict> {
    let made_up = case.subject.token.is_none();
    let probe = if made_up { Probe::ServiceAccount } else { Probe::Image(0) };
    case.for_run(probe, |run| {
        if let Some(echo) = echoed(case, run) {
            return echo;
        }
        match run.heard(ProviderVersion::V1) {
            Heard::Answer(_) => Verdict::pass("the token is not in the answer"),
            Heard::Failed(Status::Exited(_)) if made_up => {
                Verdict::pass("it refuses a made-up token; one of your own shows more")
            }
            heard => match case.crash(&heard) {
                Some(crash) if made_up => Verdict::fail(
                    crash,
                    "take a token that you cannot use for a failure: exit with 1",
                ),
                _ if made_up && case.first_answer().is_some() => {
                    Verdict::fail(case.told(run, &heard), "answer, or exit with 1 and say why")
                }
                _ => Verdict::not_checked("there was no answer"),
            },
        }
    })
}

/// What is wrong if the token stands on stdout.
fn echoed(case: &Case<'_>, run: &Observed) -> Option<Verdict> {
    let token = case.subject.token_or_made_up();
    let token = token.expose().as_str();
    let auth = run.answer().map(|answer| answer.auth).unwrap_or_default();
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
pub(crate) fn first_kep(case: &Case<'_>) -> Vec<Verdict> {
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
