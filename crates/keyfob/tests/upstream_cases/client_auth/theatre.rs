//! A folder of shell scripts that are plugins, and a world around them.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use keyfob_api::{ClientIdentity, ExecCluster, ExecCredentialStatus, ExecVersion};
use keyfob_client::{
    Authenticator, Authenticators, Behaviour, ExecConfig, InteractiveMode, Messages, World,
};
use keyfob_exec::{ProcessRunner, Terminal};
use keyfob_testkit::{ManualClock, MapEnvironment};
use prometheus_client::{encoding::text, registry::Registry};
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(super) const V1: &str = "client.authentication.k8s.io/v1";

/// Plugins in a folder, and how clients there behave: as client-go does, unless a row is about more.
pub(super) struct Theatre {
    pub(super) folder: TempDir,
    pub(super) clock: ManualClock,
    pub(super) terminal: FakeTerminal,
    pub(super) behaviour: Behaviour,
    /// The `PATH` of the client itself.
    pub(super) path: String,
}

impl Theatre {
    pub(super) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            clock: ManualClock::default(),
            terminal: FakeTerminal::default(),
            behaviour: Behaviour::of_client_go(),
            path: "/usr/bin:/bin".to_owned(),
        }
    }

    /// Puts a script there, and says where.
    pub(super) fn script(&self, name: &str, body: &str) -> PathBuf {
        let path = self.file(name, format!("#!/bin/sh\n{body}\n"));
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Puts a file there, and says where.
    pub(super) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A plugin called `plug` that counts its runs and prints what is in a file, which [`Theatre::prints`] fills; a file that
    /// begins with `exit` is a script.
    pub(super) fn plug(&self) -> ExecConfig {
        let body = "echo run >> \"$0.runs\"\ncase \"$(head -c 5 \"$0.out\")\" in exit*) . \"$0.out\";; esac\nexec cat \"$0.out\"";
        config(&self.script("plug", body))
    }

    pub(super) fn prints(&self, answer: impl AsRef<[u8]>) {
        self.file("plug.out", answer);
    }

    pub(super) fn runs(&self) -> usize {
        let runs = fs::read_to_string(self.folder.path().join("plug.runs"));
        runs.map(|runs| runs.lines().count()).unwrap_or_default()
    }

    pub(super) fn authenticators(&self) -> Authenticators {
        let environment = MapEnvironment::from_iter([("PATH", self.path.as_str())]);
        let mut world = World::system();
        world.clock = Arc::new(self.clock.clone());
        world.environment = Arc::new(environment.clone());
        world.runner = Arc::new(ProcessRunner::new(environment));
        world.terminal = Arc::new(self.terminal.clone());
        world.messages = Messages::nowhere();
        Authenticators::new(world, self.behaviour.clone())
    }

    pub(super) fn authenticator(
        &self,
        config: &ExecConfig,
        cluster: Option<&ExecCluster>,
    ) -> Authenticator {
        self.authenticators().get(config, cluster).unwrap()
    }

    /// A row's text with the folder where `<DIR>` stands.
    pub(super) fn here(&self, text: &str) -> String {
        text.replace("<DIR>", self.folder.path().to_str().unwrap())
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct FakeTerminal(pub(super) Arc<AtomicBool>);

impl Terminal for FakeTerminal {
    fn stdin_is_terminal(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// A user whose plugin this is.
pub(super) fn config(command: &Path) -> ExecConfig {
    ExecConfig {
        command: command.to_str().unwrap().into(),
        api_version: V1.into(),
        interactive_mode: InteractiveMode::Never,
        ..ExecConfig::default()
    }
}

/// An answer with these fields in its status.
pub(super) fn answer(status: &Value) -> String {
    json!({ "kind": "ExecCredential", "apiVersion": V1, "status": status }).to_string()
}

/// A certificate and its key.
pub(super) struct Pair {
    pub(super) key: KeyPair,
    pub(super) certificate: String,
}

impl Pair {
    pub(super) fn new(name: &str) -> Self {
        Self::of(name, KeyPair::generate().unwrap())
    }

    pub(super) fn of(name: &str, key: KeyPair) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { key, certificate }
    }

    /// The fields of a status.
    pub(super) fn status(&self) -> Value {
        json!({ "clientCertificateData": self.certificate, "clientKeyData": self.key.serialize_pem() })
    }

    pub(super) fn answer(&self, version: ExecVersion) -> String {
        let identity = ClientIdentity {
            certificate_pem: self.certificate.as_str().into(),
            key_pem: self.key.serialize_pem().into(),
        };
        let status = ExecCredentialStatus { identity: Some(identity), ..<_>::default() };
        String::from_utf8(status.encode(version).expose().clone()).unwrap()
    }
}

/// The series of a metric, as `labels} value`.
pub(super) fn series(authenticators: &Authenticators, name: &str) -> Vec<String> {
    let mut registry = Registry::default();
    authenticators.register_metrics(&mut registry);
    let mut shown = String::new();
    text::encode(&mut shown, &registry).unwrap();
    let lines = shown.lines().filter_map(|line| line.strip_prefix(name));
    lines.map(|rest| rest.trim_start_matches('{').to_owned()).collect()
}
