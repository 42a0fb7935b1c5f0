//! The real `kubectl`, a server, and kubeconfigs whose user is a plugin, or the same plugin behind `kube exec-cache`.

use std::{fs, path::PathBuf, process::Command};

use serde_json::{Value, json};

use crate::keyfob_apiserver::Server;

/// What kubectl asks for.
const ASKED: [&str; 3] = ["get", "--raw", "/api/v1/nodes"];

pub(crate) struct Kubectl {
    server: Server,
    /// The administrator's token.
    pub(crate) token: String,
}

impl Kubectl {
    pub(crate) fn start() -> Self {
        let server = Server::start("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n");
        let config = read(&server.kubeconfig("admin"));
        let token = config.pointer("/users/0/user/token").unwrap().as_str().unwrap().to_owned();
        Self { server, token }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.server.folder.path().join(name)
    }

    /// The versions that this kubectl speaks with its plugins.
    pub(crate) fn versions(&self) -> Vec<&'static str> {
        let version = self.server.admin("version --client -o json");
        let version: Value = serde_json::from_str(&version).unwrap();
        let minor = version.pointer("/clientVersion/minor").unwrap().as_str().unwrap();
        let minor: u32 = minor.trim_end_matches('+').parse().unwrap();
        if minor < 22 { vec!["v1beta1"] } else { vec!["v1", "v1beta1"] }
    }

    /// A kubeconfig that is the administrator's, but for the user.
    pub(crate) fn kubeconfig(&self, name: &str, user: &Value) -> String {
        let mut config = read(&self.server.kubeconfig("admin"));
        *config.pointer_mut("/users/0/user").unwrap() = user.clone();
        self.server.file(name, config.to_string().as_bytes())
    }

    /// Writes the plugin: it counts its runs, does something, and answers with the token that the file `token` has then.
    pub(crate) fn plugin(&self, version: &str, first: &str) -> Vec<String> {
        let [runs, token] = ["runs", "token"].map(|name| self.path(name).display().to_string());
        let answer = format!(
            r#"{{"apiVersion":"client.authentication.k8s.io/{version}","kind":"ExecCredential","status":{{"token":"%s","expirationTimestamp":"2040-01-01T00:00:00Z"}}}}"#
        );
        let script =
            format!("printf x >>'{runs}'\n{first}\nprintf '{answer}' \"$(cat '{token}')\"\n");
        let script = self.server.file("plugin.sh", script.as_bytes());
        fs::write(self.path("token"), &self.token).unwrap();
        fs::remove_file(runs).unwrap_or_default();
        vec!["sh".to_owned(), script]
    }

    /// The plugin behind the cache.
    pub(crate) fn cached(&self, plugin: &[String]) -> Vec<String> {
        let cache = self.path("cache").display().to_string();
        let ours =
            [env!("CARGO_BIN_EXE_keyfob"), "kube", "exec-cache", "--cache-dir", &cache, "--"];
        ours.into_iter().map(str::to_owned).chain(plugin.iter().cloned()).collect()
    }

    /// Asks for the nodes.
    #[expect(clippy::disallowed_methods, reason = "the real program")]
    pub(crate) fn command(&self, kubeconfig: &str) -> Command {
        let mut kubectl = Command::new("kubectl");
        kubectl
            .env("HOME", self.server.folder.path())
            .args(["--kubeconfig", kubeconfig])
            .args(ASKED);
        kubectl
    }

    /// How often the plugin was run.
    pub(crate) fn runs(&self) -> u64 {
        fs::metadata(self.path("runs")).map_or(0, |runs| runs.len())
    }
}

/// A user whose credentials come from a command.
pub(crate) fn exec_user(version: &str, command: &[String]) -> Value {
    let (command, args) = command.split_first().unwrap();
    let version = format!("client.authentication.k8s.io/{version}");
    json!({"exec": {
        "apiVersion": version, "command": command, "args": args,
        "interactiveMode": "Never", "provideClusterInfo": true,
    }})
}

fn read(path: &str) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}
