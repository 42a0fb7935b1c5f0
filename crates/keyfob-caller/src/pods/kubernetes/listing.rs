//! One listing of the pods of a node.

use std::{error::Error as StdError, time::Duration};

use http::StatusCode;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Buf as _;
use k8s_openapi::api::core::v1::Pod;
use keyfob_api::{Chain, SecretSet};
use kube::{
    Client, Error, Resource as _,
    api::ListParams,
    client::{AuthError, Body},
    core::Request,
};
use serde::Deserialize;

use super::NodePod;

/// A node has some hundreds of pods, each of which takes less than 50 kB in most clusters.
const LONGEST_ANSWER: usize = 32 << 20;

/// Why there is no list. No text has anything in it that the API server or a plugin of the kubeconfig answered, or that the server was
/// shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListingError {
    /// The name of the node cannot be part of a request.
    #[error("the name of the node is not valid")]
    NodeName,
    /// There is no credential for the API server.
    #[error("the kubeconfig gives no credentials for the API server")]
    NoCredentials,
    /// The API server cannot be reached.
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    /// The API server refused.
    #[error("the API server answered {0}")]
    Refused(StatusCode),
    /// The answer ended early, or is too long.
    #[error("the answer of the API server broke off, or is longer than {} MiB", LONGEST_ANSWER >> 20)]
    Incomplete,
    /// The answer is something else.
    #[error("the answer of the API server is not a list of pods")]
    Undecodable,
    /// It took too long.
    #[error("the API server did not answer within {} s", .0.as_secs())]
    Late(Duration),
    /// The task that listed them is gone.
    #[error("the listing was given up")]
    Lost,
}

/// What is read of a list. Everything else is skipped.
#[derive(Deserialize)]
struct PodList {
    kind: String,
    items: Option<Vec<ListedPod>>,
}

#[derive(Deserialize)]
struct ListedPod {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    service_account_name: String,
}

/// The pods of a node.
pub(super) async fn list(
    client: &Client,
    node: &str,
    secrets: &SecretSet,
) -> Result<Vec<NodePod>, ListingError> {
    let of_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let request = Request::new(Pod::url_path(&(), None)).list(&of_node);
    let request = request.map_err(|_| ListingError::NodeName)?;
    let response = client.send(request.map(Body::from)).await;
    let response = response.map_err(|error| unsent(&error, secrets))?;
    let status = response.status();
    if !status.is_success() {
        return Err(ListingError::Refused(status));
    }
    let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
    let body = body.map_err(|_| ListingError::Incomplete)?.aggregate().reader();
    let list: PodList = serde_json::from_reader(body).map_err(|_| ListingError::Undecodable)?;
    if list.kind != "PodList" {
        return Err(ListingError::Undecodable);
    }
    Ok(list.items.into_iter().flatten().filter_map(node_pod).collect())
}

fn node_pod(ListedPod { metadata, spec }: ListedPod) -> Option<NodePod> {
    let Metadata { namespace, name, uid } = metadata;
    if namespace.is_empty() || name.is_empty() || uid.is_empty() {
        return None;
    }
    let account = Some(spec.service_account_name).filter(|name| !name.is_empty());
    let service_account = account.unwrap_or_else(|| "default".to_owned());
    Some(NodePod { namespace, name, uid, service_account })
}

/// An error of authentication may quote what a plugin of the kubeconfig printed.
fn unsent(error: &Error, secrets: &SecretSet) -> ListingError {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<AuthError>() {
            return ListingError::NoCredentials;
        }
        cause = error.source();
    }
    if matches!(error, Error::Auth(_)) {
        return ListingError::NoCredentials;
    }
    ListingError::Unreachable(secrets.redact(&Chain(error).to_string()))
}
