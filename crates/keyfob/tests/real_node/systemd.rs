//! A real systemd, which starts the kubelet as on other machines.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{process::Process, shell::output, world::World};

/// Where packages install units.
const PACKAGED_UNITS: &str = "/usr/lib/systemd/system";
/// Where an administrator's units and drop-ins are.
const UNITS: &str = "/etc/systemd/system";
/// Its socket for `systemctl`.
const SOCKET: &str = "/run/systemd/private";
/// The units that every service depends on, without the services that these want on a whole machine.
const TARGETS: [&str; 3] = ["basic.target", "shutdown.target", "sysinit.target"];
/// Makes this process systemd, in namespaces of its own. Sysctls stay those of the test, and nothing is created in `/dev`
/// or written to the console, which are the machine's. Systemd takes itself for the first process of a container. So it leaves to
/// others to share mounts, as on a machine, and without that services would not see their credentials.
const BECOME_SYSTEMD: &str = "
set -e
mount --rbind /proc/sys /mnt
mount -t proc proc /proc
mount --rbind /mnt /proc/sys
mount -o remount,bind,ro /proc/sys
mount --bind /dev/null /dev/console
mount -o remount,bind,ro /dev
mount --make-rshared /
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=basic.target --log-target=null --show-status=no
";

/// The first process of a PID namespace within that of the test, with the test's files and network. When it is dropped, its services
/// end at once.
pub(crate) struct Systemd {
    process: Process,
    search_path: String,
}

impl Systemd {
    /// Starts it without any service, and waits until it is ready. Services append their output to `services.log`.
    pub(crate) fn start(world: &World) -> Self {
        remove_units();
        let log = world.directory.join("services.log");
        let log = format!(
            "[Service]\nStandardOutput=append:{0}\nStandardError=append:{0}\n",
            log.display()
        );
        write(Path::new("/run/systemd/system/service.d/log.conf"), &log);
        let mut command = Command::new("unshare");
        command.args(["--pid", "--mount", "--uts", "--fork", "--kill-child"]);
        command.args(["bash", "-c", BECOME_SYSTEMD]);
        let process = Process::start("systemd", command, &world.directory);
        let mut systemd = Self { process, search_path: world.parts.search_path() };
        systemd.wait_until_ready();
        systemd
    }

    fn wait_until_ready(&mut self) {
        let pid = self.process.pid();
        self.process.wait_until("systemd listens", || {
            if Path::new(SOCKET).exists() { Ok(()) } else { Err(format!("no {SOCKET}")) }
        });
        let mut state = enter(pid, &self.search_path, "systemctl is-system-running");
        self.process.wait_until("systemd is running", || {
            let state = String::from_utf8(output(&mut state).stdout).unwrap();
            if state == "running\n" { Ok(()) } else { Err(state) }
        });
    }

    /// Runs a command beside its services, which must succeed, and returns what it prints.
    pub(crate) fn run(&self, command: &str) -> String {
        let output = self.try_run(command);
        assert!(output.status.success(), "{command} failed: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command beside its services, which may fail.
    pub(crate) fn try_run(&self, command: &str) -> Output {
        output(&mut enter(self.process.pid(), &self.search_path, command))
    }

    /// The file of a unit or drop-in of a package. A change counts after `systemctl daemon-reload`.
    pub(crate) fn packaged_unit(name: &str) -> PathBuf {
        Path::new(PACKAGED_UNITS).join(name)
    }

    /// The file of a unit or drop-in of the administrator.
    pub(crate) fn unit(name: &str) -> PathBuf {
        Path::new(UNITS).join(name)
    }

    /// The first process of the namespace, by its number outside.
    fn first_process(&self) -> Option<Pid> {
        let pid = self.process.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        children.trim().parse().ok().map(Pid::from_raw)
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        // With it all processes of its namespace have ended when it has.
        if let Some(first) = self.first_process() {
            kill(first, Signal::SIGKILL).unwrap_or_default();
            self.process.wait_for_exit();
        }
    }
}

/// A shell in the namespaces that this process has made for systemd.
fn enter(pid: u32, search_path: &str, command: &str) -> Command {
    let namespace = |name: &str| format!("/proc/{pid}/ns/{name}");
    let mut shell = Command::new("nsenter");
    shell.arg(format!("--pid={}", namespace("pid_for_children")));
    shell.arg(format!("--mount={}", namespace("mnt")));
    shell.arg(format!("--uts={}", namespace("uts")));
    shell.args(["bash", "-e", "-u", "-o", "pipefail", "-c", command]);
    shell.env_clear().env("PATH", search_path).env("HOME", "/root").current_dir("/");
    shell
}

/// Leaves nothing but a few targets of the units that are installed here, and nothing of a systemd that ran before.
fn remove_units() {
    let targets = TARGETS.map(|name| {
        let path = Path::new(PACKAGED_UNITS).join(name);
        let text = fs::read_to_string(&path);
        (text.unwrap_or_else(|error| panic!("{}: {error}", path.display())), path)
    });
    let generators = "/usr/lib/systemd/system-generators";
    for directory in [PACKAGED_UNITS, UNITS, generators, "/run/systemd"] {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != ErrorKind::NotFound => panic!("{directory}: {error}"),
            _ => fs::create_dir_all(directory).unwrap(),
        }
    }
    for (text, path) in targets {
        write(&path, &text);
    }
}

/// Writes a file, with the directories above it.
pub(crate) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
