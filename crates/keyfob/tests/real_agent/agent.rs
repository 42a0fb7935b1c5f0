//! A running `keyfob serve`, with its files in a directory of its own.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::docker_registry::run;

/// How long the agent may take to start, or to notice a changed file.
const PATIENCE: Duration = Duration::from_secs(30);

/// It runs as long as the value lives.
pub(crate) struct RunningAgent {
    process: Child,
    directory: TempDir,
    file: Value,
}

impl RunningAgent {
    /// Starts an agent with these providers, which are plugins of ours, and with these fields in its file.
    pub(crate) fn start(providers: &[Value], fields: &Value) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Other users must get to the socket.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["plugins", "bin"] {
            fs::create_dir(path(name)).unwrap();
        }
        install_relay(&path("bin"));
        for provider in providers {
            let name = provider["name"].as_str().unwrap();
            symlink(env!("CARGO_BIN_EXE_keyfob"), path("plugins").join(name)).unwrap();
        }
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1",
            "kind": "CredentialProviderConfig",
            "providers": providers,
        });
        fs::write(path("providers.json"), config.to_string()).unwrap();
        let mut file = json!({
            "apiVersion": "keyfob.dev/v1alpha1",
            "kind": "AgentConfiguration",
            "providerConfig": path("providers.json"),
            "pluginDirectory": path("plugins"),
            "listeners": {"agent": {"path": path("agent.sock")}, "admin": {"path": path("admin.sock")}},
            "audit": {"to": "file", "path": path("audit.log")},
        });
        for (name, value) in fields.as_object().unwrap() {
            file[name] = value.clone();
        }
        fs::write(path("agent.yaml"), file.to_string()).unwrap();
        let log = fs::File::create(path("agent.log")).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_keyfob"))
            .args(["serve", "-v", "--config"])
            .arg(path("agent.yaml"))
            .stderr(log)
            .spawn()
            .unwrap();
        let agent = Self { process, directory, file };
        agent.wait_until("the agent serves", || UnixStream::connect(agent.socket()).is_ok());
        agent
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("agent.sock")
    }

    /// A program whose credential helper for a registry is the relay, and which has no other credentials.
    pub(crate) fn client(&self, program: impl AsRef<Path>, registry: &str) -> Command {
        self.with_helper(Command::new(program.as_ref()), registry)
    }

    /// The same for a command that starts the program in another way.
    pub(crate) fn with_helper(&self, mut command: Command, registry: &str) -> Command {
        let (config, home) = (self.path("docker"), self.path("home"));
        for directory in [&config, &home] {
            fs::create_dir_all(directory).unwrap();
        }
        let helpers = json!({"credHelpers": {registry: "keyfob"}});
        let file = config.join("config.json");
        // Not in place: another client may be reading it.
        let partial = tempfile::NamedTempFile::new_in(&config).unwrap();
        fs::write(partial.path(), helpers.to_string()).unwrap();
        fs::set_permissions(partial.path(), fs::Permissions::from_mode(0o644)).unwrap();
        partial.persist(&file).unwrap();
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).env("HOME", home);
        command.env("DOCKER_CONFIG", config).env("REGISTRY_AUTH_FILE", file);
        command.env("KEYFOB_AGENT_SOCKET", self.socket());
        command.stdin(Stdio::null());
        command
    }

    /// Changes a field of the agent's file, and waits until the agent has noticed by itself.
    pub(crate) fn change(&mut self, field: &str, value: Value) {
        let before = self.status()["reloads"]["succeeded"].clone();
        self.file[field] = value;
        fs::write(self.path("agent.yaml"), self.file.to_string()).unwrap();
        self.wait_until("the agent reloads", || self.status()["reloads"]["succeeded"] != before);
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.admin(&["status", "-o", "json"])).unwrap()
    }

    /// What `keyfob agent …` prints on the administrators' socket.
    pub(crate) fn admin(&self, args: &[&str]) -> String {
        let socket = self.path("admin.sock");
        let words = [&["agent"], args, &["--socket", socket.to_str().unwrap()]].concat();
        let asked = run(env!("CARGO_BIN_EXE_keyfob"), &words);
        assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
        String::from_utf8(asked.stdout).unwrap()
    }

    /// The audit log so far.
    pub(crate) fn audit(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.path("audit.log")).unwrap();
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until the audit log has an event with these values, and returns it. The log is written behind the answer.
    pub(crate) fn wait_for_event(&self, expected: &[(&str, &str)]) -> Value {
        let mut found = None;
        self.wait_until(&format!("there is an event with {expected:?}"), || {
            let is_it = |event: &Value| {
                expected.iter().all(|(pointer, value)| {
                    event.pointer(pointer).and_then(Value::as_str) == Some(value)
                })
            };
            found = self.audit().into_iter().rev().find(is_it);
            found.is_some()
        });
        found.unwrap()
    }

    fn wait_until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let start = Instant::now();
        while !is_so() {
            let log = || fs::read_to_string(self.path("agent.log")).unwrap_or_default();
            assert!(start.elapsed() < PATIENCE, "not in time: {what}\n{}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        self.process.kill().unwrap_or_default();
        drop(self.process.wait());
    }
}

/// Copies the relay under both of its names: other users may not get to where it was built. Another process copies it, so that no
/// process of ours that is just starting holds it open for writing.
fn install_relay(directory: &Path) {
    let relay = std::env::var("KEYFOB_RELAY");
    let relay = relay.unwrap_or_else(|_| unreachable!(".ci/run e2e sets KEYFOB_RELAY"));
    for name in ["docker-credential-keyfob", "keyfob-credential-provider"] {
        let copy = directory.join(name);
        let copied = run("install", &["-m", "755", &relay, copy.to_str().unwrap()]);
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    }
}
