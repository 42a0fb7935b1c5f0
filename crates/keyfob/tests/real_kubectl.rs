//! The real `kubectl` against `keyfob apiserver`, and `PyJWT` against its keys.
//!
//! It needs `kubectl` (Debian's `kubernetes-client`) and a `python3` with `PyJWT[crypto]`, named by `KEYFOB_PYTHON`:
//! `.ci/run e2e` installs them and sets `KEYFOB_E2E`, without which nothing is run.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and these are the real programs"
)]

#[path = "support/keyfob_apiserver.rs"]
mod keyfob_apiserver;

use keyfob_apiserver::{Server, grant, is_on};
use serde_json::{Value, json};

const UID: &str = "4f2f3f2e-0000-4000-8000-000000000001";

const OBJECTS: &str = "
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: puller, namespace: team}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: team, uid: 4f2f3f2e-0000-4000-8000-000000000001}
spec: {nodeName: n1, serviceAccountName: puller, containers: [{name: web, image: web}]}
";

fn server() -> Server {
    Server::start(&format!("{OBJECTS}---\n{}", grant("registry.example")))
}

/// A token that the node asks for, bound to its pod.
fn token_for(server: &Server, audience: &str) -> Result<String, String> {
    if server.kubectl("admin", "create token --help").is_ok() {
        let bound =
            format!("--bound-object-kind Pod --bound-object-name web --bound-object-uid {UID}");
        let create = format!("-n team create token puller {bound} --audience {audience}");
        return server.kubectl("n1", &create);
    }
    // Before 1.24 it has no words for it.
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": UID});
    let spec = json!({"audiences": [audience], "boundObjectRef": pod});
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let file = server.file("request.json", request.to_string().as_bytes());
    let path = "/api/v1/namespaces/team/serviceaccounts/puller/token";
    let answer = server.kubectl("n1", &format!("create --raw {path} -f {file}"))?;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    Ok(answer.pointer("/status/token").unwrap().as_str().unwrap().to_owned())
}

#[test]
fn kubectl_reads_and_changes_objects() {
    if !is_on() {
        return;
    }
    let server = server();
    let read = server.admin("get pods,sa -A -o name");
    for name in ["pod/web", "serviceaccount/puller", "serviceaccount/default"] {
        assert!(read.lines().any(|line| line == name), "{read}");
    }
    assert!(server.admin("get nodes").contains("n1"));
    server.admin("-n team annotate sa puller registry.example/role=reader");
    let path = r"{.metadata.annotations.registry\.example/role}";
    let read = server.admin(&format!("-n team get sa puller -o jsonpath={path}"));
    assert_eq!(read, "reader");
    server.admin("-n team label pod web tier=front");
    assert_eq!(server.admin("-n team get pods -l tier=front -o name"), "pod/web");
    server.admin("create namespace new");
    server.admin("-n new create sa builder");
    assert_eq!(server.admin("-n new get sa builder -o name"), "serviceaccount/builder");
    server.admin("-n team delete pod web");
    let gone = server.kubectl("admin", "-n team get pod web").unwrap_err();
    assert_eq!(gone, "Error from server (NotFound): pods \"web\" not found");
}

#[test]
fn kubectl_applies_a_manifest() {
    if !is_on() {
        return;
    }
    let server = server();
    for role in ["first", "second"] {
        let account = format!(
            "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: applied\n  namespace: team\n  annotations: {{role: {role}}}\n"
        );
        let file = server.file("account.yaml", account.as_bytes());
        server.admin(&format!("apply --validate=false -f {file}"));
        let role_now =
            server.admin("-n team get sa applied -o jsonpath={.metadata.annotations.role}");
        assert_eq!(role_now, role);
    }
}

#[test]
fn kubectl_asks_who_it_is_and_what_it_may() {
    if !is_on() {
        return;
    }
    let server = server();
    assert_eq!(server.admin("auth can-i create pods"), "yes");
    let node = |args| server.kubectl("n1", args);
    assert_eq!(node("auth can-i get csidrivers.storage.k8s.io"), Ok("yes".to_owned()));
    assert!(node("auth can-i create pods").is_err());
    // Older ones cannot ask.
    if server.admin("version --client -o json").contains("v1.2") {
        return;
    }
    let who = node("auth whoami -o jsonpath={.status.userInfo.username}");
    assert_eq!(who, Ok("system:node:n1".to_owned()));
    let other = "auth whoami --as system:serviceaccount:team:puller -o jsonpath={.status.userInfo.username}";
    assert_eq!(server.admin(other), "system:serviceaccount:team:puller");
}

#[test]
fn kubectl_gets_a_token_that_pyjwt_verifies_and_is_refused_another_audience() {
    if !is_on() {
        return;
    }
    let server = server();
    let token = token_for(&server, "registry.example").unwrap();
    let verified = server.verify(&token, "registry.example");
    assert_eq!(verified.as_deref(), Ok("system:serviceaccount:team:puller web"));
    let other = server.verify(&token, "other.example").unwrap_err();
    assert!(other.contains("InvalidAudienceError"), "{other}");
    let refused = token_for(&server, "other.example").unwrap_err();
    let words = "serviceaccounts \"puller\" is forbidden: system:node:n1 is not authorized to request tokens \
                 for audience \"other.example\"";
    assert!(refused.contains(words), "{refused}");
    for shown in [&refused, &other] {
        assert!(!shown.contains(&token));
    }
}
