//! containerd and its configuration.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    image::Base,
    parts::Parts,
    process::Process,
    shell::{output, stdout},
};

/// The image of every pod's sandbox. No registry has it: it is imported.
const PAUSE: &str = "registry.k8s.io/pause:of-this-test";
const CONFIG: &str = "/etc/containerd/config.toml";
pub(crate) const SOCKET: &str = "/run/containerd/containerd.sock";

/// A version of containerd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runtime {
    /// Built from source.
    Containerd21,
    /// Debian's.
    Containerd16,
}

impl Runtime {
    pub(crate) const ALL: [Self; 2] = [Self::Containerd21, Self::Containerd16];

    /// Its programs, in the directory of all programs.
    pub(crate) fn directory(self) -> &'static str {
        match self {
            Self::Containerd21 => "containerd-2.1",
            Self::Containerd16 => "containerd-1.6",
        }
    }

    fn config(self, runc: &Path) -> String {
        let runc = runc.display();
        let (version, images, runtime, sandbox) = match self {
            Self::Containerd21 => (
                3,
                "io.containerd.cri.v1.images",
                "io.containerd.cri.v1.runtime",
                "[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox",
            ),
            Self::Containerd16 => {
                let cri = "io.containerd.grpc.v1.cri";
                (2, cri, cri, "sandbox_image")
            }
        };
        // A machine may not let its root lower the score, which a sandbox wants.
        format!(
            "version = {version}\n\
             [plugins.'{runtime}']\nrestrict_oom_score_adj = true\n\
             {sandbox} = '{PAUSE}'\n\
             [plugins.'{images}'.registry]\nconfig_path = '/etc/containerd/certs.d'\n\
             [plugins.'{runtime}'.containerd.runtimes.runc]\nruntime_type = 'io.containerd.runc.v2'\n\
             [plugins.'{runtime}'.containerd.runtimes.runc.options]\nBinaryName = '{runc}'\n",
        )
    }
}

pub(crate) struct Containerd {
    pub(crate) process: Process,
    programs: PathBuf,
}

impl Containerd {
    /// Starts it with the image of the sandboxes and no other.
    pub(crate) fn start(runtime: Runtime, parts: &Parts, base: &Base, logs: &Path) -> Self {
        let programs = parts.program(runtime.directory());
        // Podman installs a network, which pods shall not depend on.
        fs::remove_dir_all("/etc/cni").unwrap_or_default();
        fs::create_dir_all("/etc/containerd/certs.d").unwrap();
        fs::write(CONFIG, runtime.config(&parts.program("runc"))).unwrap();
        let mut command = Command::new(programs.join("containerd"));
        let search = format!("{}:{}", programs.display(), parts.search_path());
        command.env_clear().env("PATH", search).args(["--config", CONFIG]);
        let process = Process::start("containerd", command, logs);
        let mut containerd = Self { process, programs };
        containerd.wait_until_ready();
        let archive = base.image("pause", 0, logs).archive(PAUSE, Path::new("/run"));
        containerd.ctr(&["images", "import", archive.to_str().unwrap()]);
        // Containerd 1.6 knows the image of a sandbox only after it was told that it belongs to CRI.
        containerd.ctr(&["images", "label", PAUSE, "io.cri-containerd.image=managed"]);
        fs::remove_file(archive).unwrap();
        containerd
    }

    /// Waits until it answers, after a restart too.
    pub(crate) fn wait_until_ready(&mut self) {
        let mut ctr = self.ctr_command(&["plugins", "list", "id==cri"]);
        self.process.wait_until("containerd answers", || {
            let answer = output(&mut ctr);
            answer.status.success().then_some(()).ok_or_else(|| format!("{answer:?}"))
        });
    }

    /// What ctr prints, in the namespace that Kubernetes uses.
    pub(crate) fn ctr(&self, args: &[&str]) -> String {
        stdout(&mut self.ctr_command(args))
    }

    fn ctr_command(&self, args: &[&str]) -> Command {
        let mut ctr = Command::new(self.programs.join("ctr"));
        ctr.args(["--address", SOCKET, "--namespace", "k8s.io"]).args(args);
        ctr
    }
}
