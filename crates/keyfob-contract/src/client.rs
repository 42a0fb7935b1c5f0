//! The same for plugins of a kubeconfig: what a client asks them, and what it makes of their answers.

mod case;
mod checks;
mod credential;
mod pem;
mod plan;
mod requests;
mod response;
mod runs;

use std::{ffi::OsString, sync::Arc, time::Duration};

use keyfob_api::{ExecCluster, Secret};
use keyfob_exec::{Clock, Program, Runner};

use super::{NoAnswer, Report};
use case::Case;
pub use checks::client_checks;
use plan::Subject;

/// A plugin of a kubeconfig's `exec` user, and what it is to be asked.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use keyfob_exec::{ProcessRunner, Program, SystemEnvironment};
/// use keyfob_contract::{ClientConformance, Grade};
///
/// let report = ClientConformance::of(Program::at("/opt/bin/my-login")?)
///     .args(["get-token", "--issuer=https://login.example.com"])
///     .report(Arc::new(ProcessRunner::new(SystemEnvironment)))
///     .await;
/// assert_eq!(report.count(Grade::Fail), 0, "{report:#?}");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ClientConformance(Subject);

impl ClientConformance {
    /// This plugin.
    pub fn of(program: Program) -> Self {
        Self(Subject::new(program))
    }

    /// More arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.0.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// A variable over the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<Secret<String>>) -> Self {
        self.0.env.push((name.into(), value.into()));
        self
    }

    /// The cluster that the plugin is told of. Without one it is made up, and nobody is there.
    #[must_use]
    pub fn cluster(mut self, cluster: ExecCluster) -> Self {
        self.0.cluster = Some(cluster);
        self
    }

    /// When a run is killed; a minute unless told.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout = timeout;
        self
    }

    /// Whether it must have an answer.
    #[must_use]
    pub fn no_answer(mut self, no_answer: NoAnswer) -> Self {
        self.0.no_answer = no_answer;
        self
    }

    /// Another clock, by which credentials end.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.0.clock = clock;
        self
    }

    /// Runs the plugin some fifteen times, and judges.
    pub async fn report(&self, runner: Arc<dyn Runner>) -> Report {
        let now = self.0.clock.now().into();
        let (usual, runs) = self.0.observe(runner).await;
        Report { findings: checks::judge(&Case::new(&self.0, now, usual, runs)) }
    }
}
