//! Asking every source for the credentials of one image.

use std::{io, path::PathBuf, sync::Arc};

use keyfob_api::ImageRef;
use keyfob_exec::{LookupError, Program};
use keyfob_host::{
    Answer, Chain, Config, Credential, Host, Logins, ProviderOutcome, ProviderReport, Pull, select,
};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};

use crate::{Outcome, Verdict};

/// Everything that is asked, in its order.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) secrets: Vec<Arc<Logins>>,
    pub(crate) docker_config: Option<Arc<Logins>>,
    pub(crate) providers: Option<Providers>,
}

/// A host, and what it was made of.
#[derive(Debug)]
pub(crate) struct Providers {
    pub(crate) config: Config,
    pub(crate) plugins: PathBuf,
    pub(crate) host: Host,
}

impl Providers {
    /// The plugins that are not there, or cannot be run: a kubelet would not start without them.
    pub(crate) fn missing(&self) -> impl Iterator<Item = LookupError> {
        let providers = self.config.providers.iter();
        providers.filter_map(|config| Program::in_directory(&self.plugins, &config.name).err())
    }
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Found {
    /// In the order in which they are tried.
    pub(crate) credentials: Vec<Credential>,
    /// What the providers did whose patterns match.
    pub(crate) reports: Vec<ProviderReport>,
}

impl Sources {
    /// Asks, and waits for the answers.
    pub(crate) fn find(&self, image: &ImageRef) -> Result<Found, LookupFailure> {
        let pull = Pull::new(image);
        let of = |sources: &[Arc<Logins>]| select(pull.image(), pull.target(), sources);
        let mut credentials = of(&self.secrets);
        credentials.extend(of(self.docker_config.as_slice()));
        let mut reports = Vec::new();
        if let Some(providers) = &self.providers {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let answer = runtime.block_on(ask(&providers.host, &pull))?;
            credentials.extend(answer.credentials);
            reports = answer.reports;
        }
        Ok(Found { credentials, reports })
    }
}

/// Plugins are out of reach of a terminal's Ctrl-C; whoever stops us stops them, when the runtime is dropped.
async fn ask(host: &Host, pull: &Pull) -> Result<Answer, LookupFailure> {
    let [mut hangup, mut interrupt, mut quit, mut terminate] = [
        signal(SignalKind::hangup())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::quit())?,
        signal(SignalKind::terminate())?,
    ];
    tokio::select! {
        answer = host.credentials(pull) => return Ok(answer),
        _ = hangup.recv() => {}
        _ = interrupt.recv() => {}
        _ = quit.recv() => {}
        _ = terminate.recv() => {}
    }
    Err(LookupFailure::Stopped)
}

/// Why nothing was found out.
#[derive(Debug, Error)]
pub(crate) enum LookupFailure {
    #[error("stopped; the plugins that ran were killed")]
    Stopped,
    #[error("cannot wait for plugins: {0}")]
    System(#[from] io::Error),
}

impl From<LookupFailure> for Outcome {
    fn from(failure: LookupFailure) -> Self {
        let verdict = match failure {
            LookupFailure::Stopped => Verdict::Stopped,
            LookupFailure::System(_) => Verdict::No,
        };
        Self { stderr: format!("keyfob: {failure}\n"), verdict, ..Self::default() }
    }
}

impl Found {
    /// The providers that failed, and why.
    pub(crate) fn errors(&self) -> impl Iterator<Item = (&str, String)> {
        self.reports.iter().filter_map(|report| match &report.outcome {
            ProviderOutcome::Failed(error) => {
                Some((&*report.provider, Chain(&**error).to_string()))
            }
            _ => None,
        })
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let failed = |report: &ProviderReport| matches!(report.outcome, ProviderOutcome::Failed(_));
        if !self.credentials.is_empty() {
            Verdict::Yes
        } else if !self.reports.is_empty() && self.reports.iter().all(failed) {
            Verdict::No
        } else {
            Verdict::Nothing
        }
    }
}
