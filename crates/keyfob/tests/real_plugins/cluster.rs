//! An API server on loopback, and clients that log in to it with a kubeconfig plugin.

use std::{
    collections::BTreeSet,
    process::{Command, Output},
    sync::Arc,
};

use keyfob_testkit::{Internet, LeakCheck, Request, Response};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::findings::findings;

/// Maps a bearer token to its user, or to nothing if the token is not valid.
type Users = dyn Fn(&str) -> Option<String> + Send + Sync;

/// An API server that answers every request with the name of its user.
pub(crate) struct Cluster {
    api: Internet,
    users: Arc<Users>,
    folder: TempDir,
}

impl Cluster {
    pub(crate) fn start(users: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        let users: Arc<Users> = Arc::new(users);
        let known = Arc::clone(&users);
        let api = Internet::start(move |request| match bearer(request).and_then(&*known) {
            Some(user) => Response::json(json!({ "user": user }).to_string()),
            None => Response::status(401),
        });
        Self { api, users, folder: tempfile::tempdir().unwrap() }
    }

    /// Asserts that `kubectl` and `keyfob kube` log in as this user: each with a run of the plugin, then with
    /// `exec-cache`, which runs the plugin once for all of them.
    ///
    /// Runs are counted by the tokens that the server saw, so each run of the plugin must get a new one.
    pub(crate) fn assert_login(&self, plugin: &Plugin, user: &str) {
        let direct = self.kubeconfig("direct", plugin, &plugin.words());
        for client in ["kubectl", "keyfob"] {
            self.assert_user(client, &direct, user);
        }
        assert_eq!(self.tokens().len(), 2, "one run for each client");

        let token = self.token(&direct);
        assert_eq!((self.users)(&token).as_deref(), Some(user));

        let cache = self.folder.path().join("cache");
        let ours = [env!("CARGO_BIN_EXE_keyfob"), "kube", "exec-cache", "--cache-dir"];
        let words = [&ours[..], &[cache.to_str().unwrap(), "--"], &plugin.words()].concat();
        let cached = self.kubeconfig("cached", plugin, &words);
        for client in ["kubectl", "kubectl", "keyfob"] {
            self.assert_user(client, &cached, user);
        }
        assert_eq!(self.tokens().len(), 3, "one more run for all clients of the cache");
    }

    /// Writes a kubeconfig whose user runs this command, and returns its path. All plugins and all versions of kubectl support
    /// v1beta1.
    fn kubeconfig(&self, name: &str, plugin: &Plugin, words: &[&str]) -> String {
        let url = self.api.url().replace("http:", "https:");
        let authority = self.api.ca_file(self.folder.path());
        let variable = |(name, value): &(&str, String)| json!({"name": name, "value": value});
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1beta1", "interactiveMode": "Never",
            "command": words[0], "args": words[1..],
            "env": plugin.env.iter().map(variable).collect::<Vec<_>>(),
        });
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "clusters": [{"name": "here", "cluster": {"server": url, "certificate-authority": authority}}],
            "users": [{"name": "me", "user": {"exec": exec}}],
        });
        let path = self.folder.path().join(name);
        std::fs::write(&path, config.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Asserts that this client's request is answered with the name of this user.
    fn assert_user(&self, client: &str, kubeconfig: &str, user: &str) {
        let get = ["get", "--raw", "/", "--kubeconfig", kubeconfig];
        let stdout = self.succeeds(match client {
            "kubectl" => self.command("kubectl", &get),
            _ => self.command(env!("CARGO_BIN_EXE_keyfob"), &[&["kube"], &get[..]].concat()),
        });
        let answer: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(answer, json!({ "user": user }), "{client}");
    }

    /// The token that `keyfob kube token` prints together with its expiry.
    fn token(&self, kubeconfig: &str) -> String {
        let token = ["kube", "token", "-o", "json", "--kubeconfig", kubeconfig];
        let stdout = self.succeeds(self.command(env!("CARGO_BIN_EXE_keyfob"), &token));
        let printed: Value = serde_json::from_str(&stdout).unwrap();
        assert!(printed["expirationTimestamp"].is_string(), "no expiry");
        printed["token"].as_str().unwrap().to_owned()
    }

    /// A command whose environment has only `HOME` and `PATH`.
    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).env_clear().env("HOME", self.folder.path());
        command.env("PATH", std::env::var_os("PATH").unwrap());
        command
    }

    /// Runs a command that must succeed and print no token on stderr, and returns its stdout.
    fn succeeds(&self, mut command: Command) -> String {
        let Output { status, stdout, stderr } = command.output().unwrap();
        let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(status.success(), "{command:?}: {stderr}");
        LeakCheck::new(self.tokens()).text("stderr", &stderr);
        stdout
    }

    /// The distinct tokens that the server saw.
    fn tokens(&self) -> BTreeSet<String> {
        let requests = self.api.requests();
        requests.iter().filter_map(bearer).map(str::to_owned).collect()
    }
}

fn bearer(request: &Request) -> Option<&str> {
    request.header("authorization")?.strip_prefix("Bearer ")
}

/// The command of a plugin, and the variables that it needs.
#[derive(Clone)]
pub(crate) struct Plugin {
    command: String,
    args: Vec<String>,
    env: Vec<(&'static str, String)>,
}

impl Plugin {
    pub(crate) fn new(command: &str, args: &[&str]) -> Self {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        Self { command: command.to_owned(), args, env: Vec::new() }
    }

    #[must_use]
    pub(crate) fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    #[must_use]
    pub(crate) fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// Runs `keyfob conformance --client` on this plugin, with an empty home directory. See [`findings`].
    pub(crate) fn findings(&self, flags: &[&str]) -> Vec<String> {
        let home = tempfile::tempdir().unwrap();
        let plugin = self.clone().env("HOME", home.path().to_str().unwrap());
        let variables: Vec<_> =
            plugin.env.iter().map(|(name, value)| format!("--env={name}={value}")).collect();
        let mut args = [&["--client"], flags].concat();
        args.extend(variables.iter().map(String::as_str));
        args.push("--");
        args.extend(self.words());
        findings(&args)
    }

    fn words(&self) -> Vec<&str> {
        std::iter::once(&self.command).chain(&self.args).map(String::as_str).collect()
    }
}
