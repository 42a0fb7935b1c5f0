//! The node has a login of its own; a plugin finds it, once.

use keyfob_images::PullPolicy;
use keyfob_keyring::Credential;

use super::{
    node::Node,
    stage::{BASE, Stage},
    story::{Story, Told, checked},
};

pub(super) async fn play(stage: &Stage, node: &Node, story: &mut Story) {
    story.act(
        "The node's own login, cold and warm",
        "A kubelet runs a plugin to find a login, and keeps the answer as long as the plugin says.",
    );
    story.step("cold: a plugin runs and finds the login", cold(stage, node).await);
    story.step("warm: the login is cached, the layers are on disk", warm(stage, node).await);
}

async fn cold(stage: &Stage, node: &Node) -> Told {
    let seen = node.ensure(stage, (BASE, PullPolicy::IfNotPresent), None).await?;
    let (pulled, login) = seen.pulled()?;
    let (from, size) = (&pulled.attempt.from, pulled.size.unwrap_or_default() >> 10);
    let (source, user) = (login.source(), login.username());
    let told = format!("{from}: {size} KiB with {source}, as user {user}\n{}", seen.figures());
    checked(is_of_node(login) && seen.processes == 1, told)
}

/// `Always` asks the registry again; that needs neither the plugin nor a layer.
async fn warm(stage: &Stage, node: &Node) -> Told {
    let seen = node.ensure(stage, (BASE, PullPolicy::Always), None).await?;
    let (_, login) = seen.pulled()?;
    let layers = seen.requests.iter().filter(|request| request.path.contains("/blobs/")).count();
    checked(is_of_node(login) && (seen.processes, layers) == (0, 0), seen.figures())
}

fn is_of_node(login: &Credential) -> bool {
    login.username() == "node" && login.service_account().is_none()
}
