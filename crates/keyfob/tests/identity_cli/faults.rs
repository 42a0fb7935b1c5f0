//! An API server that fails. Whatever it does, providers that need no identity go on.

use std::net::{SocketAddr, TcpListener};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyfob_testkit::{EchoAt, Internet, LeakCheck, Response};
use serde_json::{Value, json};

use crate::{
    IMAGE, POD,
    api_server::refusal,
    cluster::{self, Cluster, kubeconfig},
    node::{Node, Said, program},
    run, with_tokens,
};

/// A provider that needs no identity, before one that does.
fn node() -> Node {
    with_tokens(
        Node::new().answering("plain", &["r.example"], &[["r.example", "bob", "x-1"]]),
        "tokens",
    )
}

/// What is told of the provider that needs one, and what to do; the other gives its login.
fn told(node: &Node, flags: &[&str]) -> (String, String) {
    let said = run(node, "get", &[&POD, flags]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(
        said.stdout.ends_with("1      plain     r.example  bob       ***\n"),
        "{}",
        said.stdout
    );
    let error = said.stderr.strip_prefix("keyfob: provider tokens failed: ").unwrap().trim_end();
    assert_eq!(error.lines().count(), 1, "{error}");

    let explained = run(node, "explain", &[&POD, flags, &["-o", "json"]]);
    assert_eq!((explained.code, explained.stderr.as_str()), (0, ""));
    let report = explained.json();
    let told = |name: &str| {
        let problem = report.pointer("/providers/1/problems/0").unwrap();
        problem.get(name).and_then(Value::as_str).unwrap().to_owned()
    };
    assert_eq!(told("problem"), error);
    (error.to_owned(), told("do"))
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

const REACHED: &str = "see that the API server runs and can be reached: ";

#[test]
fn one_that_is_down_is_named_and_one_that_comes_back_is_asked() {
    let (node, address) = (node(), free_address());
    let kubeconfig = kubeconfig(&node, &format!("http://{address}"));
    let flags = ["--kubeconfig", &kubeconfig];

    let (error, remedy) = told(&node, &flags);
    let refused = format!("failed to get service account: http://{address}/: Connection refused");
    assert!(error.starts_with(&refused), "{error}");
    assert!(remedy.starts_with(REACHED), "{remedy}");

    let _cluster = Internet::start_at(address, cluster::answer);
    let said = run(&node, "get", &[&POD, &flags]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert!(said.stdout.contains("tokens    r.example  ada"), "{}", said.stdout);
}

#[test]
fn one_that_never_answers_is_not_waited_for() {
    let (node, cluster) = (node(), Cluster::answering(|_| Response::never()));
    let kubeconfig = cluster.kubeconfig(&node);

    let (error, remedy) = told(&node, &["--kubeconfig", &kubeconfig, "--timeout", "500ms"]);

    assert!(error.ends_with("/: it gave no answer within 500ms"), "{error}");
    assert!(remedy.starts_with(REACHED), "{remedy}");
}

#[test]
fn one_that_knows_nobody_says_so() {
    let (node, cluster) = (node(), Cluster::answering(|_| refusal(401, "Unauthorized")));
    let kubeconfig = cluster.kubeconfig(&node);

    let (error, remedy) = told(&node, &["--kubeconfig", &kubeconfig]);

    assert!(error.ends_with("/ does not know who asks: Unauthorized"), "{error}");
    assert!(remedy.starts_with("log in to the cluster anew: "), "{remedy}");
}

#[test]
fn one_that_refuses_everybody_says_so() {
    let (node, cluster) = (node(), Cluster::answering(|_| refusal(403, "no, \u{1b}[31mnever")));
    let kubeconfig = cluster.kubeconfig(&node);

    let error = run(&node, "get", &[&POD, &["--kubeconfig", &kubeconfig]]).stderr;

    assert!(error.ends_with("failed to get service account: no, \\u{1b}[31mnever\n"), "{error}");
}

#[test]
fn garbage_is_not_quoted() {
    let rows = [
        Response::text("hunter2-signature"),
        Response::json(r#"{"metadata":["hunter2-signature"]}"#),
        Response::text("<html>hunter2-signature</html>").with_status(502),
        Response::status(204),
    ];
    for response in rows {
        let (node, cluster) = (node(), Cluster::answering(move |_| response.clone()));
        let kubeconfig = cluster.kubeconfig(&node);
        let (error, remedy) = told(&node, &["--kubeconfig", &kubeconfig]);
        assert!(error.contains(&cluster.url()), "{error}");
        assert!(remedy.starts_with(REACHED), "{remedy}");
        run(&node, "get", &[&POD, &["--kubeconfig", &kubeconfig, "-vvv"]]);
    }
}

#[test]
fn one_that_nobody_vouches_for_is_told_nothing() {
    let (node, cluster) = (node(), Cluster::start());
    let kubeconfig = kubeconfig(&node, &format!("https://localhost:{}", cluster.port()));

    let (error, _) = told(&node, &["--kubeconfig", &kubeconfig]);

    assert!(error.contains("invalid peer certificate"), "{error}");
    assert_eq!(cluster.asked().len(), 0);
}

/// A kubeconfig whose user's plugin is this shell script.
fn with_login(node: &Node, cluster: &Cluster, script: &str) -> String {
    let script = node.file("login.sh", script);
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "args": [script],
        "interactiveMode": "Never",
    });
    let authority = BASE64_STANDARD.encode(cluster.ca_pem());
    let server = cluster.url().replace("http:", "https:");
    let cluster = json!({"server": server, "certificate-authority-data": authority});
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"exec": exec}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    });
    node.file("exec.json", &config.to_string())
}

/// What it prints when it does what it should.
const LOGIN: &str = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"hunter2-signature"}}"#;

#[test]
fn a_kubeconfigs_plugin_logs_us_in() {
    let (node, cluster) = (node(), Cluster::start());
    let kubeconfig = with_login(&node, &cluster, &format!("echo '{LOGIN}'\n"));

    let said = run(&node, "get", &[&POD, &["--kubeconfig", &kubeconfig, "-vvv"]]);

    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(cluster.shown().as_deref(), Some("Bearer hunter2-signature"));
}

#[test]
fn a_kubeconfigs_plugin_that_fails_is_told_and_stands_in_no_other_providers_way() {
    let (node, cluster) = (node(), Cluster::start());
    let script = format!("echo '{LOGIN}'\necho 'log in first' >&2\nexit 1\n");
    let kubeconfig = with_login(&node, &cluster, &script);

    let said = run(&node, "get", &[&POD, &["--kubeconfig", &kubeconfig]]);

    assert_eq!(said.code, 0);
    assert!(said.stdout.contains("plain     r.example  bob"), "{}", said.stdout);
    let told = format!(
        "log in first\nkeyfob: provider tokens failed: failed to get service account: {}/: \
         getting credentials: exec: executable /bin/sh failed with exit code 1\n",
        cluster.url().replace("http:", "https:")
    );
    assert_eq!(said.stderr, told);
    assert_eq!(cluster.asked().len(), 0);
}

#[test]
fn a_kubeconfigs_plugin_that_hangs_is_not_waited_for() {
    let (node, cluster) = (node(), Cluster::start());
    let kubeconfig = with_login(&node, &cluster, "while :; do sleep 600; done\n");

    let (error, _) = told(&node, &["--kubeconfig", &kubeconfig, "--timeout", "500ms"]);

    assert!(error.ends_with("/: it gave no answer within 500ms"), "{error}");
}

#[test]
fn what_a_kubeconfigs_plugin_prints_is_not_told_when_it_fails_later() {
    let (node, cluster) = (node(), Cluster::answering(|_| refusal(401, "Unauthorized")));
    let ran = node.path("ran");
    let script = format!(
        "echo '{LOGIN}'\nif [ -e '{ran}' ]; then echo 'log in again' >&2; exit 1; fi\ntouch '{ran}'\n",
        ran = ran.display()
    );
    let kubeconfig = with_login(&node, &cluster, &script);

    let said = run(&node, "get", &[&POD, &["--kubeconfig", &kubeconfig, "-vvv"]]);

    assert_eq!(said.code, 0);
    for told in [
        "log in again\n",
        "refreshing credentials after a 401 failed",
        "/ does not know who asks: Unauthorized",
    ] {
        assert!(said.stderr.contains(told), "{told}\n{}", said.stderr);
    }
}

#[test]
fn whoever_logs_in_with_an_address_is_told_to_nobody() {
    let (node, cluster) = (node(), Cluster::answering(|_| refusal(500, "no")));
    let server = cluster.url().replace("http://", "http://me:hunter2-kubeconfig@");
    let kubeconfig = kubeconfig(&node, &server);

    let (error, _) = told(&node, &["--kubeconfig", &kubeconfig]);

    assert!(error.contains(&cluster.url()), "{error}");
    run(&node, "get", &[&POD, &["--kubeconfig", &kubeconfig, "-vvv"]]);
}

#[test]
fn without_any_cluster_the_way_to_one_is_told_once() {
    let node = node();
    let (config, plugins) = (node.config(), node.path("plugins"));
    let mut get = program();
    get.args(["get", IMAGE, "--config", &config, "--bin-dir"]).arg(plugins).args(POD);
    get.env("KUBECONFIG", "/no/such").env("HOME", "/no/such").env_remove("KUBERNETES_SERVICE_HOST");

    let said: Said = get.output().unwrap().into();

    assert_eq!(said.code, 2);
    let why = said.stderr.matches("environment variable not found").count();
    assert_eq!(why, 1, "{}", said.stderr);
    assert!(said.stderr.ends_with("name a kubeconfig with --kubeconfig\n"), "{}", said.stderr);
}

#[test]
fn a_file_that_is_no_kubeconfig_is_said_to_be_none() {
    let node = node();
    let empty = node.file("empty.yaml", "kind: Pod\n");

    let said = run(&node, "get", &[&POD, &["--kubeconfig", &empty]]);

    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("no kind \"Pod\" is registered"), "{}", said.stderr);
}

#[test]
fn a_token_that_the_server_echoes_is_not_printed() {
    const TOKEN: &str = "Bearer-Of/The+Node-7";
    for place in EchoAt::ALL {
        let (node, server) = (node(), place.server(&[TOKEN]));
        let kubeconfig = with_token(&node, &server, TOKEN);
        for (command, verbosity) in [("get", "-v"), ("explain", "-vvv")] {
            let said = run(&node, command, &[&POD, &["--kubeconfig", &kubeconfig, verbosity]]);
            LeakCheck::new([TOKEN]).text("stdout", &said.stdout).text("stderr", &said.stderr);
            if place == EchoAt::StatusMessage {
                let all = said.stdout + &said.stderr;
                assert!(all.contains("you sent [redacted]"), "{all}");
            }
        }
    }
}

/// A kubeconfig whose user shows this token, to a server with TLS.
fn with_token(node: &Node, server: &Internet, token: &str) -> String {
    let authority = server.ca_file(&node.path(""));
    let url = server.url().replace("http:", "https:");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "here", "user": "node"}}],
        "clusters": [{"name": "here", "cluster": {"server": url, "certificate-authority": authority}}],
        "users": [{"name": "node", "user": {"token": token}}],
    });
    let path = node.path("with-token.json");
    std::fs::write(&path, config.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}
