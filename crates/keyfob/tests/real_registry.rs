//! A real registry that wants a login, and a real client that has only what `keyfob get -o docker` printed, or a plugin of
//! ours as its credential helper.
//!
//! It needs Debian's `docker-registry`, `skopeo` and `htpasswd`: `.ci/run e2e` installs them and sets `KEYFOB_E2E`, without
//! which nothing is run.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and these are the real programs"
)]

#[path = "support/node.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod node;

use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::fs::symlink,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use node::Node;
use serde_json::json;
use tempfile::TempDir;

const USER: &str = "ada";
const PASSWORD: &str = "correct horse";

struct Registry {
    server: Child,
    address: String,
    folder: TempDir,
}

impl Registry {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let users = run("htpasswd", &["-Bbn", USER, PASSWORD]).stdout;
        fs::write(folder.path().join("users"), users).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let config = json!({
            "version": "0.1",
            "storage": {"filesystem": {"rootdirectory": folder.path().join("images")}},
            "http": {"addr": address},
            "auth": {"htpasswd": {"realm": "test", "path": folder.path().join("users")}},
        });
        fs::write(folder.path().join("config.yml"), config.to_string()).unwrap();
        let server = Command::new("docker-registry")
            .arg("serve")
            .arg(folder.path().join("config.yml"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let registry = Self { server, address, folder };
        while TcpStream::connect(&registry.address).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        registry
    }

    fn push(&self, name: &str) {
        let image = format!("docker://{}/{name}", self.address);
        let source = format!("oci:{}", self.layout());
        let login = format!("{USER}:{PASSWORD}");
        let args = ["copy", "--dest-tls-verify=false", "--dest-creds", &login, &source, &image];
        let pushed = run("skopeo", &args);
        assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
    }

    /// The smallest image there is: no layers.
    fn layout(&self) -> String {
        let root = self.folder.path().join("layout");
        fs::create_dir_all(root.join("blobs/sha256")).unwrap();
        let blob = |value: serde_json::Value| {
            let text = value.to_string();
            let file = self.folder.path().join("blob");
            fs::write(&file, &text).unwrap();
            let sum = run("sha256sum", &[file.to_str().unwrap()]).stdout;
            let digest = String::from_utf8(sum).unwrap().split(' ').next().unwrap().to_owned();
            fs::rename(file, root.join("blobs/sha256").join(&digest)).unwrap();
            (format!("sha256:{digest}"), text.len())
        };
        let config = json!({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}});
        let (digest, size) = blob(config);
        let (digest, size) = blob(json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest, "size": size},
            "layers": [],
        }));
        let manifest = json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": size});
        let index = json!({"schemaVersion": 2, "manifests": [manifest]});
        fs::write(root.join("index.json"), index.to_string()).unwrap();
        fs::write(root.join("oci-layout"), json!({"imageLayoutVersion": "1.0.0"}).to_string())
            .unwrap();
        root.to_str().unwrap().to_owned()
    }

    /// Whether a client that has only this configuration gets the image.
    fn serves(&self, name: &str, config: &str) -> bool {
        self.inspect(name, config).status().unwrap().success()
    }

    fn inspect(&self, name: &str, config: &str) -> Command {
        let file = self.folder.path().join("auth.json");
        fs::write(&file, config).unwrap();
        let mut skopeo = Command::new("skopeo");
        skopeo.args(["inspect", "--tls-verify=false", "--authfile"]).arg(file);
        skopeo.arg(format!("docker://{}/{name}", self.address));
        skopeo.stdout(Stdio::null()).stderr(Stdio::null());
        skopeo
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.server.kill().unwrap_or_default();
        drop(self.server.wait());
    }
}

fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).output().unwrap_or_else(|error| {
        unreachable!("{program} cannot be run, .ci/run e2e installs it: {error}")
    })
}

fn is_wanted() -> bool {
    let wanted = std::env::var_os("KEYFOB_E2E").is_some();
    if !wanted {
        println!("KEYFOB_E2E is not set: NO real registry was asked");
    }
    wanted
}

#[test]
fn a_client_asks_a_plugin_of_ours_as_its_credential_helper() {
    if !is_wanted() {
        return;
    }
    let registry = Registry::start();
    registry.push("team/app:v1");
    let programs = tempfile::tempdir().unwrap();
    let helper = programs.path().join("docker-credential-docker-config");
    symlink(env!("CARGO_BIN_EXE_keyfob"), helper).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", programs.path().display());
    let asks_helper = json!({"credHelpers": {&registry.address: "docker-config"}}).to_string();
    let logs_in = |password: &str| {
        let login = json!({"auths": {&registry.address: {"username": USER, "password": password}}});
        fs::write(programs.path().join("config.json"), login.to_string()).unwrap();
        let mut skopeo = registry.inspect("team/app:v1", &asks_helper);
        skopeo.env("PATH", &path).env("DOCKER_CONFIG", programs.path());
        skopeo.status().unwrap().success()
    };

    assert!(logs_in(PASSWORD));
    assert!(!logs_in("wrong"), "the file is read anew");
}

#[test]
fn a_client_pulls_with_what_get_printed() {
    if !is_wanted() {
        return;
    }
    let registry = Registry::start();
    registry.push("team/app:v1");
    let image = format!("{}/team/app:v1", registry.address);
    let docker = |key: &str, password: &str| {
        let logins = [[key, USER, password]];
        let node = Node::new().answering("plugin", &[&registry.address], &logins);
        let said = node.run("get", &[&image, "-o", "docker"]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        said.stdout
    };

    assert!(!registry.serves("team/app:v1", r#"{"auths":{}}"#), "it wants a login");
    assert!(registry.serves("team/app:v1", &docker(&registry.address, PASSWORD)));
    assert!(!registry.serves("team/app:v1", &docker(&registry.address, "wrong")));
    let star = format!("*.*.*.*:{}", registry.address.rsplit(':').next().unwrap());
    assert!(registry.serves("team/app:v1", &docker(&star, PASSWORD)), "a key with stars");
    let path = format!("{}/team", registry.address);
    assert!(registry.serves("team/app:v1", &docker(&path, PASSWORD)), "a key with a path");
}
