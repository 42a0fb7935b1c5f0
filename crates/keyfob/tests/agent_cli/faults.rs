//! The agent is killed while clients ask, and started again: nobody gets a wrong answer, and the relay follows its setting. The relay
//! here is `keyfob` itself, by its other name. `.ci/run agent-faults` does the same for longer and with more clients.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::OpenOptions,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{fs::symlink, net::UnixStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use crate::{
    node::{Node, Said, program},
    running_agent::{IMAGE, PASSWORD, agent_file, node, own_rule},
};

/// How long clients may take until all of them have noticed something.
const PATIENCE: Duration = Duration::from_secs(20);

/// An agent that can be killed and started again.
struct Agent {
    node: Node,
    file: String,
    process: Option<Child>,
}

impl Agent {
    fn start() -> Self {
        Self::of(node())
    }

    fn of(node: Node) -> Self {
        let file = agent_file(&node, &own_rule("r.example"));
        symlink(env!("CARGO_BIN_EXE_keyfob"), node.path("keyfob-credential-provider")).unwrap();
        let mut agent = Self { node, file, process: None };
        agent.come_up();
        agent
    }

    fn come_up(&mut self) {
        let mut command = program();
        command.args(["serve", "--config", &self.file]).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        self.process = Some(process);
        let mut line = String::new();
        while !line.contains("the agent serves") {
            line.clear();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "the agent ended");
        }
        // It must not wait for somebody to read what it logs.
        thread::spawn(move || io::copy(&mut log, &mut io::sink()));
    }

    fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    fn stop(&self) {
        let id = self.process.as_ref().unwrap().id();
        kill(Pid::from_raw(id.try_into().unwrap()), Signal::SIGSTOP).unwrap();
    }

    fn client(&self, kind: Kind) -> Client {
        let path = |name: &str| self.node.path(name);
        let (plugin, script) = (path("plugins/plugin"), path("plugin.sh"));
        Client {
            kind,
            relay: path("keyfob-credential-provider"),
            socket: path("agent.sock"),
            plugin,
            script,
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap_or_default();
            drop(process.wait());
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Socket,
    Run,
    Refuse,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reply {
    /// The right credentials, from the agent.
    Agent,
    /// The right credentials, from the plugin that the relay ran itself.
    Plugin,
    /// No answer, because there is no agent.
    Down,
    Wrong(String),
}

struct Client {
    kind: Kind,
    relay: PathBuf,
    socket: PathBuf,
    plugin: PathBuf,
    script: PathBuf,
}

impl Client {
    /// Asks until nobody listens or it is told to stop.
    fn keep_asking(&self, stop: &AtomicBool, replies: &Sender<(Kind, Reply)>) {
        while !stop.load(Ordering::Relaxed) && replies.send((self.kind, self.ask())).is_ok() {}
    }

    fn ask(&self) -> Reply {
        if self.kind == Kind::Socket {
            return self.ask_socket().map_or(Reply::Down, |answer| judge(&answer, Reply::Agent));
        }
        let ran = self.run_relay();
        let lines: Vec<_> = ran.stderr.lines().collect();
        match (ran.code, &lines[..]) {
            (0, []) => judge(&ran.stdout, Reply::Agent),
            (0, [why]) if is_down(why) && why.ends_with(" instead") => {
                judge(&ran.stdout, Reply::Plugin)
            }
            (1, [why]) if is_down(why) && ran.stdout.is_empty() => Reply::Down,
            _ => Reply::Wrong(format!("{}: {}", ran.code, ran.stderr)),
        }
    }

    fn ask_socket(&self) -> io::Result<String> {
        let mut stream = UnixStream::connect(&self.socket)?;
        let body = request();
        let length = body.len();
        let head = "POST /v1/provider HTTP/1.1\r\nhost: agent\r\nconnection: close\r\n";
        stream.write_all(format!("{head}content-length: {length}\r\n\r\n{body}").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        body.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn run_relay(&self) -> Said {
        let mut relay = command(&self.relay);
        relay.arg("--socket").arg(&self.socket);
        if self.kind == Kind::Run {
            relay.args(["--if-down", "run", "--fallback-image", "r.example", "--"]);
            relay.args([&self.plugin, &self.script]);
        }
        answered(relay)
    }
}

#[expect(clippy::disallowed_methods, reason = "the program under test")]
fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// What a relay makes of a kubelet's request.
fn answered(mut relay: Command) -> Said {
    relay.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut relay = relay.spawn().unwrap();
    relay.stdin.take().unwrap().write_all(request().as_bytes()).unwrap();
    relay.wait_with_output().unwrap().into()
}

fn request() -> String {
    json!({
        "kind": "CredentialProviderRequest",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "image": IMAGE,
    })
    .to_string()
}

/// Whether the relay says that there is no agent.
fn is_down(line: &str) -> bool {
    line.starts_with("keyfob-relay: the agent is not running: ")
        || line.starts_with("keyfob-relay: the agent closed the connection without an answer: ")
}

fn judge(answer: &str, right: Reply) -> Reply {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    let login = answer.get("auth").and_then(Value::as_object).and_then(|auth| auth.values().next());
    let expected = json!({"username": "ada", "password": PASSWORD});
    // Another one may have a secret in it.
    if login == Some(&expected) {
        right
    } else {
        Reply::Wrong("other credentials, or none".to_owned())
    }
}

/// Waits until all of these have arrived. No reply is wrong in the meantime.
#[expect(clippy::disallowed_methods, reason = "a deadline needs the clock")]
fn until(replies: &Receiver<(Kind, Reply)>, wanted: &[(Kind, Reply)]) {
    let mut missing: BTreeSet<_> = wanted.iter().cloned().collect();
    let began = Instant::now();
    while !missing.is_empty() {
        assert!(began.elapsed() < PATIENCE, "not in time: {missing:?}");
        let reply = replies.recv_timeout(PATIENCE).unwrap();
        assert!(!matches!(reply.1, Reply::Wrong(_)), "{reply:?}");
        missing.remove(&reply);
    }
}

#[test]
fn an_agent_that_is_killed_under_load_and_started_again_leads_to_no_wrong_answer() {
    let mut agent = Agent::start();
    let kinds = [Kind::Socket, Kind::Run, Kind::Refuse];
    let clients = kinds.map(|kind| agent.client(kind));
    let served = kinds.map(|kind| (kind, Reply::Agent));
    let left =
        [(Kind::Socket, Reply::Down), (Kind::Run, Reply::Plugin), (Kind::Refuse, Reply::Down)];
    let stop = AtomicBool::new(false);
    let (sender, replies) = channel();
    thread::scope(|scope| {
        for client in &clients {
            let (stop, sender) = (&stop, sender.clone());
            scope.spawn(move || client.keep_asking(stop, &sender));
        }
        // If something is wrong, the clients stop because nobody listens.
        let replies = replies;
        for _ in 0..3 {
            until(&replies, &served);
            agent.kill();
            until(&replies, &left);
            agent.come_up();
        }
        until(&replies, &served);
        stop.store(true, Ordering::Relaxed);
    });
}

/// The plugin of the agent goes on until nobody writes to a pipe any more. The one that the relay would run is another.
#[test]
fn an_agent_that_is_stopped_is_down_and_one_that_waits_for_its_plugin_is_not() {
    let node = Node::new();
    let pipe = node.path("pipe");
    let mut mkfifo = command("mkfifo");
    assert!(mkfifo.arg(&pipe).status().unwrap().success());
    let _held = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let script = format!("exec cat '{}'", pipe.display());
    let agent = Agent::of(node.with("plugin", &["r.example"], &script));
    let ask = || {
        let mut relay = command(agent.node.path("keyfob-credential-provider"));
        relay.arg("--socket").arg(agent.node.path("agent.sock"));
        relay.args(["--timeout", "900ms", "--down-after", "300ms", "--if-down", "run"]);
        relay.args(["--fallback-image", "r.example", "--", "/bin/echo", "started"]);
        answered(relay)
    };

    let busy = ask();
    assert_eq!((busy.code, &*busy.stdout), (1, ""), "{}", busy.stderr);
    assert!(busy.stderr.starts_with("keyfob-relay: the agent is busy: "), "{}", busy.stderr);
    agent.stop();
    let stopped = ask();
    assert_eq!((stopped.code, &*stopped.stdout), (0, "started\n"), "{}", stopped.stderr);
}
