//! The program as a kubelet and docker start it, with a fake agent on a unix socket.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and starts the program under test"
)]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    ops::ControlFlow,
    os::unix::{
        fs::symlink,
        net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    process::{Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use keyfob_testkit::LeakCheck;
use tempfile::TempDir;

const SECRET: &str = "hunter2-of-the-registry";
const REQUEST: &str = r#"{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"registry.example.com/app","serviceAccountToken":"hunter2-of-the-pod"}"#;
/// What the plugin gets of it without `--fallback-token`.
const WITHOUT_TOKEN: &str = "{\"kind\":\"CredentialProviderRequest\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"image\":\"registry.example.com/app\"}\n";
const RUN: &str = "--if-down run --fallback-image registry.example.com";
const NOT_FOUND: &str = "credentials not found in native keychain\n";
const DENIED: &str = r#"{"error":{"code":"denied","message":"no rule allows uid 1000 to use registry.example.com","help":"add a rule to /etc/keyfob/agent.yaml"}}"#;
const DENIED_REPORT: &str = "keyfob-relay: no rule allows uid 1000 to use registry.example.com\nhelp: add a rule to /etc/keyfob/agent.yaml\n";

/// A directory with the program under its three names, and a place for a socket.
struct Node {
    directory: TempDir,
}

/// What a run printed, and its exit code.
#[derive(Debug, PartialEq, Eq)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn ran(code: i32, stdout: impl Into<String>, stderr: impl Into<String>) -> Ran {
    Ran { code: Some(code), stdout: stdout.into(), stderr: stderr.into() }
}

impl Node {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["keyfob-relay", "keyfob-credential-provider", "docker-credential-keyfob"] {
            symlink(env!("CARGO_BIN_EXE_keyfob-relay"), directory.path().join(name)).unwrap();
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn socket(&self) -> PathBuf {
        self.path("agent.sock")
    }

    /// The first line on stderr if the agent's socket does not exist.
    fn not_running(&self) -> String {
        format!(
            "the agent is not running: {}: No such file or directory; start it with: systemctl start keyfob-agent",
            self.socket().display()
        )
    }

    /// Starts an agent that handles one connection. The requests that it got can be received.
    fn agent(&self, answer: impl FnOnce(&mut UnixStream) + Send + 'static) -> Receiver<String> {
        let listener = UnixListener::bind(self.socket()).unwrap();
        let (sender, requests) = channel();
        thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            // Not every test looks at the request.
            sender.send(read_request(&mut connection)).unwrap_or_default();
            answer(&mut connection);
        });
        requests
    }

    /// Starts an agent that handles connections until it says that it was the last one.
    fn busy_agent(
        &self,
        mut answer: impl FnMut(&str, UnixStream) -> ControlFlow<()> + Send + 'static,
    ) {
        let listener = UnixListener::bind(self.socket()).unwrap();
        thread::spawn(move || {
            loop {
                let (mut connection, _) = listener.accept().unwrap();
                let request = read_request(&mut connection);
                if answer(request.lines().next().unwrap(), connection).is_break() {
                    break;
                }
            }
        });
    }

    /// The same with an answer that is known beforehand.
    fn agent_answering(&self, answer: impl Into<Vec<u8>>) -> Receiver<String> {
        let answer = answer.into();
        // A relay that has seen enough does not read the rest.
        self.agent(move |connection| connection.write_all(&answer).unwrap_or_default())
    }

    /// Runs `NAME ARG…`, with the socket in the environment, and checks that nothing secret is on stderr.
    fn run(&self, line: &str, stdin: &str) -> Ran {
        let mut words = line.split(' ');
        let mut child = Command::new(self.path(words.next().unwrap()))
            .args(words)
            .env("KEYFOB_AGENT_SOCKET", self.socket())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Not everything reads its stdin.
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap_or_default();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        LeakCheck::new([SECRET, "hunter2-of-the-pod"]).text("stderr", &stderr);
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr,
        }
    }

    /// A plugin, as `/bin/sh FILE`. It is not executable itself: while another test starts a process, that would fail with
    /// "Text file busy" now and then.
    fn script(&self, text: &str) -> String {
        let path = self.path("plugin.sh");
        fs::write(&path, text).unwrap();
        format!("/bin/sh {}", path.display())
    }
}

/// A head and as much of a body as its length says.
fn read_request(connection: &mut UnixStream) -> String {
    let mut reader = BufReader::new(connection);
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut request).unwrap() > 0, "the request ended early: {request}");
    }
    let length = request.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    request + str::from_utf8(&body).unwrap()
}

fn response(status: u16, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} Reason\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn credential() -> String {
    format!(r#"{{"auth":{{"registry.example.com":{{"username":"ada","password":"{SECRET}"}}}}}}"#)
}

#[test]
fn a_plugin_passes_request_and_response_through_unchanged() {
    for line in ["keyfob-credential-provider", "keyfob-relay provider"] {
        let node = Node::new();
        let requests = node.agent_answering(response(200, &credential()));

        assert_eq!(node.run(line, REQUEST), ran(0, credential(), ""));
        let (head, body) = requests
            .recv()
            .unwrap()
            .split_once("\r\n\r\n")
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .unwrap();
        assert_eq!(
            (head.lines().next(), body.as_str()),
            (Some("POST /v1/provider HTTP/1.1"), REQUEST)
        );
    }
}

#[test]
fn a_response_may_come_in_chunks_and_slowly() {
    let node = Node::new();
    let (first, second) = (credential(), "\n".repeat(40_000));
    let body = format!("{first}{second}");
    let chunks = format!(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n{:X}\r\n{second}\r\n0\r\n\r\n",
        first.len(),
        second.len()
    );
    node.agent(move |connection| {
        let (head, rest) = chunks.as_bytes().split_at(90);
        for byte in head {
            connection.write_all(&[*byte]).unwrap();
        }
        connection.write_all(rest).unwrap();
    });

    assert_eq!(node.run("keyfob-credential-provider", REQUEST), ran(0, body, ""));
}

#[test]
fn a_denial_is_reported_and_never_leads_to_another_program() {
    for status in [403, 502, 503] {
        let node = Node::new();
        let plugin = node.script("echo started");
        node.agent_answering(response(status, DENIED));

        let line = format!("keyfob-credential-provider {RUN} -- {plugin}");
        assert_eq!(node.run(&line, REQUEST), ran(1, "", DENIED_REPORT));
    }
}

#[test]
fn control_characters_of_a_message_are_escaped() {
    let node = Node::new();
    let body =
        r#"{"error":{"code":"failed","message":"a\nkeyfob-relay: b\u001b[2J","help":"\u202ec"}}"#;
    node.agent_answering(response(502, body));

    let report = "keyfob-relay: a\\nkeyfob-relay: b\\u{1b}[2J\nhelp: \\u{202e}c\n";
    assert_eq!(node.run("keyfob-credential-provider", REQUEST), ran(1, "", report));
}

#[test]
fn an_error_without_a_reason_shows_nothing_of_its_body() {
    let node = Node::new();
    node.agent_answering(response(500, SECRET));

    let ran = node.run("keyfob-credential-provider", REQUEST);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(
        ran.stderr
            .starts_with("keyfob-relay: the agent answered with HTTP status 500 and no reason: "),
        "{ran:?}"
    );
}

#[test]
fn an_invalid_response_prints_no_part_of_it_and_leads_to_no_other_program() {
    let cases = [
        (
            format!("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{}", credential()),
            "it is truncated",
        ),
        (
            format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\n{}", credential()),
            "it is truncated",
        ),
        (format!("HTTP/1.1 200 OK\r\n\r\n{}", credential()), "it has no length"),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 8388609\r\n\r\n".to_owned(),
            "its body is larger than 8 MiB",
        ),
        (format!("HTTP/1.1 200 OK\r\nx: {}", "a".repeat(20_000)), "its head is longer than 16 KiB"),
        (response(200, ""), "it is empty"),
        (SECRET.to_owned(), "it is truncated"),
    ];
    for (answer, what) in cases {
        let node = Node::new();
        let plugin = node.script("echo started");
        node.agent_answering(answer.clone());

        let line = format!("keyfob-credential-provider {RUN} -- {plugin}");
        let report = format!(
            "keyfob-relay: the agent's response is invalid: {what}: {}; check that this is the socket of keyfob-agent, and its \
             log: journalctl -u keyfob-agent\n",
            node.socket().display()
        );
        assert_eq!(node.run(&line, REQUEST), ran(1, "", report), "{answer:.80}");
    }
}

#[test]
fn an_agent_that_is_not_running_is_reported_with_what_to_do() {
    let node = Node::new();
    let report = format!("keyfob-relay: {}\n", node.not_running());
    assert_eq!(node.run("keyfob-credential-provider", REQUEST), ran(1, "", report.clone()));
    assert_eq!(
        node.run("keyfob-credential-provider --if-down refuse", REQUEST),
        ran(1, "", report)
    );

    // A socket that the agent left behind.
    drop(UnixListener::bind(node.socket()).unwrap());
    let ran = node.run("keyfob-credential-provider", REQUEST);
    assert!(
        ran.stderr.contains("Connection refused; start it with: systemctl start keyfob-agent"),
        "{ran:?}"
    );
}

#[test]
fn without_an_agent_the_plugin_runs_with_the_request_and_its_result_is_the_result() {
    let node = Node::new();
    let plugin = node.script(r#"echo "$#:$1:$2"; cat; echo plugin failed >&2; exit 7"#);
    let line = format!("keyfob-credential-provider {RUN} -- {plugin} --a -- b");

    let notice =
        format!("keyfob-relay: {}; running /bin/sh instead\nplugin failed\n", node.not_running());
    assert_eq!(node.run(&line, REQUEST), ran(7, format!("3:--a:--\n{WITHOUT_TOKEN}"), notice));
}

#[test]
fn a_plugin_that_runs_without_an_agent_gets_the_token_only_if_it_is_configured_to() {
    let node = Node::new();
    let plugin = node.script("cat");
    for (option, expected) in [
        ("", WITHOUT_TOKEN.to_owned()),
        (" --fallback-token optional", format!("{REQUEST}\n")),
        (" --fallback-token required", format!("{REQUEST}\n")),
    ] {
        let line = format!("keyfob-credential-provider {RUN}{option} -- {plugin}");
        let ran = node.run(&line, REQUEST);
        assert_eq!((ran.code, ran.stdout), (Some(0), expected), "{option}");
    }
}

#[test]
fn a_plugin_is_not_asked_about_what_is_not_for_it() {
    let node = Node::new();
    let plugin = node.script("echo started");
    let nothing = "{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
                   \"cacheKeyType\":\"Image\",\"cacheDuration\":\"0s\"}\n";
    for (options, why) in [
        ("--fallback-image *.example.org", "none of its patterns matches registry.example.com/app"),
        (
            "--fallback-image registry.example.com:5000 --fallback-image *.com",
            "none of its patterns matches registry.example.com/app",
        ),
        (
            "--fallback-image *.example.com --fallback-token optional --fallback-required-annotation k",
            "it needs the annotation k of a service account",
        ),
    ] {
        let line = format!("keyfob-credential-provider --if-down run {options} -- {plugin}");
        let report = format!("keyfob-relay: {}; /bin/sh is not asked: {why}\n", node.not_running());
        assert_eq!(node.run(&line, REQUEST), ran(0, nothing, report));
    }
    let report = format!(
        "keyfob-relay: {}; /bin/sh is not asked: the request on stdin is not a CredentialProviderRequest\n",
        node.not_running()
    );
    let line = format!("keyfob-credential-provider {RUN} -- {plugin}");
    let invalid = r#"{"serviceAccountToken":"hunter2-of-the-pod"}"#;
    assert_eq!(node.run(&line, invalid), ran(1, "", report));
}

#[test]
fn neither_the_relay_nor_what_it_becomes_writes_core_dumps() {
    let node = Node::new();
    let plugin = node.script("grep '^Max core file size' /proc/self/limits");
    let line = format!("keyfob-credential-provider {RUN} -- {plugin}");
    let ran = node.run(&line, REQUEST);
    let limits: Vec<_> = ran.stdout.split_whitespace().collect();
    // A limit of zero may not be raised by everybody.
    assert!(
        matches!(limits[..], [_, "core", "file", "size", "0" | "1", "0" | "1", "bytes"]),
        "{ran:?}"
    );
}

#[test]
fn a_large_request_reaches_the_plugin_completely() {
    let node = Node::new();
    let plugin = node.script("cat");
    let line = format!("keyfob-credential-provider {RUN} --fallback-token required -- {plugin}");
    let token = "x".repeat(1024 * 1024 - REQUEST.len());
    let request = REQUEST.replace("hunter2-of-the-pod", &token);

    let ran = node.run(&line, &request);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.trim_end() == request, "{} bytes", ran.stdout.len());
}

#[test]
fn a_request_that_is_too_large_is_refused() {
    let node = Node::new();
    let report = "keyfob-relay: the request on stdin is larger than 1 MiB\n";
    assert_eq!(
        node.run("keyfob-credential-provider", &"x".repeat(1024 * 1024 + 1)),
        ran(1, "", report)
    );
}

#[test]
fn an_agent_that_closes_the_connection_without_an_answer_is_down() {
    let node = Node::new();
    let plugin = node.script("echo the plugin");
    node.agent(|_| ());

    let line = format!("keyfob-credential-provider {RUN} -- {plugin}");
    let notice = format!(
        "keyfob-relay: the agent closed the connection without an answer: {}; its log may tell why: journalctl -u \
         keyfob-agent; running /bin/sh instead\n",
        node.socket().display()
    );
    assert_eq!(node.run(&line, REQUEST), ran(0, "the plugin\n", notice));
}

#[test]
fn an_agent_that_hangs_is_down_although_the_kernel_accepts_connections_for_it() {
    let node = Node::new();
    let plugin = node.script("echo the plugin");
    let _listener = UnixListener::bind(node.socket()).unwrap();

    let line = format!("keyfob-credential-provider --down-after 100ms {RUN} -- {plugin}");
    let notice = format!(
        "keyfob-relay: the agent did not answer within 100ms: {}; its log may tell why: journalctl -u keyfob-agent; running \
         /bin/sh instead\n",
        node.socket().display()
    );
    assert_eq!(node.run(&line, REQUEST), ran(0, "the plugin\n", notice));
}

#[test]
fn an_agent_that_is_alive_and_busy_is_not_down() {
    let node = Node::new();
    let plugin = node.script("echo started");
    let mut kept = Vec::new();
    node.busy_agent(move |request, mut connection| {
        if request == "GET /v1/alive HTTP/1.1" {
            connection.write_all(response(200, "{}").as_bytes()).unwrap();
        } else {
            kept.push(connection);
        }
        ControlFlow::Continue(())
    });

    let line =
        format!("keyfob-credential-provider --timeout 500ms --down-after 50ms {RUN} -- {plugin}");
    let report = format!(
        "keyfob-relay: the agent is busy: it is alive and has not answered within 500ms: {}; see which provider is slow: keyfob \
         agent status\n",
        node.socket().display()
    );
    assert_eq!(node.run(&line, REQUEST), ran(1, "", report));
}

#[test]
fn a_busy_agent_has_the_whole_timeout_for_its_answer() {
    let node = Node::new();
    let plugin = node.script("echo started");
    let (mut waiting, mut asked) = (None, 0);
    node.busy_agent(move |request, mut connection| {
        if !request.starts_with("GET ") {
            waiting = Some(connection);
            return ControlFlow::Continue(());
        }
        // Whatever an agent answers, it is alive: an older one does not know the path.
        connection.write_all(response(404, DENIED).as_bytes()).unwrap();
        asked += 1;
        if asked < 3 {
            return ControlFlow::Continue(());
        }
        let answer = response(200, &credential());
        waiting.take().unwrap().write_all(answer.as_bytes()).unwrap();
        ControlFlow::Break(())
    });

    let line = format!("keyfob-credential-provider --down-after 50ms {RUN} -- {plugin}");
    assert_eq!(node.run(&line, REQUEST), ran(0, credential(), ""));
}

#[test]
fn an_agent_that_takes_the_place_of_one_that_was_killed_is_asked_again() {
    let node = Node::new();
    let plugin = node.script("echo started");
    let mut posts = 0;
    node.busy_agent(move |request, mut connection| {
        posts += usize::from(request.starts_with("POST "));
        // The first one is closed without an answer.
        if posts > 1 || request.starts_with("GET ") {
            connection.write_all(response(200, &credential()).as_bytes()).unwrap();
        }
        ControlFlow::Continue(())
    });
    let line = format!("keyfob-credential-provider {RUN} -- {plugin}");
    assert_eq!(node.run(&line, REQUEST), ran(0, credential(), ""));
}

#[test]
fn an_agent_that_is_alive_and_closes_connections_is_not_down() {
    // If others take up all of its connections, it closes those of the relay too.
    for answers_the_probe in [true, false] {
        let node = Node::new();
        let plugin = node.script("echo started");
        node.busy_agent(move |request, mut connection| {
            if answers_the_probe && request.starts_with("GET ") {
                connection.write_all(response(200, "{}").as_bytes()).unwrap();
            }
            ControlFlow::Continue(())
        });
        let line = format!("keyfob-credential-provider {RUN} -- {plugin}");
        let report = format!(
            "keyfob-relay: the agent closed the connection without an answer: {}; its log may tell why: journalctl -u \
             keyfob-agent\n",
            node.socket().display()
        );
        assert_eq!(node.run(&line, REQUEST), ran(1, "", report));
    }
}

#[test]
fn an_agent_that_closes_connections_before_it_reads_is_not_down() {
    let node = Node::new();
    let plugin = node.script("echo started");
    let listener = UnixListener::bind(node.socket()).unwrap();
    thread::spawn(move || listener.incoming().for_each(drop));
    let line = format!("keyfob-credential-provider {RUN} -- {plugin}");
    // Whether the relay has written by then differs from run to run.
    for _ in 0..20 {
        let ran = node.run(&line, REQUEST);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
    }
}

#[test]
fn without_a_fallback_an_agent_that_hangs_is_waited_for_until_the_timeout() {
    let node = Node::new();
    node.agent(|connection| {
        // Returns when the relay gives up.
        assert_eq!(connection.read(&mut [0]).unwrap(), 0);
    });

    let begun = Instant::now();
    let report = format!(
        "keyfob-relay: the agent did not answer within 100ms: {}; its log may tell why: journalctl -u keyfob-agent\n",
        node.socket().display()
    );
    assert_eq!(node.run("keyfob-credential-provider --timeout 100ms", REQUEST), ran(1, "", report));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn an_agent_that_accepts_nothing_is_down() {
    let node = Node::new();
    let listener = UnixListener::bind(node.socket()).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    // Fills the queue, which holds one connection more than its size.
    let _queued = UnixStream::connect(node.socket()).unwrap();

    let ran = node.run("keyfob-credential-provider --timeout 100ms", REQUEST);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.starts_with("keyfob-relay: the agent did not answer within 100ms: "),
        "{ran:?}"
    );
    let plugin = node.script("echo the plugin");
    let line = format!("keyfob-credential-provider --down-after 100ms {RUN} -- {plugin}");
    let ran = node.run(&line, REQUEST);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "the plugin\n"), "{ran:?}");
}

#[test]
fn the_timeout_is_for_the_whole_answer_and_a_late_rest_leads_to_no_other_program() {
    let node = Node::new();
    let plugin = node.script("echo started");
    node.agent(|connection| {
        connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").unwrap();
        // One byte after another would take for ever, if each had the whole time.
        while connection.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(5));
        }
    });

    let line =
        format!("keyfob-credential-provider --timeout 1s --down-after 400ms {RUN} -- {plugin}");
    let ran = node.run(&line, REQUEST);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(
        ran.stderr.starts_with(
            "keyfob-relay: the agent's response is invalid: it is not complete after 1s: "
        ),
        "{ran:?}"
    );
}

#[test]
fn an_answer_that_comes_before_the_request_has_been_read_counts() {
    let node = Node::new();
    let listener = UnixListener::bind(node.socket()).unwrap();
    thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        connection.write_all(response(413, DENIED).as_bytes()).unwrap();
        // The end of the connection, with most of the request not read. Unlike TCP, the answer still arrives.
    });

    assert_eq!(
        node.run("keyfob-credential-provider", &"x".repeat(1024 * 1024)),
        ran(1, "", DENIED_REPORT)
    );
}

#[test]
fn a_path_that_cannot_be_a_socket_is_not_an_agent_that_is_down() {
    let node = Node::new();
    let plugin = node.script("echo started");
    fs::write(node.path("file"), "").unwrap();

    let socket = node.path("file").join("agent.sock");
    let line =
        format!("keyfob-credential-provider --socket {} {RUN} -- {plugin}", socket.display());
    let report = format!(
        "keyfob-relay: cannot connect to the agent: {}: Not a directory; give the path of its socket with --socket or \
         KEYFOB_AGENT_SOCKET\n",
        socket.display()
    );
    assert_eq!(node.run(&line, REQUEST), ran(1, "", report));
}

#[test]
fn a_program_that_cannot_be_run_is_reported() {
    let node = Node::new();
    let line = "keyfob-credential-provider --if-down run --fallback-image registry.example.com -- /nowhere/plugin";
    let report = format!(
        "keyfob-relay: {}; running /nowhere/plugin instead\nkeyfob-relay: cannot run /nowhere/plugin: No such file or directory \
         (os error 2)\n",
        node.not_running()
    );
    assert_eq!(node.run(line, REQUEST), ran(1, "", report));
}

#[test]
fn docker_gets_the_credential_of_a_server() {
    for line in ["docker-credential-keyfob get", "keyfob-relay docker get"] {
        let node = Node::new();
        let login = format!(
            r#"{{"ServerURL":"https://registry.example.com","Username":"ada","Secret":"{SECRET}"}}"#
        );
        let requests = node.agent_answering(response(200, &login));

        assert_eq!(node.run(line, "https://registry.example.com\n"), ran(0, login, ""));
        let request = requests.recv().unwrap();
        assert!(request.starts_with("POST /v1/docker/get HTTP/1.1\r\n"), "{request}");
        assert!(request.ends_with("\r\n\r\nhttps://registry.example.com\n"), "{request}");
    }
}

#[test]
fn docker_goes_on_without_credentials_if_there_are_none_or_they_are_denied() {
    for (status, stderr) in [(404, ""), (403, DENIED_REPORT)] {
        let node = Node::new();
        node.agent_answering(response(status, DENIED));
        assert_eq!(
            node.run("docker-credential-keyfob get", "registry.example.com"),
            ran(1, NOT_FOUND, stderr)
        );
    }
}

#[test]
fn docker_shows_why_the_agent_cannot_be_asked() {
    let node = Node::new();
    let reason = node.not_running();
    assert_eq!(
        node.run("docker-credential-keyfob get", "registry.example.com"),
        ran(1, format!("{reason}\n"), format!("keyfob-relay: {reason}\n"))
    );
}

#[test]
fn docker_is_told_on_stdout_what_is_wrong_with_a_request() {
    let node = Node::new();
    for nothing in ["", " \n"] {
        let line = "no credentials server URL\n";
        let report = format!("keyfob-relay: {line}");
        assert_eq!(node.run("docker-credential-keyfob get", nothing), ran(1, line, report));
    }
    let usage = "usage: docker-credential-keyfob get|list|store|erase|version";
    for (line, message) in [
        ("docker-credential-keyfob frob", format!("unknown action: frob; {usage}")),
        ("keyfob-relay docker \u{1b}[2J", format!("unknown action: \\u{{1b}}[2J; {usage}")),
        ("docker-credential-keyfob", format!("one action is needed; {usage}")),
        ("docker-credential-keyfob get extra", format!("one action is needed; {usage}")),
        ("docker-credential-keyfob --socket", "--socket needs a value".to_owned()),
    ] {
        let report =
            format!("keyfob-relay: {message}\nhelp: keyfob-relay --help lists the options\n");
        assert_eq!(node.run(line, ""), ran(1, format!("{message}\n"), report), "{line}");
    }
}

#[test]
fn docker_lists_what_the_agent_has_and_nothing_without_an_agent() {
    let node = Node::new();
    let report = format!("keyfob-relay: {}\n", node.not_running());
    assert_eq!(node.run("docker-credential-keyfob list", "unused"), ran(0, "{}\n", report));

    let list = r#"{"https://registry.example.com":"ada"}"#;
    let requests = node.agent_answering(response(200, list));
    assert_eq!(node.run("docker-credential-keyfob list", "unused"), ran(0, list, ""));
    assert!(requests.recv().unwrap().starts_with("GET /v1/docker/list HTTP/1.1\r\n"));
}

#[test]
fn docker_cannot_store_or_erase() {
    let node = Node::new();
    let login = format!(r#"{{"ServerURL":"a","Username":"b","Secret":"{SECRET}"}}"#);
    for action in ["store", "erase"] {
        let ran = node.run(&format!("docker-credential-keyfob {action}"), &login);
        assert_eq!(ran.code, Some(1));
        assert!(
            ran.stdout.starts_with("unsupported: keyfob-agent issues credentials itself; "),
            "{ran:?}"
        );
        assert_eq!(ran.stderr, format!("keyfob-relay: {}", ran.stdout));
    }
}

#[test]
fn help_and_versions_need_no_agent() {
    let node = Node::new();
    let version = env!("CARGO_PKG_VERSION");
    let helper = format!("docker-credential-keyfob ({}) {version}\n", env!("CARGO_PKG_REPOSITORY"));
    for word in ["version", "--version", "-v"] {
        let line = format!("docker-credential-keyfob {word}");
        assert_eq!(node.run(&line, ""), ran(0, helper.clone(), ""), "{line}");
    }
    assert_eq!(
        node.run("keyfob-relay --version", ""),
        ran(0, format!("keyfob-relay {version}\n"), "")
    );
    for line in
        ["keyfob-relay --help", "keyfob-credential-provider --help", "docker-credential-keyfob -h"]
    {
        let ran = node.run(line, "");
        assert!(
            ran.code == Some(0) && ran.stdout.contains("\nusage: keyfob-relay provider "),
            "{ran:?}"
        );
    }
}

#[test]
fn wrong_arguments_are_reported_before_anything_else() {
    let node = Node::new();
    let report = "keyfob-relay: --if-down is refuse or run, not \"ask\"\nhelp: keyfob-relay --help lists the options\n";
    assert_eq!(node.run("keyfob-credential-provider --if-down ask", REQUEST), ran(2, "", report));
}

#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    let node = Node::new();
    node.agent_answering(response(200, &credential()));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(node.path("keyfob-credential-provider"))
        .env("KEYFOB_AGENT_SOCKET", node.socket())
        .stdin(Stdio::null())
        .stdout(full)
        .output()
        .unwrap();

    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        stderr,
        "keyfob-relay: cannot write to stdout: No space left on device (os error 28)\n"
    );
}
