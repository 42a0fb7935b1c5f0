//! A real registry, Debian's `docker-registry`, with images that skopeo pushed.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const USER: &str = "ada";
pub(crate) const PASSWORD: &str = "correct horse";

/// Whether real parts are to be asked; said aloud if not.
pub(crate) fn is_wanted() -> bool {
    let wanted = std::env::var_os("KEYFOB_E2E").is_some();
    if !wanted {
        println!("KEYFOB_E2E is not set: NO real registry was asked");
    }
    wanted
}

pub(crate) struct Registry {
    server: Child,
    pub(crate) address: String,
    folder: TempDir,
}

impl Registry {
    /// One whose user has a password.
    pub(crate) fn start() -> Self {
        Self::start_for(&[USER])
    }

    /// One whose users have the same password.
    pub(crate) fn start_for(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let users = folder.path().join("users");
        let lines = names.iter().map(|name| run("htpasswd", &["-Bbn", name, PASSWORD]).stdout);
        fs::write(&users, lines.collect::<Vec<_>>().concat()).unwrap();
        Self::start_with(folder, &json!({"htpasswd": {"realm": "test", "path": users}}))
    }

    /// One that lets in whoever this says.
    pub(crate) fn start_with(folder: TempDir, auth: &Value) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let mut config = json!({
            "version": "0.1",
            "storage": {"filesystem": {"rootdirectory": folder.path().join("images")}},
            "http": {"addr": address},
        });
        if !auth.is_null() {
            config["auth"] = auth.clone();
        }
        fs::write(folder.path().join("config.yml"), config.to_string()).unwrap();
        let server = serve(&folder, &address);
        Self { server, address, folder }
    }

    /// Kills it.
    pub(crate) fn stop(&mut self) {
        self.server.kill().unwrap_or_default();
        drop(self.server.wait());
    }

    /// Starts it again after [`Registry::stop`], where it was.
    pub(crate) fn come_back(&mut self) {
        self.server = serve(&self.folder, &self.address);
    }

    /// Pushes an image with layers of these sizes, and gives the digest of its manifest.
    pub(crate) fn push(&self, name: &str, login: Option<&str>, layers: &[usize]) -> String {
        let image = format!("docker://{}/{name}", self.address);
        let (layout, digest) = self.layout(layers);
        let source = format!("oci:{}", layout.display());
        let mut args = vec!["copy", "--quiet", "--dest-tls-verify=false", &source, &image];
        args.extend(login.iter().flat_map(|login| ["--dest-creds", login]));
        let pushed = run("skopeo", &args);
        assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
        digest
    }

    /// Copies an image to another repository, and then takes all blobs from there: only manifests are left that name them.
    pub(crate) fn copy_without_blobs(&self, from: &str, to: &str, tag: &str, login: &str) {
        let [from, copy] = [from, to].map(|name| format!("docker://{}/{name}:{tag}", self.address));
        let insecure = ["--src-tls-verify=false", "--dest-tls-verify=false"];
        let logins = ["--src-creds", login, "--dest-creds", login];
        let args = [&["copy", "--quiet", &from, &copy], &insecure[..], &logins[..]].concat();
        let copied = run("skopeo", &args);
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        let repositories = self.folder.path().join("images/docker/registry/v2/repositories");
        fs::remove_dir_all(repositories.join(to).join("_layers")).unwrap();
    }

    /// An image in a layout: each layer holds a file of random bytes, so that no size shrinks.
    fn layout(&self, layers: &[usize]) -> (PathBuf, String) {
        let root = self.folder.path().join(format!("layout-{}", fastrand::u64(..)));
        let blobs = root.join("blobs/sha256");
        fs::create_dir_all(&blobs).unwrap();
        let (file, text) = (root.join("file"), |path: &PathBuf| path.to_str().unwrap().to_owned());
        let keep = |path: &PathBuf| {
            let digest = sha256(&text(path));
            let size = fs::metadata(path).unwrap().len();
            fs::rename(path, blobs.join(&digest)).unwrap();
            json!({"digest": format!("sha256:{digest}"), "size": size})
        };
        let (mut diff_ids, mut descriptors) = (Vec::new(), Vec::new());
        for (number, size) in layers.iter().enumerate() {
            let (inside, tar) = (format!("data-{number}"), root.join("layer"));
            fs::write(root.join(&inside), bytes(*size)).unwrap();
            run("tar", &["-C", &text(&root), "-cf", &text(&tar), &inside]);
            diff_ids.push(format!("sha256:{}", sha256(&text(&tar))));
            run("gzip", &["-1", &text(&tar)]);
            let mut layer = keep(&root.join("layer.gz"));
            layer["mediaType"] = "application/vnd.oci.image.layer.v1.tar+gzip".into();
            descriptors.push(layer);
        }
        let rootfs = json!({"type": "layers", "diff_ids": diff_ids});
        fs::write(
            &file,
            json!({"architecture": "amd64", "os": "linux", "rootfs": rootfs}).to_string(),
        )
        .unwrap();
        let mut config = keep(&file);
        config["mediaType"] = "application/vnd.oci.image.config.v1+json".into();
        let media_type = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": descriptors});
        fs::write(&file, manifest.to_string()).unwrap();
        let mut manifest = keep(&file);
        manifest["mediaType"] = media_type.into();
        let digest = manifest["digest"].as_str().unwrap().to_owned();
        let index = json!({"schemaVersion": 2, "manifests": [manifest]});
        fs::write(root.join("index.json"), index.to_string()).unwrap();
        let version = json!({"imageLayoutVersion": "1.0.0"});
        fs::write(root.join("oci-layout"), version.to_string()).unwrap();
        (root, digest)
    }

    /// Asks about an image with only this docker configuration.
    pub(crate) fn inspect(&self, name: &str, config: &str) -> Command {
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
        self.stop();
    }
}

fn serve(folder: &TempDir, address: &str) -> Child {
    let server = Command::new("docker-registry")
        .arg("serve")
        .arg(folder.path().join("config.yml"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while TcpStream::connect(address).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    server
}

fn bytes(size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    fastrand::fill(&mut bytes);
    bytes
}

fn sha256(path: &str) -> String {
    let sum = run("sha256sum", &[path]).stdout;
    String::from_utf8(sum).unwrap().split(' ').next().unwrap().to_owned()
}

pub(crate) fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).output().unwrap_or_else(|error| {
        unreachable!("{program} cannot be run, .ci/run e2e installs it: {error}")
    })
}
