//! What the host said: credentials, or why there are none.

use std::collections::BTreeMap;

use keyfob_api::Chain;
use keyfob_exec::on_one_line;
use keyfob_host::{CallError, ProviderOutcome, ProviderReport};
use keyfob_keyring::{Credential, Source};

use super::{GrantedCredential, expiry};
use crate::error::{ApiError, ErrorCode};

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

    /// Why there are none: what the caller is told, and what the log says. What a plugin printed may be a secret that nobody knows yet,
    /// so only root, who can read the agent's own log, is told that.
    pub(super) fn error(&self, image: &str, is_root: bool) -> (ApiError, String) {
        let failed = self.reports.iter().find_map(|report| match &report.outcome {
            ProviderOutcome::Failed(error) => Some((&report.provider, error)),
            _ => None,
        });
        if let Some((provider, error)) = failed {
            let message = |why: &str| {
                on_one_line(&format!("provider {provider} gave no credentials for {image}: {why}"))
            };
            let short = message(&without_plugin_output(error));
            let told = if is_root { message(&Chain(&**error).to_string()) } else { short.clone() };
            let error = ApiError::new(ErrorCode::Failed, told)
                .help("the log of the agent says what the plugin printed");
            return (error, short);
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

fn without_plugin_output(error: &CallError) -> String {
    match error {
        CallError::Run(_) => "its plugin failed".to_owned(),
        CallError::BackingOff { failures, wait, .. } => {
            format!(
                "its plugin failed {failures} times, and is asked again in {} s",
                wait.as_secs()
            )
        }
        other => Chain(other).to_string(),
    }
}
