//! Upstream's `ecr-credential-provider` and ours, with the same requests and the same configuration.
//!
//! Moto plays AWS. Its tokens expired in 2015, so a proxy in front of it changes that date. The images are in Debian's
//! `docker-registry`, behind a proxy that answers for the host name of ECR.

use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use keyfob_testkit::{Internet, LeakCheck, Response};
use serde_json::{Value, json};

use crate::{
    built,
    docker_registry::{Registry, run},
    is_on,
    moto::{Moto, corrected, pass_on},
    node::{Node, Said, program},
    provider::{OURS, Provider, request},
};

const HOST: &str = "123456789012.dkr.ecr.us-west-2.amazonaws.com";
/// The password that moto issues for the account of the node.
const PASSWORD: &str = "123456789012-auth-token";
const NODE_SECRET: &str = "hunter2-node-secret";

/// Moto, and a proxy that makes its tokens valid for an hour.
struct Aws {
    moto: Moto,
    corrected: Internet,
}

impl Aws {
    fn start() -> Self {
        let moto = Moto::start(Path::new("moto_server"));
        let address = moto.address.clone();
        let corrected = Internet::start(move |request| corrected(&address, request, in_an_hour()));
        Self { moto, corrected }
    }

    /// Upstream's plugin and ours, with the same configuration.
    fn both(&self) -> [Provider; 2] {
        both_at(&self.corrected.url())
    }
}

/// Upstream's plugin and ours, both with this endpoint of AWS.
fn both_at(endpoint: &str) -> [Provider; 2] {
    let env = [
        ("AWS_ACCESS_KEY_ID", "AKIANODE"),
        ("AWS_SECRET_ACCESS_KEY", NODE_SECRET),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_REGION", "us-west-2"),
        ("AWS_ENDPOINT_URL", endpoint),
    ];
    let config = json!({
        "name": "ecr-credential-provider",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "matchImages": ["*.dkr.ecr.*.amazonaws.com"],
        "defaultCacheDuration": "12h",
        "env": env.map(|(name, value)| json!({"name": name, "value": value})),
    });
    let theirs = built("KEYFOB_ECR_CREDENTIAL_PROVIDER");
    [theirs.as_str(), OURS].map(|program| Provider::install(program, &config))
}

#[test]
fn both_plugins_give_the_same_login() {
    if !is_on() {
        return;
    }
    let aws = Aws::start();
    let [upstreams, ours] = aws.both();
    let mut of_a_pod = request(&format!("{HOST}/team/app"));
    of_a_pod["serviceAccountToken"] = json!("hunter2-pod-token");
    of_a_pod["serviceAccountAnnotations"] =
        json!({"eks.amazonaws.com/ecr-role-arn": "arn:aws:iam::111111111111:role/pull"});
    let china = HOST.replace("us-west-2.amazonaws.com", "cn-north-1.amazonaws.com.cn");
    let requests = [
        (request(&format!("{HOST}/team/app:v1")), PASSWORD),
        (request(&format!("{china}/app")), PASSWORD),
        (of_a_pod, "111111111111-auth-token"),
    ];
    for (request, password) in requests {
        let host = request["image"].as_str().unwrap().split('/').next().unwrap();
        let responses = [&upstreams, &ours].map(|plugin| {
            let mut response = plugin.ask(&request).unwrap();
            // Half of the remaining hour: upstream counts whole seconds, we count fractions too.
            let duration = response["cacheDuration"].take();
            let duration = duration.as_str().unwrap();
            assert!(duration == "30m0s" || duration.starts_with("29m5"), "{duration}");
            assert_eq!(response["auth"], json!({host: {"username": "AWS", "password": password}}));
            response
        });
        assert_eq!(responses[0], responses[1]);
    }
}

#[test]
fn the_host_runs_either_plugin_with_the_same_configuration() {
    if !is_on() {
        return;
    }
    let aws = Aws::start();
    let image = format!("{HOST}/team/app");
    for Provider { node, .. } in aws.both() {
        let got = node.run("get", &[&image, "-o", "json", "--show-secrets"]);
        assert_eq!(got.code, 0, "{}", got.stderr);
        let login = &got.json()["credentials"][0];
        let login = ["provider", "key", "username", "password"].map(|name| login[name].clone());
        assert_eq!(login, ["ecr-credential-provider", HOST, "AWS", PASSWORD]);

        let explained = node.run("explain", &[&image, "-o", "json"]);
        assert_eq!(explained.code, 0, "{}", explained.stderr);
        assert_eq!(explained.json()["providers"][0]["problems"], json!([]));
        for said in [&got, &explained] {
            LeakCheck::new([PASSWORD, NODE_SECRET]).text("stderr", &said.stderr);
        }
    }
}

#[test]
fn an_image_of_ecr_is_pulled_with_either_plugin() {
    if !is_on() {
        return;
    }
    let (aws, registry) = (Aws::start(), registry());
    let digest = registry.push("team/app:v1", Some(&format!("AWS:{PASSWORD}")), &[4096, 70_000]);
    let address = registry.address.clone();
    let ecr = Internet::start(move |request| match request.host.as_str() {
        HOST => pass_on(&address, request).into_response(),
        _ => Response::status(404),
    });
    let image = format!("{HOST}/team/app:v1");
    for Provider { node, .. } in aws.both() {
        let pulled = pull(&node, &ecr, &image);
        assert_eq!(pulled.code, 0, "{}", pulled.stderr);
        let source = format!("oci:{}:{image}", node.path("layout").display());
        let inspected = run("skopeo", &["inspect", "--format", "{{.Digest}}", &source]);
        assert_eq!(String::from_utf8(inspected.stdout).unwrap().trim(), digest);
    }
    let without_plugin = Node::new().with("other", &["other.example"], "");
    let refused = pull(&without_plugin, &ecr, &image);
    assert_eq!(refused.code, 1, "the registry must require a login: {}", refused.stdout);
}

/// A registry that accepts only the login that moto issues.
fn registry() -> Registry {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    std::fs::write(&users, run("htpasswd", &["-Bbn", "AWS", PASSWORD]).stdout).unwrap();
    Registry::start_with(folder, &json!({"htpasswd": {"realm": "ecr", "path": users}}))
}

fn pull(node: &Node, ecr: &Internet, image: &str) -> Said {
    let trusted = ecr.ca_file(&node.path(""));
    program()
        .args(["pull", image])
        .arg(node.path("layout"))
        .args(["--config", &node.config(), "--ca-file", &trusted])
        .arg("--bin-dir")
        .arg(node.path("plugins"))
        .env("HTTPS_PROXY", ecr.url())
        .output()
        .unwrap()
        .into()
}

#[test]
fn conformance_warns_that_upstreams_plugin_logs_in_to_any_host() {
    if !is_on() {
        return;
    }
    let aws = Aws::start();
    let [upstreams, _] = aws.both();

    let found = upstreams.findings(&format!("{HOST}/team/app"));

    let any_host =
        "warn unknown-image: it hands out credentials for whatever registry it is asked about";
    assert_eq!((found.len(), found[0].as_str()), (2, any_host), "{found:#?}");
    assert!(found[1].starts_with("warn stderr-noise: "), "{found:#?}");
    assert!(found[1].contains("Getting creds for private image"), "{found:#?}");
}

/// Shows the row about Amazon's plugin in the table of differences in README.md.
#[test]
fn our_plugin_differs_from_upstreams_in_three_ways() {
    if !is_on() {
        return;
    }
    let aws = Aws::start();
    let [upstreams, ours] = aws.both();
    let login = json!({"username": "AWS", "password": PASSWORD});

    let other = request("registry.example/app");
    assert_eq!(upstreams.ask(&other).unwrap()["auth"], json!({"registry.example": login}));
    let refused = ours.ask(&other).unwrap_err();
    assert!(refused.contains("registry.example"), "{refused}");

    let with_port = request(&format!("{HOST}:443/app"));
    assert_eq!(upstreams.ask(&with_port).unwrap()["auth"], json!({HOST: login}));
    let key = format!("{HOST}:443");
    assert_eq!(ours.ask(&with_port).unwrap()["auth"], json!({key: login}));

    let [upstreams, ours] = both_at(&format!("http://{}", aws.moto.address));
    let image = request(&format!("{HOST}/app"));
    let expired = upstreams.ask(&image).unwrap();
    assert_eq!(expired["cacheDuration"], Value::Null, "so it is cached for twelve hours");
    let refused = ours.ask(&image).unwrap_err();
    assert!(refused.contains("ended at 2015-01-01T00:00:00Z"), "{refused}");
}

fn in_an_hour() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_secs() + 3600
}
