//! `ecr-credential-provider` against moto, which plays AWS.
//!
//! It needs `moto_server`, of `moto[server]` from Python's index: `.ci/run e2e` installs it and sets `KEYFOB_E2E`, without which nothing
//! is run. Moto's tokens all ended in 2015, so whoever wants a login asks through somebody who corrects that.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and these are the real programs"
)]

#[path = "support/ecr.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod ecr;

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

use ecr::{IMAGE, Node, now};
use keyfob_testkit::{Request, Response};
use serde_json::json;

struct Moto {
    server: Child,
    address: String,
}

impl Moto {
    fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Command::new("moto_server")
            .args(["--port", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                unreachable!("moto_server cannot be run, .ci/run e2e installs it: {error}")
            });
        let moto = Self { server, address: format!("127.0.0.1:{port}") };
        while TcpStream::connect(&moto.address).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        moto
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        self.server.kill().unwrap_or_default();
        drop(self.server.wait());
    }
}

/// What moto answers, with tokens that have not ended yet.
fn corrected(address: &str, request: &Request) -> Response {
    let (status, body) = pass_on(address, request);
    let end = format!("\"expiresAt\": {}", now() + 3600);
    Response::text(body.replace("\"expiresAt\": 1420070400", &end)).with_status(status)
}

fn pass_on(address: &str, request: &Request) -> (u16, String) {
    let mut moto = TcpStream::connect(address).unwrap();
    write!(moto, "{} {} HTTP/1.0\r\n", request.method, request.target).unwrap();
    for (name, value) in &request.headers {
        write!(moto, "{name}: {value}\r\n").unwrap();
    }
    write!(moto, "\r\n{}", request.body).unwrap();
    let mut answer = String::new();
    moto.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn moto_logs_in_whom_it_should() {
    if std::env::var_os("KEYFOB_E2E").is_none() {
        println!("KEYFOB_E2E is not set: NO moto was asked");
        return;
    }
    let moto = Moto::start();
    let address = moto.address.clone();
    let node = Node::new(move |request| corrected(&address, request));

    let answer = node.ask(IMAGE).answer();
    let login = json!({"username": "AWS", "password": "123456789012-auth-token"});
    let host = IMAGE.split('/').next().unwrap();
    assert_eq!(answer["auth"], json!({host: login}));
    assert!(answer["cacheDuration"].as_str().unwrap().starts_with("29m5"), "{answer}");

    let role = json!({"eks.amazonaws.com/ecr-role-arn": "arn:aws:iam::123456789012:role/pull"});
    let answer = node.ask_for_pod(IMAGE, &role).answer();
    assert_eq!(answer["auth"], json!({host: login}), "with a role that STS gave");

    let direct = node.env("AWS_ENDPOINT_URL", &format!("http://{}", moto.address));
    let said = direct.ask(IMAGE);
    let told = "the credential that was issued ended at 2015-01-01T00:00:00Z";
    assert!(said.failure().contains(told), "{}", said.stderr);
    let said = direct.ask("public.ecr.aws/nginx/nginx");
    assert!(said.failure().contains("it responded with status code 500"), "{}", said.stderr);
}
