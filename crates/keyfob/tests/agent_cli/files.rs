//! The agent's file: `keyfob validate` and the schema for editors.

use serde_json::{Value, json};

use crate::{
    node::keyfob,
    running_agent::{agent_file, node, own_rule},
};

#[test]
fn a_valid_file_is_recognised() {
    let node = node();
    let file = agent_file(&node, &own_rule("r.example"));

    let said = keyfob(&["validate", &file]);

    let want = format!(
        "{file}: valid\n  the agent would serve on {} with 1 rule\n  \
         check its providers with: keyfob validate --bin-dir {} {}\n",
        node.path("agent.sock").display(),
        node.path("plugins").display(),
        node.path("config.json").display()
    );
    assert_eq!((said.code, said.stdout), (0, want));
    let text = std::fs::read_to_string(&file).unwrap();
    let with_http =
        text.replace(r#""listeners":{"#, r#""listeners":{"http":{"address":"127.0.0.1:9977"},"#);
    let said = keyfob(&["validate", &node.file("with-http.yaml", &with_http)]);
    assert!(said.stdout.contains("\n  and metrics on http://127.0.0.1:9977\n"), "{}", said.stdout);
    let json = keyfob(&["validate", &file, "-o", "json"]).json();
    assert_eq!(json, json!({"valid": true, "errors": [], "warnings": []}));
}

#[test]
fn problems_of_a_file_have_places_and_advice() {
    let node = node();
    let file = agent_file(&node, &json!([{"name": "own", "action": "Perhaps"}]));

    let said = keyfob(&["validate", &file]);
    assert_eq!((said.code, said.stderr.as_str()), (1, ""));
    assert!(said.stdout.starts_with(&format!("keyfob: {file}:1:")), "{}", said.stdout);
    assert!(said.stdout.ends_with("keyfob: the agent would not start with this file\n"));

    let said = keyfob(&["validate", &file, "-o", "json"]);
    let json = said.json();
    assert_eq!((said.code, &json["valid"]), (1, &json!(false)));
    let errors = json["errors"].as_array().unwrap();
    let action = errors.iter().find(|error| error["path"] == "rules[0].action").unwrap();
    assert_eq!((&action["file"], &action["line"]), (&json!(file), &json!(1)), "{action}");
    assert!(action["column"].is_u64() && action["message"].is_string(), "{action}");
}

#[test]
fn a_rule_for_a_provider_that_does_not_exist_is_a_warning() {
    let node = node();
    let rules = json!([
        {"name": "all", "callers": {"uids": [0]}, "providers": ["plugin"], "action": "Allow"},
        {"name": "not", "callers": {"anyone": true}, "providers": ["pulgin"], "action": "Deny"},
    ]);
    let file = agent_file(&node, &rules);
    let text = std::fs::read_to_string(&file).unwrap();
    let column = text.find(r#""pulgin""#).unwrap() + 1;

    let said = keyfob(&["validate", &file]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let want = format!(
        "keyfob: warning: {file}:1:{column}: rules[1].providers[0]: there is no provider \"pulgin\"\n\
         help: did you mean \"plugin\"?\n{file}: valid\n"
    );
    assert!(said.stdout.starts_with(&want), "{}", said.stdout);

    let json = keyfob(&["validate", &file, "-o", "json"]).json();
    let warning = json!({
        "path": "rules[1].providers[0]",
        "message": "there is no provider \"pulgin\"",
        "help": "did you mean \"plugin\"?",
        "file": file, "line": 1, "column": column,
    });
    assert_eq!(json, json!({"valid": true, "errors": [], "warnings": [warning]}));
}

#[test]
fn the_providers_that_a_file_names_are_checked_too() {
    let node = node();
    let file = agent_file(&node, &own_rule("r.example"));
    let providers = node.path("config.json");
    let text = std::fs::read_to_string(&providers).unwrap();

    std::fs::write(&providers, text.replace("matchImages", "matchImage")).unwrap();
    let said = keyfob(&["validate", &file]);
    assert_eq!(said.code, 1, "{}", said.stdout);
    assert!(said.stdout.contains("did you mean `matchImages`?"), "{}", said.stdout);
    assert!(said.stdout.ends_with("keyfob: the agent would not start with these providers\n"));
    let json = keyfob(&["validate", &file, "-o", "json"]);
    assert_eq!((json.code, &json.json()["valid"]), (1, &json!(false)));

    // The file may be checked on another machine.
    std::fs::remove_file(&providers).unwrap();
    let said = keyfob(&["validate", &file]);
    let want = format!(
        "keyfob: warning: {file}: providerConfig: {} does not exist; the agent needs it to start\nhelp: ",
        providers.display()
    );
    assert_eq!(said.code, 0);
    assert!(said.stdout.starts_with(&want), "{}", said.stdout);
}

#[test]
fn a_file_with_another_kind_or_broken_yaml_is_still_that_of_an_agent() {
    let node = node();
    for text in [
        "apiVersion: keyfob.dev/v1alpha1\nkind: AgentConfig\n",
        "apiVersion: keyfob.dev/v1alpha1\nkind: AgentConfiguration\n\taudit: {to: none}\n",
    ] {
        let said = keyfob(&["validate", &node.file("agent.yaml", text)]);
        assert_eq!(said.code, 1);
        let verdict = "keyfob: the agent would not start with this file\n";
        assert!(
            said.stdout.ends_with(verdict) && !said.stdout.contains("kubelet"),
            "{}",
            said.stdout
        );
    }
}

#[test]
fn the_schema_for_editors_is_the_one_in_the_documentation() {
    let printed = keyfob(&["agent", "schema"]);
    assert_eq!((printed.code, printed.stderr.as_str()), (0, ""));
    let schema: Value = printed.json();
    assert_eq!(schema["type"], "object");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agent.schema.json");
    let documented = std::fs::read_to_string(path).unwrap();
    assert_eq!(printed.stdout, documented, "keyfob agent schema > docs/agent.schema.json");
}

#[test]
fn the_unit_gives_requests_time_to_finish_and_bounds_the_memory() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/systemd/keyfob-agent.service");
    let unit = std::fs::read_to_string(path).unwrap();
    let setting = |name: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("{name} is not set")).to_owned()
    };
    let stop: u64 = setting("TimeoutStopSec").parse().unwrap();
    let requests = keyfob_agent_config::AgentLimits::default().request_timeout;
    assert!(stop >= requests.as_secs() + 10, "systemd would kill it while requests finish");
    assert_eq!((&*setting("MemoryMax"), &*setting("OOMPolicy")), ("1G", "continue"));
}
