//! `keyfob demo`: a registry, a cluster and a node on loopback, and pulls that are let in or refused for a reason.
//!
//! - `stage`: what is there. `cluster` has its pods and roles; `issuer` verifies their tokens for the registry.
//! - `node`: what a kubelet is made of here: it finds credentials, pulls images, and remembers who may use them.
//! - The acts, in order: `opening`, `node_login`, `pod_identity`, `entitlement`, `audience`, `hanging`, `node_agent`,
//!   `kubeconfig_user`.
//! - `story`: what is told, and whether every step did what it should. `keep`: what there is to play with.

mod audience;
mod cluster;
mod entitlement;
mod hanging;
mod issuer;
mod keep;
mod kubeconfig_user;
mod node;
mod node_agent;
mod node_login;
mod opening;
mod pod_identity;
mod stage;
mod story;

use std::path::Path;

use clap::Args;
use keyfob_host::HostOptions;

use self::{node::Node, stage::Stage, story::Story};
use crate::{
    Outcome, Verdict,
    lookup::LookupFailure,
    signals::{self, GRACE, Stop, Workers},
};

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 every step did what it should, 1 one did not, 4 it could not be written, \
                  130 it was stopped by a signal before its end."
)]
pub(crate) struct DemoArgs {
    /// Leave everything running until Ctrl-C, and print the commands to play with.
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run(args: &DemoArgs) -> Outcome {
    let mut story = Story::default();
    // Before there is anything to remove.
    let mut stop = match signals::listen(Verdict::Stopped, GRACE) {
        Ok(stop) => stop,
        Err(error) => return LookupFailure::from(error).into(),
    };
    let directory = match stage::directory() {
        Ok(directory) => directory,
        Err(error) => {
            story.step("there is a temporary directory", Err(error.to_string()));
            return story.outcome();
        }
    };
    stop.removes(directory.path());
    // The runtime ends first: whatever still ran there could write.
    let told = in_runtime(directory.path(), args, &mut story, &mut stop);
    if let Err(error) = directory.close() {
        story.step("everything is removed", Err(error.to_string()));
    }
    match told {
        Ok(()) => story.outcome(),
        Err(failure) => failure.into(),
    }
}

fn in_runtime(
    directory: &Path,
    args: &DemoArgs,
    story: &mut Story,
    stop: &mut Stop,
) -> Result<(), LookupFailure> {
    let runtime = Workers::new()?;
    runtime.block_on(async {
        let stage = stop.unless(play(directory, story)).await?;
        if let Some(stage) = stage.filter(|_| args.keep) {
            keep::until_stopped(&stage, story, stop).await;
        }
        Ok(())
    })?
}

/// Nothing is left of the stage if it could not be set.
async fn play(directory: &Path, story: &mut Story) -> Option<Stage> {
    let stage = opening::play(directory, story).await?;
    let node = match Node::new(&stage, HostOptions::default()) {
        Ok(node) => node,
        Err(error) => {
            story.step("a node can be made of it", Err(error));
            return None;
        }
    };
    node_login::play(&stage, &node, story).await;
    pod_identity::play(&stage, &node, story).await;
    entitlement::play(&stage, &node, story).await;
    audience::play(&stage, &node, story).await;
    hanging::play(&stage, story).await;
    Box::pin(node_agent::play(&stage, story)).await;
    kubeconfig_user::play(&stage, story).await;
    story.summary();
    Some(stage)
}
