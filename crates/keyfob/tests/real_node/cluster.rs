//! A kube-apiserver with its etcd. No controller runs beside them: whoever wants a service account creates it.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::json;

use crate::{
    api::Api,
    authority::{Authority, write},
    parts::Parts,
    process::Process,
};

/// The API server's address.
pub(crate) const URL: &str = "https://127.0.0.1:6443";
const ETCD: &str = "http://127.0.0.1:2379";
const ETCD_PEERS: &str = "http://127.0.0.1:2380";

pub(crate) struct Cluster {
    pub(crate) api_server: Process,
    pub(crate) etcd: Process,
    pub(crate) api: Api,
    pub(crate) authority: Authority,
    /// Certificates, keys and kubeconfigs.
    files: PathBuf,
    logs: PathBuf,
    parts: Parts,
    has_other_flags: bool,
}

impl Cluster {
    /// Starts both, with logs in this directory, and waits until the API server is ready.
    pub(crate) fn start(parts: &Parts, files: &Path, logs: &Path) -> Self {
        let authority = Authority::new();
        authority.furnish(files);
        let [certificate, key] = authority.user("kube-apiserver", "system:masters");
        write(&files.join("kubelet-client.pem"), &certificate);
        write(&files.join("kubelet-client.key"), &key);
        let admin = authority.kubeconfig(URL, "admin", "system:masters");
        write(&files.join("admin.kubeconfig"), &admin);
        let mut etcd = Command::new(parts.program("etcd"));
        etcd.env_clear().args(etcd_arguments(files));
        let etcd = Process::start("etcd", etcd, logs);
        let api_server = start_api_server(parts, files, logs, &[]);
        let mut cluster = Self {
            api_server,
            etcd,
            api: Api::new(&admin),
            authority,
            files: files.to_owned(),
            logs: logs.to_owned(),
            parts: parts.clone(),
            has_other_flags: false,
        };
        cluster.wait_until_ready();
        cluster
    }

    /// Starts the API server again with these flags added, for the rest of the scenario.
    pub(crate) fn restart_api_server(&mut self, flags: &[&str]) {
        self.api_server.kill();
        self.api_server = start_api_server(&self.parts, &self.files, &self.logs, flags);
        self.has_other_flags = !flags.is_empty();
        self.wait_until_ready();
    }

    /// Takes flags away that a scenario has added.
    pub(crate) fn restore_flags(&mut self) {
        if self.has_other_flags {
            self.restart_api_server(&[]);
        }
    }

    /// Waits until the API server is ready, after its own or etcd's restart.
    pub(crate) fn wait_until_ready(&mut self) {
        let api = self.api.clone();
        self.api_server.wait_until("the API server is ready", || match api.text("/readyz") {
            Ok(answer) if answer == "ok" => Ok(()),
            answer => Err(format!("{answer:?}")),
        });
    }

    /// Removes what a scenario added for the whole cluster: roles, their bindings and webhooks.
    pub(crate) fn reset(&self) {
        let [rbac, admission] = ["rbac.authorization", "admissionregistration"]
            .map(|group| format!("/apis/{group}.k8s.io/v1"));
        for resource in ["clusterroles", "clusterrolebindings"] {
            let added = "labelSelector=kubernetes.io/bootstrapping!=rbac-defaults";
            self.api.delete(&format!("{rbac}/{resource}?{added}"), 0).unwrap();
        }
        for resource in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
            self.api.delete(&format!("{admission}/{resource}"), 0).unwrap();
        }
    }

    /// Writes a kubeconfig with a client certificate for this user, and returns its path.
    pub(crate) fn kubeconfig(&self, user: &str, group: &str) -> PathBuf {
        let path = self.files.join(format!("{}.kubeconfig", user.replace(':', "-")));
        write(&path, &self.authority.kubeconfig(URL, user, group));
        path
    }

    /// The administrator's kubeconfig.
    pub(crate) fn admin(&self) -> PathBuf {
        self.files.join("admin.kubeconfig")
    }

    /// A file of the cluster, such as `ca.pem`.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.files.join(name)
    }

    /// kubectl as the administrator.
    pub(crate) fn kubectl(&self, args: &[&str]) -> Command {
        let mut kubectl = Command::new(self.parts.program("kubectl"));
        kubectl.env_clear().env("HOME", &self.files).env("KUBECONFIG", self.admin());
        kubectl.env("PATH", self.parts.search_path()).args(args);
        kubectl
    }

    /// Applies manifests in YAML or JSON with kubectl.
    pub(crate) fn apply(&self, manifests: &str) {
        self.apply_with(&[], manifests);
    }

    /// The same with more arguments.
    pub(crate) fn apply_with(&self, args: &[&str], manifests: &str) {
        let mut kubectl = self.kubectl(&[&["apply", "-f", "-"], args].concat());
        let mut child = kubectl.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(manifests.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "kubectl cannot apply {manifests}");
    }

    /// Creates a namespace with the service account `default`.
    pub(crate) fn create_namespace(&self, name: &str) {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.api.post("/api/v1/namespaces", &namespace).unwrap();
        self.create_service_account(name, "default", &[]);
    }

    /// Creates a service account with annotations.
    pub(crate) fn create_service_account(
        &self,
        namespace: &str,
        name: &str,
        annotations: &[(&str, &str)],
    ) {
        let annotations: serde_json::Map<_, _> =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let account = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name, "annotations": annotations},
        });
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        self.api.post(&path, &account).unwrap();
    }
}

fn start_api_server(parts: &Parts, files: &Path, logs: &Path, flags: &[&str]) -> Process {
    let mut server = Command::new(parts.program("kube-apiserver"));
    server.env_clear().args(arguments(files)).args(flags);
    Process::start("kube-apiserver", server, logs)
}

fn etcd_arguments(files: &Path) -> Vec<String> {
    vec![
        format!("--data-dir={}", files.join("etcd").display()),
        format!("--listen-client-urls={ETCD}"),
        format!("--advertise-client-urls={ETCD}"),
        format!("--listen-peer-urls={ETCD_PEERS}"),
        format!("--initial-advertise-peer-urls={ETCD_PEERS}"),
        format!("--initial-cluster=default={ETCD_PEERS}"),
        // The data is gone at the end of the test anyway, and waiting for the disk takes most of the time.
        "--unsafe-no-fsync".to_owned(),
    ]
}

fn arguments(files: &Path) -> Vec<String> {
    let file = |name: &str| files.join(name).display().to_string();
    vec![
        format!("--etcd-servers={ETCD}"),
        "--secure-port=6443".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=192.0.2.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--service-cluster-ip-range=198.51.100.0/24".to_owned(),
        format!("--cert-dir={}", file("")),
        format!("--tls-cert-file={}", file("server.pem")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--client-ca-file={}", file("ca.pem")),
        format!("--service-account-issuer={URL}"),
        format!("--service-account-key-file={}", file("accounts.pem")),
        format!("--service-account-signing-key-file={}", file("accounts.key")),
        format!("--kubelet-client-certificate={}", file("kubelet-client.pem")),
        format!("--kubelet-client-key={}", file("kubelet-client.key")),
        format!("--kubelet-certificate-authority={}", file("ca.pem")),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--allow-privileged=true".to_owned(),
    ]
}
