//! A running `keyfob serve` with metrics on a port of its own, and plugins that can be broken.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    os::unix::{fs::MetadataExt as _, net::UnixStream},
    process::{Child, Stdio},
    thread,
};

use serde_json::json;

use crate::node::{Node, answer, program};

/// It runs as long as the value lives, or until it is stopped.
pub(crate) struct RunningAgent {
    node: Node,
    port: u16,
    process: Child,
}

impl RunningAgent {
    /// An agent whose audit log is a file of its own, or this device.
    pub(crate) fn start(audit: &str) -> Self {
        let mut node = Node::new();
        for (name, lifetime) in [("failing", "1s"), ("short", "16s")] {
            let (pattern, broken) =
                (format!("{name}.example"), node.path(&format!("{name}.broken")));
            let works = answer(&[[&pattern, "ada", "hunter2-ada"]]);
            let script = format!("[ ! -e '{}' ] || exit 1\n{works}", broken.display());
            node = node
                .with(name, &[&pattern], &script)
                .having("defaultCacheDuration", json!(lifetime));
        }
        node = node.answering("denied", &["denied.example"], &[]);
        // Free now, and nobody else asks for this one.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let audit = match audit {
            "file" => node.path("audit.log"),
            device => device.into(),
        };
        let uid = fs::metadata("/proc/self").unwrap().uid();
        let config = json!({
            "apiVersion": "keyfob.dev/v1alpha1",
            "kind": "AgentConfiguration",
            "providerConfig": node.config(),
            "pluginDirectory": node.path("plugins"),
            "listeners": {
                "agent": {"path": node.path("agent.sock")},
                "http": {"address": format!("127.0.0.1:{port}")},
            },
            "audit": {"to": "file", "path": audit},
            "rules": [
                {"name": "none", "callers": {"uids": [uid]}, "images": ["denied.example"], "action": "Deny"},
                {"name": "own", "callers": {"uids": [uid]}, "action": "Allow"},
            ],
        });
        node.file("agent.yaml", &config.to_string());
        let process = start(&node);
        Self { node, port, process }
    }

    /// Where its metrics are.
    pub(crate) fn http(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Asks for credentials, and says with which status the agent answers.
    pub(crate) fn ask(&self, image: &str) -> u16 {
        let body = json!({"image": image}).to_string();
        let mut stream = UnixStream::connect(self.node.path("agent.sock")).unwrap();
        write!(
            stream,
            "POST /v1/credentials HTTP/1.1\r\nhost: agent\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn break_plugin(&self, name: &str) {
        self.node.file(&format!("{name}.broken"), "");
    }

    pub(crate) fn fix_plugin(&self, name: &str) {
        fs::remove_file(self.node.path(&format!("{name}.broken"))).unwrap();
    }

    /// Replaces the agent's file, and returns what was in it.
    pub(crate) fn replace_config(&mut self, text: &str) -> String {
        let path = self.node.path("agent.yaml");
        let before = fs::read_to_string(&path).unwrap();
        let new = self.node.file("agent.yaml.new", text);
        fs::rename(new, path).unwrap();
        before
    }

    pub(crate) fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub(crate) fn start_again(&mut self) {
        self.process = start(&self.node);
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        self.process.kill().unwrap_or_default();
        drop(self.process.wait());
    }
}

/// Starts the agent, and waits until it serves.
fn start(node: &Node) -> Child {
    let mut command = program();
    command.arg("serve").arg("--config").arg(node.path("agent.yaml"));
    let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(process.stderr.take().unwrap());
    let mut log = String::new();
    while !log.contains("the agent serves") {
        assert_ne!(stderr.read_line(&mut log).unwrap(), 0, "{log}");
    }
    // Nobody reads the rest, but it must go somewhere.
    thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
    process
}
