//! Callers that no rule allows.

use std::process::{Command, Output, Stdio};

use serde_json::json;

use crate::{
    agent::RunningAgent, clients::skopeo_inspect, docker_registry::is_wanted, rotated::Rotation,
};

/// The user `nobody` of Debian.
const NOBODY: &str = "65534";

/// The same command, as another user without groups.
fn as_nobody(command: &Command) -> Command {
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    setpriv.arg(command.get_program()).args(command.get_args());
    setpriv.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    // A place that everybody may look into.
    setpriv.env("HOME", "/").env_remove("XDG_RUNTIME_DIR").stdin(Stdio::null());
    setpriv
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What the helper answers to `nobody`.
fn helper(agent: &RunningAgent, registry: &str) -> Output {
    let get = format!("printf %s {registry} | docker-credential-keyfob get");
    let mut shell = agent.client("sh", registry);
    shell.args(["-c", &get]);
    as_nobody(&shell).output().unwrap()
}

#[test]
fn another_user_gets_nothing_until_a_rule_allows_it() {
    if !is_wanted() {
        return;
    }
    let rotation = Rotation::start();
    let mut agent = RunningAgent::start(&[rotation.provider("1h")], &json!({}));
    let registry = rotation.registry.address.clone();
    let inspect = |agent: &RunningAgent| {
        as_nobody(&skopeo_inspect(agent, rotation.image())).output().unwrap()
    };

    let denied = helper(&agent, &registry);
    assert_eq!(denied.status.code(), Some(1));
    assert_eq!(text(&denied.stdout), "credentials not found in native keychain\n");
    let reason = format!("keyfob-relay: no rule allows {registry}/ to user id {NOBODY}\n");
    assert!(text(&denied.stderr).starts_with(&reason), "{}", text(&denied.stderr));
    let event = agent.wait_for_event(&[("/outcome", "denied")]);
    assert_eq!(event["caller"]["uid"], 65534, "{event}");

    let refused = inspect(&agent);
    let stderr = text(&refused.stderr);
    assert!(!refused.status.success() && stderr.contains("unauthorized"), "{stderr}");

    let nobody = json!([{"name": "nobody", "callers": {"uids": [65534]}, "action": "Allow"}]);
    agent.change("rules", nobody);
    let allowed = inspect(&agent);
    assert!(allowed.status.success(), "{}", text(&allowed.stderr));
    agent.wait_for_event(&[("/outcome", "allowed"), ("/rule", "nobody")]);
    let root = skopeo_inspect(&agent, rotation.image()).output().unwrap();
    assert!(!root.status.success(), "the file names nobody alone now");
}
