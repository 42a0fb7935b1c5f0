//! The webhook's pod, and what its installation needs where no controller runs.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::publish_authority;
use crate::{
    api::Api,
    documented::Page,
    image::Image,
    node::NODE,
    pod::{Pod, PodBuilder},
    registry::{Pushed, Registry},
    shell::{run, stdout, succeed},
    wait::wait_for,
    world::World,
};

const NAMESPACE: &str = "keyfob-system";
const POD: &str = "keyfob-audience-1";
const ADDRESS: &str = "192.0.2.1";
const CONFIGURATION: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/keyfob-audience";

/// The webhook as it is deployed. When it is dropped, the API server no longer calls it.
pub(super) struct Webhook {
    api: Api,
    spec: Value,
    labels: Value,
    pod: Option<Pod>,
}

impl Webhook {
    /// Installs the webhook with a certificate of openssl.
    pub(super) fn install(world: &World, images: &Registry, page: &Page) -> Self {
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
        let checkout = world.files.join("checkout");
        fs::create_dir_all(&checkout).unwrap();
        fs::remove_file(checkout.join("deploy")).unwrap_or_default();
        symlink(fs::canonicalize(deploy).unwrap(), checkout.join("deploy")).unwrap();
        world.run_documented(&page.command(&["kubectl apply -k deploy/base"]));
        world.run_documented(&page.command(&["certificate.sh secret", "kubectl apply"]));
        let image = images.push_image("keyfob:0.1.0", &build_image(&world.files));
        let mut webhook = Self::of_deployment(world, &image);
        webhook.start();
        world.run_documented(&page.command(&["certificate.sh webhook", "kubectl apply"]));
        webhook
    }

    /// Does what controllers do elsewhere: a pod of the Deployment's template, and the Service's endpoints.
    fn of_deployment(world: &World, image: &Pushed) -> Self {
        let api = world.cluster.api.clone();
        let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/keyfob-audience");
        let template = api.get(&path).unwrap()["spec"]["template"].clone();
        assert_is_allowed(&api, &template);
        publish_authority(world, NAMESPACE);
        let label = "pod-security.kubernetes.io/enforce=privileged";
        succeed(&mut world.cluster.kubectl(&[
            "label",
            "--overwrite",
            "namespace",
            NAMESPACE,
            label,
        ]));
        let endpoints = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "namespace": NAMESPACE,
                "name": "keyfob-audience-1",
                "labels": {"kubernetes.io/service-name": "keyfob-audience"},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": true}}],
            "ports": [{"name": "https", "port": 8443, "protocol": "TCP"}],
        });
        world.cluster.apply(&endpoints.to_string());
        let mut spec = template["spec"].clone();
        spec["nodeName"] = json!(NODE);
        // There is no network but the node's, and no proxy for the API server's Service in it.
        spec["hostNetwork"] = json!(true);
        spec["containers"][0]["env"] = json!([
            {"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"},
            {"name": "KUBERNETES_SERVICE_PORT", "value": "6443"},
        ]);
        spec["containers"][0]["image"] = json!(image.reference);
        Self { api, spec, labels: template["metadata"]["labels"].clone(), pod: None }
    }

    /// Starts the pod and waits until it is ready.
    pub(super) fn start(&mut self) {
        let builder = PodBuilder::new(self.api.clone(), NAMESPACE, POD, "");
        let pod = builder.with(|manifest| {
            manifest["metadata"]["labels"] = self.labels.clone();
            manifest["spec"] = self.spec.clone();
        });
        let pod = pod.create();
        pod.wait_for("it is ready", |pod| {
            let conditions = pod["status"]["conditions"].as_array();
            let is_ready =
                |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
            conditions.is_some_and(|conditions| conditions.iter().any(is_ready))
        });
        self.pod = Some(pod);
    }

    /// Deletes the pod and waits until it is gone.
    pub(super) fn stop(&mut self) {
        self.pod.take().unwrap().delete();
    }

    /// Renews the certificate as the page says, and waits until new connections get it.
    pub(super) fn renew_certificate(&self, world: &World, page: &Page) {
        for step in ["certificate.sh secret", "certificate.sh webhook"] {
            world.run_documented(&page.command(&[step, "kubectl apply"]));
        }
        let renewed = self.secret("tls.crt");
        wait_for("the new certificate", Duration::from_mins(1), || {
            let served = served_certificate();
            if served == renewed.trim() { Ok(()) } else { Err(served) }
        });
    }

    /// The new and the old authority after a renewal, in PEM.
    pub(super) fn authorities(&self) -> (String, String) {
        let authorities = self.secret("ca.crt");
        let (new, old) = authorities.split_at(authorities.rfind("-----BEGIN").unwrap());
        (new.to_owned(), old.to_owned())
    }

    fn secret(&self, key: &str) -> String {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/keyfob-audience-tls");
        let secret = self.api.get(&path).unwrap();
        let value = BASE64_STANDARD.decode(secret["data"][key].as_str().unwrap()).unwrap();
        String::from_utf8(value).unwrap()
    }

    pub(super) fn metrics(&self) -> String {
        let pod = format!("/api/v1/namespaces/{NAMESPACE}/pods/https:{POD}:8443/proxy/metrics");
        self.api.text(&pod).unwrap()
    }

    /// The value of a metric with its labels.
    pub(super) fn metric(&self, name: &str) -> Option<f64> {
        let metrics = self.metrics();
        let mut lines = metrics.lines().filter_map(|line| line.rsplit_once(' '));
        lines.find(|(key, _)| *key == name).map(|(_, value)| value.parse().unwrap())
    }

    pub(super) fn log(&self) -> String {
        self.api.text(&format!("/api/v1/namespaces/{NAMESPACE}/pods/{POD}/log")).unwrap()
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.api.delete(CONFIGURATION, 0).unwrap_or_default();
    }
}

/// Gives the webhook another name, and has the API server trust this authority and no other.
pub(super) fn register_as(world: &World, name: &str, authority: &str) {
    let bundle = BASE64_STANDARD.encode(authority);
    let patch = json!([
        {"op": "replace", "path": "/webhooks/0/name", "value": name},
        {"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle},
    ]);
    let object = ["patch", "validatingwebhookconfiguration", "keyfob-audience"];
    let patch = ["--type=json", "--patch", &patch.to_string()];
    succeed(&mut world.cluster.kubectl(&[&object[..], &patch].concat()));
}

/// The certificate that a new connection gets, in PEM.
pub(super) fn served_certificate() -> String {
    let address = format!("{ADDRESS}:8443");
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-connect", &address]).stdin(Stdio::null());
    let text = stdout(&mut openssl);
    let (start, end) = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----");
    let from = text.find(start).unwrap();
    let to = text.find(end).unwrap() + end.len();
    text[from..to].to_owned()
}

/// The namespace's level of security allows the pods of a Deployment's template.
fn assert_is_allowed(api: &Api, template: &Value) {
    let mut pod = template.clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("allowed");
    let path = format!("/api/v1/namespaces/{NAMESPACE}");
    let level = "pod-security.kubernetes.io/enforce";
    assert_eq!(api.get(&path).unwrap()["metadata"]["labels"][level], "restricted");
    api.post(&format!("{path}/pods?dryRun=All"), &pod).unwrap();
}

/// The image of `deploy/Containerfile`. In the place of Debian it has the libraries that this keyfob is linked to.
fn build_image(files: &Path) -> Image {
    let text = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/Containerfile"),
    );
    let text = text.unwrap();
    let argument = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let root = files.join("keyfob-image");
    let keyfob = env!("CARGO_BIN_EXE_keyfob");
    let program = root.join(argument("COPY keyfob /"));
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    // Symbols for a debugger are most of the program.
    run("strip", &["-o", program.to_str().unwrap(), keyfob]);
    for library in libraries(keyfob) {
        let copy = root.join(library.strip_prefix("/").unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(library, copy).unwrap();
    }
    let entrypoint: Value = serde_json::from_str(argument("ENTRYPOINT ")).unwrap();
    Image::of_directory(&root, &json!({"Entrypoint": entrypoint, "User": argument("USER ")}))
}

/// The files that a program needs to start.
fn libraries(program: &str) -> Vec<PathBuf> {
    let listed = String::from_utf8(run("ldd", &[program]).stdout).unwrap();
    let words = listed.split_whitespace().filter(|word| word.starts_with('/'));
    words.map(PathBuf::from).collect()
}
