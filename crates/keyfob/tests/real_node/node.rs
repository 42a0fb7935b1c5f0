//! A node: containerd and a kubelet, at the paths that they have on other machines too.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    api::Api,
    containerd::{Containerd, Runtime, SOCKET},
    process::Process,
    shell::output,
    wait::wait_for,
    world::World,
};

pub(crate) const NODE: &str = "node-1";
const ADDRESS: &str = "192.0.2.1";
/// Where the kubelet keeps its state.
pub(crate) const KUBELET: &str = "/var/lib/kubelet";

/// How a node differs from one without credential providers.
#[derive(Clone, Debug)]
pub(crate) struct NodeOptions {
    runtime: Runtime,
    flags: Vec<String>,
    config: Vec<(String, Value)>,
    env: Vec<(String, String)>,
}

impl NodeOptions {
    pub(crate) fn new(runtime: Runtime) -> Self {
        Self { runtime, flags: Vec::new(), config: Vec::new(), env: Vec::new() }
    }

    /// Adds flags to the kubelet's command.
    pub(crate) fn flags(mut self, flags: &[impl AsRef<str>]) -> Self {
        self.flags.extend(flags.iter().map(|flag| flag.as_ref().to_owned()));
        self
    }

    /// Sets a field of the `KubeletConfiguration`.
    pub(crate) fn config(mut self, field: &str, value: Value) -> Self {
        self.config.push((field.to_owned(), value));
        self
    }

    /// Sets a variable of the kubelet, and so of its plugins.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// There can be one node at a time. When it is dropped, its pods, processes, mounts and files are removed.
pub(crate) struct Node {
    pub(crate) containerd: Containerd,
    pub(crate) kubelet: Process,
    api: Api,
    logs: PathBuf,
    kubelet_command: KubeletCommand,
}

/// What a kubelet's command line and configuration are made of.
struct KubeletCommand {
    program: PathBuf,
    search_path: String,
    client_ca: PathBuf,
    kubeconfig: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Node {
    /// Starts containerd and a kubelet, and waits until the kubelet is healthy and registered.
    pub(crate) fn start(world: &World, options: &NodeOptions) -> Self {
        let logs = world.directory.clone();
        let containerd = Containerd::start(options.runtime, &world.parts, &world.base, &logs);
        let kubelet_command = KubeletCommand::new(world);
        let kubelet = kubelet_command.start(options, &logs);
        let api = world.cluster.api.clone();
        let mut node = Self { containerd, kubelet, api, logs, kubelet_command };
        node.wait_until_ready();
        node
    }

    /// Waits until the kubelet is healthy and registered, after a restart too.
    pub(crate) fn wait_until_ready(&mut self) {
        let api = self.api.clone();
        self.kubelet.wait_until("the kubelet is ready", || {
            let health = health()?;
            let node = api.get(&format!("/api/v1/nodes/{NODE}"));
            if health.ends_with("\r\n\r\nok") && node.is_ok() {
                return Ok(());
            }
            Err(format!("{health}, {node:?}"))
        });
    }

    /// Starts a kubelet with other options in the place of one that has ended, and does not wait for it: it may refuse to start.
    pub(crate) fn start_kubelet(&mut self, options: &NodeOptions) {
        assert!(!self.kubelet.is_running(), "stop or kill the kubelet first");
        self.kubelet = self.kubelet_command.start(options, &self.logs);
    }

    /// All metrics of the kubelet.
    pub(crate) fn metrics(&self) -> String {
        self.api.text(&format!("/api/v1/nodes/{NODE}/proxy/metrics")).unwrap()
    }

    /// The value of a metric, written with its labels as the kubelet writes it.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let metrics = self.metrics();
        let mut lines = metrics.lines().filter_map(|line| line.rsplit_once(' '));
        lines.find(|(key, _)| *key == name).map(|(_, value)| value.parse().unwrap())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The API server waits for minutes for a kubelet that has ended.
        if thread::panicking() && self.kubelet.is_running() {
            let metrics = self.api.text(&format!("/api/v1/nodes/{NODE}/proxy/metrics"));
            let metrics = metrics.unwrap_or_else(|refusal| refusal.message);
            fs::write(self.logs.join("metrics.txt"), metrics).unwrap_or_default();
        }
        for pod in pods(&self.api) {
            self.api.delete(&pod, 0).unwrap_or_default();
        }
        self.api.delete(&format!("/api/v1/nodes/{NODE}"), 0).unwrap_or_default();
        self.kubelet.kill();
        self.containerd.process.kill();
        remove_leftovers();
    }
}

impl KubeletCommand {
    fn new(world: &World) -> Self {
        let cluster = &world.cluster;
        let [certificate, key] = cluster.authority.server_at(&[ADDRESS]);
        let [certificate_file, key_file] =
            ["kubelet.pem", "kubelet.key"].map(|name| cluster.file(name));
        fs::write(&certificate_file, certificate).unwrap();
        fs::write(&key_file, key).unwrap();
        Self {
            program: world.parts.program("kubelet"),
            search_path: world.parts.search_path(),
            client_ca: cluster.file("ca.pem"),
            kubeconfig: cluster.kubeconfig(&format!("system:node:{NODE}"), "system:nodes"),
            certificate: certificate_file,
            key: key_file,
        }
    }

    fn start(&self, options: &NodeOptions, logs: &Path) -> Process {
        fs::create_dir_all(KUBELET).unwrap();
        let config = format!("{KUBELET}/config.yaml");
        fs::write(&config, self.config(options).to_string()).unwrap();
        let mut kubelet = Command::new(&self.program);
        // As systemd starts it: without a home, where it would look for docker's logins.
        kubelet.env_clear().env("PATH", &self.search_path).current_dir("/");
        kubelet.envs(options.env.iter().map(|(name, value)| (name, value)));
        kubelet.arg(format!("--config={config}"));
        kubelet.arg(format!("--kubeconfig={}", self.kubeconfig.display()));
        kubelet.arg(format!("--hostname-override={NODE}"));
        kubelet.arg(format!("--node-ip={ADDRESS}")).arg("--v=2").args(&options.flags);
        Process::start("kubelet", kubelet, logs)
    }

    /// What this machine has not, a kubelet must not want: cgroups of version 2, iptables, a network for pods.
    fn config(&self, options: &NodeOptions) -> Value {
        let mut config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"x509": {"clientCAFile": self.client_ca}},
            "tlsCertFile": self.certificate,
            "tlsPrivateKeyFile": self.key,
            "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": false,
            "cgroupsPerQOS": false,
            "enforceNodeAllocatable": [],
            "makeIPTablesUtilChains": false,
            "failSwapOn": false,
            "localStorageCapacityIsolation": false,
            "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
            "imageGCHighThresholdPercent": 100,
            "resolvConf": "",
        });
        for (field, value) in &options.config {
            config[field] = value.clone();
        }
        config
    }
}

pub(crate) fn health() -> Result<String, String> {
    let mut answer = String::new();
    let mut ask = || {
        let mut connection = TcpStream::connect("127.0.0.1:10248")?;
        connection.write_all(b"GET /healthz HTTP/1.0\r\n\r\n")?;
        connection.read_to_string(&mut answer)
    };
    ask().map_err(|error| error.to_string())?;
    Ok(answer)
}

/// The paths of all pods there are.
fn pods(api: &Api) -> Vec<String> {
    let pods = api.get("/api/v1/pods").unwrap_or_default();
    let path = |pod: &Value| {
        let [namespace, name] = ["namespace", "name"].map(|key| pod["metadata"][key].as_str());
        Some(format!("/api/v1/namespaces/{}/pods/{}", namespace?, name?))
    };
    pods["items"].as_array().into_iter().flatten().filter_map(path).collect()
}

/// Ends the containers and their shims, which outlive containerd, and removes what they and the kubelet wrote.
fn remove_leftovers() {
    wait_for("containers to end", Duration::from_secs(30), || {
        let left: Vec<_> = container_processes();
        for process in &left {
            output(Command::new("kill").args(["-KILL", process]));
        }
        if left.is_empty() { Ok(()) } else { Err(format!("processes {left:?}")) }
    });
    let roots = [KUBELET, "/run/containerd", "/var/lib/containerd"];
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let points = mounts.lines().rev().filter_map(|mount| mount.split(' ').nth(1));
    for point in points.filter(|point| roots.iter().any(|root| is_below(point, root))) {
        output(Command::new("umount").args(["--lazy", point]));
    }
    for directory in [&roots[..], &["/var/log/pods", "/var/log/containers"]].concat() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() {
                fs::remove_dir_all(path).unwrap();
            } else {
                fs::remove_file(path).unwrap();
            }
        }
    }
}

fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'))
}

/// The numbers of the processes that are shims or in a container's cgroup.
fn container_processes() -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let numbers = names.filter(|name| name.parse::<u32>().is_ok());
    numbers.filter(|number| is_of_container(number)).collect()
}

fn is_of_container(number: &str) -> bool {
    let read =
        |file: &str| fs::read_to_string(format!("/proc/{number}/{file}")).unwrap_or_default();
    // A process that has ended but was not reaped has no command line.
    let command = read("cmdline");
    !command.is_empty()
        && (command.contains("containerd-shim")
            || ["/k8s.io/", "/kubepods/"].iter().any(|group| read("cgroup").contains(group)))
}
