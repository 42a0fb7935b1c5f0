//! `keyfob kube`: the users of a kubeconfig and their plugins, at the command line.
//!
//! - `cluster_args`: what can be typed; `chosen`: what that comes to; `failure`, `remedy`: why it comes to nothing.
//! - `held`: the credential that a user shows; `described`: what may be told of it.
//! - one file for each command.

mod auth_provider;
pub(crate) mod chosen;
mod cluster_args;
mod described;
mod exec_cache;
mod explain;
pub(crate) mod failure;
mod get;
mod held;
mod proxy;
mod remedy;
mod token;
mod whoami;

use std::env;

use clap::{Args, Subcommand};
use keyfob_client::Messages;

use self::{chosen::Cluster, cluster_args::ClusterArgs, failure::KubeFailure};
use crate::{
    Outcome, Verdict,
    lookup::LookupFailure,
    signals::{self, GRACE, Workers},
};

#[derive(Debug, Args)]
#[command(
    after_help = "A user logs in with an exec plugin, a token, a certificate or a password. The older auth-providers are not \
                  supported; for a user that has one, every command names what takes its place."
)]
pub(crate) struct KubeCommand {
    #[command(subcommand)]
    command: Kube,
}

#[derive(Debug, Subcommand)]
enum Kube {
    /// Print the token, or the certificate, that a kubeconfig's user shows to its cluster.
    Token(Box<token::TokenArgs>),
    /// Say who a kubeconfig's user is: by its credential, and by what the server makes of it.
    Whoami(Box<whoami::WhoamiArgs>),
    /// Ask the API server for a path, and print what it answers.
    Get(Box<get::GetArgs>),
    /// Let programs that cannot run plugins reach the cluster, at an address of this machine.
    Proxy(Box<proxy::ProxyArgs>),
    /// Say which kubeconfig, context, user and plugin count, run the plugin, and say why it fails.
    Explain(Box<explain::ExplainArgs>),
    /// Be a plugin that runs another and keeps its answer, for all who ask, until it expires.
    ExecCache(Box<exec_cache::ExecCacheArgs>),
}

pub(crate) fn run(command: &KubeCommand) -> Outcome {
    match &command.command {
        Kube::Token(args) => token::run(args),
        Kube::Whoami(args) => whoami::run(args),
        Kube::Get(args) => get::run(args),
        Kube::Proxy(args) => proxy::run(args),
        Kube::Explain(args) => explain::run(args),
        Kube::ExecCache(args) => exec_cache::run(args),
    }
}

/// What `kube exec-cache` says, if that is what was typed: a client runs it for every command, so nothing of the rest is
/// looked at.
pub(crate) fn asked_for() -> Option<Outcome> {
    let mut words = env::args_os().skip(1);
    let asked = words.next()? == "kube" && words.next()? == "exec-cache";
    let run = || exec_cache::parse(words).map_or_else(Outcome::from, |args| exec_cache::run(&args));
    asked.then(run)
}

/// Finds the cluster and does something with it, unless a signal comes first.
fn on_cluster(
    args: &ClusterArgs,
    work: impl AsyncFnOnce(&Cluster) -> Result<Outcome, KubeFailure>,
) -> Result<Outcome, LookupFailure> {
    on_cluster_until(Verdict::Stopped, args, work)
}

/// The same for a command that says itself what it exits with at a signal.
fn on_cluster_until(
    stopped: Verdict,
    args: &ClusterArgs,
    work: impl AsyncFnOnce(&Cluster) -> Result<Outcome, KubeFailure>,
) -> Result<Outcome, LookupFailure> {
    args.logging.start();
    let runtime = Workers::new()?;
    runtime.block_on(async {
        let cluster = match args.open(Messages::default()) {
            Ok(cluster) => cluster,
            Err(failure) => return Ok(failure.into()),
        };
        cluster.chosen.warn();
        let mut stop = signals::listen(stopped, GRACE)?;
        Ok(stop.unless(work(&cluster)).await?.unwrap_or_else(Outcome::from))
    })?
}
