//! A hundred pods with twenty private images on a cold node: what upstream's caches save, and what they do not.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::Instant};

use keyfob_testkit::Response;
use serde_json::{Value, json};

use crate::{
    containerd::Runtime,
    node::{Node, NodeOptions},
    pod::Pod,
    registry::{Access, Pushed, Registry},
    shell::stdout,
    world::World,
};

const PODS: usize = 100;
/// What is counted follows from the kubelet. Only its runtime logs in, for which two pods of each image are enough.
const PODS_WITH_1_6: usize = 40;
const IMAGES: usize = 20;
const HOST: &str = "load.example.com";
const BROKER: &str = "load-broker.example.com";
const PASSWORD: &str = "hunter2";
const CONFIG: &str = "/etc/kubernetes/load.yaml";
const PLUGINS: &str = "/usr/local/lib/load-plugins";
/// Three providers for the same images, whose answers are kept for a token, for a service account, or not at all. All of them are
/// asked, and the first one's login is used.
const BY_TOKEN: &str = "exchange-by-token";
const BY_ACCOUNT: &str = "exchange-by-account";
const FOR_NODE: &str = "docker-config-for-node";

pub(crate) fn a_hundred_pods_with_twenty_images_start_on_a_cold_node(world: &mut World) {
    let access = Access::Tokens(Box::new(|login| login.password == PASSWORD));
    let registry = Registry::start(world, HOST, access);
    let images: Vec<_> =
        (0..IMAGES).map(|number| registry.push(&format!("team/app-{number}:v1"))).collect();
    serve_broker(world);
    configure_providers();
    let rbac = stdout(&mut world.keyfob(&["audience", "rbac", "--audience", BROKER]));
    world.cluster.apply(&rbac);
    for (runtime, pods) in [(Runtime::Containerd21, PODS), (Runtime::Containerd16, PODS_WITH_1_6)] {
        let options = NodeOptions::new(runtime).flags(&[
            format!("--image-credential-provider-config={CONFIG}"),
            format!("--image-credential-provider-bin-dir={PLUGINS}"),
        ]);
        let node = Node::start(world, &options);
        let before = Requests::count(world, &registry);

        let start = Instant::now();
        let created: Vec<_> = (0..pods).map(|number| create(world, number, &images)).collect();
        created.iter().for_each(Pod::wait_until_running);

        let time = start.elapsed();
        let costs = Costs::count(world, &node, &registry, &before);
        println!(
            "{pods} pods with {IMAGES} images on {runtime:?} run after {time:.1?}: {costs:#?}"
        );
        costs.check(pods);
    }
}

/// What the pods have cost.
#[derive(Debug)]
struct Costs {
    /// How often the kubelet needed credentials: for each pod when it looks whether the image is there and may be used, and again
    /// for each new try.
    lookups: usize,
    account_requests: usize,
    token_requests: usize,
    runs_by_token: usize,
    runs_by_account: usize,
    runs_for_node: usize,
    broker_requests: usize,
    pulls: usize,
    registry_logins: usize,
}

impl Costs {
    fn count(world: &World, node: &Node, registry: &Registry, before: &Requests) -> Self {
        let now = Requests::count(world, registry);
        let metrics = node.metrics();
        let runs = |plugin: &str| {
            let name = format!("plugin_name=\"{plugin}\"");
            sum(&metrics, "kubelet_credential_provider_plugin_duration_count", &[&name])
        };
        Self {
            lookups: sum(&metrics, "kubelet_image_manager_ensure_image_requests_total", &[]),
            account_requests: now.accounts - before.accounts,
            token_requests: now.tokens - before.tokens,
            runs_by_token: runs(BY_TOKEN),
            runs_by_account: runs(BY_ACCOUNT),
            runs_for_node: runs(FOR_NODE),
            broker_requests: now.broker - before.broker,
            pulls: sum(&metrics, "kubelet_runtime_operations_total", &["\"pull_image\""]),
            registry_logins: now.logins - before.logins,
        }
    }

    fn check(&self, pods: usize) {
        // The kubelet keeps a token for its pod, so that two providers with the same audience, and further tries, share it. It
        // keeps no service account: both providers have it fetched for each lookup.
        assert_eq!(self.token_requests, pods);
        assert_eq!(self.account_requests, 2 * self.lookups);
        // Answers for a token are kept with that token, and no two pods have the same.
        assert_eq!(self.runs_by_token, pods);
        // Answers for an account serve all its pods, for all images of the registry. But pods that ask before there is an answer
        // do not wait for each other, since their tokens differ.
        assert!((1..pods).contains(&self.runs_by_account));
        // `docker-config` has its answers not kept. Only lookups of the same image at the same time share a run.
        assert!((IMAGES..=self.lookups).contains(&self.runs_for_node));
        assert_eq!(self.broker_requests, self.runs_by_token + self.runs_by_account);
        // A pod that finds its image missing has it pulled, although another pod may be pulling it. containerd logs in to resolve
        // the name, and once more to download what it lacks; the kubelet has one image pulled after another.
        assert!((IMAGES..=pods).contains(&self.pulls));
        assert_eq!(self.registry_logins, self.pulls + IMAGES);
    }
}

fn create(world: &World, number: usize, images: &[Pushed]) -> Pod {
    world.pod(&format!("app-{number}"), &images[number % IMAGES]).create()
}

/// Trades any token for the password.
fn serve_broker(world: &World) {
    world.hosts.serve(BROKER, |_| {
        let answer = json!({
            "access_token": PASSWORD,
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "token_type": "Bearer",
            "expires_in": 3600,
        });
        Response::json(answer.to_string())
    });
}

fn configure_providers() {
    let keyfob = env!("CARGO_BIN_EXE_keyfob");
    fs::create_dir_all(PLUGINS).unwrap();
    for (plugin, name) in
        [(FOR_NODE, "docker-config"), (BY_TOKEN, "exchange"), (BY_ACCOUNT, "exchange")]
    {
        let path = Path::new(PLUGINS).join(plugin);
        fs::write(&path, format!("#!/bin/sh\nexec '{keyfob}' provider {name} \"$@\"\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let login = json!({"auths": {HOST: {"username": "node", "password": PASSWORD}}});
    fs::create_dir_all("/etc/kubernetes").unwrap();
    fs::write("/etc/kubernetes/load.json", login.to_string()).unwrap();
    let url = format!("--url=https://{BROKER}/token");
    let providers = [
        provider(BY_TOKEN, &[&url, "--username=pod"], Some("Token")),
        provider(BY_ACCOUNT, &[&url, "--username=account"], Some("ServiceAccount")),
        provider(FOR_NODE, &["--path=/etc/kubernetes/load.json"], None),
    ];
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1",
        "kind": "CredentialProviderConfig",
        "providers": providers,
    });
    fs::write(CONFIG, config.to_string()).unwrap();
}

fn provider(name: &str, args: &[&str], cache_type: Option<&str>) -> Value {
    let mut provider = json!({
        "name": name,
        "matchImages": [HOST],
        "defaultCacheDuration": "10m",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "args": args,
    });
    if let Some(cache_type) = cache_type {
        provider["tokenAttributes"] = json!({
            "serviceAccountTokenAudience": BROKER,
            "cacheType": cache_type,
            "requireServiceAccount": true,
        });
    }
    provider
}

/// The sum of a metric's values over all series with these labels.
fn sum(metrics: &str, name: &str, labels: &[&str]) -> usize {
    let lines = metrics.lines().filter(|line| {
        let series = line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'));
        series && labels.iter().all(|label| line.contains(label))
    });
    lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap()).sum()
}

/// What others were asked so far: the API server about service accounts, the broker, and the registry for logins.
struct Requests {
    accounts: usize,
    tokens: usize,
    broker: usize,
    logins: usize,
}

impl Requests {
    fn count(world: &World, registry: &Registry) -> Self {
        let metrics = world.cluster.api.text("/metrics").unwrap();
        let requests = |subresource: &str, verb: &str| {
            let labels = ["resource=\"serviceaccounts\"", subresource, verb];
            sum(&metrics, "apiserver_request_total", &labels)
        };
        let visits = registry.visits().into_iter();
        let logins = visits.filter(|visit| visit.login.is_some() && visit.status == 200);
        Self {
            accounts: requests("subresource=\"\"", "verb=\"GET\""),
            tokens: requests("subresource=\"token\"", "verb=\"POST\""),
            broker: world.hosts.requests(BROKER).len(),
            logins: logins.count(),
        }
    }
}
