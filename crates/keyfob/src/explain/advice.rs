//! What to do about each problem.

use keyfob_api::{CredentialProviderRequest, RegistryCredentialPluginRequest, ResponseError};
use keyfob_config::PluginProtocol;
use keyfob_exec::{LookupError, NotRunnable, RunError};
use keyfob_host::CallError;

use super::{
    command,
    report::{Command, Identity, Problem},
};
use crate::host_args::ALLOW_GLOBAL_ANSWERS;

/// What to do about a provider that gave nothing.
pub(super) fn of_failure(error: &CallError, by_hand: Option<&str>) -> String {
    let try_it = by_hand.map(|line| format!("; to see it by hand: {line}")).unwrap_or_default();
    match error {
        CallError::Lookup(error) => of_lookup(error),
        CallError::Untrusted(_) => {
            "make the plugin and every directory above it belong to root, and writable by nobody else".into()
        }
        CallError::Run(error) => of_run(error) + &try_it,
        CallError::Response(error) => of_response(error) + &try_it,
        CallError::FirstKep(_) => {
            format!("mend the plugin: it must print username, password and expirationTimestamp{try_it}")
        }
        CallError::EchoedToken => {
            "set cacheType to Token in the provider's tokenAttributes, if the registry takes the token itself as a password"
                .into()
        }
        CallError::GlobalAnswer => ALLOW_GLOBAL_ANSWERS.into(),
        CallError::ServiceAccountKey(_) => "shorten the annotations of the service account".into(),
        CallError::CacheKey(_) => {
            "use an image with a shorter name, or shorten the annotations of the service account".into()
        }
        CallError::BackingOff { .. } => "wait, or mend what made it fail before".into(),
        _ => "try again".into(),
    }
}

fn of_lookup(error: &LookupError) -> String {
    match error {
        LookupError::NotFound { .. } => {
            "install the plugin there, or correct the provider's name or --bin-dir".into()
        }
        LookupError::NotExecutable { path, why } => match why {
            NotRunnable::Permission => {
                let path = command::quoted(&path.to_string_lossy());
                format!("make it a program that may be run: chmod +x {path}")
            }
            NotRunnable::Directory | NotRunnable::NotAFile => {
                "put the plugin itself there, or correct the provider's name or --bin-dir".into()
            }
            NotRunnable::Busy => "try again when it is installed".into(),
            _ => PROGRAM.into(),
        },
        LookupError::NotAName { .. } => "write the bare name of a file in --bin-dir".into(),
        _ => "correct the provider's name or --bin-dir".into(),
    }
}

const PROGRAM: &str =
    "install a program for this machine, with the interpreter or loader that it names";

fn of_run(error: &RunError) -> String {
    match error {
        RunError::TimedOut { .. } => {
            "find out what it waits for, mostly the network; --timeout gives it more time here, but a kubelet never \
             waits for more than a minute"
        }
        RunError::OutputTooLarge { .. } => "mend the plugin: it may print its answer and nothing else",
        RunError::Failed { .. } => {
            "read what it said; the reason is usually the identity or the network it runs with, which a kubelet's \
             environment may not give it"
        }
        RunError::NotFound { .. } | RunError::NotExecutable { .. } => PROGRAM,
        RunError::ArgumentListTooLong { .. } => "shorten the provider's args and env",
        RunError::NulByte { .. } => "take the NUL byte out of the provider's args and env",
        _ => "free memory, processes or open files, and try again",
    }
    .into()
}

fn of_response(error: &ResponseError) -> String {
    match error {
        ResponseError::Json(_) => {
            "mend the plugin: on stdout it must print one JSON object and nothing else; messages belong on stderr"
        }
        ResponseError::Version { .. } => {
            "set the provider's apiVersion to the one that the plugin speaks, or install a plugin that speaks it"
        }
        ResponseError::CacheKeyType(_) => {
            "mend the plugin: cacheKeyType must be Image, Registry or Global, spelled so"
        }
        ResponseError::Misplaced { .. } => {
            "mend the plugin: cacheKeyType and cacheDuration stand beside auth, not inside it"
        }
        _ => "mend the plugin: its answer must be a CredentialProviderResponse and nothing more",
    }
    .into()
}

/// About a provider that was asked without the token that it may get.
pub(super) const WITHOUT_A_TOKEN: &str = "it was asked without a token; a kubelet hands it the pod's when the pod has a \
                                          service account, and its answer may then be another: name it with \
                                          --service-account";

/// About an answer of which nothing is for the image.
pub(super) fn of_useless_answer(registry: &str, answer: Useless) -> Problem {
    let such = format!("a key that matches the image, such as {registry:?}");
    match answer {
        Useless::Empty => Problem::new(
            "its answer has no credentials",
            "the plugin knows no login for this image: check the identity it runs with and what that may pull",
        ),
        Useless::OnlyMalformedKeys => Problem::new(
            "every key of its answer is malformed",
            format!("mend the plugin: it must answer with {such}"),
        ),
        Useless::Foreign => Problem::new(
            "its answer is only for other images",
            format!("the plugin must answer with {such}"),
        ),
    }
}

/// Why an answer is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Useless {
    Empty,
    OnlyMalformedKeys,
    Foreign,
}

/// About a login without user name and password, which is what docker leaves in its file when it keeps them elsewhere.
pub(super) fn of_empty_login(key: &str) -> Problem {
    Problem::new(
        format!(
            "the login for {key} is empty: docker keeps it in a helper (credsStore, credHelpers), which a kubelet does \
             not run"
        ),
        "take the helper out of the file and log in again with docker login, or use a provider",
    )
}

/// About an answer that is kept for more images than its keys are for.
pub(super) fn of_useless_global_answer() -> Problem {
    Problem::new(
        "an answer that is of no use here is kept for every image",
        "until it expires the plugin is asked about no image at all: its cacheKeyType should be Registry or Image",
    )
}

/// A line for a shell that asks the plugin as it was asked. It is made anew and holds no token.
pub(super) fn by_hand(
    protocol: PluginProtocol,
    repository: &str,
    identity: Option<&Identity>,
    run: &Command,
) -> String {
    let image = repository.to_owned();
    let request = match protocol {
        PluginProtocol::FirstKep => RegistryCredentialPluginRequest { image }.encode(),
        PluginProtocol::Kubelet(version) => {
            let service_account_token = identity.map(|_| "…".into());
            let annotations = identity.map(|identity| identity.annotations.clone());
            let service_account_annotations = annotations.unwrap_or_default();
            CredentialProviderRequest { image, service_account_token, service_account_annotations }
                .encode(version)
        }
    };
    let request = String::from_utf8_lossy(request.expose()).trim().to_owned();
    let names = run.environment.iter().map(|variable| variable.name.as_str());
    let set: String =
        names.filter(|name| is_identifier(name)).flat_map(|name| [name, "=… "]).collect();
    format!("echo {} | {set}{}", command::quoted(&request), command::line(run))
}

/// Whether a shell can set a variable of this name; it would run anything else.
fn is_identifier(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use keyfob_api::ProviderVersion;

    use super::*;
    use crate::explain::report::Variable;

    #[test]
    fn the_line_to_paste_runs_the_plugin_and_nothing_else() {
        let variable = |name: &str| Variable { name: name.into(), replaces_the_hosts: false };
        let run = Command {
            program: "/p/$(x)".into(),
            args: vec!["`x`".into(), "\u{1b}$(x)".into()],
            environment: ["A", "x;touch y;B", "1A", "", "_b2"].map(variable).into(),
            deadline: None,
        };
        let line = by_hand(PluginProtocol::FirstKep, "r.io/it's", None, &run);

        let want = r#"echo '{"image":"r.io/it'\''s"}' | A=… _b2=… '/p/$(x)' '`x`' $'\x1b$(x)'"#;
        assert_eq!(line, want);
    }

    #[test]
    fn the_line_to_paste_has_the_annotations_and_a_place_for_the_token() {
        let run = Command {
            program: "/p/x".into(),
            args: Vec::new(),
            environment: Vec::new(),
            deadline: None,
        };
        let annotations = [("example.com/role".to_owned(), "puller".to_owned())].into();
        let identity = Identity { annotations, ..Identity::default() };
        let protocol = PluginProtocol::Kubelet(ProviderVersion::V1);

        let line = by_hand(protocol, "r.io/a", Some(&identity), &run);

        let want = r#""image":"r.io/a","serviceAccountToken":"…","serviceAccountAnnotations":{"example.com/role":"puller"}}' | /p/x"#;
        assert!(line.ends_with(want), "{line}");
    }
}
