//! kubectl and Keyfob's client against a real API server, with users of a kubeconfig that are plugins.

mod exec_user;
mod following;
mod streams;

use std::{fs, process::Command, thread, time::Duration};

use exec_user::{ExecUser, Proxy};
use serde_json::{Value, json};
pub(crate) use streams::exec_logs_port_forward_and_watches_go_through_the_proxy;

use crate::{
    cluster::URL,
    shell::{output, stdout},
    wait::wait_for,
    world::World,
};

/// A service account that may use the pods of the scenario's namespace.
const ACCOUNT: &str = "deployer";
const PERMISSIONS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: use-pods
rules:
- apiGroups: ['']
  resources: [pods, pods/attach, pods/exec, pods/log, pods/portforward]
  verbs: [create, get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: use-pods
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: use-pods
subjects:
- kind: ServiceAccount
  name: deployer
- apiGroup: rbac.authorization.k8s.io
  kind: User
  name: ada
";

pub(crate) fn exec_users_are_known_by_their_tokens_and_certificates(world: &mut World) {
    create_account(world);
    let account = format!("system:serviceaccount:{}:{ACCOUNT}", world.namespace);
    let token = ExecUser::of_account(world, "token", ACCOUNT);
    let certificate = ExecUser::with_certificate(world, "certificate");
    certificate.answer_with_certificate(world, "ada", None);
    for (user, name) in [(&token, account.as_str()), (&certificate, "ada")] {
        let whoami = ["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"];
        assert_eq!(stdout(&mut user.kubectl(world, &whoami)), name, "kubectl");
        let asked = stdout(&mut user.keyfob(world, &["kube", "whoami", "--ask", "-o", "json"]));
        assert!(asked.contains(&format!("\"{name}\"")), "{asked}");
        let before = user.runs();
        let pods = stdout(&mut user.keyfob(world, &["kube", "get", "--raw", &pods(world)]));
        assert_eq!(serde_json::from_str::<Value>(&pods).unwrap()["kind"], "PodList");
        assert_eq!(user.runs(), before + 1, "one run for a command");
        let secrets = format!("/api/v1/namespaces/{}/secrets", world.namespace);
        let refused = output(&mut user.keyfob(world, &["kube", "get", "--raw", &secrets]));
        let words = String::from_utf8(refused.stderr).unwrap();
        let server = format!("User \"{name}\" cannot list resource \"secrets\"");
        assert_eq!(refused.status.code(), Some(1));
        assert!(words.contains(&server), "in the words of the server: {words}");
    }
}

pub(crate) fn many_kubectls_at_once_log_in_once(world: &mut World) {
    create_account(world);
    let plain = ExecUser::of_account(world, "plain", ACCOUNT);
    let cached = ExecUser::of_account(world, "cached", ACCOUNT).behind_cache(world);
    let get = ["get", "pods"];
    for (user, runs) in [(&plain, 20), (&cached, 1)] {
        in_parallel(20, || stdout(&mut user.kubectl(world, &get)));
        assert_eq!(user.runs(), runs);
    }
    stdout(&mut cached.kubectl(world, &get));
    assert_eq!(cached.runs(), 1, "one more kubectl");
}

pub(crate) fn a_revoked_token_is_replaced(world: &mut World) {
    create_account(world);
    let [proxied, kubectl, keyfob] =
        ["proxied", "kubectl", "keyfob"].map(|name| ExecUser::of_account(world, name, ACCOUNT));
    let proxy = Proxy::start(world, &proxied);
    let [kubectl, keyfob] = [kubectl, keyfob].map(|user| user.behind_cache(world));
    let raw = ["get", "--raw", &pods(world)];
    let through_proxy = || output(&mut proxy.kubectl(world, &raw));
    let with_kubectl = || output(&mut kubectl.kubectl(world, &raw));
    let with_keyfob = || output(&mut keyfob.keyfob(world, &[&["kube"], &raw[..]].concat()));
    let runs = || [&proxied, &kubectl, &keyfob].map(ExecUser::runs);
    for output in [through_proxy(), with_kubectl(), with_keyfob()] {
        assert!(output.status.success(), "{output:?}");
    }
    assert_eq!(runs(), [1, 1, 1]);

    revoke_tokens(world, &[&proxied, &kubectl, &keyfob]);

    in_parallel(10, || {
        let output = through_proxy();
        assert!(output.status.success(), "the proxy repeats what was refused: {output:?}");
    });
    let output = with_keyfob();
    assert!(output.status.success(), "keyfob repeats what was refused: {output:?}");
    let output = with_kubectl();
    assert!(!output.status.success(), "kubectl does not: {output:?}");
    let output = with_kubectl();
    assert!(output.status.success(), "but the next has a new token: {output:?}");
    assert_eq!(runs(), [2, 2, 2], "each of them logged in once more");
}

pub(crate) fn a_new_certificate_is_presented_before_the_old_one_ends(world: &mut World) {
    create_account(world);
    let user = ExecUser::with_certificate(world, "certificate");
    user.answer_with_certificate(world, "ada", Some(4));
    let proxy = Proxy::start(world, &user);
    let whoami = ["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"];
    assert_eq!(stdout(&mut proxy.kubectl(world, &whoami)), "ada");
    user.answer_with_certificate(world, "grace", None);
    wait_for("another certificate", Duration::from_secs(10), || {
        // Connections of the old certificate are closed when it is replaced, as by client-go, and one of these requests may be
        // under way on them.
        let output = output(&mut proxy.kubectl(world, &whoami));
        let name = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && name == "grace" { Ok(()) } else { Err(format!("{output:?}")) }
    });
    assert_eq!(user.runs(), 2);
}

fn create_account(world: &World) {
    world.cluster.create_service_account(&world.namespace, ACCOUNT, &[]);
    world.apply_in_namespace(PERMISSIONS);
}

fn pods(world: &World) -> String {
    format!("/api/v1/namespaces/{}/pods", world.namespace)
}

/// Replaces the service account by another of the same name, and waits until its tokens are refused. The API server remembers for
/// ten seconds that a token was good.
fn revoke_tokens(world: &World, users: &[&ExecUser]) {
    let path = format!("/api/v1/namespaces/{}/serviceaccounts/{ACCOUNT}", world.namespace);
    world.cluster.api.delete(&path, 0).unwrap();
    world.cluster.create_service_account(&world.namespace, ACCOUNT, &[]);
    for user in users {
        let token = user.last_token();
        wait_for("the token to be refused", Duration::from_secs(30), || {
            let output = output(&mut with_token(world, &token));
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            if words.contains("You must be logged in") { Ok(()) } else { Err(words) }
        });
    }
}

/// A kubectl that has nothing but a token.
fn with_token(world: &World, token: &str) -> Command {
    let authority = world.cluster.file("ca.pem").display().to_string();
    let mut kubectl = world.cluster.kubectl(&["get", "--raw", "/version", "--token", token]);
    kubectl.args(["--server", URL, "--certificate-authority", &authority]);
    kubectl.env("KUBECONFIG", "/dev/null");
    kubectl
}

/// Does something in so many threads.
fn in_parallel<T: Send>(times: usize, work: impl Fn() -> T + Sync) {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..times).map(|_| scope.spawn(&work)).collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// An `ExecCredential` with this status.
fn credential(status: &Value) -> Value {
    let version = "client.authentication.k8s.io/v1";
    json!({"apiVersion": version, "kind": "ExecCredential", "status": status})
}

/// How many lines a file has, which need not be there.
fn lines(path: &std::path::Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}
