//! Somebody's home for the tests: kubeconfigs and plugins in a directory of their own.
//!
//! A plugin is the shell with a script as its argument, so that no file is run that was just written.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use keyfob_testkit::Internet;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const V1: &str = "client.authentication.k8s.io/v1";

pub(crate) struct Home {
    directory: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file, and says where.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A user whose plugin is this shell script. Each run is counted.
    pub(crate) fn plugin(&self, script: &str) -> Value {
        let runs = self.path("runs").display().to_string();
        let script = self.file("login.sh", &format!("echo run >>'{runs}'\n{script}\n"));
        json!({"exec": {"apiVersion": V1, "command": "/bin/sh", "args": [script], "interactiveMode": "Never"}})
    }

    /// A user whose plugin gives this.
    pub(crate) fn answering(&self, status: &Value) -> Value {
        let answer = json!({"kind": "ExecCredential", "apiVersion": V1, "status": status});
        let answer = self.file("answer.json", &answer.to_string());
        self.plugin(&format!("cat '{answer}'"))
    }

    /// How often the plugin was run.
    pub(crate) fn runs(&self) -> usize {
        fs::read_to_string(self.path("runs")).unwrap_or_default().lines().count()
    }

    /// Writes a kubeconfig for a server, over TLS, and says where.
    pub(crate) fn kubeconfig(&self, server: &Internet, user: &Value) -> String {
        let authority = server.ca_file(self.directory.path());
        let url = server.url().replace("http:", "https:");
        self.kubeconfig_for(&json!({"server": url, "certificate-authority": authority}), user)
    }

    pub(crate) fn kubeconfig_for(&self, cluster: &Value, user: &Value) -> String {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "contexts": [{"name": "lab", "context": {"cluster": "here", "user": "ada"}}],
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "ada", "user": user}],
        });
        self.file("kubeconfig", &config.to_string())
    }

    /// `keyfob kube`, at home, where nothing of this machine's user counts.
    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    pub(crate) fn kube(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keyfob"));
        command.arg("kube").args(args).current_dir(self.directory.path());
        command.env("HOME", self.directory.path()).env_remove("KUBECONFIG").env_remove("KUBERC");
        command.stdin(std::process::Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        self.kube(args).output().unwrap().into()
    }
}

/// Exit code, stdout and stderr.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        Self { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}
