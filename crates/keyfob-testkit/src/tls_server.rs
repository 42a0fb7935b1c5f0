//! A server that asks for client certificates and remembers who came.

use std::{
    convert::Infallible,
    fmt, io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use http::{HeaderMap, Method, Request, Response};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, UnixTime},
    server::{
        ResolvesServerCert,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_rustls::TlsAcceptor;

use crate::authority::Authority;

/// One HTTPS server on loopback, with keep-alive; it is gone when it is dropped.
#[derive(Debug)]
pub struct TlsServer {
    address: SocketAddr,
    authority: Arc<Authority>,
    log: Arc<Log>,
    task: JoinHandle<()>,
}

/// Whether a certificate, in DER, lets its client in.
pub type Trusts = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Which clients are let in.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum ClientCertificates {
    /// Nobody is asked for a certificate.
    #[default]
    NotAsked,
    /// Everybody is asked; any certificate will do, and none too.
    Asked,
    /// Everybody needs a certificate that this is true for.
    Required(Trusts),
}

/// A request that came in.
#[derive(Clone, Debug)]
pub struct Visit {
    /// The number of the connection, from 0.
    pub connection: usize,
    /// `GET`, …
    pub method: Method,
    /// The path and the query.
    pub target: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The certificates that the client presented, in DER.
    pub certificates: Vec<Vec<u8>>,
    /// Whether the handshake took up an earlier session.
    pub resumed: bool,
}

impl Visit {
    /// The `Authorization` header, if there is one.
    pub fn authorization(&self) -> Option<String> {
        let value = self.headers.get("authorization")?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    }
}

/// What a visitor gets.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Reply {
    /// A status and a body.
    Status(u16, String),
    /// Nothing, for as long as the visitor waits.
    Never,
    /// The protocol changes, and every byte that comes is sent back.
    Upgrade,
}

impl From<u16> for Reply {
    fn from(status: u16) -> Self {
        Self::Status(status, "{}".into())
    }
}

#[derive(Debug, Default)]
struct Log {
    connections: AtomicUsize,
    visits: Mutex<Vec<Visit>>,
}

type Handler = Arc<dyn Fn(&Visit) -> Reply + Send + Sync>;

#[expect(clippy::expect_used, reason = "a test cannot go on without it")]
impl TlsServer {
    /// Opens a port. It must be called within a runtime.
    ///
    /// # Panics
    /// When this machine has no loopback.
    pub async fn start(
        clients: ClientCertificates,
        handler: impl Fn(&Visit) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port on loopback");
        let address = listener.local_addr().expect("the port's number");
        let authority = Arc::new(Authority::new());
        let log = Arc::new(Log::default());
        let acceptor = TlsAcceptor::from(Arc::new(server_config(&authority, clients)));
        let serving = serve(listener, acceptor, Arc::clone(&log), Arc::new(handler));
        Self { address, authority, log, task: tokio::spawn(serving) }
    }

    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate to trust, in PEM.
    pub fn ca_pem(&self) -> &str {
        self.authority.pem()
    }

    /// Everything that came in so far.
    pub fn visits(&self) -> Vec<Visit> {
        self.log.visits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many connections there have been.
    pub fn connections(&self) -> usize {
        self.log.connections.load(Ordering::SeqCst)
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A certificate that vouches for itself, and its key, in PEM.
///
/// # Panics
/// When no key can be made.
#[expect(clippy::expect_used, reason = "a test cannot go on without it")]
pub fn self_signed(name: &str) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.self_signed(&key).expect("a certificate");
    (certificate.pem(), key.serialize_pem())
}

#[expect(clippy::expect_used, reason = "a test cannot go on without it")]
fn server_config(authority: &Arc<Authority>, clients: ClientCertificates) -> ServerConfig {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("protocol versions");
    let resolver = Arc::clone(authority) as Arc<dyn ResolvesServerCert>;
    match clients {
        ClientCertificates::NotAsked => builder.with_no_client_auth(),
        asked => builder.with_client_cert_verifier(Arc::new(Doorman { clients: asked, provider })),
    }
    .with_cert_resolver(resolver)
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, log: Arc<Log>, handler: Handler) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, log, handler) = (acceptor.clone(), Arc::clone(&log), Arc::clone(&handler));
        let connection = log.connections.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let (_, session) = stream.get_ref();
            let certificates = session.peer_certificates().unwrap_or_default();
            let certificates: Vec<_> = certificates.iter().map(|der| der.to_vec()).collect();
            let resumed = session.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
            let service = service_fn(move |request: Request<Incoming>| {
                let visit = Visit {
                    connection,
                    method: request.method().clone(),
                    target: request.uri().to_string(),
                    headers: request.headers().clone(),
                    certificates: certificates.clone(),
                    resumed,
                };
                let reply = handler(&visit);
                log.visits.lock().unwrap_or_else(PoisonError::into_inner).push(visit);
                answer(request, reply)
            });
            let http = hyper::server::conn::http1::Builder::new();
            // A client that goes away is its own test's concern.
            http.serve_connection(TokioIo::new(stream), service).with_upgrades().await.ok();
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    reply: Reply,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::default();
    match reply {
        Reply::Never => std::future::pending().await,
        Reply::Status(status, body) => {
            *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
            response
                .headers_mut()
                .insert("content-type", http::HeaderValue::from_static("application/json"));
            *response.body_mut() = Full::from(body);
        }
        Reply::Upgrade => {
            tokio::spawn(echo(request));
            *response.status_mut() = http::StatusCode::SWITCHING_PROTOCOLS;
            for (name, value) in [("connection", "Upgrade"), ("upgrade", "echo")] {
                response.headers_mut().insert(name, http::HeaderValue::from_static(value));
            }
        }
    }
    Ok(response)
}

async fn echo(request: Request<Incoming>) -> io::Result<()> {
    let upgraded = hyper::upgrade::on(request).await.map_err(io::Error::other)?;
    let (mut from, mut to) = tokio::io::split(TokioIo::new(upgraded));
    tokio::io::copy(&mut from, &mut to).await.map(|_| ())
}

/// Lets in whom the test says. That the client has the key of its certificate is checked as ever.
struct Doorman {
    clients: ClientCertificates,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for Doorman {
    fn client_auth_mandatory(&self) -> bool {
        matches!(self.clients, ClientCertificates::Required(_))
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match &self.clients {
            ClientCertificates::Required(trusts) if !trusts(leaf) => {
                Err(Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer))
            }
            _ => Ok(ClientCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl fmt::Debug for Doorman {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Doorman")
    }
}

impl fmt::Debug for ClientCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAsked => "NotAsked",
            Self::Asked => "Asked",
            Self::Required(_) => "Required",
        })
    }
}
