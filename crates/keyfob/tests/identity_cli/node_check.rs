//! With an administrator's kubeconfig: what the pod's node may not have is not had.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyfob_testkit::Response;
use serde_json::{Value, json};

use crate::{
    POD,
    account_plugin::asked,
    api_server::{self, refusal},
    cluster::{Cluster, WHOAMI, answer, pod_token},
    node,
    node::{Node, Said, keyfob, program},
    run,
};

/// Two nodes, and a pod on each. No role allows nodes an audience.
pub(crate) const OBJECTS: &str = "\
apiVersion: v1
kind: ServiceAccount
metadata: {name: cart, namespace: shop, annotations: {example.com/role: puller}}
---
apiVersion: v1
kind: Pod
metadata: {name: cart-1, namespace: shop}
spec: {nodeName: n1, serviceAccountName: cart, containers: [{name: a, image: r.example/team/app}]}
---
apiVersion: v1
kind: Pod
metadata: {name: pending, namespace: shop}
spec: {serviceAccountName: cart, containers: [{name: a, image: r.example/team/app}]}
---
apiVersion: v1
kind: Pod
metadata: {name: volume, namespace: shop}
spec:
  nodeName: n1
  serviceAccountName: cart
  containers: [{name: a, image: r.example/team/app}]
  volumes: [{name: t, projected: {sources: [{serviceAccountToken: {path: t, audience: registry.example}}]}}]
---
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
";

/// `keyfob apiserver`, while this lives, and a node that pulls.
pub(crate) struct World {
    server: Child,
    pub(crate) node: Node,
}

impl World {
    fn new(objects: &str) -> Self {
        Self::with(objects, &[])
    }

    /// With more flags for the API server.
    pub(crate) fn with(objects: &str, flags: &[&str]) -> Self {
        let node = node();
        let file = node.file("objects.yaml", objects);
        let mut server = program();
        server.args(["apiserver", "--objects", &file, "--kubeconfig-dir"]).arg(node.path("users"));
        let mut server = server.args(flags).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("serving on "), "{line}");
        Self { server, node }
    }

    pub(crate) fn run(&self, command: &str, user: &str, flags: &str) -> Said {
        let kubeconfig = self.node.path(&format!("users/{user}.kubeconfig"));
        let flags: Vec<_> = flags.split_whitespace().collect();
        let place = ["--kubeconfig", kubeconfig.to_str().unwrap()];
        run(&self.node, command, &[&["--service-account", "shop/cart"], &place, &flags])
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.kill().unwrap_or_default();
        drop(self.server.wait());
    }
}

/// What `keyfob audience rbac` prints for the audience.
fn grant() -> String {
    let flags = ["--audience", "registry.example", "--service-account", "shop/cart"];
    keyfob(&[&["audience", "rbac"], &flags[..]].concat()).stdout
}

#[test]
fn an_administrator_gets_nothing_that_the_pods_node_is_refused() {
    let world = World::new(OBJECTS);

    let as_node = world.run("get", "n1", "--pod cart-1");
    let as_admin = world.run("get", "admin", "--pod cart-1");

    let words = "keyfob: provider tokens failed: node n1 may not request tokens for audience \"registry.example\"\n";
    assert!(as_node.stderr.starts_with(words), "{}", as_node.stderr);
    assert!(as_admin.stderr.starts_with(words), "{}", as_admin.stderr);
    assert_eq!((as_node.code, as_admin.code), (1, 1));
    assert_eq!(
        (as_admin.stdout.as_str(), asked(&world.node)),
        ("", None),
        "the plugin did not run"
    );
    let role = "keyfob audience rbac --audience registry.example --service-account shop/cart";
    let kubeconfig = world.node.path("users/admin.kubeconfig");
    let lines: Vec<_> = as_admin.stderr.lines().collect();
    let apply = format!("kubectl --kubeconfig {} apply -f -", kubeconfig.display());
    assert_eq!(lines[1], format!("keyfob: to allow it: {role} | {apply}"));
    assert_eq!(lines[2], "keyfob: --as-me requests the token as admin");
    let of_node = as_node.stderr.lines().nth(1).unwrap();
    let want = format!("keyfob: to allow it, as an administrator: {role} | kubectl apply -f -");
    assert_eq!(of_node, want);
}

#[test]
fn a_node_that_is_not_the_kubeconfigs_is_refused_and_its_own_is_not() {
    let world = World::new(&format!("{OBJECTS}---\n{}", grant()));

    for flags in ["--pod cart-1 --node n2", "--pod cart-1 --node n2 --as-me"] {
        let said = world.run("get", "n1", flags);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{flags}: {}", said.stderr);
        let words =
            "keyfob: --node n2 contradicts the kubeconfig, whose user is system:node:n1\nkeyfob: ";
        assert!(said.stderr.starts_with(words), "{flags}: {}", said.stderr);
    }
    assert_eq!(asked(&world.node), None, "the plugin did not run");
    let said = world.run("get", "n1", "--pod cart-1 --node n1");
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
}

#[test]
fn explain_names_the_refused_node_first_and_then_the_role_that_is_missing() {
    let world = World::new(OBJECTS);

    let text = world.run("explain", "admin", "--pod cart-1");
    assert_eq!(text.code, 1, "{}", text.stdout);
    let first = "no credentials: node n1 may not request tokens for audience registry.example, of service account shop/cart; the \
                 pull would be anonymous\n";
    assert!(text.stdout.starts_with(first), "{}", text.stdout);
    for line in ["\n  acting as    admin, of system:masters", "\n    kind: Role\n"] {
        assert!(text.stdout.contains(line), "{line}\n{}", text.stdout);
    }

    let json = world.run("explain", "admin", "--pod cart-1 -o json").json();
    let request = &json["tokenRequests"][0];
    assert_eq!(request["user"], "admin");
    assert_eq!((&request["node"], &request["nodeMay"]), (&json!("n1"), &json!(false)));
    let yaml = json.pointer("/providers/0/identity/grant/yaml").and_then(Value::as_str);
    assert_eq!(yaml, Some(grant().as_str()));
}

#[test]
fn once_the_role_is_there_both_are_given_the_same() {
    let world = World::new(&format!("{OBJECTS}---\n{}", grant()));

    let as_node = world.run("get", "n1", "--pod cart-1");
    let as_admin = world.run("get", "admin", "--pod cart-1");
    assert_eq!((as_node.code, as_node.stderr.as_str()), (0, ""));
    assert_eq!((as_admin.code, &as_admin.stdout), (0, &as_node.stdout), "{}", as_admin.stderr);
    let warning = "keyfob: the token was requested as admin, not as a node; node n1 may request tokens for audience \
                   registry.example: the authorizer allows it";
    assert!(as_admin.stderr.starts_with(warning), "{}", as_admin.stderr);

    let explained = world.run("explain", "admin", "--pod cart-1 -o json");
    assert_eq!(explained.code, 0, "{}", explained.stdout);
    assert_eq!(explained.json()["tokenRequests"][0]["nodeMay"], true);
    let without_a_pod = world.run("get", "admin", "");
    assert_eq!(without_a_pod.code, 0, "{}", without_a_pod.stderr);
}

#[test]
fn a_volume_of_the_pod_allows_its_audience_too() {
    let said = World::new(OBJECTS).run("get", "admin", "--pod volume");

    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(
        said.stderr.contains("the pod's volume \"t\" projects a token for it"),
        "{}",
        said.stderr
    );
}

#[test]
fn without_a_pod_on_a_node_only_a_role_can_allow_it() {
    let world = World::new(OBJECTS);
    for flags in ["", "--pod pending", "--node n2"] {
        let said = world.run("get", "admin", flags);
        assert_eq!(said.code, 1, "{flags}: {}", said.stderr);
        let words = "a node is not authorized to request tokens for audience \"registry.example\" by any role";
        let said = world.run("get", "admin", &format!("{flags} -o json")).stdout;
        assert!(said.replace("\\\"", "\"").contains(words), "{flags}: {said}");
    }
    let said = world.run("get", "admin", "--pod pending");
    let first = "keyfob: provider tokens failed: no node may request tokens for audience \"registry.example\": pod shop/pending \
                 is on no node yet, so only a role can allow it\nkeyfob: to allow it: ";
    assert!(said.stderr.starts_with(first), "{}", said.stderr);

    let world = World::new(&format!("{OBJECTS}---\n{}", grant()));
    for flags in ["", "--pod pending"] {
        let said = world.run("get", "admin", flags);
        assert_eq!(said.code, 0, "{flags}: {}", said.stderr);
        let words = "; any node may request tokens for audience registry.example: a role allows it";
        assert!(said.stderr.contains(words), "{flags}: {}", said.stderr);
    }
}

#[test]
fn another_node_than_the_pods_is_refused() {
    let world = World::new(&format!("{OBJECTS}---\n{}", grant()));

    let said = world.run("explain", "admin", "--pod cart-1 --node n2");

    assert_eq!(said.code, 1, "{}", said.stdout);
    let first = "no credentials: node n2 may not request tokens for audience registry.example";
    assert!(said.stdout.starts_with(first), "{}", said.stdout);
    assert!(said.stdout.contains("\n  node         n2 may not request "), "{}", said.stdout);
    for (node, why) in
        [("n2", "pod shop/cart-1 runs on n1, not on n2"), ("nope", "there is no node nope")]
    {
        let said = world.run("get", "admin", &format!("--pod cart-1 --node {node}"));
        assert_eq!(said.code, 1, "{}", said.stderr);
        let lines =
            format!("\"registry.example\": {why}\nkeyfob: leave out --node, or write --node n1\n");
        assert!(said.stderr.contains(&lines), "{}", said.stderr);
    }
    let said = world.run("get", "admin", "--node nope");
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains(": there is no node nope\n"), "{}", said.stderr);
}

#[test]
fn whoever_insists_requests_tokens_as_themselves_and_is_told_so() {
    let world = World::new(OBJECTS);

    let said = world.run("get", "admin", "--pod cart-1 --as-me");

    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(asked(&world.node).is_some());
    let warning = "keyfob: the token was requested as admin, not as a node; whether the pod's node may request tokens for \
                   audience registry.example was not checked: --as-me asks for no check\n";
    assert_eq!(said.stderr, warning);
    let explained = world.run("explain", "admin", "--pod cart-1 --as-me -o json").json();
    assert_eq!(explained["tokenRequests"][0]["nodeMay"], Value::Null);
}

#[test]
fn what_could_not_be_checked_is_said_with_its_reason() {
    const REVIEW: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let ada = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {},
        "status": {"userInfo": {"username": "ada@example.com", "groups": ["developers"]}},
    });
    let cluster = Cluster::answering(move |request| match request.path() {
        WHOAMI => Response::json(ada.to_string()),
        REVIEW => refusal(403, "subjectaccessreviews is forbidden: User \"ada\" cannot create it"),
        _ => answer(request),
    });
    let node = node();
    let kubeconfig = cluster.kubeconfig(&node);
    let flags = ["--kubeconfig", &kubeconfig];

    let got = run(&node, "get", &[&POD, &flags]);
    let warning = "keyfob: the token was requested as ada@example.com, not as a node; whether node n1 may request tokens for audience \
                   registry.example was not checked: subjectaccessreviews is forbidden: User \"ada\" cannot create it\n";
    assert_eq!((got.code, got.stderr.as_str()), (0, warning));

    let explained = run(&node, "explain", &[&POD, &flags]);
    for line in [
        "\n  acting as    ada@example.com, of developers\n",
        "\n  node         whether node n1 may request tokens for audience registry.example was not checked: ",
    ] {
        assert!(explained.stdout.contains(line), "{line}\n{}", explained.stdout);
    }
}

#[test]
fn a_server_that_does_not_say_who_asks_leaves_the_kubeconfigs_name() {
    let cluster = Cluster::answering(|request| match request.path() {
        WHOAMI => refusal(403, "no"),
        _ => answer(request),
    });
    let node = node();
    let kubeconfig = cluster.kubeconfig(&node);

    let said = run(&node, "get", &[&POD, &["--kubeconfig", &kubeconfig]]);

    let words = "requested as ada (not confirmed by the API server: no), not as a node";
    assert!(said.stderr.contains(words), "{}", said.stderr);
}

#[test]
fn a_token_that_claims_to_be_somebody_is_named_by_its_claim() {
    let cluster = Cluster::answering(|request| match request.path() {
        WHOAMI => refusal(403, "no"),
        _ => answer(request),
    });
    let node = node();
    // A credential is shown to https servers only.
    let server = cluster.url().replace("http:", "https:");
    let mut config: Value = serde_json::from_str(&api_server::kubeconfig(&server)).unwrap();
    config["clusters"][0]["cluster"]["certificate-authority-data"] =
        json!(BASE64_STANDARD.encode(cluster.ca_pem()));
    config["users"][0]["user"]["token"] = json!(pod_token());
    let kubeconfig = node.file("claims.json", &config.to_string());

    let said = run(&node, "get", &[&POD, &["--kubeconfig", &kubeconfig]]);

    let words = "requested as system:serviceaccount:shop:cart (not confirmed by the API server: ";
    assert!(said.stderr.contains(words), "{}", said.stderr);
}
