//! `keyfob kube proxy`, with real plugins, programs that know nothing of them, and an API server on loopback.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

#[path = "support/home.rs"]
mod home;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::{
        fs::PermissionsExt as _,
        net::{UnixListener, UnixStream},
    },
    process::{Child, Stdio},
};

use home::{Home, Said};
use keyfob_testkit::{ClientCertificates, Internet, LeakCheck, Reply, Response, TlsServer};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

const TOKEN: &str = "hunter2-token";

/// A proxy as long as the value lives.
struct Proxy {
    program: Child,
    address: String,
}

impl Proxy {
    fn start(home: &Home, args: &[&str]) -> Self {
        let args = [&["proxy", "--kubeconfig", "kubeconfig"], args].concat();
        let mut command = home.kube(&args);
        let mut program = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(program.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("serving on ").unwrap();
        let address = address.strip_prefix("http://").unwrap_or(address).to_owned();
        Self { program, address }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).unwrap()
    }

    /// What it answers to a program that names it as it is called.
    fn ask(&self, request: &str, headers: &str, body: &str) -> String {
        let own = format!("Host: {}\r\n{headers}", self.address);
        asked(self.connect(), request, &own, body)
    }

    /// Exit code and stderr.
    fn stop(mut self) -> (Option<i32>, String) {
        let pid = Pid::from_raw(i32::try_from(self.program.id()).unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        let code = self.program.wait().unwrap().code();
        let mut stderr = String::new();
        self.program.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (code, stderr)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.program.kill().unwrap_or_default();
        drop(self.program.wait());
    }
}

fn asked(mut stream: impl Read + Write, request: &str, headers: &str, body: &str) -> String {
    let length =
        if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let text = format!("{request} HTTP/1.1\r\n{headers}Connection: close\r\n{length}\r\n{body}");
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A home whose server lets in who has the token, and greets.
fn home() -> (Home, Internet) {
    let home = Home::new();
    let server = Internet::start(|request| match request.header("authorization") {
        Some("Bearer hunter2-token") => {
            Response::json(r#"{"hello":"ada"}"#).header("X-Of", "the server")
        }
        _ => Response::status(401),
    });
    let user = home.answering(&json!({"token": TOKEN}));
    home.kubeconfig(&server, &user);
    (home, server)
}

/// The message of a `Status`.
fn refused(answer: &str, code: u16) -> String {
    assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{answer}");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-type: application/json"), "{head}");
    let status: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(code)), "{status}");
    status["message"].as_str().unwrap().to_owned()
}

#[test]
fn a_program_that_knows_no_plugin_reaches_the_cluster() {
    let (home, server) = home();
    let proxy = Proxy::start(&home, &["--port", "0"]);
    assert_eq!(home.runs(), 0);

    let answer = proxy.ask("GET /version?pretty=1", "Accept: application/json\r\n", "");
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.contains("x-of: the server\r\n"),
        "{answer}"
    );
    assert!(answer.ends_with(r#"{"hello":"ada"}"#), "{answer}");
    let answer = proxy.ask("POST /api/v1/pods", "Content-Type: text/plain\r\n", "a pod");
    assert!(answer.ends_with(r#"{"hello":"ada"}"#), "{answer}");
    // As programs that think of a proxy write it.
    let answer = proxy.ask(&format!("GET http://{}/readyz", proxy.address), "", "");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");

    let [version, pods, readyz] = &*server.requests() else { panic!("three requests") };
    assert_eq!(
        (version.target.as_str(), version.header("accept")),
        ("/version?pretty=1", Some("application/json"))
    );
    assert_eq!((pods.method.as_str(), pods.body.as_str()), ("POST", "a pod"));
    assert_eq!(pods.header("content-type"), Some("text/plain"));
    assert_eq!(readyz.target, "/readyz");
    assert_eq!(home.runs(), 1);
    let (code, stderr) = proxy.stop();
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
}

#[test]
fn who_asks_is_decided_by_the_kubeconfig_alone() {
    let (home, server) = home();
    let proxy = Proxy::start(&home, &["--port", "0"]);
    let forged = "Authorization: Bearer forged\r\nImpersonate-User: root\r\nImpersonate-Group: system:masters\r\nImpersonate-Extra-Scopes: all\r\nX-Remote-User: root\r\nX-Remote-Group: system:masters\r\nX-Remote-Uid: 0\r\nX-Remote-Extra-Scopes: all\r\nX-Forwarded-For: 192.0.2.1\r\n";

    let answer = proxy.ask("GET /", forged, "");

    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let [request] = &*server.requests() else { panic!("one request") };
    let names = request.headers.iter().map(|(name, _)| name.to_lowercase());
    let forged = ["impersonate-", "x-remote-", "x-forwarded-"];
    assert_eq!(names.filter(|name| forged.iter().any(|it| name.starts_with(it))).count(), 0);
    assert_eq!(request.header("authorization"), Some("Bearer hunter2-token"));
    assert_eq!(request.header("host"), Some(server.address().to_string().as_str()));
}

#[test]
fn other_hosts_and_origins_are_refused_before_anything_is_run() {
    let (home, server) = home();
    let proxy = Proxy::start(&home, &["--port", "0"]);
    let own = format!("Host: {}\r\n", proxy.address);
    for headers in [
        "Host: evil.example\r\n".to_owned(),
        "Host: 127.0.0.1\r\n".to_owned(),
        "Host: localhost:1\r\n".to_owned(),
        String::new(),
        format!("{own}Origin: https://evil.example\r\n"),
        format!("{own}Origin: null\r\n"),
        format!("{own}Sec-Fetch-Site: cross-site\r\n"),
        format!("{own}Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: cross-site\r\n"),
        format!("{own}Sec-Fetch-Site: same-origin, cross-site\r\n"),
        format!("{own}Origin: http://{}\r\nOrigin: https://evil.example\r\n", proxy.address),
        format!("{own}Host: evil.example\r\n"),
    ] {
        let message = refused(&asked(proxy.connect(), "GET /", &headers, ""), 403);
        assert!(message.starts_with("keyfob kube proxy: "), "{message}");
    }
    let elsewhere = asked(proxy.connect(), "GET http://evil.example/", &own, "");
    refused(&elsewhere, 403);
    assert_eq!((home.runs(), server.requests().len()), (0, 0));

    let origin = format!("Origin: http://{}\r\n", proxy.address);
    assert!(proxy.ask("GET /", &origin, "").starts_with("HTTP/1.1 200 "));
    let localhost = proxy.address.replace("127.0.0.1", "localhost");
    let answer = asked(proxy.connect(), "GET /", &format!("Host: {localhost}\r\n"), "");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn a_read_only_proxy_changes_nothing() {
    let (home, server) = home();
    let proxy = Proxy::start(&home, &["--port", "0", "--read-only"]);

    for (request, headers) in [
        ("DELETE /api/v1/pods", ""),
        ("POST /api/v1/pods", ""),
        ("GET /exec", "Upgrade: websocket\r\n"),
    ] {
        let message = refused(&proxy.ask(request, headers, ""), 403);
        assert_eq!(message, "keyfob kube proxy: this proxy is read-only");
    }
    assert_eq!(server.requests().len(), 0);
    assert!(proxy.ask("GET /", "", "").starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_watch_comes_through_while_it_goes_on() {
    let event = "{\"type\":\"ADDED\"}\n";
    let server = Internet::start(move |_| {
        Response::json(format!("{event}more")).silent_after(event.len()).without_length()
    });
    let home = Home::new();
    let user = home.answering(&json!({"token": TOKEN}));
    home.kubeconfig(&server, &user);
    let proxy = Proxy::start(&home, &["--port", "0"]);

    let mut stream = proxy.connect();
    write!(stream, "GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: {}\r\n\r\n", proxy.address).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);

    assert!(lines.any(|line| line == event.trim_end()));
}

/// Sends back whatever comes, to whoever has the token.
#[tokio::test]
async fn an_upgrade_comes_through_and_then_any_bytes() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let server =
        TlsServer::start(ClientCertificates::NotAsked, |visit| match visit.authorization() {
            Some(it) if it == "Bearer hunter2-token" => Reply::Upgrade,
            _ => 401.into(),
        })
        .await;
    let home = Home::new();
    let authority = home.file("ca.pem", server.ca_pem());
    let cluster = json!({"server": server.url(), "certificate-authority": authority});
    let user = home.answering(&json!({"token": TOKEN}));
    home.kubeconfig_for(&cluster, &user);
    let proxy = Proxy::start(&home, &["--port", "0"]);

    let mut stream = tokio::net::TcpStream::connect(&proxy.address).await.unwrap();
    let request = format!(
        "GET /exec HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: echo\r\nAuthorization: Bearer forged\r\n\r\n",
        proxy.address
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    let answer = String::from_utf8(answer).unwrap().to_lowercase();
    assert!(
        answer.starts_with("http/1.1 101 ") && answer.contains("upgrade: echo\r\n"),
        "{answer}"
    );
    stream.write_all(b"hello").await.unwrap();
    let mut echoed = [0; 5];
    stream.read_exact(&mut echoed).await.unwrap();

    assert_eq!(&echoed, b"hello");
}

#[test]
fn a_request_is_sent_again_with_a_new_token() {
    let server = Internet::start(|request| match request.header("authorization") {
        Some("Bearer hunter2-run2") => Response::text(request.body.clone()),
        _ => Response::status(401),
    });
    let home = Home::new();
    let answer = json!({"kind": "ExecCredential", "apiVersion": home::V1, "status": {"token": "hunter2-runN"}});
    let runs = home.path("runs").display().to_string();
    let user = home
        .plugin(&format!("printf '%s' '{answer}' | sed \"s/runN/run$(grep -c run '{runs}')/\""));
    home.kubeconfig(&server, &user);
    let proxy = Proxy::start(&home, &["--port", "0"]);

    let answer = proxy.ask("POST /", "", "twice");

    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("twice"), "{answer}");
    assert_eq!((home.runs(), server.requests().len()), (2, 2));
}

#[test]
fn a_plugin_that_fails_is_the_answer_and_its_secrets_are_not() {
    let (home, server) = home();
    let script = "echo '{\"token\":\"hunter2-printed\"}'; echo 'log in first' >&2; echo 'not with hunter2-printed' >&2; exit 1";
    let user = home.plugin(script);
    home.kubeconfig(&server, &user);
    let proxy = Proxy::start(&home, &["--port", "0", "-vvv"]);

    let message = refused(&proxy.ask("GET /", "", ""), 502);

    let want = "keyfob kube proxy: getting credentials: exec: executable /bin/sh failed with exit code 1 the plugin said: log in first not with [redacted]";
    assert_eq!(message, want);
    // It is not run again at once.
    assert!(refused(&proxy.ask("GET /", "", ""), 502).contains("it is not run again before"));
    assert_eq!((home.runs(), server.requests().len()), (1, 0));
    let (code, stderr) = proxy.stop();
    assert_eq!(code, Some(0));
    assert!(stderr.contains("log in first"), "{stderr}");
}

#[test]
fn a_server_that_is_not_there_and_a_body_without_end_are_told() {
    let (home, _server) = home();
    let proxy = Proxy::start(&home, &["--port", "0", "--server", "https://127.0.0.1:1", "-vvv"]);

    let message = refused(&proxy.ask("GET /", "", ""), 502);
    assert!(
        message.starts_with("keyfob kube proxy: the API server cannot be reached: "),
        "{message}"
    );
    let mut stream = proxy.connect();
    write!(
        stream,
        "POST / HTTP/1.1\r\nHost: {}\r\nContent-Length: 9000000000\r\n\r\n",
        proxy.address
    )
    .unwrap();
    let piece = vec![b'x'; 1 << 16];
    while stream.write_all(&piece).is_ok() {}
    let mut answer = String::new();
    // It hung up on us: what it said may be lost with that.
    stream.read_to_string(&mut answer).ok();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413 "), "{answer}");

    let (code, stderr) = proxy.stop();
    assert_eq!(code, Some(0));
    LeakCheck::new([TOKEN]).text("stderr", &stderr);
}

/// Megabytes of memory that a process uses.
fn resident_megabytes(process: &Child) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() / 1024
}

#[test]
fn unfinished_bodies_take_up_bounded_memory_and_lock_nobody_out() {
    let (home, _server) = home();
    let proxy = Proxy::start(&home, &["--port", "0"]);
    let head =
        format!("POST /api HTTP/1.1\r\nHost: {}\r\nContent-Length: 8000000\r\n\r\n", proxy.address);
    let mut unfinished = Vec::new();
    for _ in 0..80 {
        let mut stream = proxy.connect();
        // The proxy may close it while it makes way for another.
        stream.write_all(&[head.as_bytes(), &vec![b'x'; 7 << 20]].concat()).ok();
        unfinished.push(stream);
    }

    let answer = proxy.ask("POST /api/v1/pods", "", &"x".repeat(7 << 20));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{}", &answer[..100.min(answer.len())]);
    let used = resident_megabytes(&proxy.program);
    assert!(used < 300, "{used} MB");
    assert_eq!(proxy.stop().0, Some(0));
}

#[test]
fn a_proxy_without_files_for_more_connections_closes_idle_ones() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    let (home, _server) = home();
    let proxy = Proxy::start(&home, &["--port", "0"]);
    let files = fs::read_dir(format!("/proc/{}/fd", proxy.program.id())).unwrap().count() as u64;
    let few = Rlimit { current: Some(files + 5), maximum: Some(files + 5) };
    let pid = Pid::from_raw(i32::try_from(proxy.program.id()).unwrap());
    prlimit(pid, Resource::Nofile, few).unwrap();

    let idle: Vec<_> = (0..20).map(|_| proxy.connect()).collect();
    refused(&asked(proxy.connect(), "GET /", "Host: evil.example\r\n", ""), 403);

    drop(idle);
    assert_eq!(proxy.stop().0, Some(0));
}

#[test]
fn a_body_that_does_not_go_on_is_ended() {
    let (home, server) = home();
    let proxy = Proxy::start(&home, &["--port", "0"]);
    let mut stream = proxy.connect();
    let own = format!("Host: {}\r\nContent-Length: 100\r\n", proxy.address);
    write!(stream, "POST /api HTTP/1.1\r\n{own}\r\nhalf").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let message = refused(&answer, 408);
    assert_eq!(message, "keyfob kube proxy: the body of the request arrives too slowly");
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_socket_is_for_its_owner_and_goes_with_the_proxy() {
    let (home, _server) = home();
    let path = home.path("proxy.sock");
    // Left by one that died.
    drop(UnixListener::bind(&path).unwrap());
    let proxy = Proxy::start(&home, &["--unix-socket", path.to_str().unwrap()]);

    assert_eq!(proxy.address, path.display().to_string());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let stream = UnixStream::connect(&path).unwrap();
    let answer = asked(stream, "GET /", "Host: whatever\r\n", "");
    assert!(answer.ends_with(r#"{"hello":"ada"}"#), "{answer}");
    let taken = Said::from(
        home.kube(&["proxy", "--kubeconfig", "kubeconfig", "-u", path.to_str().unwrap()])
            .output()
            .unwrap(),
    );
    assert_eq!(taken.code, 1);
    let why = format!("keyfob: cannot listen at {}: ", path.display());
    assert!(taken.stderr.starts_with(&why), "{}", taken.stderr);
    let (code, stderr) = proxy.stop();
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(!path.exists());

    let file = home.file("file", "mine");
    let said = home.run(&["proxy", "--kubeconfig", "kubeconfig", "--unix-socket", &file]);
    assert_eq!((said.code, fs::read_to_string(&file).unwrap().as_str()), (1, "mine"));
}

#[test]
fn it_does_not_start_where_it_cannot_serve() {
    let (home, _server) = home();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();

    let said = home.run(&["proxy", "--kubeconfig", "kubeconfig", "--port", &port]);
    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    let why = format!("keyfob: cannot listen on 127.0.0.1:{port}: ");
    assert!(said.stderr.starts_with(&why) && said.stderr.ends_with("--port\n"), "{}", said.stderr);
    let said = home.run(&["proxy", "--kubeconfig", "none", "--port", "0"]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
}
