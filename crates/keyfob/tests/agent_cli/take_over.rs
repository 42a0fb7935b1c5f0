//! An agent in a pod: it takes over from another one, and answers probes.

use std::fs;

use serde_json::json;

use crate::{
    node::keyfob,
    running_agent::{IMAGE, RunningAgent, agent_file_with, node, own_rule},
};

#[test]
fn an_agent_that_takes_over_has_the_sockets_until_it_is_replaced_itself() {
    let mut agent = RunningAgent::start();
    for _ in 0..2 {
        assert_eq!(agent.ask("get", &[IMAGE]).code, 0);
        let replaced = agent.replace();
        assert_eq!(replaced.code, 0, "{}", replaced.stderr);
        assert!(replaced.stderr.contains("the agent has stopped"), "{}", replaced.stderr);
    }
    assert_eq!(agent.ask("get", &[IMAGE]).code, 0);
    let (node, said) = agent.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(!node.path("agent.sock").exists() && !node.path("admin.sock").exists());
}

#[test]
fn an_agent_that_cannot_start_takes_nothing_over() {
    let agent = RunningAgent::start();
    fs::write(agent.node.config(), "nonsense").unwrap();
    let file = agent.node.path("agent.yaml");
    let said = keyfob(&["serve", "--take-over", "--config", file.to_str().unwrap()]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert_eq!(agent.ask("get", &[IMAGE]).code, 0);
}

#[test]
fn probes_tell_whether_this_agent_is_ready_and_somebody_listens() {
    let node = node();
    let http = node.path("http.sock");
    let listeners = json!({
        "agent": {"path": node.path("agent.sock")},
        "http": {"path": http},
    });
    let agent = RunningAgent::with(node, &own_rule("r.example"), &json!({"listeners": listeners}));
    let (http, socket) = (http.to_str().unwrap().to_owned(), agent.socket());
    let probe = |state| keyfob(&["agent", "probe", state, "--http", &http, "--socket", &socket]);
    for state in ["ready", "alive"] {
        let said = probe(state);
        assert_eq!((said.code, said.stdout + &said.stderr), (0, String::new()), "{state}");
    }

    fs::remove_file(&socket).unwrap();
    assert_eq!([probe("ready").code, probe("alive").code], [0, 2], "nobody can connect any more");
    drop(agent);
    assert_eq!([probe("ready").code, probe("alive").code], [2, 2]);
}

#[test]
fn an_agent_of_a_cluster_must_know_the_name_of_its_node() {
    let node = node();
    let kubeconfig = json!({"nodeKubeconfig": node.path("missing.conf")});
    let file = agent_file_with(&node, &own_rule("r.example"), &kubeconfig);
    let said = keyfob(&["serve", "--config", &file]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("write nodeName beside nodeKubeconfig"), "{}", said.stderr);
    let said = keyfob(&["serve", "--config", &file, "--node-name", "node-1"]);
    assert!(said.stderr.contains("the node's kubeconfig cannot be used"), "{}", said.stderr);
}
