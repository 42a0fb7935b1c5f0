//! What the host said: credentials, or why there are none.

use std::collections::BTreeMap;

use keyfob_api::Chain;
use keyfob_exec::on_one_line;
use keyfob_host::{CallError, ProviderOutcome, ProviderReport};
use keyfob_keyring::{Credential, Source};

use super::{GrantedCredential, expiry};
use crate::{
    error::{ApiError, ErrorCode},
    status::Explanation,
};

/// What the host said.
#[derive(Debug)]
pub(crate) struct Reports {
    pub(crate) credentials: Vec<Credential>,
    pub(super) reports: Vec<ProviderReport>,
}

impl Reports {
    /// The credentials, each with its provider and expiry.
    pub(super) fn credentials(&self) -> Vec<GrantedCredential> {
        let reports = self.reports.iter();
        let expiry: BTreeMap<_, _> =
            reports.map(|report| (report.provider.clone(), expiry(&report.outcome))).collect();
        let credentials =
            self.credentials.iter().filter_map(|credential| match credential.source() {
                Source::Provider(source) => Some(GrantedCredential {
                    credential: credential.clone(),
                    provider: source.name.clone(),
                    expires: expiry.get(&source.name).copied().flatten(),
                }),
                _ => None,
            });
        credentials.collect()
    }

    /// Why there are none: what the caller is told, and what the log says. What a plugin printed may be a secret that nobody knows yet, and
    /// what a server said about a token is not for every caller. Only root, who can read the agent's own log, is told either.
    pub(super) fn error(&self, image: &str, is_root: bool) -> (ApiError, String) {
        let failed = self.reports.iter().find_map(|report| match &report.outcome {
            ProviderOutcome::Failed(error) => Some((&report.provider, error)),
            _ => None,
        });
        if let Some((provider, error)) = failed {
            return failure(provider, error, image, is_root);
        }
        let skipped = self.reports.iter().find_map(|report| match &report.outcome {
            ProviderOutcome::Skipped(why) => Some((&report.provider, why)),
            _ => None,
        });
        let message = match skipped {
            Some((provider, why)) => {
                on_one_line(&format!("provider {provider} was not asked for {image}: {why}"))
            }
            None => format!("no provider has credentials for {image}"),
        };
        (ApiError::new(ErrorCode::NotFound, message.clone()), message)
    }
}

/// What the caller is told of a failure, and what the log says. Callers other than root are told what the status page shows to everybody.
fn failure(provider: &str, error: &CallError, image: &str, is_root: bool) -> (ApiError, String) {
    let Explanation { message: why, help } = Explanation::of(error);
    let why = match error {
        CallError::BackingOff { failures, wait, .. } => {
            let wait = wait.as_secs_f64().ceil();
            format!("{why}; after {failures} failures in a row it is asked again in {wait} s")
        }
        _ => why,
    };
    let message = |why: &str| {
        on_one_line(&format!("provider {provider} gave no credentials for {image}: {why}"))
    };
    let reason = message(&why);
    let told = if is_root { message(&Chain(error).to_string()) } else { reason.clone() };
    (ApiError::new(ErrorCode::Failed, told).help(help), reason)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use keyfob_host::{IdentityError, IdentityStep, ServiceAccountsError};
    use keyfob_keyring::ServiceAccountCoordinates;
    use keyfob_testkit::LeakCheck;

    use super::*;

    const SECRET: &str = "hunter2-in-the-words-of-a-server";

    fn identity() -> CallError {
        CallError::Identity {
            step: IdentityStep::Token,
            account: Arc::new(ServiceAccountCoordinates::default()),
            audience: String::new(),
            source: IdentityError::Forbidden(ServiceAccountsError::new(SECRET)),
        }
    }

    #[test]
    fn only_root_is_told_what_a_server_said_about_a_token() {
        let wait = Duration::from_millis(1500);
        let backing_off = CallError::BackingOff { wait, failures: 2, last: Arc::new(identity()) };
        let why = "provider one gave no credentials for registry.example/app: \
                   there is no service account token for the service account that asked";
        let again = "; after 2 failures in a row it is asked again in 2 s";
        for (error, expected) in
            [(identity(), why.to_owned()), (backing_off, format!("{why}{again}"))]
        {
            let told = |is_root| failure("one", &error, "registry.example/app", is_root);
            let (for_others, reason) = told(false);
            assert_eq!((&for_others.message, &reason), (&expected, &expected));
            LeakCheck::new([SECRET])
                .text("the message", &for_others.message)
                .text("the help", for_others.help.as_deref().unwrap_or_default())
                .text("the audit log", &reason);
            let (for_root, reason) = told(true);
            assert!(for_root.message.contains(SECRET), "{}", for_root.message);
            assert_eq!(reason, expected, "the audit log is the same, whoever asked");
        }
    }
}
