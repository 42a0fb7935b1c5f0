//! How an agent starts, reads its files again and stops.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    process::{Command, Stdio},
    thread::{self, JoinHandle},
};

use keyfob_testkit::LeakCheck;
use nix::sys::signal::Signal;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::{
    node::{Node, Said, answer, keyfob},
    running_agent::{IMAGE, OTHER, PASSWORD, RunningAgent, agent_file, node, own_rule},
};

#[test]
fn an_agent_that_is_stopped_takes_its_sockets_with_it() {
    let agent = RunningAgent::start();
    assert_eq!(agent.ask("get", &[IMAGE]).code, 0);
    assert!(agent.node.path("admin.sock").exists());

    let (node, said) = agent.stop();

    assert_eq!((said.code, said.stdout.as_str()), (0, ""), "{}", said.stderr);
    for line in ["the agent serves", "the agent stops", "the agent has stopped"] {
        assert!(said.stderr.contains(line), "{line} in {}", said.stderr);
    }
    assert!(!node.path("agent.sock").exists() && !node.path("admin.sock").exists());
}

#[test]
fn the_audit_log_may_go_to_stdout() {
    let node = node();
    let file = agent_file(&node, &own_rule("r.example"));
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace(r#""to":"none""#, r#""to":"stdout""#)).unwrap();
    let agent = RunningAgent::with_file(node, &file);
    assert_eq!(agent.ask("get", &[IMAGE]).code, 0);
    assert_eq!(agent.ask("get", &[OTHER]).code, 1);

    let (_node, said) = agent.stop();

    let events = said.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    let events: Vec<Value> = events.collect();
    let summary = |event: &Value| json!([event["image"], event["outcome"], event["rule"]]);
    let expected =
        json!([["r.example/team/app", "allowed", "own"], ["s.example/team/app", "denied", null]]);
    assert_eq!(Value::Array(events.iter().map(summary).collect()), expected);
    LeakCheck::new([PASSWORD]).text("the audit log", &said.stdout);
}

#[test]
fn a_hangup_lets_it_read_its_files_again() {
    let mut agent = RunningAgent::start();
    assert_eq!(agent.ask("get", &[OTHER]).code, 1);

    agent_file(&agent.node, &own_rule("*.example"));
    agent.signal(Signal::SIGHUP);
    agent.wait_for("the files were read again");

    // The plugin has an answer for the first registry only.
    assert_eq!([agent.ask("get", &[OTHER]).code, agent.ask("get", &[IMAGE]).code], [3, 0]);
}

#[test]
fn an_invalid_file_leaves_the_old_rules_in_use() {
    let mut agent = RunningAgent::start();

    agent_file(&agent.node, &json!([{"name": "own"}]));
    agent.signal(Signal::SIGHUP);
    agent.wait_for("the new configuration is not used");

    assert_eq!(agent.ask("get", &[IMAGE]).code, 0);
}

#[test]
fn all_problems_of_a_file_are_reported_with_what_to_do() {
    let node = node();
    let rules = json!([{"name": "a", "callers": {"uids": ["x"]}, "action": "Perhaps"}]);
    let file = agent_file(&node, &rules);

    let said = keyfob(&["serve", "--config", &file]);

    assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{}", said.stderr);
    let problems: Vec<_> =
        said.stderr.lines().filter(|line| line.starts_with("keyfob: ")).collect();
    assert_eq!(problems.len(), 2, "{}", said.stderr);
    assert!(problems.iter().all(|line| line.contains(&file)), "{}", said.stderr);
    assert!(said.stderr.contains("\nhelp: "), "{}", said.stderr);
    assert!(!node.path("agent.sock").exists());
}

#[test]
fn a_socket_that_another_agent_listens_on_is_left_to_it() {
    let agent = RunningAgent::start();

    let file = agent.node.path("agent.yaml");
    let said = keyfob(&["serve", "--config", file.to_str().unwrap()]);

    let text = format!(
        "keyfob: another agent listens on {}\nhelp: stop it, or take over from it with --take-over\n",
        agent.socket()
    );
    assert_eq!((said.code, said.stderr.as_str()), (2, text.as_str()));
    assert_eq!(agent.ask("get", &[IMAGE]).code, 0);
}

/// A node whose plugin opens the FIFO `plugin` when it starts, and does this before it answers.
fn node_with_slow_plugin(before: &str) -> Node {
    let node = Node::new();
    let fifo = |name: &str| {
        let (path, mode) = (node.path(name), Mode::RUSR | Mode::WUSR);
        mknodat(CWD, &path, FileType::Fifo, mode, 0).unwrap();
        path.display().to_string()
    };
    let (started, go) = (fifo("plugin"), fifo("go"));
    let before = before.replace("GO", &go);
    let script = format!(
        "exec 9>'{started}'\necho started >&9\n{before}\n{}",
        answer(&[["r.example", "ada", PASSWORD]])
    );
    node.with("plugin", &["*.example"], &script)
}

/// A request whose plugin runs, and the end of whose plugin can be waited for.
struct UnderWay {
    asking: JoinHandle<Said>,
    plugin: BufReader<File>,
}

impl UnderWay {
    fn begin(agent: &RunningAgent) -> Self {
        let socket = agent.socket();
        let asking = thread::spawn(move || keyfob(&["get", IMAGE, "--agent", &socket]));
        let mut plugin = BufReader::new(File::open(agent.node.path("plugin")).unwrap());
        let mut line = String::new();
        plugin.read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");
        Self { asking, plugin }
    }

    /// What the caller was told, and what the plugin and its children wrote until the last of them had ended.
    fn end(mut self) -> (Said, String) {
        let mut written = String::new();
        self.plugin.read_to_string(&mut written).unwrap();
        (self.asking.join().unwrap(), written)
    }
}

fn files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<_> = entries.map(|entry| name(entry).into_string().unwrap()).collect();
    names.sort();
    names
}

/// An agent with a state directory, and what is in its node's directory while it does not run.
fn agent_with(node: Node, limits: &Value) -> (RunningAgent, Vec<String>) {
    let state = node.path("state");
    for directory in [&state, &node.path("tmp")] {
        fs::create_dir(directory).unwrap();
    }
    let more = json!({"stateDirectory": state, "limits": limits});
    // The files that the agent is about to be given.
    let mut before = files(&node.path(""));
    before.extend(["agent.yaml", "config.json"].map(str::to_owned));
    before.sort();
    (RunningAgent::with(node, &own_rule("r.example"), &more), before)
}

#[test]
fn a_request_under_way_is_answered_before_the_agent_stops() {
    let node = node_with_slow_plugin("read line <'GO'");
    let (mut agent, before) = agent_with(node, &json!({}));
    let under_way = UnderWay::begin(&agent);

    agent.signal(Signal::SIGTERM);
    agent.wait_for("the agent stops");
    while UnixStream::connect(agent.socket()).is_ok() {
        thread::yield_now();
    }
    fs::write(agent.node.path("go"), "go\n").unwrap();
    let (answered, _) = under_way.end();

    assert_eq!(answered.code, 0, "{}", answered.stderr);
    assert!(answered.stdout.contains("ada"), "{}", answered.stdout);
    let (node, said) = agent.ended();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("the agent has stopped"), "{}", said.stderr);
    assert_eq!(files(&node.path("")), before, "nothing is left, such as sockets");
    assert_eq!(files(&node.path("state")), ["images.json"]);
    assert_eq!(files(&node.path("tmp")), [""; 0]);
}

#[test]
fn a_plugin_that_hangs_ends_with_the_agent() {
    // A child of its own, and deaf to everything that can be ignored.
    let node = node_with_slow_plugin("trap '' TERM HUP INT\nsleep 30\necho survived >&9");
    let (agent, before) = agent_with(node, &json!({"requestTimeout": "1s"}));
    let under_way = UnderWay::begin(&agent);

    let (node, said) = agent.stop();

    assert_eq!(said.code, 0, "{}", said.stderr);
    let (refused, written) = under_way.end();
    assert_eq!((refused.code, written.as_str()), (1, ""), "{}", refused.stderr);
    assert!(refused.stderr.contains("no answer within 1 s"), "{}", refused.stderr);
    assert_eq!(files(&node.path("")), before, "nothing is left, such as sockets");
    assert_eq!((files(&node.path("state")), files(&node.path("tmp"))), (vec![], vec![]));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the service manager, as far as an agent sees it")]
fn the_service_manager_can_pass_the_port_for_metrics() {
    let node = node();
    let file = agent_file(&node, &own_rule("r.example"));
    let another = r#""listeners":{"http":{"address":"127.0.0.1:1"},"#;
    let text = fs::read_to_string(&file).unwrap().replace(r#""listeners":{"#, another);
    node.file("agent.yaml", &text);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let script = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=http; \
                  exec \"$0\" serve --config \"$1\"";
    let mut agent = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_keyfob"), &file])
        .stdin(OwnedFd::from(listener))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();

    // The connection waits until the agent accepts it.
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /healthz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    agent.kill().unwrap();
    agent.wait().unwrap();

    assert!(read.is_ok() && answer.ends_with("alive\n"), "{answer}");
}
