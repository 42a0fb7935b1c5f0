//! Pods on the node.

use std::{thread, time::Duration};

use serde_json::{Value, json};

use crate::{api::Api, node::NODE, wait::wait_for};

/// How long a pod may take to get somewhere; a kubelet waits ten seconds before it tries a pull again.
const PATIENCE: Duration = Duration::from_mins(1);

/// A pod that is not yet created.
#[must_use]
pub(crate) struct PodBuilder {
    api: Api,
    manifest: Value,
}

impl PodBuilder {
    /// One container, which waits and runs in the network of its node: there is no other.
    pub(crate) fn new(api: Api, namespace: &str, name: &str, image: &str) -> Self {
        let manifest = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": namespace, "name": name, "annotations": {}},
            "spec": {
                "nodeName": NODE,
                "hostNetwork": true,
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "app", "image": image}],
            },
        });
        Self { api, manifest }
    }

    pub(crate) fn in_namespace(self, namespace: &str) -> Self {
        self.with(|manifest| manifest["metadata"]["namespace"] = json!(namespace))
    }

    pub(crate) fn service_account(self, name: &str) -> Self {
        self.with(|manifest| manifest["spec"]["serviceAccountName"] = json!(name))
    }

    /// `Always`, `IfNotPresent` or `Never`.
    pub(crate) fn pull_policy(self, policy: &str) -> Self {
        self.with(|manifest| manifest["spec"]["containers"][0]["imagePullPolicy"] = json!(policy))
    }

    pub(crate) fn pull_secret(self, name: &str) -> Self {
        self.with(|manifest| manifest["spec"]["imagePullSecrets"] = json!([{"name": name}]))
    }

    pub(crate) fn command(self, command: &[&str]) -> Self {
        self.with(|manifest| manifest["spec"]["containers"][0]["command"] = json!(command))
    }

    /// Changes anything else.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.manifest);
        self
    }

    pub(crate) fn create(self) -> Pod {
        let metadata = &self.manifest["metadata"];
        let [namespace, name] =
            ["namespace", "name"].map(|key| metadata[key].as_str().unwrap().to_owned());
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let created = self.api.post(&path, &self.manifest).unwrap();
        let uid = created["metadata"]["uid"].as_str().unwrap().to_owned();
        Pod { api: self.api, namespace, name, uid }
    }
}

/// A pod of the API server.
pub(crate) struct Pod {
    api: Api,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// An event about a pod. Times and sizes in the message are replaced by `TIME` and `SIZE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Pod {
    /// The pod as the API server has it.
    pub(crate) fn get(&self) -> Value {
        self.api.get(&self.path()).unwrap()
    }

    /// Waits until the container runs.
    pub(crate) fn wait_until_running(&self) {
        self.wait_for("it runs", |pod| !container(pod)["state"]["running"].is_null());
    }

    /// Waits until the container waits for this reason, such as `ErrImagePull`, and returns the message.
    pub(crate) fn wait_until_waiting(&self, reason: &str) -> String {
        let pod =
            self.wait_for(reason, |pod| container(pod)["state"]["waiting"]["reason"] == reason);
        container(&pod)["state"]["waiting"]["message"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a pod, as the API server has it, fulfils a condition.
    pub(crate) fn wait_for(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        wait_for(&format!("pod {}: {what}", self.name), PATIENCE, || {
            let pod = self.get();
            if condition(&pod) {
                return Ok(pod);
            }
            Err(format!("{}, events {:#?}", pod["status"], self.events()))
        })
    }

    /// Waits for an event with this reason whose message contains this text, and returns its message.
    pub(crate) fn wait_for_event(&self, reason: &str, text: &str) -> String {
        wait_for(&format!("pod {}: event {reason} with {text:?}", self.name), PATIENCE, || {
            let events = self.events();
            let is_it = |event: &&Event| event.reason == reason && event.message.contains(text);
            events
                .iter()
                .find(is_it)
                .map(|event| event.message.clone())
                .ok_or_else(|| format!("{events:#?}"))
        })
    }

    /// All events about the pod, in the order in which they first happened.
    pub(crate) fn events(&self) -> Vec<Event> {
        let path = format!(
            "/api/v1/namespaces/{}/events?fieldSelector=involvedObject.uid={}",
            self.namespace, self.uid,
        );
        let mut events = self.api.get(&path).unwrap()["items"].as_array().unwrap().clone();
        // The name ends with the time of the first occurrence, in hexadecimal nanoseconds.
        events.sort_by_key(|event| event["metadata"]["name"].to_string());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let event = |event: &Value| Event {
            kind: text(&event["type"]),
            reason: text(&event["reason"]),
            message: without_figures(&text(&event["message"])),
        };
        events.iter().map(event).collect()
    }

    /// The events as lines: `Normal Pulled: …`.
    pub(crate) fn event_lines(&self) -> Vec<String> {
        let line = |Event { kind, reason, message }: Event| format!("{kind} {reason}: {message}");
        self.events().into_iter().map(line).collect()
    }

    /// The ID of the image that the container runs with: the digest of its configuration or of its manifest.
    pub(crate) fn image_id(&self) -> String {
        container(&self.get())["imageID"].as_str().unwrap_or_default().to_owned()
    }

    /// Deletes the pod and waits until its node has ended it.
    pub(crate) fn delete(self) {
        self.api.delete(&self.path(), 1).unwrap();
        wait_for(&format!("pod {} to be gone", self.name), PATIENCE, || {
            match self.api.get(&self.path()) {
                Err(refusal) if refusal.code == 404 => Ok(()),
                answer => Err(format!("{answer:?}")),
            }
        });
    }

    /// Deletes the pod without waiting for its node.
    pub(crate) fn delete_at_once(self) {
        self.api.delete(&self.path(), 0).unwrap();
    }

    fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/pods/{}", self.namespace, self.name)
    }
}

/// Deletes pods as soon as all of them run, and waits until their node has ended them.
pub(crate) fn delete_when_running(pods: Vec<Pod>) {
    for pod in &pods {
        pod.wait_until_running();
    }
    thread::scope(|scope| {
        for pod in pods {
            scope.spawn(|| pod.delete());
        }
    });
}

/// The status of the only container.
fn container(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

/// `Successfully pulled image "…" in TIME (TIME including waiting). Image size: SIZE bytes.`
fn without_figures(message: &str) -> String {
    let Some((start, rest)) = message.split_once("\" in ") else { return message.to_owned() };
    if !start.starts_with("Successfully pulled image") || !rest.contains("Image size: ") {
        return message.to_owned();
    }
    format!("{start}\" in TIME (TIME including waiting). Image size: SIZE bytes.")
}
