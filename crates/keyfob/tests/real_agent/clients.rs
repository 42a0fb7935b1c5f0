//! The real clients, each as it gets an image of a registry without TLS.

use std::{
    convert::identity,
    process::{Command, Output},
};

use crate::agent::RunningAgent;

pub(crate) const CLIENTS: [Client; 5] = [
    Client { name: "skopeo inspect", command: skopeo_inspect },
    Client { name: "skopeo copy", command: skopeo_copy },
    Client { name: "podman pull", command: podman_pull },
    Client { name: "buildah pull", command: buildah_pull },
    Client { name: "docker manifest inspect", command: docker_manifest_inspect },
];

/// A client that asks the registry each time it is run.
pub(crate) struct Client {
    pub(crate) name: &'static str,
    command: fn(&RunningAgent, Image<'_>) -> Command,
}

/// An image, and where a client may keep it.
#[derive(Clone, Copy)]
pub(crate) struct Image<'a> {
    pub(crate) registry: &'a str,
    pub(crate) name: &'a str,
}

impl Client {
    /// Runs it, changed in some way.
    pub(crate) fn run(
        &self,
        agent: &RunningAgent,
        image: Image<'_>,
        change: impl Fn(Command) -> Command,
    ) -> Output {
        change((self.command)(agent, image)).output().unwrap_or_else(|error| {
            unreachable!("{} cannot be run, .ci/run e2e installs it: {error}", self.name)
        })
    }

    /// Runs it, which must succeed.
    pub(crate) fn succeed(&self, agent: &RunningAgent, image: Image<'_>) {
        self.assert_success(&self.run(agent, image, identity));
    }

    /// Runs it, and the registry must refuse it.
    pub(crate) fn be_refused(&self, agent: &RunningAgent, image: Image<'_>) {
        self.assert_refusal(&self.run(agent, image, identity));
    }

    pub(crate) fn assert_success(&self, output: &Output) {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {stderr}", self.name);
    }

    pub(crate) fn assert_refusal(&self, output: &Output) {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{} has got the image", self.name);
        // Docker's word for it is the second.
        let is_refusal = ["unauthorized", "no such manifest"].iter().any(|it| stderr.contains(it));
        assert!(is_refusal, "{}: {stderr}", self.name);
    }
}

impl Image<'_> {
    pub(crate) fn reference(self) -> String {
        format!("{}/{}", self.registry, self.name)
    }
}

pub(crate) fn skopeo_inspect(agent: &RunningAgent, image: Image<'_>) -> Command {
    let mut skopeo = agent.client("skopeo", image.registry);
    skopeo.args(["inspect", "--tls-verify=false", &format!("docker://{}", image.reference())]);
    skopeo
}

fn skopeo_copy(agent: &RunningAgent, image: Image<'_>) -> Command {
    let mut skopeo = agent.client("skopeo", image.registry);
    let copy = format!("dir:{}", agent.path("skopeo").display());
    let source = format!("docker://{}", image.reference());
    skopeo.args(["copy", "--quiet", "--src-tls-verify=false", &source, &copy]);
    skopeo
}

fn podman_pull(agent: &RunningAgent, image: Image<'_>) -> Command {
    let mut podman = agent.client("podman", image.registry);
    podman.arg("--root").arg(agent.path("podman")).arg("--runroot").arg(agent.path("podman-run"));
    podman.args(["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"]);
    podman.args(["--events-backend", "none", "pull", "--tls-verify=false"]);
    podman.arg(image.reference());
    podman
}

fn buildah_pull(agent: &RunningAgent, image: Image<'_>) -> Command {
    let mut buildah = agent.client("buildah", image.registry);
    buildah.arg("--root").arg(agent.path("buildah"));
    buildah.arg("--runroot").arg(agent.path("buildah-run")).args(["--storage-driver", "vfs"]);
    buildah.args(["pull", "--policy", "always", "--tls-verify=false"]).arg(image.reference());
    buildah
}

/// It needs no daemon, and asks the credential helper as `docker pull` does.
fn docker_manifest_inspect(agent: &RunningAgent, image: Image<'_>) -> Command {
    let mut docker = agent.client("docker", image.registry);
    docker.args(["manifest", "inspect", "--insecure"]).arg(image.reference());
    docker
}
