//! A plugin that hangs costs its own answer and nothing else.

use std::{fs, io, path::Path, time::Duration};

use keyfob_api::Chain;
use keyfob_exec::RunError;
use keyfob_host::{CallError, HostOptions};
use keyfob_images::PullPolicy;
use keyfob_playground::registry::Fault;

use super::{
    cluster::WEB,
    node::{Node, Seen},
    stage::{BASE, Stage, TOOLS},
    story::{Story, Told, checked, milliseconds},
};

/// Its service will not answer.
const HANGS: &str = "exchange-credential-provider";
/// A kubelet waits a minute.
const PATIENCE: Duration = Duration::from_millis(500);

pub(super) async fn play(stage: &Stage, story: &mut Story) {
    story.act(
        "A plugin that hangs harms no other",
        "Two plugins match an image, and the service that one of them asks has fallen silent.",
    );
    match pulls(stage).await {
        Err(error) => story.step("images are pulled", Err(error)),
        Ok((hindered, meanwhile)) => {
            story.step("the plugin is killed when its time is up", killed(&hindered));
            story.step("the pull goes on with what the other plugin found", pulled(&hindered));
            story.step("a pull at the same time does not notice", pulled(&meanwhile));
            story.step("no process is left over", none_left(stage));
        }
    }
}

/// One that is hindered, and one at the same time, on a node with little patience.
async fn pulls(stage: &Stage) -> Result<(Seen, Seen), String> {
    let mut options = HostOptions::default();
    options.timeouts.insert(HANGS.to_owned(), PATIENCE);
    let node = Node::new(stage, options)?;
    stage.registry.inject(Fault::stall().only("/exchange").always());
    let pulls = tokio::try_join!(
        node.ensure(stage, (TOOLS, PullPolicy::Always), Some(WEB)),
        node.ensure(stage, (BASE, PullPolicy::Always), None),
    );
    stage.registry.clear_faults();
    pulls
}

fn killed(seen: &Seen) -> Told {
    let mut errors = seen.answers.iter().flat_map(|place| place.answer.errors());
    let (provider, error) = errors.next().ok_or("no plugin failed")?;
    let is_right = matches!(error, CallError::Run(RunError::TimedOut { .. })) && provider == HANGS;
    checked(is_right, format!("{provider}: {}", Chain(error)))
}

fn pulled(seen: &Seen) -> Told {
    let (pulled, login) = seen.pulled()?;
    let (from, source, took) = (&pulled.attempt.from, login.source(), milliseconds(seen.took));
    Ok(format!("{from} with {source}, {took}"))
}

/// Plugins are started by their path in the stage's directory, where nobody else has any.
fn none_left(stage: &Stage) -> Told {
    let left = started_from(&stage.file("plugins")).map_err(|error| format!("/proc: {error}"))?;
    checked(left == 0, format!("{left} processes of plugins in /proc"))
}

fn started_from(directory: &Path) -> io::Result<usize> {
    let directory = directory.as_os_str().as_encoded_bytes();
    let is_from_there = |process: &fs::DirEntry| {
        let command_line = fs::read(process.path().join("cmdline"));
        command_line.is_ok_and(|line| line.starts_with(directory))
    };
    Ok(fs::read_dir("/proc")?.flatten().filter(is_from_there).count())
}
