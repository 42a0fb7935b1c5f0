//! What there is to begin with: the registry is private, the pods are known, the plugins are installed.

use std::path::Path;

use k8s_openapi::api::core::v1 as api;
use keyfob_api::{FeatureGates, ImageRef};
use keyfob_config::{Config, ValidProvider};
use keyfob_exec::SystemEnvironment;
use keyfob_oci::{Client, Layout, PullError, Puller};
use kube::{Api, api::ListParams};

use super::{
    cluster::{NODE, PODS, Pod},
    node::told,
    stage::{BASE, Stage},
    story::{Story, Told, checked},
};

/// The stage, if it could be set.
pub(super) async fn play(directory: &Path, story: &mut Story) -> Option<Stage> {
    story.act(
        "A private registry, a small cluster, a node with plugins",
        "All of it runs in this process, on loopback; nothing is installed, and nothing will be left.",
    );
    let stage = match Stage::build(directory).await {
        Ok(stage) => stage,
        Err(error) => {
            story.step("everything is set up in a temporary directory", Err(error));
            return None;
        }
    };
    story.step("the registry turns strangers away", stranger(&stage).await);
    story.step("the API server knows pods of three teams", pods(&stage).await);
    story.step("the node has plugins, and a configuration that a kubelet takes", plugins(&stage));
    Some(stage)
}

/// A pull without credentials.
async fn stranger(stage: &Stage) -> Told {
    let image = ImageRef::parse(&stage.image(BASE)).map_err(told)?;
    let layout = Layout::create(stage.file("oci")).map_err(told)?;
    let puller = Puller::builder(Client::builder(&SystemEnvironment).build(), layout).build();
    match puller.pull_image(&image, &image, None).await {
        Ok(_) => Err(format!("anybody can pull {image}")),
        Err(error @ PullError::Refused { .. }) => Ok(told(error)),
        Err(error) => Err(told(error)),
    }
}

async fn pods(stage: &Stage) -> Told {
    let pods: Api<api::Pod> = Api::all(stage.admin.client.clone());
    let pods = pods.list(&ListParams::default()).await.map_err(told)?.items;
    let account = |pod: &api::Pod| {
        let spec = pod.spec.as_ref()?;
        (spec.node_name.as_deref() == Some(NODE)).then_some(())?;
        Some(format!(
            "{}/{}",
            pod.metadata.namespace.as_ref()?,
            spec.service_account_name.as_ref()?
        ))
    };
    let accounts: Vec<String> = pods.iter().filter_map(account).collect();
    let names = accounts.join(", ");
    let told = format!("https://{}: {names}, all on {NODE}", stage.cluster.address());
    checked(accounts == PODS.map(Pod::account), told)
}

fn plugins(stage: &Stage) -> Told {
    let config = Config::read(&stage.file("config.yaml")).map_err(told)?;
    let config = config.validate(FeatureGates::default()).map_err(told)?;
    let names: Vec<&str> = config.providers().iter().map(ValidProvider::name).collect();
    Ok(format!("links to this program, by `keyfob provider install`: {}", names.join(", ")))
}
