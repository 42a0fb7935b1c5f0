//! A process that does what a test tells it, line by line.

use std::{
    ffi::OsStr,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt as _},
    },
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use nix::unistd::{Gid, Uid, setegid, setuid};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// What a puppet says when it has done what it was told.
const DONE: &str = "step: done";

pub(crate) struct Puppet {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Puppet {
    pub(crate) fn start() -> Self {
        Self::start_with(command(std::env::current_exe().unwrap()))
    }

    /// Starts it with `unshare`, in namespaces of its own.
    pub(crate) fn start_in_namespaces(options: &[&str]) -> Self {
        let mut unshare = command("unshare");
        unshare.args(options).arg(std::env::current_exe().unwrap());
        Self::start_with(unshare)
    }

    fn start_with(mut command: Command) -> Self {
        command.args(["--exact", "puppet::follows_instructions", "--ignored", "--nocapture"]);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let stdin = process.stdin.take();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        Self { process, stdin, stdout }
    }

    pub(crate) fn id(&self) -> i32 {
        self.process.id().try_into().unwrap()
    }

    pub(crate) fn connect(&mut self, socket: &Path) {
        self.order(&format!("connect {}", socket.display()));
    }

    /// Tells it something, and waits until it is done.
    pub(crate) fn order(&mut self, instruction: &str) {
        self.tell(instruction);
        self.expect(DONE);
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.stdin.as_ref().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn expect(&mut self, expected: &str) {
        let mut line = String::new();
        while line.trim_end() != expected {
            line.clear();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the puppet ended");
        }
    }

    /// Waits until it has exited, and leaves it a zombie.
    pub(crate) fn wait_until_it_exits(&self) {
        let pid = Pid::from_child(&self.process);
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    }

    /// Waits until it has exited, and reaps it: from now on its id is free.
    pub(crate) fn end(mut self) {
        self.stdin = None;
        self.process.wait().unwrap();
    }

    /// The same for one that has heirs, to whom it leaves its input and output.
    pub(crate) fn reap(&mut self) {
        self.process.wait().unwrap();
    }

    /// Sends a request over the connection that it left.
    pub(crate) fn send_through_its_heir(&self, request: &str) {
        let text = request.replace("\\n", "\r\n");
        self.stdin.as_ref().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Everything that is printed from now on, until nobody is left who could print.
    pub(crate) fn rest(mut self) -> String {
        self.stdin = None;
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        rest
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Not a test: without instructions it ends at once.
#[test]
#[ignore = "other tests start it by its name, and tell it what to do"]
#[expect(clippy::zombie_processes, reason = "the heir outlives its parent")]
fn follows_instructions() {
    let mut connections = Vec::new();
    for line in io::stdin().lines() {
        let line = line.unwrap();
        let (verb, object) = line.split_once(' ').unwrap_or((&line, ""));
        match verb {
            "connect" => connections.push(UnixStream::connect(object).unwrap()),
            "setuid" => setuid(Uid::from_raw(object.parse().unwrap())).unwrap(),
            "setegid" => setegid(Gid::from_raw(object.parse().unwrap())).unwrap(),
            // Runs another program in its place, which gets all further lines.
            "exec" => {
                done();
                panic!("{}", command(object).exec());
            }
            // Sends the rest of the line, with line breaks where it has `\\n`.
            "send" => {
                let text = object.replace("\\n", "\r\n");
                connections.last_mut().unwrap().write_all(text.as_bytes()).unwrap();
            }
            // Prints what it receives.
            "receive" => {
                let connection = connections.pop().unwrap();
                done();
                io::copy(&mut &connection, &mut io::stdout()).unwrap();
                return;
            }
            // Runs another program in its place, which has its connection as its input.
            "exec-with-connection" => {
                let connection = OwnedFd::from(connections.pop().unwrap());
                done();
                panic!("{}", command(object).stdin(connection).exec());
            }
            // Leaves its connection to two children and exits. They send what the test says, and print what is received.
            "leave" => {
                let connection = OwnedFd::from(connections.pop().unwrap());
                let sender = connection.try_clone().unwrap();
                command("cat").stdout(sender).spawn().unwrap();
                command("cat").stdin(connection).spawn().unwrap();
                return;
            }
            // Gives its connection to a child, which lives as long as the test keeps its end, and exits.
            "bequeath" => {
                let connection = OwnedFd::from(connections.pop().unwrap());
                let heir = connection.try_clone().unwrap();
                command("cat").stdin(connection).stdout(heir).spawn().unwrap();
                return;
            }
            _ => panic!("no instruction: {line}"),
        }
        done();
    }
}

/// The harness may have left a line unfinished.
#[expect(clippy::print_stdout, reason = "the test listens")]
fn done() {
    println!("\n{DONE}");
}

#[expect(clippy::disallowed_methods, reason = "the test starts itself and small programs")]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}
