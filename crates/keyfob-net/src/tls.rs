//! Which servers are trusted by certificates that somebody named.
//!
//! A server may use a certificate that signed itself. Whoever names that very certificate means that server, and so curl,
//! skopeo and Go trust it; webpki does not, because it is not an authority's, or because it is one.

mod file;
mod trusted;

use std::{path::PathBuf, sync::Arc};

use rustls::{
    DigitallySignedStruct, Error, SignatureScheme,
    client::{
        VerifierBuilderError,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
};

use self::{file::CertificateFile, trusted::Trusted};

/// Trusts servers whose certificate one of these signed, or is.
///
/// A certificate that is one of these must have the server's name and be within its dates, and the server must have its
/// key. For the platform's authorities this is not the right verifier: nobody chose them one by one.
pub fn verifier_of(
    certificates: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, VerifierBuilderError> {
    let trusted = Trusted::new(certificates, provider)?;
    Ok(Arc::new(Verifier { source: Source::Given(Arc::new(trusted)) }))
}

/// Like [`verifier_of`], with the certificates that the file has at each handshake. If it cannot be used any more, those that it
/// had before count. A file that cannot be read now has no certificates, which is an error.
pub fn verifier_of_file(
    path: PathBuf,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, VerifierBuilderError> {
    let file = CertificateFile::open(path, provider)?;
    Ok(Arc::new(Verifier { source: Source::File(file) }))
}

#[derive(Debug)]
struct Verifier {
    source: Source,
}

/// Where the trusted certificates come from.
#[derive(Debug)]
enum Source {
    Given(Arc<Trusted>),
    File(CertificateFile),
}

impl Verifier {
    /// The certificates that counted when the handshake began.
    fn trusted(&self) -> Arc<Trusted> {
        match &self.source {
            Source::Given(trusted) => Arc::clone(trusted),
            Source::File(file) => file.last_read(),
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Source::File(file) = &self.source {
            file.read_again();
        }
        let trusted = self.trusted();
        let verified =
            trusted.webpki().verify_server_cert(certificate, intermediates, name, ocsp, now);
        verified.or_else(|error| trusted.verify_named(certificate, name, now).unwrap_or(Err(error)))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trusted().webpki().verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trusted().webpki().verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trusted().webpki().supported_verify_schemes()
    }
}
