//! Pods that pull with roles of their own: from a service account of the embedded API server to a login that moto gives.
//!
//! It needs moto, `kubectl` and `PyJWT`: `.ci/run e2e` installs them and sets `KEYFOB_E2E`, without which nothing is run. Moto
//! takes any token for good, so a proxy before it does what AWS does first: it verifies the token by the keys of its issuer.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and these are the real programs"
)]

#[path = "support/keyfob_apiserver.rs"]
mod keyfob_apiserver;
#[path = "support/moto.rs"]
mod moto;
#[path = "support/node.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod node;

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use keyfob_apiserver::{Server, grant, is_on, verify};
use keyfob_testkit::{Internet, LeakCheck, Request, Response};
use moto::{Moto, corrected};
use node::{Node, Said, keyfob};
use serde_json::{Value, json};

const IMAGE: &str = "123456789012.dkr.ecr.us-west-2.amazonaws.com/team/app";
const AUDIENCE: &str = "sts.amazonaws.com";
const ROLE: &str = "eks.amazonaws.com/role-arn";
const NODE_SECRET: &str = "hunter2-node-secret";
/// The login of the node, which moto takes for this account's.
const NODE_LOGIN: &str = "123456789012-auth-token";
/// The first second of 2130.
const END: u64 = 5_049_129_600;

const OBJECTS: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: cart, namespace: shop, annotations: {eks.amazonaws.com/role-arn: 'arn:aws:iam::111111111111:role/pull'}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: till, namespace: shop, annotations: {eks.amazonaws.com/role-arn: 'arn:aws:iam::222222222222:role/pull'}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: plain, namespace: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: cart-1, namespace: shop}
spec: {nodeName: n1, serviceAccountName: cart, containers: [{name: app, image: app}]}
---
apiVersion: v1
kind: Pod
metadata: {name: till-1, namespace: shop}
spec: {nodeName: n1, serviceAccountName: till, containers: [{name: app, image: app}]}
---
apiVersion: v1
kind: Pod
metadata: {name: plain-1, namespace: shop}
spec: {nodeName: n1, serviceAccountName: plain, containers: [{name: app, image: app}]}
";

/// Moto, and whom STS was shown: subject and pod of every token that its issuer signed.
struct Aws {
    _moto: Moto,
    internet: Internet,
    shown: Arc<Mutex<Vec<String>>>,
}

impl Aws {
    fn start() -> Self {
        let moto = Moto::start(Path::new("moto_server"));
        let (address, shown) = (moto.address.clone(), Arc::<Mutex<Vec<String>>>::default());
        let seen = Arc::clone(&shown);
        let internet = Internet::start(move |request| match token(request) {
            Some(token) => match verify(token, &issuer(token), AUDIENCE, "") {
                Ok(whose) => {
                    seen.lock().unwrap().push(whose);
                    corrected(&address, request, END)
                }
                Err(_) => Response::status(403),
            },
            None => corrected(&address, request, END),
        });
        Self { _moto: moto, internet, shown }
    }

    /// A node with the plugin installed for its pods' tokens, and with credentials of its own.
    fn node(&self, flags: &[&str]) -> Node {
        let node = Node::new();
        let plugins = node.path("plugins").to_str().unwrap().to_owned();
        let trusted = format!("ecr=--ca-file={}", self.internet.ca_file(&node.path("")));
        let install = ["provider", "install", &plugins, "--providers", "ecr", "-o", "json"];
        let choices = ["--token-audience", AUDIENCE, "--args", &trusted];
        let installed = keyfob(&[&install[..], &choices, flags].concat());
        assert_eq!(installed.code, 0, "{}", installed.stderr);
        let environment = [
            ("HTTPS_PROXY", self.internet.url().as_str()),
            ("AWS_ACCESS_KEY_ID", "AKIANODE"),
            ("AWS_SECRET_ACCESS_KEY", NODE_SECRET),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ]
        .map(|(name, value)| json!({"name": name, "value": value}));
        let provider = installed.json()["providers"][0].take();
        node.with_installed(provider).having("env", json!(environment))
    }

    /// One whose plugin is asked for pods with a role alone.
    fn strict_node(&self, cache_type: &str) -> Node {
        let attributes = json!({
            "serviceAccountTokenAudience": AUDIENCE,
            "cacheType": cache_type,
            "requireServiceAccount": true,
            "requiredServiceAccountAnnotationKeys": [ROLE],
        });
        self.node(&[]).having("tokenAttributes", attributes)
    }

    /// What STS was asked with.
    fn tokens(&self) -> Vec<String> {
        self.internet.requests().iter().filter_map(token).map(str::to_owned).collect()
    }

    /// Runs a command, which tells people nothing that is secret.
    fn run(&self, node: &Node, command: &str, args: &[&[&str]]) -> Said {
        let said =
            node.run(command, &[&[IMAGE, "-o", "json", "-vvv"], &args.concat()[..]].concat());
        let sessions = self.internet.requests();
        let sessions = sessions.iter().filter_map(|request| request.header("x-amz-security-token"));
        let secrets = sessions.map(str::to_owned).chain(self.tokens()).chain([NODE_SECRET.into()]);
        LeakCheck::new(secrets).text("stdout", &said.stdout).text("stderr", &said.stderr);
        said
    }

    /// The password that a pull gets.
    fn password(&self, node: &Node, args: &[&[&str]]) -> String {
        let said = self.run(node, "get", &[&args.concat(), &["--show-secrets"]]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let password = said.json()["credentials"][0]["password"].as_str().unwrap().to_owned();
        LeakCheck::new([&password]).text("stderr", &said.stderr);
        password
    }
}

/// What STS is to know a pod by.
fn token(request: &Request) -> Option<&str> {
    request.body.split('&').find_map(|field| field.strip_prefix("WebIdentityToken="))
}

/// Who signed it, as it says.
fn issuer(token: &str) -> String {
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    claims["iss"].as_str().unwrap().to_owned()
}

const CART: [&str; 4] = ["--service-account", "shop/cart", "--pod", "cart-1"];
const TILL: [&str; 4] = ["--service-account", "shop/till", "--pod", "till-1"];
const PLAIN: [&str; 4] = ["--service-account", "shop/plain", "--pod", "plain-1"];

#[test]
fn every_pod_gets_the_login_of_its_own_role() {
    if !is_on() {
        return;
    }
    let (aws, objects) = (Aws::start(), format!("{OBJECTS}---\n{}", grant(AUDIENCE)));
    let server = Server::start(&objects);
    let kubeconfig = server.kubeconfig("n1");
    for cache_type in ["Token", "ServiceAccount"] {
        let node = aws.strict_node(cache_type);
        let objects = node.file("objects.yaml", &objects);
        for api in
            [&["--api", "embedded", "--objects", &objects][..], &["--kubeconfig", &kubeconfig]]
        {
            assert_eq!(aws.password(&node, &[&CART, api]), "111111111111-auth-token");
            assert_eq!(aws.password(&node, &[&TILL, api]), "222222222222-auth-token");
            let explained = aws.run(&node, "explain", &[&CART, api]).json();
            let claims = &explained["providers"][0]["identity"]["claims"];
            assert_eq!(claims["subject"], "system:serviceaccount:shop:cart", "{explained}");
        }
    }

    let whose = aws.shown.lock().unwrap().clone();
    let (cart, till) =
        ("system:serviceaccount:shop:cart cart-1", "system:serviceaccount:shop:till till-1");
    assert_eq!(whose, [[cart, till, cart]; 4].concat());
    let tokens = aws.tokens();
    let of_server: Vec<_> = tokens.iter().filter(|token| issuer(token) == server.issuer).collect();
    assert_eq!((tokens.len(), of_server.len()), (12, 6));
    for token in of_server {
        assert!(server.verify(token, AUDIENCE).is_ok_and(|whose| whose == cart || whose == till));
        let other = server.verify(token, "other.example").unwrap_err();
        assert!(other.contains("InvalidAudienceError"), "{other}");
    }
}

#[test]
fn a_pod_without_a_role_gets_what_is_configured() {
    if !is_on() {
        return;
    }
    let aws = Aws::start();
    let strict = aws.strict_node("ServiceAccount");
    let objects = strict.file("objects.yaml", &format!("{OBJECTS}---\n{}", grant(AUDIENCE)));
    let api = ["--api", "embedded", "--objects", &objects];

    let passed_over = aws.run(&strict, "explain", &[&PLAIN, &api]);
    assert_eq!(passed_over.code, 3, "{}", passed_over.stderr);
    let provider = passed_over.json()["providers"][0].take();
    let why = format!("required annotation {ROLE} not found on service account shop/plain");
    assert_eq!(
        (&provider["result"], &provider["problems"][0]["problem"]),
        (&json!("skipped"), &json!(why))
    );
    assert_eq!(aws.run(&strict, "get", &[&PLAIN, &api]).code, 3);
    assert_eq!(aws.run(&strict, "get", &[]).code, 3, "without an account, nobody is asked");
    assert!(aws.internet.requests().is_empty());

    let lenient = aws.node(&[]);
    assert_eq!(aws.password(&lenient, &[&PLAIN, &api]), NODE_LOGIN);
    assert_eq!(aws.password(&lenient, &[]), NODE_LOGIN);
    assert_eq!(aws.password(&lenient, &[&CART, &api]), "111111111111-auth-token");
    assert_eq!(aws.tokens().len(), 1, "only the pod with a role came to STS");

    let said = aws.run(&aws.node(&["--args", "ecr=--fallback=none"]), "get", &[&PLAIN, &api]);
    assert_eq!(said.code, 1);
    let error = said.json()["errors"][0]["error"].take();
    assert!(error.as_str().unwrap().contains("names no role in"), "{error}");
}

#[test]
fn a_node_that_may_not_have_the_audience_is_told_what_would_allow_it() {
    if !is_on() {
        return;
    }
    let (aws, server) = (Aws::start(), Server::start(OBJECTS));
    let node = aws.strict_node("Token");
    let objects = node.file("objects.yaml", OBJECTS);
    let advice = |api: &[&str]| {
        let refused = aws.run(&node, "explain", &[&CART, api]);
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        let provider = refused.json()["providers"][0].take();
        let why = "failed to get service account token: serviceaccounts \"cart\" is forbidden: system:node:n1 is not \
                   authorized to request tokens for audience \"sts.amazonaws.com\"";
        assert_eq!(provider["problems"][0]["problem"], why);
        node.file("grant.yaml", provider["identity"]["grant"]["yaml"].as_str().unwrap())
    };
    let embedded = ["--api", "embedded", "--objects", &objects];
    let kubeconfig = server.kubeconfig("n1");
    let running = ["--kubeconfig", &kubeconfig];

    let grant = advice(&embedded);
    server.admin(&format!("create --validate=false -f {}", advice(&running)));
    assert!(aws.internet.requests().is_empty(), "AWS was asked before");

    let granted = [&embedded[..], &["--objects", &grant]].concat();
    assert_eq!(aws.password(&node, &[&CART, &granted]), "111111111111-auth-token");
    assert_eq!(aws.password(&node, &[&CART, &running]), "111111111111-auth-token");
}
