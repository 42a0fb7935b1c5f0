//! `keyfob pull` with the credentials of an agent.

use keyfob_testkit::LeakCheck;
use serde_json::{Value, json};

use crate::{
    node::{Said, program},
    registry::{PASSWORD, Served, layer},
    running_agent::{RunningAgent, node_answering, own_rule},
};

/// A private registry with an image, and an agent whose plugin has the login for it.
fn scene(rules: impl Fn(&str) -> Value) -> (RunningAgent, Served, String) {
    let served = Served::private();
    served.push("team/app", "v1", &[layer(1, 1000)]);
    let (host, image) = (served.registry.address().to_string(), served.image("team/app:v1"));
    let node = node_answering(&[&host], &[[&host, "ada", PASSWORD]]);
    (RunningAgent::of(node, &rules(&host)), served, image)
}

fn pull(agent: &RunningAgent, image: &str, args: &[&str]) -> Said {
    let mut command = program();
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command.args(["pull", image]).arg(agent.node.path("images")).args(args);
    command.env("KEYFOB_AGENT_SOCKET", agent.socket());
    let said: Said = command.output().unwrap().into();
    LeakCheck::new([PASSWORD]).text("stdout", &said.stdout).text("stderr", &said.stderr);
    said
}

#[test]
fn a_private_image_is_pulled_with_the_agents_credentials() {
    let (agent, _served, image) = scene(own_rule);
    let socket = agent.socket();

    let said = pull(&agent, &image, &["-o", "json", "--pull-policy", "Always"]);

    assert_eq!(said.code, 0, "{}", said.stderr);
    let json = said.json();
    assert_eq!(json["agent"], json!({"socket": socket, "rule": "own"}));
    assert_eq!((&json["source"], &json["username"]), (&json!("plugin"), &json!("ada")));
    let note = format!("credentials from the agent at {socket}, rule own\n");
    assert!(said.stderr.starts_with(&note), "{}", said.stderr);

    let again = pull(&agent, &image, &["--agent", &socket, "--quiet", "--pull-policy", "Always"]);
    assert_eq!((again.code, again.stderr.as_str(), agent.runs()), (0, "", 1));
}

#[test]
fn a_pull_goes_on_without_an_agent_that_was_not_named_and_says_so() {
    let (agent, served, image) = scene(|_| own_rule("elsewhere.example"));

    let said = pull(&agent, &image, &["--quiet"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains("\n  no rule allows "), "{}", said.stderr);
    assert!(!served.registry.requests().is_empty(), "it was tried without credentials");

    served.registry.forget_requests();
    let said = pull(&agent, &image, &["--agent", &agent.socket()]);
    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    let mut lines = said.stderr.lines();
    assert!(lines.next().unwrap().starts_with("keyfob: no rule allows "), "{}", said.stderr);
    assert!(lines.next().unwrap().starts_with("help: add a rule "), "{}", said.stderr);
    assert!(served.registry.requests().is_empty());
}
