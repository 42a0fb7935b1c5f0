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
    let answer = pass_on(address, request);
    let end = format!("\"expiresAt\": {end}");
    let body = String::from_utf8(answer.body).unwrap();
    let body = body.replace("\"expiresAt\": 1420070400", &end).into_bytes();
    Passed { body, ..answer }.into_response()
}

/// What a server answered.
pub(crate) struct Passed {
    status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Passed {
    /// The same answer for whoever asked.
    pub(crate) fn into_response(self) -> Response {
        let of_this_connection = ["connection", "content-length"];
        let mut response = Response::text(self.body).with_status(self.status);
        for (name, value) in &self.headers {
            if !of_this_connection.contains(&name.to_lowercase().as_str()) {
                response = response.header(name, value);
            }
        }
        response
    }
}

/// Sends a request to the server at this address.
pub(crate) fn pass_on(address: &str, request: &Request) -> Passed {
    let mut server = TcpStream::connect(address).unwrap();
    // In one piece: what is sent in several waits for the other side in between.
    let mut asked = format!("{} {} HTTP/1.0\r\n", request.method, request.target);
    for (name, value) in &request.headers {
        asked.extend([name, ": ", value, "\r\n"]);
    }
    asked.extend(["\r\n", &request.body]);
    server.write_all(asked.as_bytes()).unwrap();
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let body = answer.split_off(end + 4);
    let head = String::from_utf8(answer).unwrap();
    let headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Passed { status: head.split(' ').nth(1).unwrap().parse().unwrap(), headers, body }
}
