//! The real `kubectl` with kubeconfigs whose user is a plugin, or `keyfob kube exec-cache -- …`; and `keyfob kube` beside it.
//!
//! It needs `kubectl` (Debian's `kubernetes-client`): `.ci/run e2e` installs it and sets `KEYFOB_E2E`, without which nothing
//! is run.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and these are the real programs"
)]

#[path = "support/exec_kubectl.rs"]
mod exec_kubectl;
#[path = "support/keyfob_apiserver.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod keyfob_apiserver;

use std::{
    fs,
    process::{Command, Output, Stdio},
};

use exec_kubectl::{Kubectl, exec_user};
use keyfob_apiserver::is_on;
use keyfob_testkit::LeakCheck;
use serde_json::json;

/// What one kubectl prints, if it succeeds.
fn nodes(kubectl: &Kubectl, kubeconfig: &str) -> Result<String, String> {
    said(kubectl, kubectl.command(kubeconfig).output().unwrap())
}

/// Asks for the same with `keyfob kube`.
fn keyfob(kubectl: &Kubectl, kubeconfig: &str) -> Result<String, String> {
    let mut keyfob = Command::new(env!("CARGO_BIN_EXE_keyfob"));
    keyfob.env("HOME", kubectl.path("")).args(["kube", "get", "--raw", "/api/v1/nodes"]);
    said(kubectl, keyfob.args(["--kubeconfig", kubeconfig]).output().unwrap())
}

fn said(kubectl: &Kubectl, output: Output) -> Result<String, String> {
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    LeakCheck::new([&kubectl.token]).text("stdout", &stdout).text("stderr", &stderr);
    if output.status.success() { Ok(stdout) } else { Err(stderr) }
}

#[test]
fn fifty_kubectls_at_once_run_the_plugin_once() {
    if !is_on() {
        return;
    }
    let kubectl = Kubectl::start();
    for version in kubectl.versions() {
        let plugin = kubectl.plugin(version, "sleep 1");
        let user = exec_user(version, &kubectl.cached(&plugin));
        let kubeconfig = kubectl.kubeconfig("cached.kubeconfig", &user);

        let spawn = |_| {
            let mut command = kubectl.command(&kubeconfig);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let children: Vec<_> = (0..50).map(spawn).collect();
        for child in children {
            let nodes = said(&kubectl, child.wait_with_output().unwrap()).unwrap();
            assert!(nodes.contains("\"name\":\"n1\""), "{nodes}");
        }
        assert_eq!(kubectl.runs(), 1, "{version}");

        nodes(&kubectl, &kubeconfig).unwrap();
        assert_eq!(kubectl.runs(), 1, "a warm one");

        for entry in fs::read_dir(kubectl.path("cache")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|kind| kind == "json") {
                let text = fs::read_to_string(&path).unwrap();
                fs::write(&path, text.replace("2040-01-01", "2020-01-01")).unwrap();
            }
        }
        nodes(&kubectl, &kubeconfig).unwrap();
        nodes(&kubectl, &kubeconfig).unwrap();
        assert_eq!(kubectl.runs(), 2, "one more when it has expired");
    }
}

#[test]
fn a_token_that_the_server_refuses_is_not_given_to_the_next() {
    if !is_on() {
        return;
    }
    let kubectl = Kubectl::start();
    for version in kubectl.versions() {
        let plugin = kubectl.plugin(version, "");
        let user = exec_user(version, &kubectl.cached(&plugin));
        let kubeconfig = kubectl.kubeconfig("cached.kubeconfig", &user);
        fs::write(kubectl.path("token"), "revoked").unwrap();
        let refused = nodes(&kubectl, &kubeconfig).unwrap_err();
        assert!(refused.contains("Unauthorized") || refused.contains("logged in"), "{refused}");
        let runs = kubectl.runs();
        assert!(runs >= 2, "asked again when it was refused");

        // The next finds what was refused last, is refused, and brings another.
        fs::write(kubectl.path("token"), &kubectl.token).unwrap();
        nodes(&kubectl, &kubeconfig).unwrap_err();
        nodes(&kubectl, &kubeconfig).unwrap();
        nodes(&kubectl, &kubeconfig).unwrap();
        assert_eq!(kubectl.runs(), runs + 1);
    }
}

#[test]
fn a_server_that_refuses_everything_does_not_make_keyfob_run_a_plugin_more_often_than_kubectl() {
    if !is_on() {
        return;
    }
    let kubectl = Kubectl::start();
    for version in kubectl.versions() {
        let plugin = kubectl.plugin(version, "");
        let kubeconfig = kubectl.kubeconfig("refused.kubeconfig", &exec_user(version, &plugin));
        fs::write(kubectl.path("token"), "revoked").unwrap();

        nodes(&kubectl, &kubeconfig).unwrap_err();
        let of_kubectl = kubectl.runs();
        let refused = keyfob(&kubectl, &kubeconfig).unwrap_err();
        let of_keyfob = kubectl.runs() - of_kubectl;

        println!("{version}: kubectl ran its plugin {of_kubectl} times, keyfob {of_keyfob} times");
        assert!(refused.contains("401 Unauthorized"), "{refused}");
        // Some builds of kubectl make a request of their own first, for the server's version.
        assert!(of_keyfob == 2 && of_kubectl >= 2, "{of_keyfob} {of_kubectl}");
    }
}

#[test]
fn what_the_kubeconfig_sets_for_the_plugin_keeps_accounts_apart() {
    if !is_on() {
        return;
    }
    let kubectl = Kubectl::start();
    let Some(version) = kubectl.versions().first().copied() else { return };
    let plugin = kubectl.plugin(version, "printf \"$WHO \" >>\"$HOME/who\"");
    let command = kubectl.cached(&plugin);
    let ask = |who: &str| {
        let mut user = exec_user(version, &command);
        user["exec"]["env"] = json!([{"name": "WHO", "value": who}]);
        nodes(&kubectl, &kubectl.kubeconfig(&format!("{who}.kubeconfig"), &user)).unwrap()
    };
    for who in ["ada", "bob", "ada", "bob"] {
        ask(who);
    }
    assert_eq!(fs::read_to_string(kubectl.path("who")).unwrap(), "ada bob ");
}
