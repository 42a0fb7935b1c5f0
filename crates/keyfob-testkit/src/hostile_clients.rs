//! Clients that try to lock others out of a server.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// How long a client waits for anything before its test has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection, with or without TLS.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A client at a loopback address of its own choice, such as 127.0.0.2: to a server each address is another peer.
///
/// Its connections are open for as long as the test keeps them. A server may close any of them, also while it is being
/// opened: those are left out.
#[derive(Clone, Debug)]
pub struct HostileClient {
    source: Ipv4Addr,
    server: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
}

impl HostileClient {
    /// A client of a server without TLS.
    pub fn plain(source: impl Into<Ipv4Addr>, server: SocketAddr) -> Self {
        Self { source: source.into(), server, tls: None }
    }

    /// A client of a server with TLS, whatever its certificate says.
    ///
    /// # Panics
    /// When the TLS library knows no protocol version.
    #[expect(clippy::expect_used, reason = "a test cannot go on without it")]
    pub fn tls(source: impl Into<Ipv4Addr>, server: SocketAddr) -> Self {
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("protocol versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody))
            .with_no_client_auth();
        Self { tls: Some(Arc::new(config)), ..Self::plain(source, server) }
    }

    /// The same client at another address.
    #[must_use]
    pub fn at(&self, source: impl Into<Ipv4Addr>) -> Self {
        Self { source: source.into(), ..self.clone() }
    }

    /// Connects, and sends nothing: to a server with TLS a handshake that does not begin.
    pub async fn connect(&self) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((self.source, 0).into())?;
        timeout(PATIENCE, socket.connect(self.server)).await?
    }

    /// A connection that is ready for requests.
    pub async fn open(&self) -> io::Result<Box<dyn Stream>> {
        let stream = self.connect().await?;
        let Some(config) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let connecting = TlsConnector::from(Arc::clone(config)).connect(name, stream);
        Ok(Box::new(timeout(PATIENCE, connecting).await??))
    }

    /// A connection on which these bytes were sent.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<Box<dyn Stream>> {
        let mut stream = self.open().await?;
        timeout(PATIENCE, stream.write_all(bytes)).await??;
        stream.flush().await?;
        Ok(stream)
    }

    /// What a server answers to a well-behaved request on a new connection.
    pub async fn ask(&self, method: &str, path: &str, body: &str) -> io::Result<String> {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let mut stream = self.send(request.as_bytes()).await?;
        let mut answer = Vec::new();
        let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await?;
        // Whether the end of a response is announced does not matter: it has a length.
        match read {
            Err(error) if answer.is_empty() => Err(error),
            _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
        }
    }

    /// Connections that are kept alive after a request was answered.
    pub async fn idle(&self, connections: usize, path: &str) -> Vec<Box<dyn Stream>> {
        let mut open = Vec::new();
        for _ in 0..connections {
            let Ok(mut stream) = self.open().await else { continue };
            if request_again(&mut stream, path).await.is_ok() {
                open.push(stream);
            }
        }
        open
    }

    /// Connections on which all that came is the beginning of something: of a head, or of a body.
    pub async fn unfinished(&self, connections: usize, bytes: &[u8]) -> Vec<Box<dyn Stream>> {
        let mut open = Vec::new();
        for _ in 0..connections {
            open.extend(self.send(bytes).await);
        }
        open
    }

    /// Connections that do nothing at all, not even a handshake.
    pub async fn silent(&self, connections: usize) -> Vec<TcpStream> {
        let mut open = Vec::new();
        for _ in 0..connections {
            open.extend(self.connect().await);
        }
        open
    }

    /// The beginning of a POST whose body has a length and does not come to it.
    pub fn unfinished_body(path: &str, length: usize, sent: usize) -> Vec<u8> {
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
        [head.into_bytes(), vec![b'x'; sent]].concat()
    }
}

/// Sends a request on a connection that is kept alive, and reads something of the response.
pub async fn request_again(stream: &mut Box<dyn Stream>, path: &str) -> io::Result<()> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    timeout(PATIENCE, stream.write_all(request.as_bytes())).await??;
    stream.flush().await?;
    let mut some = [0; 1024];
    match timeout(PATIENCE, stream.read(&mut some)).await?? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// Waits until a server has closed a connection, and returns what came before that.
///
/// # Panics
/// When the server does not close it.
#[expect(clippy::expect_used, reason = "a test cannot go on without it")]
pub async fn closed(mut stream: impl Stream) -> String {
    let mut bytes = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    // A connection may be cut rather than closed.
    drop(read.expect("the server closes the connection"));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Lets this process open as many files as the system allows it, and says how many.
///
/// # Panics
/// When the system refuses what it promised.
#[expect(clippy::expect_used, reason = "a test cannot go on without it")]
pub fn raise_file_limit() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("more files");
    maximum.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX)
}

/// Takes every certificate: who the server is does not matter to its attackers.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
