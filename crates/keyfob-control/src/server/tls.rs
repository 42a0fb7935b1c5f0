//! What a server shows of itself in a handshake.

use std::sync::Arc;

use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject as _},
    },
    server::ResolvesServerCert,
    sign::CertifiedKey,
};
use thiserror::Error;

/// A server with one certificate for as long as it runs.
pub fn tls_from_pem(certificates: &[u8], key: &[u8]) -> Result<Arc<ServerConfig>, TlsError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates).collect();
    let certificates = certificates.map_err(TlsError::Certificate)?;
    if certificates.is_empty() {
        return Err(TlsError::Certificate(pem::Error::NoItemsFound));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
    let identity = CertifiedKey::from_der(certificates, key, &aws_lc_rs::default_provider())?;
    tls_with(Arc::new(rustls::sign::SingleCertAndKey::from(identity)))
}

/// A server whose certificate is looked up anew for each handshake.
pub fn tls_with(resolver: Arc<dyn ResolvesServerCert>) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Why a server has nothing to show. It never quotes a key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The certificates cannot be read.
    #[error("the certificate is not PEM: {0}")]
    Certificate(#[source] pem::Error),
    /// The private key cannot be read.
    #[error("the private key is not PEM")]
    Key(#[source] pem::Error),
    /// Certificate and key do not go together, or are of an unknown kind.
    #[error("the certificate cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}
