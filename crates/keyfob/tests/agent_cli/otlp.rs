//! The agent sends its spans to a collector, and serves whether there is one or not.
#![expect(clippy::indexing_slicing, reason = "a test fails by panicking, and so do its helpers")]

use std::{
    fs,
    io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use keyfob_testkit::LeakCheck;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    node::Node,
    running_agent::{IMAGE, OTHER, PASSWORD, RunningAgent, node, own_rule},
};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
/// What the span of a request has in it.
const REQUEST: &str = r#""name":"request""#;

fn agent(endpoint: &str) -> RunningAgent {
    RunningAgent::with_environment(node(), &own_rule("r.example"), &[(ENDPOINT, endpoint)])
}

/// The bodies that are posted to `/v1/traces`, until the spans of so many requests are among them.
fn collect(listener: &TcpListener, requests: usize) -> Vec<String> {
    let mut bodies: Vec<String> = Vec::new();
    while bodies.concat().matches(REQUEST).count() < requests {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        bodies.push(read_post(&mut stream).1);
        accept_post(&mut stream);
    }
    bodies
}

/// The head and the body of a request.
fn read_post(stream: &mut BufReader<TcpStream>) -> (String, String) {
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let start = head.len();
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
        if let Some(value) = head[start..].to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}

fn accept_post(stream: &mut BufReader<TcpStream>) {
    let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    stream.get_mut().write_all(answer).unwrap();
}

/// The spans in these bodies, which have no secret and name this host.
fn spans(bodies: &[String]) -> Vec<Value> {
    LeakCheck::new([PASSWORD]).text("the spans", &bodies.concat());
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let mut spans: Vec<Value> = Vec::new();
    for body in bodies {
        let body: Value = serde_json::from_str(body).unwrap();
        let resource = &body["resourceSpans"][0]["resource"];
        assert_eq!(attribute(resource, "host.name")["stringValue"], host.trim_end());
        let sent = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
        spans.extend(sent.as_array().unwrap().clone());
    }
    spans
}

/// An attribute of a span or of a resource.
fn attribute(of: &Value, key: &str) -> Value {
    let attributes = of["attributes"].as_array().unwrap();
    attributes.iter().find(|each| each["key"] == key).unwrap()["value"].clone()
}

#[test]
fn a_collector_gets_the_spans_of_a_request_without_a_secret() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let agent = agent(&format!("http://{}", listener.local_addr().unwrap()));
    let collector = thread::spawn(move || collect(&listener, 1));
    assert_eq!(agent.ask("get", &[IMAGE]).code, 0);
    let spans = spans(&collector.join().unwrap());
    let span = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap();
    let [request, decision, run] = ["request", "decision", "plugin_run"].map(span);
    assert_eq!(decision["parentSpanId"], request["spanId"]);
    assert_eq!(run["parentSpanId"], decision["spanId"]);
    assert_eq!(run["traceId"], request["traceId"]);
    assert_eq!(attribute(request, "status")["intValue"], "200");
    assert_eq!(attribute(decision, "rule")["stringValue"], "own");
    assert_eq!(attribute(decision, "outcome")["stringValue"], "allowed");
    assert_eq!(attribute(run, "outcome")["stringValue"], "answered");
    assert!([request, decision, run].iter().all(|span| span["status"].is_null()), "{spans:?}");
    agent.stop();
}

#[test]
fn a_collector_sees_which_requests_were_refused_or_failed_and_which_plugins_failed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let failing = Node::new().with("plugin", &["*.example"], "cat >/dev/null; exit 3");
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let agent =
        RunningAgent::with_environment(failing, &own_rule("r.example"), &[(ENDPOINT, &endpoint)]);
    let collector = thread::spawn(move || collect(&listener, 2));
    for image in [OTHER, IMAGE] {
        assert_ne!(agent.ask("get", &[image]).code, 0);
    }
    let spans = spans(&collector.join().unwrap());
    let statuses = |name: &str| -> Vec<Value> {
        let named = spans.iter().filter(|span| span["name"] == name);
        named.map(|span| span["status"].clone()).collect()
    };
    let error = |message| json!({"code": 2, "message": message});
    assert_eq!(statuses("request"), [error("denied"), error("failed")]);
    assert_eq!(statuses("decision"), [error("denied"), error("failed")]);
    assert_eq!(statuses("plugin_run"), [error("failed")]);
    agent.stop();
}

#[test]
fn the_last_spans_are_sent_before_the_agent_ends() {
    // The agent waits 1.5 s for the collector, so a machine that stalls meanwhile proves nothing.
    let is_proved = (0..10).any(|_| {
        let (sent, took) = spans_sent_at_the_end();
        assert!(sent == Some(4) || took > Duration::from_secs(1), "{sent:?} in {took:?}");
        sent == Some(4)
    });
    assert!(is_proved, "the machine is too slow");
}

/// How many of the spans of four requests a collector gets that answers the first batch only when the agent has stopped to serve, unless
/// its connection breaks; and how long the agent takes to end.
#[expect(clippy::disallowed_methods, reason = "a collector that takes a moment")]
fn spans_sent_at_the_end() -> (Option<usize>, Duration) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut agent = agent(&format!("http://{address}"));
    assert_eq!(agent.ask("get", &[IMAGE]).code, 0);
    // Until it is answered the other spans wait.
    let mut stream = BufReader::new(listener.accept().unwrap().0);
    let mut bodies = vec![read_post(&mut stream).1];
    for _ in 0..3 {
        assert_eq!(agent.ask("get", &[IMAGE]).code, 0);
    }
    let began = Instant::now();
    agent.signal(Signal::SIGTERM);
    agent.wait_for("the agent has stopped");
    // An agent that does not wait for the collector has ended by then.
    thread::sleep(Duration::from_millis(300));
    let missing = 4 - bodies.concat().matches(REQUEST).count();
    let collector = thread::spawn(move || {
        accept_post(&mut stream);
        collect(&listener, missing)
    });
    let (_, said) = agent.ended();
    let took = began.elapsed();
    assert_eq!(said.code, 0, "{}", said.stderr);
    // A collector that still waits for spans waits in vain: this ends it.
    drop(TcpStream::connect(address));
    let Ok(last) = collector.join() else { return (None, took) };
    bodies.extend(last);
    let sent = spans(&bodies).iter().filter(|span| span["name"] == "request").count();
    (Some(sent), took)
}

#[test]
fn a_collector_gets_the_headers_of_the_environment_and_nobody_else_does() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    // `hunter2` must not be in the log of any agent of these tests.
    let headers = "authorization=Bearer%20hunter2-collector, x-tenant=blue";
    let variables = [(ENDPOINT, &*endpoint), (HEADERS, headers)];
    let agent = RunningAgent::with_environment(node(), &own_rule("r.example"), &variables);
    assert_eq!(agent.ask("get", &[IMAGE]).code, 0);
    let mut stream = BufReader::new(listener.accept().unwrap().0);
    let (head, body) = read_post(&mut stream);
    for line in [
        "authorization: Bearer hunter2-collector",
        "x-tenant: blue",
        "content-type: application/json",
    ] {
        assert_eq!(head.lines().filter(|each| *each == line).count(), 1, "{line}: {head}");
    }
    LeakCheck::new(["hunter2"]).text("the spans", &body);
    drop((listener, stream));
    agent.stop();
}

#[test]
fn headers_that_cannot_be_used_are_reported_and_nothing_is_sent_without_them() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let variables = [(ENDPOINT, &*endpoint), (HEADERS, "x-tenant=blue,Bearer hunter2-collector")];
    let agent = RunningAgent::with_environment(node(), &own_rule("r.example"), &variables);
    assert_eq!(agent.ask("get", &[IMAGE]).code, 0);
    let (_, said) = agent.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    let line = "WARN keyfob::logging: no spans are sent to the collector error=entry 2 of OTEL_EXPORTER_OTLP_HEADERS has no `=`; ";
    assert!(said.stderr.contains(line), "{}", said.stderr);
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a deadline needs the clock")]
fn an_agent_serves_and_ends_without_the_collector_that_it_was_told_of() {
    // Nobody listens there any more; and there nobody ever answers.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [gone, silent.local_addr().unwrap()] {
        let agent = agent(&format!("http://{address}"));
        for _ in 0..3 {
            assert_eq!(agent.ask("get", &[IMAGE]).code, 0);
        }
        let began = Instant::now();
        let (_, said) = agent.stop();
        assert_eq!(said.code, 0, "{}", said.stderr);
        // It waits a moment for the collector, and not as long as it does while it serves.
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    }
}
