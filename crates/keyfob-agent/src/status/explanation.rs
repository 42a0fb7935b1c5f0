//! Why a provider gave nothing, and what to do about it, in words that every local process may read.
//!
//! A plugin can print anything, also a secret that nobody knows yet. So nothing of its stderr is quoted here, and nothing of what a
//! server said about a token: root gets both from the commands that the help names. Refusals of callers other than root say the same.

use keyfob_api::{Chain, ResponseError};
use keyfob_exec::{LookupError, RunError, on_one_line};
use keyfob_host::CallError;
use serde::Serialize;

/// What is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Explanation {
    pub(crate) message: String,
    pub(crate) help: String,
}

impl Explanation {
    pub(crate) fn of(error: &CallError) -> Self {
        let message = on_one_line(&message(error));
        Self { message, help: help(error).to_owned() }
    }
}

fn message(error: &CallError) -> String {
    match error {
        CallError::Run(error) => run_message(error),
        // Without its name: in a summary, nobody learns who asks.
        CallError::Identity { step, .. } => {
            format!("there is no {step} for the service account that asked")
        }
        // Its text has the text of the last error in it.
        CallError::BackingOff { last, .. } => message(last),
        other => Chain(other).to_string(),
    }
}

/// Without what the plugin said on stderr.
fn run_message(error: &RunError) -> String {
    match error {
        RunError::TimedOut { after, .. } => {
            format!("the plugin did not answer within {} s and was killed", after.as_secs_f64())
        }
        RunError::OutputTooLarge { limit, .. } => {
            format!("the plugin printed more than {limit} bytes and was killed")
        }
        RunError::Failed { status, .. } => format!("the plugin failed: {status}"),
        RunError::NotFound { .. }
        | RunError::NotExecutable { .. }
        | RunError::ArgumentListTooLong { .. }
        | RunError::NulByte { .. } => error.to_string(),
        _ => "the plugin could not be run".to_owned(),
    }
}

fn help(error: &CallError) -> &'static str {
    match error {
        CallError::Lookup(error) => lookup_help(error),
        CallError::Untrusted(_) => {
            "make the plugin and every directory above it belong to root, and writable by nobody else"
        }
        CallError::Run(error) => run_help(error),
        CallError::Response(error) => response_help(error),
        CallError::FirstKep(_) => {
            "fix the plugin: it must print username, password and expirationTimestamp"
        }
        CallError::Identity { .. } => {
            "check that the API server answers and that the node may request tokens of this service account; the log of the \
             agent has the reason"
        }
        CallError::GivenToken(_) => "check the token that the kubelet passes on",
        CallError::EchoedToken => {
            "set cacheType to Token in the provider's tokenAttributes, if the registry takes the token as a password"
        }
        CallError::GlobalAnswer => "let the plugin answer with cacheKeyType Registry or Image",
        CallError::CacheKey(_) | CallError::ServiceAccountKey(_) => {
            "use an image with a shorter name, or shorten the annotations of the service account"
        }
        CallError::BackingOff { last, .. } => help(last),
        _ => "the agent tries again with the next request; its log has the details",
    }
}

fn lookup_help(error: &LookupError) -> &'static str {
    match error {
        LookupError::NotFound { .. } => {
            "install the plugin there, or correct the provider's name or pluginDirectory"
        }
        LookupError::NotExecutable { .. } => {
            "make it a program that root may run: chmod 755, and built for this machine"
        }
        _ => "correct the provider's name or pluginDirectory",
    }
}

fn run_help(error: &RunError) -> &'static str {
    match error {
        RunError::TimedOut { .. } => {
            "find out what it waits for: usually the network, a name server or a cloud's metadata service"
        }
        RunError::OutputTooLarge { .. } => {
            "fix the plugin: it may print its answer and nothing else"
        }
        RunError::Failed { .. } => {
            "read what the plugin printed: it is in the log of the agent, and root sees it with keyfob explain; the reason is \
             usually the node's identity or the network"
        }
        RunError::NotFound { .. } | RunError::NotExecutable { .. } => {
            "install a program for this machine, with the interpreter or loader that it names"
        }
        RunError::ArgumentListTooLong { .. } => "shorten the provider's args and env",
        RunError::NulByte { .. } => "remove the NUL byte from the provider's args and env",
        _ => "free memory, processes or open files of the node",
    }
}

fn response_help(error: &ResponseError) -> &'static str {
    match error {
        ResponseError::Json(_) => {
            "fix the plugin: on stdout it must print one JSON object and nothing else; messages belong on stderr"
        }
        ResponseError::Version { .. } => {
            "set the provider's apiVersion to the one that the plugin speaks, or install a plugin that speaks it"
        }
        _ => {
            "fix the plugin: its answer must be a CredentialProviderResponse; keyfob conformance says what is wrong"
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use keyfob_host::{IdentityError, IdentityStep, ServiceAccountsError};
    use keyfob_keyring::ServiceAccountCoordinates;
    use keyfob_testkit::LeakCheck;

    use super::*;

    const SECRET: &str = "hunter2-in-the-words-of-a-server";

    #[test]
    fn what_others_said_is_not_repeated() {
        let identity = || CallError::Identity {
            step: IdentityStep::Token,
            account: Arc::new(ServiceAccountCoordinates {
                namespace: "team-a".to_owned(),
                ..ServiceAccountCoordinates::default()
            }),
            audience: String::new(),
            source: IdentityError::Forbidden(ServiceAccountsError::new(SECRET)),
        };
        let last = Arc::new(identity());
        let backing_off =
            CallError::BackingOff { wait: std::time::Duration::ZERO, failures: 2, last };
        for error in [identity(), backing_off] {
            let Explanation { message, help } = Explanation::of(&error);
            LeakCheck::new([SECRET, "team-a"])
                .text("the message", &message)
                .text("the help", &help);
        }
    }
}
