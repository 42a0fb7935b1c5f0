//! Kubeconfigs whose user is a plugin, and a proxy for one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use super::{credential, lines};
use crate::{authority::write, process::Process, shell::run, world::World};

/// A user of a kubeconfig whose plugin counts its runs.
pub(super) struct ExecUser {
    directory: PathBuf,
    kubeconfig: PathBuf,
}

impl ExecUser {
    /// The plugin requests a token of a service account in the scenario's namespace.
    pub(super) fn of_account(world: &World, name: &str, account: &str) -> Self {
        let template = credential(&json!({
            "token": "{{.status.token}}",
            "expirationTimestamp": "{{.status.expirationTimestamp}}",
        }));
        let kubectl = world.parts.program("kubectl");
        let script = format!(
            "{} --kubeconfig '{}' -n '{}' create token '{account}' -o go-template='{template}' | tee \"$directory/answer\"",
            kubectl.display(),
            world.cluster.admin().display(),
            world.namespace,
        );
        Self::new(world, name, &script)
    }

    /// The plugin prints what [`Self::answer_with_certificate`] has written.
    pub(super) fn with_certificate(world: &World, name: &str) -> Self {
        Self::new(world, name, "cat \"$directory/answer\"")
    }

    fn new(world: &World, name: &str, script: &str) -> Self {
        let directory = world.files.join(&world.namespace).join(name);
        fs::create_dir_all(&directory).unwrap();
        let script = format!(
            "directory='{}'\necho run >>\"$directory/runs\"\n{script}\n",
            directory.display()
        );
        let plugin = directory.join("plugin.sh");
        fs::write(&plugin, script).unwrap();
        let kubeconfig = directory.join("kubeconfig");
        let user = Self { directory, kubeconfig };
        user.write_kubeconfig(world, "sh", &[plugin.to_str().unwrap()]);
        user
    }

    /// The same plugin behind `keyfob kube exec-cache`.
    pub(super) fn behind_cache(self, world: &World) -> Self {
        let [cache, plugin] =
            ["cache", "plugin.sh"].map(|name| self.directory.join(name).display().to_string());
        let args = ["kube", "exec-cache", "--cache-dir", &cache, "--", "sh", &plugin];
        self.write_kubeconfig(world, env!("CARGO_BIN_EXE_keyfob"), &args);
        self
    }

    fn write_kubeconfig(&self, world: &World, command: &str, args: &[&str]) {
        let text = fs::read_to_string(world.cluster.admin()).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config["contexts"][0]["context"]["namespace"] = json!(world.namespace);
        config["users"][0]["user"] = json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": command,
            "args": args,
            "interactiveMode": "Never",
            "provideClusterInfo": true,
        }});
        write(&self.kubeconfig, &config.to_string());
    }

    /// From now on the plugin answers with a certificate for this user, which ends after so many seconds.
    pub(super) fn answer_with_certificate(&self, world: &World, user: &str, seconds: Option<u32>) {
        let [certificate, key] = world.cluster.authority.user(user, "people");
        let end = seconds.map(|seconds| {
            let date = ["--utc", "+%FT%TZ", "--date", &format!("{seconds} seconds")];
            String::from_utf8(run("date", &date).stdout).unwrap().trim_end().to_owned()
        });
        let status = json!({
            "clientCertificateData": certificate,
            "clientKeyData": key,
            "expirationTimestamp": end,
        });
        let next = self.directory.join("next");
        write(&next, &credential(&status).to_string());
        fs::rename(next, self.directory.join("answer")).unwrap();
    }

    /// How often the plugin was run.
    pub(super) fn runs(&self) -> usize {
        lines(&self.directory.join("runs"))
    }

    /// The token that the plugin answered last.
    pub(super) fn last_token(&self) -> String {
        let answer = fs::read_to_string(self.directory.join("answer")).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    /// kubectl as this user.
    pub(super) fn kubectl(&self, world: &World, args: &[&str]) -> Command {
        self.own(world.cluster.kubectl(args))
    }

    /// keyfob as this user.
    pub(super) fn keyfob(&self, world: &World, args: &[&str]) -> Command {
        self.own(world.keyfob(args))
    }

    fn own(&self, mut command: Command) -> Command {
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.directory);
        command
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
}

/// `keyfob kube proxy` as a user.
pub(super) struct Proxy {
    process: Process,
    address: String,
}

impl Proxy {
    pub(super) fn start(world: &World, user: &ExecUser) -> Self {
        let command = user.keyfob(world, &["kube", "proxy", "--port=0"]);
        let mut process = Process::start("proxy", command, user.directory());
        let log = user.directory().join("proxy.log");
        let address = process.wait_until("the proxy serves", || {
            let log = fs::read_to_string(&log).unwrap();
            let address = log.strip_prefix("serving on ").and_then(|rest| rest.split_once('\n'));
            address.map(|(address, _)| address.to_owned()).ok_or(log)
        });
        Self { process, address }
    }

    /// A kubectl that knows only the proxy's address.
    pub(super) fn kubectl(&self, world: &World, args: &[&str]) -> Command {
        let mut kubectl = world.cluster.kubectl(&["--server", &self.address]);
        kubectl.args(["--namespace", &world.namespace]).args(args).env("KUBECONFIG", "/dev/null");
        kubectl
    }

    pub(super) fn stop(mut self) {
        self.process.stop();
    }
}
