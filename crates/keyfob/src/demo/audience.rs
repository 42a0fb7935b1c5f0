//! A node may not have any token that it likes: the control plane decides, and says what is missing.

use k8s_openapi::{
    api::rbac::v1::{Role, RoleBinding},
    serde::{Serialize, de::DeserializeOwned},
};
use keyfob_api::Chain;
use keyfob_control::objects::{Kind, Objects};
use keyfob_host::{CallError, IdentityError, Pull};
use keyfob_images::PullPolicy;
use kube::{Api, Resource, api::PostParams, core::NamespaceResourceScope};

use super::{
    cluster::{AUDIENCE, REPORT},
    node::{Node, told},
    stage::{REPORTS, Stage},
    story::{Story, Told, checked},
};

pub(super) async fn play(stage: &Stage, node: &Node, story: &mut Story) {
    story.act(
        "A token that the node may not ask for",
        "A node that was broken into must not get every pod's token for every purpose (KEP-4412).",
    );
    story.step("the API server refuses the node a token of pod report", refused(stage, node).await);
    story.step("the fix is a role, which is applied", fixed(stage).await);
    story.step("now pod report gets its image", pulled(stage, node).await);
}

async fn refused(stage: &Stage, node: &Node) -> Told {
    let pull = Pull::parse(&stage.image(REPORTS)).map_err(told)?.with_pod(REPORT.identity());
    let before = node.started();
    let answer = node.host.credentials(&pull).await;
    let started = node.started() - before;
    let Some((provider, error)) = answer.errors().next() else {
        return Err(format!("it got {} credentials", answer.credentials.len()));
    };
    match error {
        CallError::Identity { source: IdentityError::Forbidden(words), .. } => checked(
            started == 0,
            format!("{words}\nno process started: {provider} needs the token"),
        ),
        error => Err(format!("{provider}: {}", Chain(error))),
    }
}

async fn fixed(stage: &Stage) -> Told {
    let yaml = REPORT.role()?;
    let objects = Objects::read_text(&yaml, "the role").map_err(told)?;
    apply::<Role>(stage, &objects, Kind::Role).await?;
    apply::<RoleBinding>(stage, &objects, Kind::RoleBinding).await?;
    let (account, role) = (REPORT.account(), yaml.split("---\n").next().unwrap_or_default());
    let command = format!("keyfob audience rbac --audience {AUDIENCE} --service-account {account}");
    Ok(format!("$ {command} | kubectl apply -f -\n{role}(and its binding to all nodes)"))
}

/// As `kubectl create` does.
async fn apply<K>(stage: &Stage, objects: &Objects, kind: Kind) -> Result<(), String>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    for (namespace, name, _) in objects.list(kind) {
        let object: K = objects.read(kind, namespace, name).ok_or("it is something else")?;
        let api = Api::namespaced(stage.admin.client.clone(), namespace);
        api.create(&PostParams::default(), &object).await.map_err(told)?;
    }
    Ok(())
}

async fn pulled(stage: &Stage, node: &Node) -> Told {
    let seen = node.ensure(stage, (REPORTS, PullPolicy::IfNotPresent), Some(REPORT)).await?;
    let (pulled, login) = seen.pulled()?;
    let account = login.service_account().map(ToString::to_string);
    let told = format!("{}\n{}", pulled.attempt.from, seen.figures());
    checked(account == Some(REPORT.account()), told)
}
