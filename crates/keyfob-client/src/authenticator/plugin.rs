//! One run of a plugin.
//!
//! Upstream: `refreshCredsLocked` in `plugin/pkg/client/auth/exec/exec.go`.
//! Differs: a run without a terminal has a deadline and an answer of 8 MiB at most; what it says on stderr comes line by
//! line without secrets, and its end is kept for the error.

mod failure;

use std::{ffi::OsString, os::unix::ffi::OsStringExt as _, path::Path};

use keyfob_api::{
    ExecCluster, ExecCredentialSpec, ExecCredentialStatus, ExecResponse, ExecVersion, Secret,
    speaks_of_a_secret,
};
use keyfob_exec::{
    Finished, Invocation, Limits, LookupError, MOST_OUTPUT, Program, Stderr, Stdin, Terminal,
    go::clean,
};

use super::{
    error::{AuthError, NotInteractive},
    hint::Helper,
};
use crate::{Behaviour, ExecConfig, InteractiveMode, World, metrics::Metrics};

/// What to run, and what to tell it.
#[derive(Debug)]
pub(crate) struct Plugin {
    command: String,
    config: ExecConfig,
    cluster: Option<ExecCluster>,
    version: ExecVersion,
    helper: Helper,
}

/// What is around a run.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) world: &'a World,
    pub(crate) behaviour: &'a Behaviour,
    pub(crate) metrics: &'a Metrics,
}

/// Whether a run may talk to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interactivity {
    Quiet,
    Interactive,
}

impl Plugin {
    pub(crate) fn new(
        config: ExecConfig,
        cluster: Option<ExecCluster>,
        version: ExecVersion,
    ) -> Self {
        let helper = Helper::new(config.install_hint.clone());
        Self { command: clean(&config.command), config, cluster, version, helper }
    }

    /// The command, cleaned.
    pub(crate) fn command(&self) -> &str {
        &self.command
    }

    pub(crate) fn config(&self) -> &ExecConfig {
        &self.config
    }

    pub(crate) fn version(&self) -> ExecVersion {
        self.version
    }

    /// Whether it would get the terminal now. Decided anew for each run.
    pub(crate) fn interactivity(
        &self,
        terminal: &dyn Terminal,
    ) -> Result<Interactivity, NotInteractive> {
        let unavailable = self.config.stdin_unavailable.as_ref();
        match &self.config.interactive_mode {
            InteractiveMode::Never => Ok(Interactivity::Quiet),
            InteractiveMode::IfAvailable => {
                let available = unavailable.is_none() && terminal.stdin_is_terminal();
                Ok(if available { Interactivity::Interactive } else { Interactivity::Quiet })
            }
            InteractiveMode::Always if !terminal.stdin_is_terminal() => {
                Err(NotInteractive::NoTerminal)
            }
            InteractiveMode::Always => match unavailable {
                None => Ok(Interactivity::Interactive),
                Some(why) => Err(NotInteractive::Unavailable(why.clone())),
            },
            other => Err(NotInteractive::UnknownMode(other.as_str().to_owned())),
        }
    }

    /// Runs it, and reads its answer.
    pub(crate) async fn ask(
        &self,
        interactivity: Interactivity,
        response: Option<ExecResponse>,
        around: Around<'_>,
    ) -> Result<ExecCredentialStatus, AuthError> {
        let spec = ExecCredentialSpec {
            cluster: self.cluster.clone().filter(|_| self.config.provide_cluster_info),
            interactive: interactivity == Interactivity::Interactive,
            response,
        };
        let info = spec.encode(self.version);
        let allowed = self.config.policy.check(&self.command, &*around.world.environment);
        around.metrics.policy(allowed.is_ok());
        let pinned = allowed.map_err(|denied| AuthError::Denied(denied.into()))?.program;
        let ran = self.run(pinned, &info, interactivity, around).await;
        around.metrics.called(&ran);
        let Finished { stdout, stderr, .. } = ran?;
        ExecCredentialStatus::decode(stdout.expose(), self.version)
            .map_err(|error| AuthError::Answer { error, stderr })
    }

    async fn run(
        &self,
        pinned: Option<Program>,
        info: &Secret<Vec<u8>>,
        interactivity: Interactivity,
        Around { world, behaviour, .. }: Around<'_>,
    ) -> Result<Finished, AuthError> {
        let program = match pinned {
            Some(program) => program,
            None => self.program(world)?,
        };
        let has_nul = |(name, value): &(String, Secret<String>)| {
            name.contains('\0') || value.expose().contains('\0')
        };
        if self.config.env.iter().any(has_nul) {
            return Err(AuthError::NulInEnvironment);
        }
        let invocation = match (interactivity, self.invocation(program, info)) {
            (Interactivity::Interactive, invocation) => {
                invocation.stdin(Stdin::Terminal).stderr(Stderr::Inherit)
            }
            (Interactivity::Quiet, invocation) => {
                let quiet = invocation.stderr(Stderr::Forward(world.messages.sink()));
                match behaviour.deadline {
                    Some(deadline) => quiet.deadline(deadline),
                    None => quiet,
                }
            }
        };
        let ran = world.runner.run(&invocation).await;
        self.judge(ran, info.expose().len())
    }

    /// What it is given, whether or not it may talk to a person.
    fn invocation(&self, program: Program, info: &Secret<Vec<u8>>) -> Invocation {
        let limits = Limits { stdout: MOST_OUTPUT, ..Limits::default() };
        let mut invocation = Invocation::new(program).args(&self.config.args).limits(limits);
        for (name, value) in &self.config.env {
            invocation = invocation.env(name, value.expose());
        }
        for secret in self.secrets() {
            invocation = invocation.redact(secret);
        }
        // Last, so that nothing else of this name counts.
        invocation.env("KUBERNETES_EXEC_INFO", OsString::from_vec(info.expose().clone()))
    }

    fn program(&self, world: &World) -> Result<Program, AuthError> {
        let found = match self.command.as_str() {
            // Go looks it up, because it is its own last part.
            "/" => Err(LookupError::NotFound { path: Path::new("/").into() }),
            command => Program::on_path(command, &*world.environment),
        };
        found.map_err(|lookup| AuthError::NotFound {
            command: self.command.clone(),
            help: self.helper.help(world.clock.now()),
            lookup: lookup.into(),
        })
    }

    /// What it is handed under a name that speaks of a secret; the proxy's address, which may hold a password; and what the
    /// cluster has for it, which nobody here knows.
    fn secrets(&self) -> Vec<Secret<String>> {
        let args = &self.config.args;
        let written_together = args.iter().filter_map(|arg| arg.split_once('='));
        let apart = args.iter().zip(args.iter().skip(1));
        let named = written_together
            .chain(apart.map(|(name, value)| (name.as_str(), value.as_str())))
            .filter(|(name, value)| {
                name.starts_with('-') && !value.starts_with('-') && speaks_of_a_secret(name)
            })
            .map(|(_, value)| Secret::from(value));
        let proxy = self.cluster.iter().map(|cluster| cluster.proxy_url.clone());
        let config = self.cluster.iter().filter_map(|cluster| cluster.config.as_ref());
        let config = config.map(|config| Secret::from(config.as_str()));
        named.chain(proxy).chain(config).filter(|secret| secret.expose().len() >= 6).collect()
    }
}
