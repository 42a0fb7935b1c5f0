//! Pods with service accounts: what one pulled is not another's, although it is on disk.

use std::{fs, os::unix::fs::symlink};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use keyfob_api::{Claims, Secret};
use keyfob_exec::BoxFuture;
use keyfob_playground::registry::{Options, TokenVerifier, TokenVerifierError, Trust, User};
use serde_json::json;

use crate::{
    machine::Machine,
    node::{Node, Said, keyfob},
    registry::{PASSWORD, Served, layer},
};

const AUDIENCE: &str = "registry.example";
/// In 2130.
const END: u64 = 5_049_129_600;
const OBJECTS: &str = "\
apiVersion: v1
kind: ServiceAccount
metadata: {name: cart, namespace: shop, uid: u-cart}
---
apiVersion: v1
kind: Pod
metadata: {name: cart-1, namespace: shop, uid: u-cart-1}
spec: {nodeName: n1, serviceAccountName: cart, containers: [{name: a, image: x}]}
";

/// Believes every token: who signed it is not what these tests are about.
#[derive(Debug)]
struct Credulous;

impl TokenVerifier for Credulous {
    fn verify<'a>(
        &'a self,
        token: &'a Secret<String>,
        _audience: &'a str,
    ) -> BoxFuture<'a, Result<Claims, TokenVerifierError>> {
        Box::pin(async { Claims::of(token).ok_or_else(|| TokenVerifierError::new("no token")) })
    }
}

/// A registry whose `shop` only the pods of `shop/cart` may pull, and a node whose plugin trades their tokens.
struct Street {
    machine: Machine,
    served: Served,
    node: Node,
    tokens: String,
}

impl Street {
    fn new() -> Self {
        let users = vec![
            User::service_account("shop", "cart").may_pull("shop"),
            User::service_account("street", "visitor").may_pull("street"),
            User::new("ada", PASSWORD).may_pull(""),
        ];
        let trust = Some(Trust::new(AUDIENCE, Credulous));
        let served = Served::start(Options { users, trust, ..Options::default() });
        served.push("shop/app", "v1", &[layer(1, 1000)]);
        let (machine, node) = (Machine::new(), Node::new());
        let name = "exchange-credential-provider";
        symlink(env!("CARGO_BIN_EXE_keyfob"), node.path("plugins").join(name)).unwrap();
        let node = node.with_installed(json!({
            "name": name,
            "matchImages": [served.registry.address().to_string()],
            "defaultCacheDuration": "10m",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "args": [format!("--url={}/exchange", served.registry.url()), "--allow-http"],
            "tokenAttributes": {
                "serviceAccountTokenAudience": AUDIENCE,
                "cacheType": "ServiceAccount",
                "requireServiceAccount": true,
            },
        }));
        let tokens = node.path("tokens").to_str().unwrap().to_owned();
        fs::create_dir(&tokens).unwrap();
        let street = Self { machine, served, node, tokens };
        for (namespace, account) in [("shop", "cart"), ("street", "visitor")] {
            for number in [1, 2] {
                street.token_of(
                    [namespace, account, &format!("u-{account}")],
                    &format!("{account}-{number}"),
                );
            }
        }
        street
    }

    /// A token of a pod of this account, which has a namespace, a name and a uid, as a projected volume has it.
    fn token_of(&self, [namespace, account, uid]: [&str; 3], pod: &str) {
        let claims = json!({
            "aud": [AUDIENCE], "exp": END, "iat": END - 3600, "iss": "https://cluster.example",
            "kubernetes.io": {
                "namespace": namespace,
                "pod": {"name": pod, "uid": format!("u-{pod}")},
                "serviceaccount": {"name": account, "uid": uid},
            },
            "sub": format!("system:serviceaccount:{namespace}:{account}"),
        });
        let claims = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
        self.node.file(&format!("tokens/{pod}"), &format!("e30.{claims}.hunter2-signature"));
    }

    fn image(&self) -> String {
        self.served.image("shop/app:v1")
    }

    /// Pulls as a pod.
    fn pull(&self, account: &str, pod: &str, args: &[&str]) -> Said {
        let flags = self.as_pod(account, pod);
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain(["--quiet"]).collect();
        self.machine.pull_on(&self.node, &self.image(), &[&flags, args].concat())
    }

    /// The flags of a pod.
    fn as_pod(&self, account: &str, pod: &str) -> Vec<String> {
        let uid = format!("u-{pod}");
        let identity = ["--service-account", account, "--pod", pod, "--pod-uid", &uid];
        identity.into_iter().chain(["--token-dir", &self.tokens]).map(str::to_owned).collect()
    }

    /// What whoever runs the node is told about an image that is not for whoever pulls, who is this account.
    fn operators_line(&self, account: &str, uid: &str) -> String {
        let dest = self.machine.dest();
        let dest = dest.display();
        format!(
            "keyfob: it is in {dest}, and service account {account} (uid {uid}) has not proved access to it; what an account of \
             the same name with another uid has proved does not count; \"keyfob records list --records-dir {dest}\" tells who has"
        )
    }
}

#[test]
fn a_pod_that_has_not_proved_access_is_refused_what_is_on_disk() {
    let street = Street::new();
    let first = street.pull("shop/cart", "cart-1", &[]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let whose = "pods of the service account shop/cart";
    assert!(first.stdout.contains(&format!("\n  for       {whose}\n")), "{}", first.stdout);
    street.served.registry.forget_requests();

    // Another pod of the account has it at once, though the registry is not asked for it.
    let same = street.pull("shop/cart", "cart-2", &["-o", "json"]);
    assert_eq!((same.code, &same.json()["result"]), (0, &json!("present")), "{}", same.stderr);

    let refused = street.pull("street/visitor", "visitor-1", &[]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{}", refused.stderr);
    let lines: Vec<&str> = refused.stderr.lines().collect();
    assert_eq!(
        lines[0],
        format!("keyfob: Failed to pull image \"{}\": ErrImagePull", street.image())
    );
    assert_eq!(lines[1], street.operators_line("street/visitor", "u-visitor"));
    assert!(!refused.stderr.contains("shop/cart"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("sha256:"), "{}", refused.stderr);
    assert!(
        lines[2].contains(" with exchange-credential-provider as \"street/visitor\": "),
        "{}",
        lines[2]
    );
    assert!(lines[2].contains("status code 403"), "{}", lines[2]);
}

#[test]
fn a_refusal_names_neither_the_image_id_nor_whose_the_image_is() {
    let street = Street::new();
    let mine = street.pull("shop/cart", "cart-1", &["-o", "json"]);
    let id = mine.json()["imageId"].as_str().unwrap().to_owned();
    let host = street.served.registry.address().to_string();
    let secret = street.machine.login("team-a-regcred.json", &host, "ada", PASSWORD);
    let flags = ["--pull-secret", &*secret, "--pull-policy", "Always"];
    assert_eq!(street.machine.pull(&street.image(), &flags).code, 0);

    for policy in ["Never", "IfNotPresent"] {
        let flags = ["--pull-policy", policy];
        let refused = street.pull("street/visitor", "visitor-1", &flags);
        let in_json =
            street.pull("street/visitor", "visitor-1", &[&flags[..], &["-o", "json"]].concat());
        let verbose = street.pull("street/visitor", "visitor-1", &[&flags[..], &["-vv"]].concat());

        for said in [&refused.stderr, &in_json.stdout, &in_json.stderr, &verbose.stderr] {
            for hidden in [id.as_str(), "shop/cart", "team-a-regcred"] {
                assert!(!said.contains(hidden), "{policy}: {said}");
            }
        }
    }
}

#[test]
fn never_tells_the_owner_of_a_pod_nothing_and_whoever_runs_the_node_where_to_look() {
    let street = Street::new();
    assert_eq!(street.pull("shop/cart", "cart-1", &[]).code, 0);

    let refused = street.pull("street/visitor", "visitor-1", &["--pull-policy", "Never"]);

    assert_eq!(refused.code, 3, "{}", refused.stderr);
    let lines: Vec<&str> = refused.stderr.lines().collect();
    let kubelets = format!(
        "keyfob: Container image \"{}\" is not present with pull policy of Never",
        street.image()
    );
    assert_eq!(lines, [kubelets, street.operators_line("street/visitor", "u-visitor")]);
    let entitled = street.pull("shop/cart", "cart-2", &["--pull-policy", "Never"]);
    assert_eq!(entitled.code, 0, "{}", entitled.stderr);
}

#[test]
fn an_account_that_was_recreated_must_prove_its_access_again_and_that_is_told() {
    let street = Street::new();
    assert_eq!(street.pull("shop/cart", "cart-1", &[]).code, 0);
    street.token_of(["shop", "cart", "u-cart-anew"], "cart-2");

    // A refusal tells the same as to any stranger: it must not say whom the image is for.
    let refused = street.pull("shop/cart", "cart-2", &["--pull-policy", "Never"]);
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    let line = refused.stderr.lines().nth(1).unwrap();
    assert_eq!(line, street.operators_line("shop/cart", "u-cart-anew"));

    let records = ["--records-dir", street.machine.dest().to_str().unwrap()].map(str::to_owned);
    let list = || {
        let args = [&["records".to_owned(), "list".to_owned()], &records[..]].concat();
        keyfob(&args.iter().map(String::as_str).collect::<Vec<_>>()).stdout
    };
    let before = "  pods of the service account shop/cart (uid u-cart)  ";
    assert!(list().contains(before), "{}", list());
    let flags = [&street.as_pod("shop/cart", "cart-2")[..], &records[..]].concat();
    let explain = || {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        street.node.run("explain", &[&[&*street.image()], &flags[..]].concat()).stdout
    };
    let problem = "\
  problem      service account shop/cart is recorded with uid u-cart and has uid u-cart-anew now: it was deleted and recreated, and \
counts as another
    do         let it prove its access by a pull, with a pull policy other than Never; then it is recorded too
";
    let told = explain();
    assert!(told.contains(": for pods of the service account shop/cart (uid u-cart)\n"), "{told}");
    assert!(told.contains(problem), "{told}");

    let proved = street.pull("shop/cart", "cart-2", &[]);
    assert_eq!(proved.code, 0, "{}", proved.stderr);
    let note = "  note      service account shop/cart was recorded with uid u-cart and has uid u-cart-anew now: it was deleted and \
                recreated, so access had to be proved again\n";
    assert!(proved.stdout.contains(note), "{}", proved.stdout);

    let again = street.pull("shop/cart", "cart-2", &["-o", "json"]).json();
    assert_eq!((&again["result"], &again["note"]), (&json!("present"), &json!(null)));
    assert!(!explain().contains("it was deleted and recreated"), "{}", explain());
}

#[test]
fn what_is_on_record_is_what_was_proved() {
    let street = Street::new();
    assert_eq!(street.pull("shop/cart", "cart-1", &[]).code, 0);
    street.served.registry.set_user(User::service_account("street", "visitor").may_pull("shop"));

    let now_entitled = street.pull("street/visitor", "visitor-1", &["-o", "json"]);
    assert_eq!((now_entitled.code, &now_entitled.json()["result"]), (0, &json!("pulled")));
    let at_once = street.pull("street/visitor", "visitor-1", &["-o", "json"]);
    assert_eq!((at_once.code, &at_once.json()["result"]), (0, &json!("present")));

    let stranger = street.machine.pull(&street.image(), &["--quiet"]);
    assert_eq!(stranger.code, 1, "{}", stranger.stderr);
    // The node's own login makes it everybody's.
    let host = street.served.registry.address().to_string();
    let docker = street.machine.login("docker.json", &host, "ada", PASSWORD);
    let flags = ["--docker-config", &*docker, "--pull-policy", "Always", "--quiet"];
    assert_eq!(street.machine.pull(&street.image(), &flags).code, 0);
    let stranger = street.machine.pull(&street.image(), &["--pull-policy", "Never"]);
    assert_eq!(stranger.code, 0, "{}", stranger.stderr);
}

#[test]
fn no_cluster_is_needed_to_try_it() {
    let street = Street::new();
    let objects = street.machine.file("objects.yaml", OBJECTS);
    let identity = ["--service-account", "shop/cart", "--pod", "cart-1"];
    let api =
        ["--api", "embedded", "--objects", &*objects, "--allowed-kubelet-audiences", AUDIENCE];

    let said =
        street.machine.pull_on(&street.node, &street.image(), &[&identity[..], &api].concat());

    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("\n  for       pods of the service account shop/cart\n"));
}
