//! A host with all that a node has: its docker configuration, and providers that have their answers ready.

use std::{fs, os::unix::fs::symlink, path::Path, sync::Arc, time::Duration};

use keyfob_api::FeatureGates;
use keyfob_config::{Config, ProviderConfig};
use keyfob_exec::{Finished, Invocation, Status, StderrTail, SystemClock};
use keyfob_host::Host;
use keyfob_keyring::NodeDockerConfig;
use keyfob_testkit::{FakeRunner, MapEnvironment};
use serde_json::json;

use super::{super::providers::provider, NodeConfig, Question};

const VERSION: &str = "credentialprovider.kubelet.k8s.io/v1";

/// Its providers are all for this repository.
pub(super) fn host(question: &Question, repository: &str, folder: &Path) -> Host {
    let answers: Vec<String> = question.providers.iter().map(|entries| answer(entries)).collect();
    let providers =
        (0..answers.len()).map(|number| install(folder, &number.to_string(), repository));
    // Without any there is no valid configuration; this one is never asked.
    let nobody = install(folder, "nobody", "nobody.invalid");
    let config = Config::new(providers.chain([nobody]));
    let config = config.validate(FeatureGates::default()).expect("a valid configuration");
    let host = Host::builder(config, folder).runner(FakeRunner::new(move |invocation| {
        let number = invocation.program().file_name().and_then(|name| name.to_str()?.parse().ok());
        let answer = number.and_then(|number: usize| answers.get(number)).expect("its answer");
        Ok(printing(invocation, answer))
    }));
    let host = match &question.node {
        Some(node) => host.docker_config(docker_config(node, folder)),
        None => host,
    };
    host.build().expect("a good configuration")
}

fn install(plugins: &Path, name: &str, pattern: &str) -> ProviderConfig {
    symlink("/bin/true", plugins.join(name)).expect("a new link");
    provider(name, vec![pattern.to_owned()])
}

/// What a plugin prints, in the order of the entries.
fn answer(entries: &[(String, String, String)]) -> String {
    let entry = |(key, username, password): &(String, String, String)| {
        format!("{}:{}", json!(key), json!({"username": username, "password": password}))
    };
    let auth: Vec<String> = entries.iter().map(entry).collect();
    format!(
        r#"{{"kind":"CredentialProviderResponse","apiVersion":"{VERSION}","cacheKeyType":"Image","auth":{{{}}}}}"#,
        auth.join(",")
    )
}

fn printing(invocation: &Invocation, answer: &str) -> Finished {
    Finished {
        program: invocation.program().into(),
        status: Status::Exited(0),
        stdout: answer.as_bytes().to_vec().into(),
        stderr: StderrTail::default(),
        elapsed: Duration::ZERO,
    }
}

/// Where a kubelet looks for it.
fn docker_config(node: &NodeConfig, folder: &Path) -> NodeDockerConfig {
    let name = if node.legacy { ".dockercfg" } else { "config.json" };
    fs::write(folder.join(name), node.text.to_bytes()).expect("a new file");
    let home = MapEnvironment::from_iter([("HOME", folder)]);
    NodeDockerConfig::search(folder, folder, &home, Arc::new(SystemClock))
}
