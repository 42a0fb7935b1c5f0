//! What all scenarios share, and what each of them gets for itself.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use crate::{
    cluster::Cluster, hosts::Hosts, image::Base, parts::Parts, pod::PodBuilder, registry::Pushed,
};

/// A cluster for all scenarios; names and directories of the one that runs.
pub(crate) struct World {
    pub(crate) parts: Parts,
    pub(crate) hosts: Hosts,
    pub(crate) base: Arc<Base>,
    pub(crate) cluster: Cluster,
    /// The namespace of this scenario.
    pub(crate) namespace: String,
    /// Logs of this scenario. They are kept if it fails.
    pub(crate) directory: PathBuf,
    /// For files that nobody wants to see afterwards.
    pub(crate) files: PathBuf,
}

impl World {
    /// Starts the cluster with logs in this directory.
    pub(crate) fn start(parts: Parts, logs: &Path) -> Self {
        let marker = Path::new("/run/isolated");
        assert!(marker.exists(), "this changes the machine unless it is run by .ci/isolated");
        let files = PathBuf::from("/run/real-node");
        fs::create_dir_all(&files).unwrap();
        let cluster = Cluster::start(&parts, &files, logs);
        let base = Arc::new(Base::build(&parts, &files));
        let (hosts, directory) = (Hosts::start(), logs.to_owned());
        Self { parts, hosts, base, cluster, namespace: String::new(), directory, files }
    }

    /// Prepares a namespace and a directory for the next scenario. Nothing is left of what others installed or allowed.
    pub(crate) fn begin(&mut self, name: &str, logs: &Path) {
        let plugins = ["/usr/local/lib/kubelet-plugins", "/usr/local/lib/load-plugins"];
        for installed in plugins.into_iter().chain(["/etc/kubernetes"]) {
            fs::remove_dir_all(installed).unwrap_or_default();
        }
        self.cluster.reset();
        self.namespace = name.replace('_', "-");
        self.directory = logs.join(name);
        fs::create_dir_all(&self.directory).unwrap();
        self.cluster.restore_flags();
        self.cluster.create_namespace(&self.namespace);
    }

    /// A pod of the scenario's namespace, still to be created.
    pub(crate) fn pod(&self, name: &str, image: &Pushed) -> PodBuilder {
        let api = self.cluster.api.clone();
        PodBuilder::new(api, &self.namespace, name, &image.reference)
    }

    /// Applies manifests that name no namespace to the scenario's namespace.
    pub(crate) fn apply_in_namespace(&self, manifests: &str) {
        self.cluster.apply_with(&["--namespace", &self.namespace], manifests);
    }

    /// The keyfob under test, as an administrator of cluster and node runs it.
    pub(crate) fn keyfob(&self, args: &[&str]) -> Command {
        let mut keyfob = Command::new(env!("CARGO_BIN_EXE_keyfob"));
        keyfob.env_clear().env("PATH", self.parts.search_path()).env("HOME", &self.files);
        keyfob.env("KUBECONFIG", self.cluster.admin()).args(args);
        keyfob
    }
}
