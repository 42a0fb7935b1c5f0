//! A running `keyfob serve` with two providers, and everything that its status page can show.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, symlink},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::Arc,
};

use keyfob_exec::SystemClock;
use keyfob_images::{PullAccess, PullRecords, RecordsOptions, SecretAccess};
use keyfob_keyring::{SecretCoordinates, ServiceAccountCoordinates};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::browser::read_response;

/// The password that the plugin of the first provider hands out.
pub(crate) const PASSWORD: &str = "hunter2-password-of-ada";
/// What the plugin of the second provider prints when it fails: a secret that nobody else knows.
pub(crate) const PRINTED: &str = "hunter2-printed-by-a-plugin";
/// The user name of both.
pub(crate) const USER: &str = "ada-who-is-not-shown";
/// A plugin of ours, which reads docker's `config.json`.
pub(crate) const OURS: &str = "docker-config-credential-provider";
/// A plugin of somebody else.
pub(crate) const THEIRS: &str = "metadata-credential-provider";
/// An image of the pull records.
pub(crate) const RECORDED: &str = "registry.example/team/recorded";

/// It runs as long as the value lives.
pub(crate) struct Node {
    directory: TempDir,
    agent: Child,
    port: u16,
}

impl Node {
    /// A node whose page shows everything.
    pub(crate) fn start() -> Self {
        Self::showing("full")
    }

    pub(crate) fn showing(detail: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("node-").tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["plugins", "state"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        let path = |name: &str| directory.path().join(name);
        symlink(env!("CARGO_BIN_EXE_keyfob"), path("plugins").join(OURS)).unwrap();
        symlink("/bin/sh", path("plugins").join(THEIRS)).unwrap();
        // A port that was free a moment ago.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let providers = json!({
            "apiVersion": "kubelet.config.k8s.io/v1",
            "kind": "CredentialProviderConfig",
            "providers": [
                provider(OURS, "registry.example", &[&format!("--path={}", path("config.json").display()), "--cache-duration=1h"]),
                provider(THEIRS, "*.internal.example", &[path("metadata.sh").to_str().unwrap()]),
            ],
        });
        let own_uid = fs::metadata("/proc/self").unwrap().uid();
        let images = ["registry.example", "*.internal.example"];
        let file = json!({
            "apiVersion": "keyfob.dev/v1alpha1",
            "kind": "AgentConfiguration",
            "providerConfig": path("providers.yaml"),
            "pluginDirectory": path("plugins"),
            "stateDirectory": path("state"),
            "pullRecords": path("kubelet"),
            "listeners": {
                "agent": {"path": path("agent.sock")},
                "admin": {"path": path("admin.sock")},
                "http": {"address": format!("127.0.0.1:{port}"), "statusPage": detail},
            },
            "audit": {"to": "file", "path": path("audit.log")},
            "rules": [
                {"name": "no-secrets-team", "callers": {"anyone": true}, "images": ["registry.example/secrets"], "action": "Deny"},
                {"name": "builders", "callers": {"uids": [own_uid]}, "images": images, "action": "Allow"},
            ],
        });
        fs::write(path("providers.yaml"), providers.to_string()).unwrap();
        fs::write(path("agent.yaml"), file.to_string()).unwrap();
        write_records(&path("kubelet"));
        let agent = serve(&path("agent.yaml"));
        let node = Self { directory, agent, port };
        node.mend();
        node
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Ends the agent.
    pub(crate) fn stop(&mut self) {
        self.agent.kill().unwrap();
        self.agent.wait().unwrap();
    }

    /// Both plugins answer from now on.
    pub(crate) fn mend(&self) {
        let auth = json!({"registry.example": {"username": USER, "password": PASSWORD}});
        fs::write(self.path("config.json"), json!({"auths": auth}).to_string()).unwrap();
        let auth = json!({"*.internal.example": {"username": USER, "password": PASSWORD}});
        let answer = json!({
            "kind": "CredentialProviderResponse",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "cacheKeyType": "Image",
            "auth": auth,
        });
        let script = format!("cat >/dev/null\nprintf '%s' '{answer}'\n");
        fs::write(self.path("metadata.sh"), script).unwrap();
    }

    /// The plugin of the second provider fails from now on, and prints what it should not.
    pub(crate) fn break_theirs(&self) {
        let script = format!("cat >/dev/null\necho 'no route to {PRINTED}' >&2\nexit 3\n");
        fs::write(self.path("metadata.sh"), script).unwrap();
    }

    /// The plugin of the first provider fails from now on.
    pub(crate) fn break_ours(&self) {
        fs::write(self.path("config.json"), format!("{{\"{PRINTED}")).unwrap();
    }

    /// Asks for an image, as a program on the node does. A plugin that failed is left alone for a while, but only for that image.
    pub(crate) fn ask(&self, image: &str) -> Output {
        keyfob(&["get", "--agent", self.path("agent.sock").to_str().unwrap(), image])
    }

    /// The same as a user whom no rule allows anything.
    pub(crate) fn ask_as_nobody(&self, image: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keyfob"));
        command.args(["get", "--agent", self.path("agent.sock").to_str().unwrap(), image]);
        command.uid(65534).gid(65534).output().unwrap()
    }

    /// A request to the page's listener.
    pub(crate) fn request(&self, path: &str, host: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        read_response(stream)
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.agent.kill().unwrap_or_default();
        drop(self.agent.wait());
    }
}

pub(crate) fn keyfob(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_keyfob")).args(args).output().unwrap()
}

/// Starts the agent, and waits until it serves.
fn serve(file: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keyfob"));
    command.args(["serve", "--config"]).arg(file).stderr(Stdio::piped());
    let mut agent = command.spawn().unwrap();
    let mut log = BufReader::new(agent.stderr.take().unwrap()).lines();
    let mut seen = Vec::new();
    loop {
        let line = log.next().unwrap_or_else(|| panic!("{seen:#?}")).unwrap();
        if line.contains("the agent serves") {
            break;
        }
        seen.push(line);
    }
    // The rest is read, so that the agent never waits for it.
    std::thread::spawn(move || log.for_each(drop));
    agent
}

fn provider(name: &str, pattern: &str, args: &[&str]) -> Value {
    json!({
        "name": name,
        "matchImages": [pattern],
        "defaultCacheDuration": "10m",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "args": args,
    })
}

/// Records as a kubelet writes them: of images that one service account, the holders of one pull secret, or all pods may use.
fn write_records(root: &Path) {
    let records =
        PullRecords::open(root, RecordsOptions::default(), Arc::new(SystemClock)).unwrap();
    let [uid, namespace] = ["u-1", "shop"].map(str::to_owned);
    let account = ServiceAccountCoordinates {
        uid: uid.clone(),
        namespace: namespace.clone(),
        name: "cart".to_owned(),
    };
    let secret = SecretCoordinates { uid, namespace, name: "registry-login".to_owned() };
    let secret = SecretAccess { secret, ..SecretAccess::default() };
    let everybody = PullAccess { node_pods_accessible: true, ..PullAccess::default() };
    for (image, digits, access) in [
        (RECORDED, "3f9a41c7", PullAccess { service_accounts: vec![account], ..<_>::default() }),
        (
            "registry.example/shop/cart:v3",
            "b05d27e8",
            PullAccess { secrets: vec![secret], ..<_>::default() },
        ),
        ("registry.k8s.io/pause:3.10", "873ed751", everybody),
    ] {
        let id = format!("sha256:{}", digits.repeat(8));
        records.record_pulled(image, &id, Some(&access)).unwrap();
    }
}
