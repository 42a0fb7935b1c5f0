//! An API server in this process, for those who have no cluster.

use std::path::PathBuf;

use keyfob_control::{
    objects::{Kind, Objects},
    rule::Policy,
};
use keyfob_host::PodIdentity;
use keyfob_playground::embedded::{ApiServer, Options, Running};
use serde_json::Value;

use super::IdentityArgsError;
use crate::api_args::Api;

/// Who asks it.
pub(super) struct Who<'a> {
    pub(super) pod: &'a PodIdentity,
    /// The node that is to be the pod's.
    pub(super) node: Option<&'a str>,
    /// Whether an administrator asks.
    pub(super) as_me: bool,
}

/// Starts it, and a client that is the pod's node, or without a pod or a wish to be a node somebody who may do everything.
pub(super) async fn start(
    paths: &[PathBuf],
    policy: Policy,
    who: &Who<'_>,
) -> Result<(Api, Running), IdentityArgsError> {
    let objects = Objects::read_files(paths)?;
    let node = if who.as_me { None } else { node(&objects, who)? };
    let server = ApiServer::start(Options { objects, policy, ..Options::default() }).await?;
    let kubeconfig = match &node {
        Some(node) => server.node_kubeconfig(node),
        None => server.admin_kubeconfig(),
    };
    let api = Api::of(kubeconfig.unwrap_or_default().expose())?;
    Ok((api, server))
}

/// The node of the pod, if there is one.
fn node(objects: &Objects, who: &Who<'_>) -> Result<Option<String>, IdentityArgsError> {
    let puller = who.pod;
    let Some(pod) = &puller.pod else { return Ok(None) };
    let called = || format!("{}/{}", puller.namespace, pod.name);
    let found = objects.get(Kind::Pod, &puller.namespace, &pod.name);
    let found = found.ok_or_else(|| IdentityArgsError::NoSuchPod(called()))?;
    let node = found.pointer("/spec/nodeName").and_then(Value::as_str);
    let node = node.filter(|node| !node.is_empty()).map(str::to_owned);
    let node = node.ok_or_else(|| IdentityArgsError::NoNode(called()))?;
    match who.node {
        Some(named) if named != node => {
            let named = named.to_owned();
            Err(IdentityArgsError::OtherNode { named, pod: called(), node })
        }
        _ => Ok(Some(node)),
    }
}
