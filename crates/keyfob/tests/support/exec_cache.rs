//! `keyfob kube exec-cache` around a plugin that counts its runs, in a directory of their own.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

/// What a client says that tells nothing of the cluster.
pub(crate) const INFO: &str = "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"spec\":{\"interactive\":false}}\n";

/// In the plugin's answer, and to be seen nowhere else.
pub(crate) const TOKEN: &str = "hunter2-token";

pub(crate) struct Wrapped {
    pub(crate) folder: TempDir,
}

impl Wrapped {
    /// Around a shell script, which begins by counting itself.
    pub(crate) fn new(script: &str) -> Self {
        let wrapped = Self { folder: tempfile::tempdir().unwrap() };
        wrapped.rewrite(script);
        wrapped
    }

    /// Around a plugin that answers at once, with an answer that is good for long.
    pub(crate) fn answering() -> Self {
        Self::new(&answer(TOKEN, "2040-01-01T00:00:00Z"))
    }

    /// Around a plugin that waits for the gate to be opened, and goes on.
    pub(crate) fn waiting(then: &str) -> Self {
        Self::new(&format!("while [ ! -e \"$GATE\" ]; do sleep 0.01; done\n{then}"))
    }

    pub(crate) fn rewrite(&self, script: &str) {
        fs::write(self.path("plugin.sh"), format!("printf x >>\"$RUNS\"\n{script}")).unwrap();
    }

    pub(crate) fn open_gate(&self) {
        fs::write(self.path("gate"), "").unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn cache_dir(&self) -> PathBuf {
        self.path("cache")
    }

    /// The program with these flags, around the plugin.
    pub(crate) fn command(&self, flags: &[&str]) -> Command {
        let mut command = self.bare();
        command.args(flags).args(["--", "sh"]).arg(self.path("plugin.sh"));
        command
    }

    /// The program without a plugin.
    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    pub(crate) fn bare(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keyfob"));
        command.args(["kube", "exec-cache"]);
        self.surround(&mut command);
        command
    }

    /// The same, started by a process of its own, as a kubectl is one.
    pub(crate) fn client(&self, flags: &[&str]) -> Command {
        self.client_doing("\"$@\"; exit $?", flags)
    }

    /// A client that asks, and asks again.
    pub(crate) fn asking_twice(&self) -> Command {
        self.client_doing("\"$@\" && \"$@\"; exit $?", &[])
    }

    #[expect(clippy::disallowed_methods, reason = "stands for a client")]
    fn client_doing(&self, what: &str, flags: &[&str]) -> Command {
        let asked = self.command(flags);
        let mut client = Command::new("sh");
        client.args(["-c", what, "client"]);
        client.arg(asked.get_program()).args(asked.get_args());
        self.surround(&mut client);
        client
    }

    fn surround(&self, command: &mut Command) {
        command
            .env("KEYFOB_EXEC_CACHE_DIR", self.cache_dir())
            .env("KUBERNETES_EXEC_INFO", INFO)
            .env("RUNS", self.path("runs"))
            .env("GATE", self.path("gate"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    }

    /// How often the plugin was run.
    pub(crate) fn runs(&self) -> u64 {
        fs::metadata(self.path("runs")).map_or(0, |runs| runs.len())
    }

    /// The files of one kind.
    pub(crate) fn files(&self, extension: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.cache_dir()) else { return Vec::new() };
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
    }

    /// Changes the text of the one answer that is kept.
    pub(crate) fn edit_answer(&self, edit: impl Fn(&str) -> String) {
        let [file] = self.files("json").try_into().unwrap();
        let text = edit(&fs::read_to_string(&file).unwrap());
        fs::write(&file, text).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    /// Waits until so many processes wait for the one lock that there is.
    pub(crate) fn await_waiting(&self, processes: usize) {
        observe(|| {
            let locks = self.files("lock");
            let [lock] = locks.as_slice() else { return false };
            waiting_for(lock) >= processes
        });
    }
}

/// Waits for something that can be seen.
pub(crate) fn observe(mut seen: impl FnMut() -> bool) {
    while !seen() {
        std::thread::yield_now();
    }
}

/// How many wait for a lock, by the kernel's own list.
fn waiting_for(lock: &Path) -> usize {
    let Ok(file) = fs::metadata(lock) else { return 0 };
    let inode = format!(":{} ", file.ino());
    let locks = fs::read_to_string("/proc/locks").unwrap();
    locks.lines().filter(|line| line.contains("-> FLOCK") && line.contains(&inode)).count()
}

/// A script that prints an answer.
pub(crate) fn answer(token: &str, expiry: &str) -> String {
    let status = format!("{{\"token\":\"{token}\",\"expirationTimestamp\":\"{expiry}\"}}");
    format!(
        "printf '%s' '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":{status}}}'\n"
    )
}

/// Hands something to a process, which need not read it.
pub(crate) fn feed(child: &mut Child, text: &str) {
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap_or_default();
}
