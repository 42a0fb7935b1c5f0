//! What a node may read beside service accounts: itself, its pods, their claims and volumes, and all drivers.
//!
//! Upstream: `plugin/pkg/auth/authorizer/node`, and the role `system:node`. What a kubelet writes is not served here.

use keyfob_control::{
    node_authorizer::is_mirror,
    objects::{Kind, Objects},
    rbac::Attributes,
    rule::{Opinion, node_of},
};
use serde_json::Value;

use super::{
    resources::{AUTHENTICATION, AUTHORIZATION, CORE, STORAGE},
    selector::Fields,
};

pub(super) fn authorize(objects: &Objects, wanted: &Attributes, fields: &Fields) -> Opinion {
    let node = node_of(&wanted.user, &wanted.groups).filter(|node| !node.is_empty());
    let Some(node) = node.filter(|_| wanted.path.is_none() && wanted.subresource.is_empty()) else {
        return Opinion::default();
    };
    let verb = wanted.verb.as_str();
    let reads = ["get", "list", "watch"].contains(&verb);
    match (wanted.api_group.as_str(), wanted.resource.as_str()) {
        (CORE, "nodes") if reads => itself(node, wanted),
        (CORE, "pods") if verb == "get" => related(node, of_pod(objects, node, wanted)),
        (CORE, "pods") if reads => its_pods(node, fields),
        (CORE, "persistentvolumeclaims") if verb == "get" => {
            related(node, uses_claim(objects, node, &wanted.namespace, &wanted.name))
        }
        (CORE, "persistentvolumes") if verb == "get" => {
            related(node, uses_volume(objects, node, &wanted.name))
        }
        (STORAGE, "csidrivers") if reads => Opinion::allow(""),
        (AUTHENTICATION, "tokenreviews")
        | (AUTHORIZATION, "subjectaccessreviews" | "localsubjectaccessreviews")
            if verb == "create" =>
        {
            Opinion::allow("")
        }
        _ => Opinion::default(),
    }
}

fn related(node: &str, related: bool) -> Opinion {
    if related {
        return Opinion::allow("");
    }
    Opinion::deny(format!("no relationship found between node '{node}' and this object"))
}

fn itself(node: &str, wanted: &Attributes) -> Opinion {
    match wanted.name.as_str() {
        "" => {
            Opinion::deny(format!("node '{node}' cannot read all nodes, only its own Node object"))
        }
        name if name == node => Opinion::allow(""),
        name => {
            Opinion::deny(format!("node '{node}' cannot read '{name}', only its own Node object"))
        }
    }
}

fn its_pods(node: &str, fields: &Fields) -> Opinion {
    if fields.node() == Some(node) {
        return Opinion::allow("");
    }
    Opinion::deny("can only list/watch pods with spec.nodeName field selector")
}

fn of_pod(objects: &Objects, node: &str, wanted: &Attributes) -> bool {
    let pod = objects.get(Kind::Pod, &wanted.namespace, &wanted.name);
    pod.is_some_and(|pod| is_on(pod, node))
}

fn is_on(pod: &Value, node: &str) -> bool {
    text(pod, "/spec/nodeName") == Some(node)
}

/// Whether a pod on the node mounts the claim; one that the kubelet itself reported opens nothing.
fn uses_claim(objects: &Objects, node: &str, namespace: &str, claim: &str) -> bool {
    let pods = objects.list(Kind::Pod);
    let mut pods =
        pods.filter(|(each, _, pod)| *each == namespace && is_on(pod, node) && !is_mirror(pod));
    pods.any(|(_, name, pod)| {
        let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
        volumes.is_some_and(|volumes| volumes.iter().any(|volume| mounts(name, volume, claim)))
    })
}

fn mounts(pod: &str, volume: &Value, claim: &str) -> bool {
    // A claim that comes and goes with its pod has their names.
    let own =
        || volume.get("ephemeral").and_then(|_| Some(format!("{pod}-{}", text(volume, "/name")?)));
    text(volume, "/persistentVolumeClaim/claimName") == Some(claim)
        || own().is_some_and(|own| own == claim)
}

/// Whether the volume is that of a claim that a pod on the node mounts.
fn uses_volume(objects: &Objects, node: &str, volume: &str) -> bool {
    let mut claims = objects.list(Kind::PersistentVolumeClaim);
    claims.any(|(namespace, name, claim)| {
        text(claim, "/spec/volumeName") == Some(volume)
            && uses_claim(objects, node, namespace, name)
    })
}

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}
