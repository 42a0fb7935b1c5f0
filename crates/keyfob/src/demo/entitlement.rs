//! An image that is on disk is not for everybody: who did not prove access must, or is told that it is not there.

use keyfob_api::Chain;
use keyfob_images::{EnsureError, EnsureReason, FailedAttempt, PullFailureKind, PullPolicy};

use super::{
    cluster::{BATCH, WEB},
    node::{Node, Seen},
    stage::{APP, Stage},
    story::{Story, Told, checked},
};
use crate::pull::access;

pub(super) async fn play(stage: &Stage, node: &Node, story: &mut Story) {
    story.act(
        "Another pod is refused that image, although it is on disk",
        "Else every pod of a node could use whatever any of them was allowed to pull (KEP-2535).",
    );
    story.step("pod web is let in at once: it proved its access before", web(stage, node).await);
    story.step(
        "pod batch of another team must prove its access, and cannot",
        batch(stage, node).await,
    );
    story.step(
        "with pull policy Never it is told that there is no such image",
        never(stage, node).await,
    );
    story.step("why: the node has a record of who may use the image", record(stage, node));
}

async fn web(stage: &Stage, node: &Node) -> Told {
    let seen = node.ensure(stage, (APP, PullPolicy::IfNotPresent), Some(WEB)).await?;
    let ensured = seen.ended.as_ref().map_err(ToString::to_string)?;
    let is_free = seen.processes == 0 && seen.requests.is_empty();
    checked(ensured.pulled.is_none() && is_free, seen.figures())
}

/// A login that is refused is asked for once more: it may have been an old one.
async fn batch(stage: &Stage, node: &Node) -> Told {
    let seen = node.ensure(stage, (APP, PullPolicy::IfNotPresent), Some(BATCH)).await?;
    let error = refusal(&seen)?;
    let is_refused = |attempt: &FailedAttempt| {
        attempt.with.is_some() && attempt.kind == PullFailureKind::Refused
    };
    let last = error.attempts.last().map(|attempt| attempt.message.clone());
    let (last, figures) = (last.unwrap_or_default(), seen.figures());
    let told = format!(
        "{}: {last}\n{figures}: a login that is refused is asked for once more",
        error.reason
    );
    checked(!error.attempts.is_empty() && error.attempts.iter().all(is_refused), told)
}

async fn never(stage: &Stage, node: &Node) -> Told {
    let seen = node.ensure(stage, (APP, PullPolicy::Never), Some(BATCH)).await?;
    let error = refusal(&seen)?;
    let is_right = error.reason == EnsureReason::ErrImageNeverPull;
    checked(is_right, format!("{}: {error}", error.reason))
}

fn refusal(seen: &Seen) -> Result<&EnsureError, String> {
    seen.ended.as_ref().err().ok_or_else(|| "it was let in".to_owned())
}

fn record(stage: &Stage, node: &Node) -> Told {
    let (records, problems) = node.records.records();
    if let Some(problem) = problems.first() {
        return Err(Chain(problem).to_string());
    }
    let image = stage.image(APP);
    let name = image.strip_suffix(":v1").unwrap_or(&image);
    let mut found = records.iter().filter_map(|record| record.credential_mapping.get(name));
    let access = found.next().ok_or_else(|| format!("there is none for {name}"))?;
    let accounts: Vec<String> = access.service_accounts.iter().map(ToString::to_string).collect();
    let is_right =
        accounts == [WEB.account()] && access.secrets.is_empty() && !access.node_pods_accessible;
    checked(is_right, format!("{name}: {}", access::summary(access)))
}
