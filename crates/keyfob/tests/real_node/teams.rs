//! Two teams that share a node, and a registry that only one of them may use.

use std::{
    cell::Cell,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    api::Api,
    containerd::Runtime,
    node::NodeOptions,
    pod::{Pod, PodBuilder},
    registry::{Access, Login, Pushed, Registry},
    shell::{stdout, succeed},
    wait::wait_for,
    world::World,
};

/// The namespace of the team whose images they are.
pub(crate) const SHOP: &str = "shop";
/// The namespace of the other team.
pub(crate) const STREET: &str = "street";
pub(crate) const HOST: &str = "registry.example";
const AUDIENCE: &str = "shop-registry";

/// On whose behalf a pod uses an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// A pod of the shop with the pull secret `regcred`.
    Secret,
    /// A pod of the shop's service account `cart`, whose token is its login.
    Account,
    /// A pod of the other team. Its service account has a token too, which the registry refuses.
    Stranger,
}

/// The registry, and everything that pods and kubelet need to pull from it.
pub(crate) struct Teams {
    pub(crate) registry: Registry,
    api: Api,
    providers: PathBuf,
    plugins: PathBuf,
    /// How many pods there have been.
    pods: Cell<usize>,
}

impl Teams {
    /// Creates the namespaces, the secret and the accounts, starts the registry and installs the plugin that makes tokens logins.
    pub(crate) fn start(world: &World) -> Self {
        world.cluster.apply(&objects().to_string());
        let role = stdout(&mut world.keyfob(&["audience", "rbac", "--audience", AUDIENCE]));
        world.cluster.apply(&role);
        let api = world.cluster.api.clone();
        let reviewer = api.clone();
        let accepts = move |login: &Login| accepts(&reviewer, login);
        let registry = Registry::start(world, HOST, Access::Tokens(Box::new(accepts)));
        let (providers, plugins) = install_plugin(world);
        Self { registry, api, providers, plugins, pods: Cell::default() }
    }

    /// A node whose kubelet runs the plugin.
    pub(crate) fn node(&self, runtime: Runtime) -> NodeOptions {
        NodeOptions::new(runtime).flags(&[
            format!("--image-credential-provider-config={}", self.providers.display()),
            format!("--image-credential-provider-bin-dir={}", self.plugins.display()),
        ])
    }

    /// The same two flags for `keyfob pull`.
    pub(crate) fn provider_flags(&self) -> [String; 2] {
        [
            format!("--config={}", self.providers.display()),
            format!("--bin-dir={}", self.plugins.display()),
        ]
    }

    /// A pod that pulls its image unless it is there.
    pub(crate) fn pod(&self, who: Who, image: &Pushed) -> PodBuilder {
        let number = self.pods.get();
        self.pods.set(number + 1);
        let (namespace, name) = match who {
            Who::Secret => (SHOP, "secret"),
            Who::Account => (SHOP, "account"),
            Who::Stranger => (STREET, "stranger"),
        };
        let name = format!("{name}-{number}");
        let pod = PodBuilder::new(self.api.clone(), namespace, &name, &image.reference)
            .pull_policy("IfNotPresent");
        match who {
            Who::Secret => pod.pull_secret("regcred"),
            Who::Account => pod.service_account("cart"),
            Who::Stranger => pod.service_account("visitor"),
        }
    }

    /// Whether these may use these images, which are on the node, without asking the registry again: pods with the pull policy
    /// `Never` run or are refused.
    pub(crate) fn may_use(&self, cases: &[(Who, &Pushed)]) -> Vec<bool> {
        let create = |(who, image): &(Who, &Pushed)| self.pod(*who, image).pull_policy("Never");
        let pods: Vec<Pod> = cases.iter().map(|case| create(case).create()).collect();
        let answers = pods.iter().map(|pod| {
            let state = pod.wait_for("it runs or is refused", |pod| {
                let state = &pod["status"]["containerStatuses"][0]["state"];
                !state["running"].is_null() || state["waiting"]["reason"] == "ErrImageNeverPull"
            });
            !state["status"]["containerStatuses"][0]["state"]["running"].is_null()
        });
        answers.collect()
    }

    /// Asserts that only these may use an image that is on the node.
    pub(crate) fn assert_usable_by(&self, image: &Pushed, users: &[Who]) {
        self.assert_all_usable_by(&[(image, users)]);
    }

    /// The same for several images at once, which takes no longer.
    pub(crate) fn assert_all_usable_by(&self, images: &[(&Pushed, &[Who])]) {
        let all = [Who::Secret, Who::Account, Who::Stranger];
        let cases: Vec<_> =
            images.iter().flat_map(|(image, _)| all.map(|who| (who, *image))).collect();
        let may = self.may_use(&cases);
        for ((image, users), may) in images.iter().zip(may.chunks(all.len())) {
            let found = all.into_iter().zip(may).filter(|(_, may)| **may);
            let found: Vec<_> = found.map(|(who, _)| who).collect();
            assert_eq!(
                found, *users,
                "pods that may use {} without asking the registry",
                image.reference
            );
        }
    }

    /// A pod of the other team that may pull is refused by the registry.
    pub(crate) fn assert_stranger_is_refused(&self, image: &Pushed) {
        let stranger = self.pod(Who::Stranger, image).create();
        let message = stranger.wait_until_waiting("ErrImagePull");
        assert!(message.contains("401"), "{message}");
        // Or it would try again when somebody counts requests.
        stranger.delete_at_once();
    }

    /// The uid of an object in the shop, such as `secrets/regcred`.
    pub(crate) fn uid(&self, object: &str) -> String {
        let object = self.api.get(&format!("/api/v1/namespaces/{SHOP}/{object}")).unwrap();
        object["metadata"]["uid"].as_str().unwrap().to_owned()
    }
}

/// Waits until what `keyfob records list` prints of the kubelet's records fulfils a condition.
pub(crate) fn wait_for_records(
    world: &World,
    what: &str,
    condition: impl Fn(&Value) -> bool,
) -> Value {
    wait_for(what, Duration::from_secs(30), || {
        let listed = records(world);
        if condition(&listed) { Ok(listed) } else { Err(listed.to_string()) }
    })
}

/// What `keyfob records list` prints of the kubelet's records.
pub(crate) fn records(world: &World) -> Value {
    let args = ["records", "list", "--records-dir", crate::node::KUBELET, "-o", "json"];
    serde_json::from_str(&stdout(&mut world.keyfob(&args))).unwrap()
}

/// The IDs of all images with a record.
pub(crate) fn recorded_ids(listed: &Value) -> Vec<&str> {
    let records = listed["records"].as_array().unwrap();
    records.iter().map(|record| record["imageId"].as_str().unwrap()).collect()
}

/// Ada may pull everything, the account `cart` too; the node has a login of its own for images below `node/`.
fn accepts(api: &Api, login: &Login) -> bool {
    match (login.username.as_str(), login.password.as_str()) {
        ("ada", "hunter2") => true,
        ("node", "own") => login.repository.starts_with("node/"),
        ("jwt", token) => {
            let review = json!({
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": {"token": token, "audiences": [AUDIENCE]},
            });
            let reviewed = api.post("/apis/authentication.k8s.io/v1/tokenreviews", &review);
            let user = format!("system:serviceaccount:{SHOP}:cart");
            reviewed.is_ok_and(|review| review["status"]["user"]["username"] == user)
        }
        _ => false,
    }
}

fn objects() -> Value {
    let object = |kind: &str, namespace: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": namespace, "name": name}});
    let mut secret = object("Secret", SHOP, "regcred");
    let login = json!({"auths": {HOST: {"username": "ada", "password": "hunter2"}}});
    secret["type"] = json!("kubernetes.io/dockerconfigjson");
    secret["stringData"] = json!({".dockerconfigjson": login.to_string()});
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": STREET}},
        object("ServiceAccount", SHOP, "default"),
        object("ServiceAccount", SHOP, "cart"),
        object("ServiceAccount", STREET, "visitor"),
        secret,
    ]})
}

/// Returns the configuration and the directory of the plugin.
fn install_plugin(world: &World) -> (PathBuf, PathBuf) {
    let directory = world.files.join("teams");
    let (config, plugins) = (directory.join("providers.yaml"), directory.join("plugins"));
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    std::fs::create_dir_all(&directory).unwrap();
    succeed(&mut world.keyfob(&[
        "provider",
        "install",
        &text(&plugins),
        "--providers=echo",
        &format!("--token-audience={AUDIENCE}"),
        &format!("--match-images=echo={HOST}"),
        &format!("--args=echo=--registry={HOST}"),
        &format!("--config-file={}", config.display()),
    ]));
    (config, plugins)
}
