//! A node for the tests: a plugin directory, a configuration and files, all in a directory of their own.
//!
//! A plugin is a link to the shell with a script as its argument, so that no file is run that was just written.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Node {
    directory: TempDir,
    providers: Vec<Value>,
}

impl Node {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let plugins = directory.path().join("plugins");
        fs::create_dir(&plugins).unwrap();
        // Whatever the umask is: a directory that its group may write is a problem of its own.
        for path in [directory.path(), &plugins] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { directory, providers: Vec::new() }
    }

    /// Adds a provider whose plugin is this shell script.
    pub(crate) fn with(self, name: &str, patterns: &[&str], script: &str) -> Self {
        let script = self.file(&format!("{name}.sh"), script);
        symlink("/bin/sh", self.path("plugins").join(name)).unwrap();
        self.with_installed(json!({
            "name": name,
            "matchImages": patterns,
            "defaultCacheDuration": "10m",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "args": [script],
            "env": [{"name": "PLUGIN_TOKEN", "value": "hunter2-token"}],
        }))
    }

    /// Adds a provider whose plugin is there already.
    pub(crate) fn with_installed(mut self, provider: Value) -> Self {
        self.providers.push(provider);
        self
    }

    /// Adds a provider whose plugin answers with these keys, user names and passwords.
    pub(crate) fn answering(self, name: &str, patterns: &[&str], logins: &[[&str; 3]]) -> Self {
        let script = answer(logins);
        self.with(name, patterns, &script)
    }

    /// Changes the provider that was added last.
    pub(crate) fn having(mut self, field: &str, value: Value) -> Self {
        self.providers.last_mut().unwrap()[field] = value;
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes the configuration, and says where.
    pub(crate) fn config(&self) -> String {
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1",
            "kind": "CredentialProviderConfig",
            "providers": self.providers,
        });
        self.file("config.json", &config.to_string())
    }

    /// Runs a command with the node's configuration and plugins.
    pub(crate) fn run(&self, command: &str, args: &[&str]) -> Said {
        let (config, plugins) = (self.config(), self.path("plugins"));
        let plugins = ["--bin-dir", plugins.to_str().unwrap()];
        keyfob(&[&[command, "--config", &config], &plugins[..], args].concat())
    }
}

/// A script that reads the request and prints an answer.
pub(crate) fn answer(logins: &[[&str; 3]]) -> String {
    let login = |[key, username, password]: &[&str; 3]| {
        ((*key).to_owned(), json!({"username": username, "password": password}))
    };
    let answer = json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": "Registry",
        "auth": logins.iter().map(login).collect::<serde_json::Map<_, _>>(),
    });
    format!("cat >/dev/null\nprintf '%s' '{answer}'\n")
}

/// Exit code, stdout and stderr.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        Self { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

pub(crate) fn keyfob(args: &[&str]) -> Said {
    program().args(args).output().unwrap().into()
}

#[expect(clippy::disallowed_methods, reason = "the program under test")]
pub(crate) fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_keyfob"))
}
