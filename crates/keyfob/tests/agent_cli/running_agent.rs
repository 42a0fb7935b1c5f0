//! An agent that runs as long as a test needs it, for the user who runs the tests.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::MetadataExt as _,
    process::{Child, ChildStderr, Stdio},
};

use keyfob_testkit::LeakCheck;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use crate::node::{Node, Said, answer, program};

/// What the plugin answers.
pub(crate) const PASSWORD: &str = "hunter2-ada";
/// An image that the rule allows.
pub(crate) const IMAGE: &str = "r.example/team/app:v1";
/// An image that a provider matches, and no rule allows.
pub(crate) const OTHER: &str = "s.example/team/app:v1";

/// The user who runs the tests.
pub(crate) fn own_uid() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}

pub(crate) fn is_root() -> bool {
    own_uid() == 0
}

/// A node with one provider, whose plugin keeps count of its runs.
pub(crate) fn node() -> Node {
    node_answering(&["*.example"], &[["r.example", "ada", PASSWORD]])
}

pub(crate) fn node_answering(patterns: &[&str], logins: &[[&str; 3]]) -> Node {
    let node = Node::new();
    let runs = node.path("runs");
    let script = format!("echo run >>'{}'\n{}", runs.display(), answer(logins));
    node.with("plugin", patterns, &script)
}

/// The rule that allows the user who runs the tests the images of one registry.
pub(crate) fn own_rule(pattern: &str) -> Value {
    json!([{"name": "own", "callers": {"uids": [own_uid()]}, "images": [pattern], "action": "Allow"}])
}

/// Writes the agent's file, and says where.
pub(crate) fn agent_file(node: &Node, rules: &Value) -> String {
    agent_file_with(node, rules, &json!({}))
}

/// The same with more fields.
pub(crate) fn agent_file_with(node: &Node, rules: &Value, more: &Value) -> String {
    let mut config = json!({
        "apiVersion": "keyfob.dev/v1alpha1",
        "kind": "AgentConfiguration",
        "providerConfig": node.config(),
        "pluginDirectory": node.path("plugins"),
        "listeners": {
            "agent": {"path": node.path("agent.sock")},
            "admin": {"path": node.path("admin.sock")},
        },
        "audit": {"to": "none"},
        "rules": rules,
    });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    node.file("agent.yaml", &config.to_string())
}

/// An agent, and the node it serves.
pub(crate) struct RunningAgent {
    pub(crate) node: Node,
    program: Child,
    stderr: BufReader<ChildStderr>,
    log: String,
}

impl RunningAgent {
    /// One that allows images of `r.example`.
    pub(crate) fn start() -> Self {
        Self::of(node(), &own_rule("r.example"))
    }

    pub(crate) fn of(node: Node, rules: &Value) -> Self {
        Self::with(node, rules, &json!({}))
    }

    /// One whose file has more fields.
    pub(crate) fn with(node: Node, rules: &Value, more: &Value) -> Self {
        let file = agent_file_with(&node, rules, more);
        Self::with_file(node, &file)
    }

    /// One with this file.
    pub(crate) fn with_file(node: Node, file: &str) -> Self {
        Self::serving(node, file, &[], &[])
    }

    /// One with variables.
    #[cfg(feature = "otlp")]
    pub(crate) fn with_environment(node: Node, rules: &Value, variables: &[(&str, &str)]) -> Self {
        let file = agent_file(&node, rules);
        Self::serving(node, &file, &[], variables)
    }

    /// Starts another agent with the same file, which takes over from this one, and stops this one. Returns what this one has logged.
    pub(crate) fn replace(&mut self) -> Said {
        let node = std::mem::replace(&mut self.node, Node::new());
        let file = node.path("agent.yaml");
        let next = Self::serving(node, file.to_str().unwrap(), &["--take-over"], &[]);
        let (_, said) = std::mem::replace(self, next).stop();
        said
    }

    /// Its temporary files would be in `tmp`.
    fn serving(node: Node, file: &str, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let temporary = node.path("tmp");
        fs::create_dir_all(&temporary).unwrap();
        let mut command = program();
        command.args(["serve", "--config", file]).args(args).env("TMPDIR", temporary);
        command.envs(variables.iter().copied());
        let mut program = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(program.stderr.take().unwrap());
        let mut agent = Self { node, program, stderr, log: String::new() };
        agent.wait_for("the agent serves");
        agent
    }

    pub(crate) fn socket(&self) -> String {
        self.node.path("agent.sock").to_str().unwrap().to_owned()
    }

    pub(crate) fn admin_socket(&self) -> String {
        self.node.path("admin.sock").to_str().unwrap().to_owned()
    }

    /// Runs a command that asks this agent. Its password is to be seen nowhere.
    pub(crate) fn ask(&self, command: &str, args: &[&str]) -> Said {
        let socket = self.socket();
        let said = crate::node::keyfob(&[&[command, "--agent", &socket], args].concat());
        LeakCheck::new([PASSWORD]).text("stdout", &said.stdout).text("stderr", &said.stderr);
        said
    }

    /// How often the plugin has run.
    pub(crate) fn runs(&self) -> usize {
        fs::read_to_string(self.node.path("runs")).unwrap_or_default().lines().count()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.program.id()).unwrap()), signal).unwrap();
    }

    /// Reads the log until a line contains this.
    pub(crate) fn wait_for(&mut self, text: &str) {
        while !self.log.lines().last().is_some_and(|line| line.contains(text)) {
            assert_ne!(self.stderr.read_line(&mut self.log).unwrap(), 0, "{}", self.log);
        }
    }

    /// Stops it: exit code, stdout and the whole log.
    pub(crate) fn stop(self) -> (Node, Said) {
        self.signal(Signal::SIGTERM);
        self.ended()
    }

    /// The same for one that was told to stop.
    pub(crate) fn ended(mut self) -> (Node, Said) {
        let code = self.program.wait().unwrap().code().unwrap();
        let mut stdout = String::new();
        self.program.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut self.log).unwrap();
        LeakCheck::new([PASSWORD, "hunter2"]).text("the log", &self.log);
        let node = std::mem::replace(&mut self.node, Node::new());
        (node, Said { code, stdout, stderr: self.log.clone() })
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        self.program.kill().unwrap_or_default();
        drop(self.program.wait());
    }
}
