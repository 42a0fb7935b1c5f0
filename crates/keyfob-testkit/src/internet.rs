//! The rest of the world, on loopback.

use std::{
    io::{self, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use http::StatusCode;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::authority::Authority;

/// Every host there is, behind one port of this machine.
///
/// It is a proxy: a client that is told to use it finds `https://foo.azurecr.io/` here, with a certificate for that name
/// from an authority of its own. Asked directly, it is plain HTTP, as metadata services are, or TLS with a certificate for
/// the name that the client expects.
///
/// ```
/// use keyfob_testkit::{Internet, Response};
///
/// let internet = Internet::start(|request| match (request.host.as_str(), request.path()) {
///     ("login.example.com", "/token") => Response::json(r#"{"access_token":"abc"}"#),
///     _ => Response::status(404),
/// });
/// let environment = [("HTTPS_PROXY", internet.url()), ("METADATA", internet.url())];
/// # let _ = environment;
/// assert_eq!(internet.requests().len(), 0);
/// ```
#[derive(Debug)]
pub struct Internet {
    address: SocketAddr,
    authority: Arc<Authority>,
    seen: Arc<Mutex<Vec<Request>>>,
}

/// What came in.
#[derive(Debug, Clone)]
pub struct Request {
    /// The host that was meant; `127.0.0.1` when this machine was.
    pub host: String,
    /// Whether it came through TLS.
    pub tls: bool,
    /// `GET`, `POST`, …
    pub method: String,
    /// The path and what follows it.
    pub target: String,
    /// The headers, as they came.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Request {
    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// What goes out.
#[derive(Debug, Clone)]
pub struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    hangs: bool,
    /// How much of the body is sent.
    sent: usize,
    has_length: bool,
    /// What passes before each byte of the body.
    pause: Duration,
}

impl Response {
    /// A status and nothing else.
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            hangs: false,
            sent: usize::MAX,
            has_length: true,
            pause: Duration::ZERO,
        }
    }

    /// A body, with status 200.
    pub fn text(body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::status(200) }
    }

    /// A JSON body, with status 200.
    pub fn json(body: impl Into<Vec<u8>>) -> Self {
        Self::text(body).header("Content-Type", "application/json")
    }

    /// No answer at all, for as long as anyone waits.
    pub fn never() -> Self {
        Self { hangs: true, sent: 0, ..Self::status(200) }
    }

    /// Says how long its body is, sends so many bytes of it and breaks off.
    #[must_use]
    pub fn cut_after(self, bytes: usize) -> Self {
        Self { sent: bytes, ..self }
    }

    /// The same, but instead of breaking off it falls silent, for as long as anyone waits.
    #[must_use]
    pub fn silent_after(self, bytes: usize) -> Self {
        Self { sent: bytes, hangs: true, ..self }
    }

    /// Sends its body byte by byte, with a pause before each.
    #[must_use]
    pub fn slowly(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// Without saying how long its body is.
    #[must_use]
    pub fn without_length(self) -> Self {
        Self { has_length: false, ..self }
    }

    /// With another status.
    #[must_use]
    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

type Handler = Arc<dyn Fn(&Request) -> Response + Send + Sync>;

/// What every connection needs.
#[derive(Clone)]
struct Wires {
    handler: Handler,
    seen: Arc<Mutex<Vec<Request>>>,
    tls: Arc<ServerConfig>,
}

impl Internet {
    /// Opens a port and answers from it until the process ends.
    ///
    /// # Panics
    /// When this machine has no loopback.
    pub fn start(handler: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), handler)
    }

    /// The same at an address of this machine, as one that was down and comes back.
    ///
    /// # Panics
    /// When the address is taken.
    #[expect(clippy::expect_used, reason = "a test cannot go on without it")]
    pub fn start_at(
        address: SocketAddr,
        handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).expect("a port on loopback");
        let address = listener.local_addr().expect("the port's number");
        let authority = Arc::new(Authority::new());
        let seen = Arc::new(Mutex::default());
        let tls = authority.server_config();
        let wires = Wires { handler: Arc::new(handler), seen: Arc::clone(&seen), tls };
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let wires = wires.clone();
                // A client that goes away is its own test's concern.
                thread::spawn(move || wires.serve(connection).unwrap_or_default());
            }
        });
        Self { address, authority, seen }
    }

    /// `http://127.0.0.1:PORT`, for proxy variables and metadata addresses.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate to trust, in PEM.
    pub fn ca_pem(&self) -> &str {
        self.authority.pem()
    }

    /// Writes that certificate to a file of this directory, and gives its path.
    ///
    /// # Panics
    /// When it cannot be written.
    #[expect(clippy::expect_used, reason = "a test cannot go on without it")]
    pub fn ca_file(&self, directory: &Path) -> String {
        let path = directory.join("ca.pem");
        std::fs::write(&path, self.ca_pem()).expect("a certificate in a file");
        path.to_string_lossy().into_owned()
    }

    /// What came in so far.
    pub fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Wires {
    fn serve(&self, connection: TcpStream) -> io::Result<()> {
        connection.set_nodelay(true)?;
        if begins_with_tls(&connection)? {
            return self.serve_tls(connection, None);
        }
        let mut reader = BufReader::new(connection);
        let head = Head::read(&mut reader)?;
        if head.method != "CONNECT" {
            let host = head.host();
            let request = head.into_request(host, false, &mut reader)?;
            return self.answer(request, reader.get_mut());
        }
        let host = head.target.rsplit_once(':').map_or("", |(host, _)| host).to_owned();
        let mut connection = reader.into_inner();
        connection.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        self.serve_tls(connection, Some(host))
    }

    fn serve_tls(&self, connection: TcpStream, host: Option<String>) -> io::Result<()> {
        let tls = ServerConnection::new(Arc::clone(&self.tls)).map_err(io::Error::other)?;
        let mut reader = BufReader::new(StreamOwned::new(tls, connection));
        let head = Head::read(&mut reader)?;
        let host = host.unwrap_or_else(|| head.host());
        let request = head.into_request(host, true, &mut reader)?;
        self.answer(request, reader.get_mut())
    }

    fn answer(&self, request: Request, connection: &mut impl Write) -> io::Result<()> {
        let response = (self.handler)(&request);
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        response.send(connection)?;
        if !response.hangs {
            return Ok(());
        }
        loop {
            thread::park_timeout(Duration::from_mins(10));
        }
    }
}

impl Response {
    /// In one piece, unless it is slow: what is sent in several waits for the other side in between.
    fn send(&self, connection: &mut impl Write) -> io::Result<()> {
        if self.hangs && self.sent == 0 {
            return Ok(());
        }
        let (head, body) = self.encoded();
        if self.pause.is_zero() {
            connection.write_all(&[head.as_bytes(), body].concat())?;
            return connection.flush();
        }
        connection.write_all(head.as_bytes())?;
        for byte in body {
            connection.flush()?;
            thread::park_timeout(self.pause);
            connection.write_all(&[*byte])?;
        }
        connection.flush()
    }

    fn encoded(&self) -> (String, &[u8]) {
        let status = StatusCode::from_u16(self.status).unwrap_or_default();
        let reason = status.canonical_reason().unwrap_or("Unknown");
        let mut head = format!("HTTP/1.1 {} {reason}\r\nConnection: close\r\n", self.status);
        let length =
            self.has_length.then(|| ("Content-Length".to_owned(), self.body.len().to_string()));
        for (name, value) in self.headers.iter().chain(&length) {
            head = format!("{head}{name}: {value}\r\n");
        }
        (format!("{head}\r\n"), self.body.get(..self.sent).unwrap_or(&self.body))
    }
}

fn begins_with_tls(connection: &TcpStream) -> io::Result<bool> {
    const HANDSHAKE: u8 = 0x16;
    let mut first = [0];
    connection.peek(&mut first)?;
    Ok(first == [HANDSHAKE])
}

/// A request up to its body.
struct Head {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
}

impl Head {
    fn read(reader: &mut impl io::BufRead) -> io::Result<Self> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            lines.push(line.to_owned());
        }
        let mut words = lines.first().ok_or(io::ErrorKind::UnexpectedEof)?.split(' ');
        let mut word = || words.next().unwrap_or_default().to_owned();
        let (method, target) = (word(), word());
        let headers = lines.iter().skip(1).filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.into(), value.trim().into())).collect();
        Ok(Self { method, target, headers })
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    fn host(&self) -> String {
        let host = self.header("host").unwrap_or_default();
        host.rsplit_once(':').map_or(host, |(host, _)| host).to_owned()
    }

    fn into_request(self, host: String, tls: bool, reader: &mut impl Read) -> io::Result<Request> {
        let length = self.header("content-length").and_then(|length| length.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body)?;
        let target = match self.target.strip_prefix("http://") {
            Some(absolute) => absolute.find('/').and_then(|at| absolute.get(at..)).unwrap_or("/"),
            None => &self.target,
        };
        let (target, body) = (target.to_owned(), String::from_utf8_lossy(&body).into_owned());
        Ok(Request { host, tls, method: self.method, target, headers: self.headers, body })
    }
}
