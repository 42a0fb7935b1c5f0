//! A plugin that prints what a file says, and a configuration that runs it.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use keyfob_client::{ExecConfig, InteractiveMode};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const V1: &str = "client.authentication.k8s.io/v1";

/// A plugin in a directory of its own.
#[derive(Debug)]
pub(crate) struct Plugin {
    directory: TempDir,
}

impl Plugin {
    /// A plugin whose status is this, until it is told otherwise.
    pub(crate) fn answering(status: &Value) -> Self {
        let plugin = Self { directory: tempfile::tempdir().unwrap() };
        let at = plugin.directory.path().display().to_string();
        let script = format!("#!/bin/sh\necho run >>'{at}/runs'\nexec cat '{at}/answer'\n");
        fs::write(plugin.command(), script).unwrap();
        fs::set_permissions(plugin.command(), fs::Permissions::from_mode(0o755)).unwrap();
        plugin.answer(status);
        plugin
    }

    /// From now on.
    pub(crate) fn answer(&self, status: &Value) {
        let answer = json!({"kind": "ExecCredential", "apiVersion": V1, "status": status});
        let path = self.directory.path().join("answer");
        fs::write(path.with_extension("new"), answer.to_string()).unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    }

    /// How often it has been run.
    pub(crate) fn runs(&self) -> usize {
        let runs = fs::read_to_string(self.directory.path().join("runs"));
        runs.unwrap_or_default().lines().count()
    }

    pub(crate) fn config(&self) -> ExecConfig {
        ExecConfig {
            command: self.command().display().to_string(),
            api_version: V1.to_owned(),
            interactive_mode: InteractiveMode::Never,
            ..ExecConfig::default()
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn command(&self) -> PathBuf {
        self.directory.path().join("plugin")
    }
}

/// A certificate for a name that vouches for itself, as a status.
pub(crate) fn certificate(name: &str) -> Value {
    let (certificate, key) = keyfob_testkit::self_signed(name);
    json!({"clientCertificateData": certificate, "clientKeyData": key})
}
