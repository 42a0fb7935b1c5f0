//! Whether the plugin is a docker credential helper, which speaks another protocol.

use keyfob_exec::Status;

use super::Provider;
use crate::{
    case::Case,
    observe::{End, Observed},
    plugin::Plugin,
    protocol::Protocol as _,
    report::Verdict,
};

pub(super) fn protocol(case: &Case<'_, Provider>) -> Vec<Verdict> {
    case.for_run(Provider::FIRST, |run| match run.end {
        End::NotStarted(_) => Verdict::not_checked("it did not get that far"),
        _ if is_docker_helper(case.plugin, run) => Verdict::fail(
            "this is a docker credential helper (docker-credential-…): it takes get, store, erase and list as its argument, \
             and knows no CredentialProviderRequest",
            "give a kubelet a credential provider, such as ecr-credential-provider in place of docker-credential-ecr-login; \
             \"keyfob provider exec\" makes one of any helper",
        ),
        _ => Verdict::pass("no sign of docker's protocol"),
    })
}

/// Helpers fail with one of a few texts when they are not given an action, and most of them on stdout.
pub(super) fn is_docker_helper(plugin: &Plugin, run: &Observed<Provider>) -> bool {
    const SIGNS: [&str; 6] = [
        "<store|get|erase|list",
        "unknown credential action",
        "unknown action",
        "docker-helper",
        "no credentials server url",
        "credentials not found in native keychain",
    ];
    let failed = matches!(run.end, End::Ended(Status::Exited(code)) if code != 0);
    let name = plugin.program.path().file_name().unwrap_or_default();
    let named_so = name.to_string_lossy().starts_with("docker-credential-");
    let text = [run.stdout.expose().as_slice(), run.stderr.expose()].concat();
    let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
    failed && (named_so || SIGNS.iter().any(|sign| text.contains(sign)))
}
