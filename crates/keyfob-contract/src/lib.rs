#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! The two exec protocols are two implementations of one trait (`protocol`): `provider` for the plugins of a kubelet and
//! `client` for those of a kubeconfig. Each says what its plugins are asked (`plan`) and has the checks that are its own. The
//! rest is written once: `observe` runs the plan, and each check is a pure function of what was observed (`case`). `process`
//! has the checks of processes, and `response` what the checks of responses have in common. [`checks()`] and
//! [`client_checks`] list all checks.

mod case;
mod checks;
mod client;
mod observe;
mod plugin;
mod process;
mod protocol;
mod provider;
mod report;
mod response;
mod secrets;

use std::{ffi::OsString, sync::Arc, time::Duration};

use keyfob_api::Secret;
use keyfob_exec::{Program, Runner};

use case::Case;
pub use client::{Client, ClientConformance, client_checks};
use plugin::Plugin;
use protocol::Protocol;
pub use provider::{Conformance, Provider, checks};
pub use report::{Finding, Grade, Report};

/// A plugin, and what it is to be asked. The protocol is that of [`Conformance`] or of [`ClientConformance`].
#[derive(Debug, Clone)]
pub struct PluginConformance<P> {
    plugin: Plugin,
    protocol: P,
}

/// What it means that a plugin fails, or has nothing, for an image it is asked about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoAnswer {
    /// It is a fault: everything is there that an answer needs.
    #[default]
    Fails,
    /// It may be so, for instance because there is no cloud here. What needs an answer is not checked; if there is one, it
    /// is.
    MayBe,
}

impl<P> PluginConformance<P> {
    fn new(program: Program, protocol: P) -> Self {
        Self { plugin: Plugin::new(program), protocol }
    }

    /// More arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.plugin.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// A variable over the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<Secret<String>>) -> Self {
        self.plugin.env.push((name.into(), value.into()));
        self
    }

    /// When a run is killed; after a minute unless told, as by a kubelet.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.plugin.timeout = timeout;
        self
    }

    /// Whether it must have an answer.
    #[must_use]
    pub fn no_answer(mut self, no_answer: NoAnswer) -> Self {
        self.plugin.no_answer = no_answer;
        self
    }
}

/// Runs the plugin as often as its protocol needs, and judges.
async fn report<P: Protocol>(
    conformance: &PluginConformance<P>,
    runner: Arc<dyn Runner>,
) -> Report {
    let started = conformance.plugin.clock.now().into();
    let runs = observe::observe(conformance, &runner).await;
    Report { findings: checks::judge(&Case::new(conformance, started, runs)) }
}
