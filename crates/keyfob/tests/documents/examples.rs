//! Parts of configurations that pages show are valid.

use std::fs;

use keyfob_agent_config::AgentConfig;
use keyfob_api::FeatureGates;
use keyfob_config::Config;

use crate::{page, read};

/// The first YAML block of a page that begins with this text.
fn yaml(name: &str, start: &str) -> String {
    let page = read(name);
    let blocks = page::blocks(&page);
    let is_it =
        |block: &&page::Block<'_>| block.language == "yaml" && block.lines[0].starts_with(start);
    let block = blocks.iter().find(is_it).unwrap();
    block.lines.join("\n") + "\n"
}

#[test]
fn a_kubelet_takes_the_providers_in_the_readme_of_the_relay() {
    let head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n";
    let file = head.to_owned() + &yaml("crates/keyfob-relay/README.md", "");
    let config = Config::from_files([("README.md", file)]).unwrap();
    let valid = config.validate(FeatureGates::default()).unwrap();
    assert_eq!(valid.providers().len(), 1);
}

#[test]
fn the_agent_takes_the_rules_of_its_page() {
    let directory = tempfile::tempdir().unwrap();
    let head = "apiVersion: keyfob.dev/v1alpha1\nkind: AgentConfiguration\nproviderConfig: /p.yaml\n\
                pluginDirectory: /p\nlisteners: {agent: {path: /a.sock}}\n";
    // Not every machine has this group.
    let rules = yaml("docs/agent.md", "rules:").replace("[docker]", "[\"999\"]");
    let file = directory.path().join("agent.yaml");
    fs::write(&file, head.to_owned() + &rules).unwrap();
    let config = AgentConfig::read(&file).unwrap();
    let rules: Vec<_> = config.rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(rules, ["no-secrets-team", "root", "docker-group", "builds", "shop"]);
}
