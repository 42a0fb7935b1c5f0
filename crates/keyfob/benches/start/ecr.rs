//! Ours and the Go helper, logging in to the same ECR.

use std::{
    fmt::Write as _,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use keyfob_testkit::{Internet, Request, Response};

use crate::{REQUEST, median};

const ROUNDS: usize = 60;

/// Prints the median of both, from `exec` to the end of the answer.
pub(crate) fn compare(moto: &Path, keyfob: &Path, helper: &Path) {
    let (mut server, address) = start(moto);
    let internet = Internet::start(move |request| forward(request, &address));
    let directory = tempfile::tempdir().expect("a directory");
    let ca_file = internet.ca_file(directory.path());
    let ours = Login {
        program: keyfob,
        arguments: vec!["provider", "ecr", "--ca-file", &ca_file],
        stdin: REQUEST,
    };
    let server_url = b"123456789012.dkr.ecr.eu-west-1.amazonaws.com";
    let theirs = Login { program: helper, arguments: vec!["get"], stdin: server_url };
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        our_times.push(ours.time(&internet.url(), &ca_file));
        their_times.push(theirs.time(&internet.url(), &ca_file));
    }
    let (our_time, their_time) = (median(&mut our_times), median(&mut their_times));
    println!("{:<36}{:>14}", "a login to ECR (moto)", "until answer");
    println!("{:<36}{:>11.1} ms", "ecr-credential-provider", our_time.as_secs_f64() * 1e3);
    println!("{:<36}{:>11.1} ms", "docker-credential-ecr-login", their_time.as_secs_f64() * 1e3);
    println!("ratio: {:.2}", our_time.as_secs_f64() / their_time.as_secs_f64());
    server.kill().expect("it can be killed");
    server.wait().expect("it ends");
}

struct Login<'a> {
    program: &'a Path,
    arguments: Vec<&'a str>,
    stdin: &'a [u8],
}

impl Login<'_> {
    fn time(&self, proxy: &str, ca_file: &str) -> Duration {
        let begun = Instant::now();
        let mut child = Command::new(self.program)
            .args(&self.arguments)
            .envs([("HTTPS_PROXY", proxy), ("SSL_CERT_FILE", ca_file), ("AWS_CA_BUNDLE", ca_file)])
            .envs([("AWS_ACCESS_KEY_ID", "AKIATEST"), ("AWS_SECRET_ACCESS_KEY", "secret")])
            .envs([("AWS_REGION", "eu-west-1"), ("AWS_ECR_DISABLE_CACHE", "1")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut stdin = child.stdin.take().expect("its stdin");
        stdin.write_all(self.stdin).expect("its stdin is open");
        drop(stdin);
        let mut answer = String::new();
        let mut stdout = child.stdout.take().expect("its stdout");
        stdout.read_to_string(&mut answer).expect("text");
        let took = begun.elapsed();
        let ended = child.wait().expect("it ends");
        assert!(
            ended.success() && answer.contains("AWS"),
            "{}: no login: {answer}",
            self.program.display()
        );
        took
    }
}

fn start(moto: &Path) -> (Child, String) {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its number");
    let mut command = Command::new(moto);
    command.args(["-H", "127.0.0.1", "-p", &free.port().to_string()]);
    let server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("moto starts");
    for _ in 0..600 {
        if TcpStream::connect(free).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    (server, free.to_string())
}

/// What moto says, with an end of the token that lies ahead: its own is always in 2015.
fn forward(request: &Request, moto: &str) -> Response {
    let mut connection = TcpStream::connect(moto).expect("moto listens");
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.target);
    for (name, value) in &request.headers {
        if !name.eq_ignore_ascii_case("connection") {
            write!(head, "{name}: {value}\r\n").expect("memory");
        }
    }
    head.push_str("Connection: close\r\n\r\n");
    head.push_str(&request.body);
    connection.write_all(head.as_bytes()).expect("moto reads");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("moto answers");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    let ends = body.find("\"expiresAt\":").expect("an end") + "\"expiresAt\":".len();
    let (before, after) = body.split_at(ends);
    let number = after.find([',', '}']).expect("a number");
    Response::json(format!("{before} 4102444800{}", &after[number..]))
        .header("Content-Type", "application/x-amz-json-1.1")
}
