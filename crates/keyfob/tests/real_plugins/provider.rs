//! A plugin of the kubelet, ours or upstream's, and the node that runs it.

use std::{
    io::Write as _,
    os::unix::fs::symlink,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{findings::findings, node::Node};

/// The program of all our plugins.
pub(crate) const OURS: &str = env!("CARGO_BIN_EXE_keyfob");

/// A node with one plugin.
pub(crate) struct Provider {
    pub(crate) node: Node,
    plugin: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl Provider {
    /// Installs a program as the plugin that this entry of a `CredentialProviderConfig` names.
    pub(crate) fn install(program: &str, config: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let list = |name: &str| config[name].as_array().cloned().unwrap_or_default();
        let env = list("env").iter().map(|it| (text(&it["name"]), text(&it["value"]))).collect();
        let node = Node::new().with_installed(config.clone());
        let plugin = node.path("plugins").join(text(&config["name"]));
        symlink(program, &plugin).unwrap();
        let plugin = plugin.to_str().unwrap().to_owned();
        Self { node, plugin, args: list("args").iter().map(text).collect(), env }
    }

    /// Sends a request to the plugin on stdin, and returns its response or its stderr.
    pub(crate) fn ask(&self, request: &Value) -> Result<Value, String> {
        let mut child = Command::new(&self.plugin)
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(request.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        if output.status.success() {
            Ok(serde_json::from_slice(&output.stdout).unwrap())
        } else {
            Err(String::from_utf8(output.stderr).unwrap())
        }
    }

    /// Runs `keyfob conformance` on the plugin. See [`findings`].
    pub(crate) fn findings(&self, image: &str) -> Vec<String> {
        let variable = |(name, value): &(String, String)| format!("--env={name}={value}");
        let flags: Vec<_> = self.env.iter().map(variable).collect();
        let mut args: Vec<_> = flags.iter().map(String::as_str).collect();
        args.extend(["--image", image, "--", &self.plugin]);
        args.extend(self.args.iter().map(String::as_str));
        findings(&args)
    }
}

pub(crate) fn request(image: &str) -> Value {
    json!({
        "kind": "CredentialProviderRequest",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "image": image,
    })
}
