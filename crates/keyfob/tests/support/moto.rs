//! Moto, which plays AWS.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use keyfob_testkit::{Request, Response};

pub(crate) struct Moto {
    server: Child,
    pub(crate) address: String,
}

impl Moto {
    pub(crate) fn start(program: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Command::new(program)
            .args(["--port", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                unreachable!("moto_server cannot be run, .ci/run installs it: {error}")
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

/// What moto answers, with tokens that end in the future: its own all ended in 2015.
pub(crate) fn corrected(address: &str, request: &Request, end: u64) -> Response {
    let (status, body) = pass_on(address, request);
    let end = format!("\"expiresAt\": {end}");
    Response::text(body.replace("\"expiresAt\": 1420070400", &end)).with_status(status)
}

fn pass_on(address: &str, request: &Request) -> (u16, String) {
    let mut moto = TcpStream::connect(address).unwrap();
    // In one piece: what is sent in several waits for the other side in between.
    let mut asked = format!("{} {} HTTP/1.0\r\n", request.method, request.target);
    for (name, value) in &request.headers {
        asked.extend([name, ": ", value, "\r\n"]);
    }
    asked.extend(["\r\n", &request.body]);
    moto.write_all(asked.as_bytes()).unwrap();
    let mut answer = String::new();
    moto.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}
