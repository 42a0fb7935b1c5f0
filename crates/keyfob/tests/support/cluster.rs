//! A real kube-apiserver with an etcd of its own, on loopback, as long as the value lives.
//!
//! No controller runs beside it: whoever wants a service account or a bound claim makes it.

use std::{
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use http::Request;
use kube::Client;
use tempfile::TempDir;

use crate::{
    api::{ADMIN, Api},
    authority::{Authority, write},
};

/// How long a server may take to learn of something.
const LAG: Duration = Duration::from_secs(30);
/// Long, because the machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) struct Cluster {
    server: Process,
    etcd: Process,
    pub(crate) api: Api,
    /// Everything the programs read and wrote.
    _folder: TempDir,
}

impl Cluster {
    /// The program, if this run is to have a real server.
    pub(crate) fn wanted() -> Option<PathBuf> {
        let program = std::env::var_os("KEYFOB_CLUSTER");
        if program.is_none() {
            println!("KEYFOB_CLUSTER is not set: NO real API server was asked");
        }
        program.map(PathBuf::from)
    }

    /// Starts a server with these flags beside the usual ones, and waits until it is ready.
    pub(crate) async fn start(program: &Path, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let [clients, peers, port] = free_ports();
        let etcd = start_etcd(root, clients, peers);
        let url = format!("https://127.0.0.1:{port}");
        let authority = Authority::new();
        authority.furnish(root);
        let users = root.join("users");
        fs::create_dir(&users).unwrap();
        write(&users.join(ADMIN), &authority.kubeconfig(&url, ADMIN, "system:masters"));
        for node in ["node-a", "node-b"] {
            let user = format!("system:node:{node}");
            write(&users.join(node), &authority.kubeconfig(&url, &user, "system:nodes"));
        }
        let mut server = Command::new(program);
        server.args(arguments(root, clients, port, &url)).args(flags);
        let server = Process::start("kube-apiserver", server, root);
        let api = Api::open(&users, LAG).await;
        let mut cluster = Self { server, etcd, api, _folder: folder };
        cluster.wait().await;
        cluster
    }

    async fn wait(&mut self) {
        let started = Instant::now();
        while !is_ready(&self.api.client(ADMIN)).await {
            self.server.must_run();
            self.etcd.must_run();
            assert!(started.elapsed() < PATIENCE, "the API server is not ready");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn is_ready(client: &Client) -> bool {
    let request = Request::get("/readyz").body(Vec::new()).unwrap();
    client.request_text(request).await.is_ok_and(|said| said == "ok")
}

fn start_etcd(root: &Path, clients: u16, peers: u16) -> Process {
    let [clients, peers] = [clients, peers].map(|port| format!("http://127.0.0.1:{port}"));
    let mut etcd = Command::new("etcd");
    etcd.arg("--data-dir").arg(root.join("etcd"));
    etcd.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
    etcd.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
    etcd.args(["--initial-cluster", &format!("default={peers}")]);
    Process::start("etcd", etcd, root)
}

fn arguments(root: &Path, etcd: u16, port: u16, url: &str) -> Vec<String> {
    let file = |name: &str| root.join(name).display().to_string();
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        format!("--cert-dir={}", file("")),
        format!("--tls-cert-file={}", file("server.pem")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--client-ca-file={}", file("ca.pem")),
        format!("--service-account-issuer={url}"),
        format!("--service-account-key-file={}", file("accounts.pem")),
        format!("--service-account-signing-key-file={}", file("accounts.key")),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
    ]
}

/// Ports that nobody has; they are found together, so that they differ.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let found = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    found.map(|listener| listener.local_addr().unwrap().port())
}

/// A program with a log. What it said last is shown if the test fails.
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    pub(crate) fn start(name: &'static str, mut command: Command, root: &Path) -> Self {
        let log = root.join(format!("{name}.log"));
        let output = File::create(&log).unwrap();
        command.env_clear().stdin(Stdio::null());
        command.stdout(output.try_clone().unwrap()).stderr(output);
        let child = command.spawn().unwrap_or_else(|error| {
            unreachable!("{name} cannot be run, .ci/run cluster brings it: {error}")
        });
        Self { name, child, log }
    }

    fn must_run(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "{} ended: {ended:?}", self.name);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        drop(self.child.wait());
        if std::thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let last = lines.len().saturating_sub(20);
            println!("{} said last:\n{}", self.name, lines[last..].join("\n"));
        }
    }
}
