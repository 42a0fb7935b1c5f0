//! What an API server fills in when an object is created, as far as it bears on tokens.
//!
//! Upstream: `pkg/apis/core/v1/defaults.go`; the admission plugin `ServiceAccount`.

use serde_json::{Map, Value, json};

use super::{Kind, Objects};

/// Pods that a kubelet reports have this; nothing is filled into them.
pub(crate) const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Whether a pod or an account wants the token.
const AUTOMOUNT: &str = "automountServiceAccountToken";

/// Where the token of a pod's service account is mounted.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The volume it is in. Upstream adds a random ending.
const TOKEN_VOLUME: &str = "kube-api-access";

impl Objects {
    /// Fills into a pod that is being created its service account and, unless pod or account decline, the volume with the
    /// account's token for the API server.
    pub fn admit_pod(&self, namespace: &str, pod: &mut Value) {
        let annotation = pod.get("metadata").and_then(|metadata| metadata.get("annotations"));
        if annotation.is_some_and(|annotations| annotations.get(MIRROR_ANNOTATION).is_some()) {
            return;
        }
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
        let named = ["serviceAccountName", "serviceAccount"].into_iter().find_map(|field| {
            spec.get(field)?.as_str().filter(|name| !name.is_empty()).map(str::to_owned)
        });
        let account = named.unwrap_or_else(|| "default".to_owned());
        let of_account = self.get(Kind::ServiceAccount, namespace, &account);
        let wants = [spec.get(AUTOMOUNT), of_account.and_then(|account| account.get(AUTOMOUNT))];
        let mounts = wants.into_iter().flatten().find_map(Value::as_bool).unwrap_or(true);
        spec.insert("serviceAccountName".to_owned(), account.into());
        if mounts {
            mount_token(spec);
        }
    }
}

/// Every container that has nothing mounted there gets the token.
fn mount_token(spec: &mut Map<String, Value>) {
    let mut mounted = false;
    for field in ["initContainers", "containers"] {
        let containers = spec.get_mut(field).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            mounted |= mount(container);
        }
    }
    if mounted {
        let token = json!({"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}});
        let volume = json!({"name": TOKEN_VOLUME, "projected": {"sources": [token]}});
        push(spec, "volumes", volume);
    }
}

fn mount(container: &mut Value) -> bool {
    let there = |mount: &Value| mount.get("mountPath").and_then(Value::as_str) == Some(TOKEN_PATH);
    let mounts = container.get("volumeMounts").and_then(Value::as_array);
    if mounts.is_some_and(|mounts| mounts.iter().any(there)) {
        return false;
    }
    let Some(container) = container.as_object_mut() else { return false };
    let mount = json!({"name": TOKEN_VOLUME, "mountPath": TOKEN_PATH, "readOnly": true});
    push(container, "volumeMounts", mount);
    true
}

fn push(object: &mut Map<String, Value>, field: &str, item: Value) {
    let list = object.entry(field).or_insert(Value::Null);
    match list.as_array_mut() {
        Some(items) => items.push(item),
        None => *list = json!([item]),
    }
}

/// Fills in the defaults of the API that bear on tokens: an Azure disk that does not say so is not a managed one, and a
/// projected token is for an hour.
pub fn fill_in(object: &mut Value) {
    let Some(spec) = object.get_mut("spec") else { return };
    default(spec.get_mut("azureDisk"), "kind", "Shared".into());
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        default(volume.get_mut("azureDisk"), "kind", "Shared".into());
        let sources = volume.pointer_mut("/projected/sources").and_then(Value::as_array_mut);
        for source in sources.into_iter().flatten() {
            default(source.get_mut("serviceAccountToken"), "expirationSeconds", 3600.into());
        }
    }
}

fn default(object: Option<&mut Value>, field: &str, value: Value) {
    if let Some(object) = object.and_then(Value::as_object_mut) {
        let given = object.entry(field).or_insert(Value::Null);
        if given.is_null() {
            *given = value;
        }
    }
}
