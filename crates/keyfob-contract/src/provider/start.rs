//! Whether there is a plugin at all.

use keyfob_exec::Status;

use crate::{
    case::Case,
    common,
    observe::{End, Observed},
    plan::Probe,
    report::Verdict,
};

pub(crate) fn start(case: &Case<'_>) -> Vec<Verdict> {
    case.for_run(Probe::Image(0), common::start)
}

pub(crate) fn protocol(case: &Case<'_>) -> Vec<Verdict> {
    case.for_run(Probe::Image(0), |run| match run.end {
        End::NotStarted(_) => Verdict::not_checked("it did not get that far"),
        _ if speaks_docker(case, run) => Verdict::fail(
            "this is a docker credential helper (docker-credential-…): it takes get, store, erase and list as its argument, \
             and knows no CredentialProviderRequest",
            "give a kubelet a credential provider, such as ecr-credential-provider in place of docker-credential-ecr-login; \
             \"keyfob provider exec\" makes one of any helper",
        ),
        _ => Verdict::pass("no sign of docker's protocol"),
    })
}

/// Helpers fail with one of a few texts when they are not given an action, and most of them on stdout.
pub(crate) fn speaks_docker(case: &Case<'_>, run: &Observed) -> bool {
    const SIGNS: [&str; 6] = [
        "<store|get|erase|list",
        "unknown credential action",
        "unknown action",
        "docker-helper",
        "no credentials server url",
        "credentials not found in native keychain",
    ];
    let failed = matches!(run.end, End::Ended(Status::Exited(code)) if code != 0);
    let name = case.subject.program.path().file_name().unwrap_or_default();
    let named_so = name.to_string_lossy().starts_with("docker-credential-");
    let text = [run.stdout.expose().as_slice(), run.stderr.expose()].concat();
    let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
    failed && (named_so || SIGNS.iter().any(|sign| text.contains(sign)))
}
