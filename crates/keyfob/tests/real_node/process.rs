//! A program in the background, with a log, that can be killed and started again.

use std::{
    fs::{self, OpenOptions},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::wait::wait_for;

/// A daemon under test. It is killed when the value is dropped.
pub(crate) struct Process {
    name: &'static str,
    command: Command,
    child: Child,
    log: PathBuf,
    /// Where in the log this process begins: others of its name may have written before.
    begin: usize,
}

impl Process {
    /// Starts a command. Its output is appended to `DIRECTORY/NAME.log`.
    pub(crate) fn start(name: &'static str, mut command: Command, directory: &Path) -> Self {
        let log = directory.join(format!("{name}.log"));
        let output = OpenOptions::new().create(true).append(true).open(&log).unwrap();
        let begin = fs::metadata(&log).unwrap().len().try_into().unwrap();
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let child = spawn(name, &mut command);
        Self { name, command, child, log, begin }
    }

    /// Sends SIGTERM and waits until the process has ended.
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        self.wait_for_exit();
    }

    /// Sends SIGKILL and waits until the process has ended.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.wait_for_exit();
    }

    /// Starts the same command again. The process must have ended.
    pub(crate) fn start_again(&mut self) {
        assert!(!self.is_running(), "{} is still running", self.name);
        self.child = spawn(self.name, &mut self.command);
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the process has ended by itself or by a signal.
    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        let name = self.name;
        wait_for(&format!("{name} to end"), Duration::from_mins(1), || {
            self.child.try_wait().unwrap().ok_or_else(|| "it is running".to_owned())
        })
    }

    /// Everything it has printed so far, from the first start on.
    pub(crate) fn log(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&log[self.begin..]).into_owned()
    }

    /// The messages in the log of a Kubernetes program that contain a text, without time, process and place in the source.
    pub(crate) fn messages(&self, text: &str) -> Vec<String> {
        let mut messages: Vec<String> = Vec::new();
        for line in self.log().lines() {
            let start = line.split_once("] ").filter(|(header, _)| is_log_header(header));
            match (start, messages.last_mut()) {
                (Some((_, message)), _) => messages.push(message.to_owned()),
                // A value of several lines.
                (None, Some(last)) => last.extend(["\n", line]),
                (None, None) => {}
            }
        }
        messages.retain(|message| message.contains(text));
        messages
    }

    /// Waits until something holds while the process runs; panics with the end of the log if the process ends before.
    pub(crate) fn wait_until<T>(
        &mut self,
        what: &str,
        mut check: impl FnMut() -> Result<T, String>,
    ) -> T {
        wait_for(what, Duration::from_mins(1), || {
            let state = check();
            let goes_on = state.is_ok() || self.is_running();
            assert!(goes_on, "{} ended before {what}:\n{}", self.name, self.last_lines(15));
            state
        })
    }

    fn last_lines(&self, count: usize) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }

    fn signal(&mut self, signal: Signal) {
        if self.is_running() {
            kill(Pid::from_raw(self.pid().cast_signed()), signal).unwrap();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        drop(self.child.wait());
    }
}

fn spawn(name: &str, command: &mut Command) -> Child {
    command.spawn().unwrap_or_else(|error| panic!("{name} cannot be started: {error}"))
}

/// Whether a line begins as klog does, such as `E1118 02:11:35.394072     235 plugin.go:418`.
fn is_log_header(text: &str) -> bool {
    let (level, date) = text.split_at_checked(1).unwrap_or_default();
    "IWEF".contains(level) && date.starts_with(|first: char| first.is_ascii_digit())
}

/// A port of loopback that nobody uses.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
