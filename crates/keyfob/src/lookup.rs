//! Asking every source for the credentials of one image.

use std::{io, path::PathBuf, sync::Arc};

use keyfob_api::{Chain, FeatureGates, ImageRef};
use keyfob_config::ValidConfig;
use keyfob_exec::{LookupError, Program, on_one_line};
use keyfob_host::{GlobalAnswers, Host, ProviderOutcome, ProviderReport, Pull};
use keyfob_keyring::{Credential, Logins};
use serde_json::Value;
use thiserror::Error;

use crate::{
    Outcome, Verdict,
    agent_source::{AgentAnswer, AgentSource},
    identity_args::Puller,
    signals::{self, GRACE, Stopped, Workers},
};

/// Everything that is asked.
#[derive(Debug)]
pub(crate) struct Sources {
    /// What the pod brings along.
    pub(crate) secrets: Vec<Arc<Logins>>,
    /// The node agent, if it is asked instead of everything else.
    pub(crate) agent: Option<AgentSource>,
    /// Asks for the rest, and knows the order.
    pub(crate) host: Host,
    /// What its providers are, if there are any.
    pub(crate) providers: Option<Providers>,
    /// Whoever pulls, if that is known.
    pub(crate) puller: Option<Puller>,
    /// Where the plugins run, and clients and servers live.
    pub(crate) runtime: Workers,
    /// Which of Kubernetes' features are on.
    pub(crate) gates: FeatureGates,
    /// Whether providers that use service accounts may answer for every image.
    pub(crate) global_answers: GlobalAnswers,
}

/// The providers of a host.
#[derive(Debug)]
pub(crate) struct Providers {
    pub(crate) config: ValidConfig,
    pub(crate) plugins: PathBuf,
}

impl Providers {
    /// The plugins that are not there, or cannot be run: a kubelet would not start without them.
    pub(crate) fn missing(&self) -> impl Iterator<Item = LookupError> {
        let providers = self.config.providers().iter();
        providers.filter_map(|config| Program::in_directory(&self.plugins, config.name()).err())
    }
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Found {
    /// In the order in which they are tried.
    pub(crate) credentials: Vec<Credential>,
    /// What the providers did whose patterns match.
    pub(crate) reports: Vec<ProviderReport>,
    /// What the agent said, if it was asked.
    pub(crate) agent: Option<AgentAnswer>,
}

impl Sources {
    /// Asks, and waits for the answers.
    pub(crate) fn find(&self, image: &ImageRef) -> Result<Found, LookupFailure> {
        let asking = async {
            let agent = self.ask_agent(image).await;
            let pull = self.pull(image, agent.iter().flat_map(AgentAnswer::logins));
            let answer = self.host.credentials(&pull).await;
            Found { credentials: answer.credentials, reports: answer.reports, agent }
        };
        self.runtime.block_on(unless_stopped(asking))?
    }

    /// Which rules of the agent decide; nothing if it is not asked or does not say.
    pub(crate) fn explain_agent(&self, image: &ImageRef) -> Result<Option<Value>, LookupFailure> {
        match &self.agent {
            Some(agent) => Ok(self.runtime.block_on(agent.explain(image))?),
            None => Ok(None),
        }
    }

    /// Asks the agent, if it is asked instead of everything else.
    pub(crate) async fn ask_agent(&self, image: &ImageRef) -> Option<AgentAnswer> {
        match &self.agent {
            Some(agent) => Some(agent.ask(image).await),
            None => None,
        }
    }

    /// The pull, for whoever pulls, with what an agent has handed out.
    pub(crate) fn pull(
        &self,
        image: &ImageRef,
        of_agent: impl IntoIterator<Item = Arc<Logins>>,
    ) -> Pull {
        let secrets = self.secrets.iter().cloned().chain(of_agent);
        let pull = Pull::new(image).with_secrets(secrets);
        match &self.puller {
            Some(puller) => pull.with_pod(puller.pod.clone()),
            None => pull,
        }
    }

    /// What the node's docker configuration holds, which was read before.
    pub(crate) fn docker_config(&self) -> Option<Arc<Logins>> {
        self.host.docker_config()?.logins().ok()?
    }

    /// What a kubelet would not start with, and where it would be somebody else.
    pub(crate) fn warnings(&self) -> String {
        self.warnings_but_refusals(false)
    }

    /// The same, without refusals if they are told already, with what to do about them.
    pub(crate) fn warnings_but_refusals(&self, are_told: bool) -> String {
        let missing = self.providers.iter().flat_map(Providers::missing);
        let line = |error| format!("keyfob: a kubelet would not start with this: {error}\n");
        let requests = self.puller.iter().flat_map(|puller| puller.warnings(are_told));
        let requests = requests.map(|warning| format!("keyfob: {}\n", on_one_line(&warning)));
        missing.map(line).chain(requests).collect()
    }
}

/// Plugins are out of reach of a terminal's Ctrl-C; whoever stops us stops them, when the runtime is dropped.
pub(crate) async fn unless_stopped<T>(work: impl Future<Output = T>) -> Result<T, LookupFailure> {
    // Before any plugin is started.
    let mut stop = signals::listen(Verdict::Stopped, GRACE)?;
    Ok(stop.unless(work).await?)
}

/// Why nothing was found out.
#[derive(Debug, Error)]
pub(crate) enum LookupFailure {
    #[error("stopped; the plugins that ran were killed")]
    Stopped,
    #[error("cannot wait for plugins: {0}")]
    System(#[from] io::Error),
}

impl From<Stopped> for LookupFailure {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
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
        } else if let Some(agent) = &self.agent {
            agent.verdict()
        } else if !self.reports.is_empty() && self.reports.iter().all(failed) {
            Verdict::No
        } else {
            Verdict::Nothing
        }
    }
}
