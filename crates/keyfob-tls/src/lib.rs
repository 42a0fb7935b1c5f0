//! Which servers are trusted by certificates that somebody named.
//!
//! A server may use a certificate that signed itself. Whoever names that very certificate means that server, and so curl,
//! skopeo and Go trust it; webpki does not, because it is not an authority's, or because it is one.

mod file;

use std::sync::Arc;

use keyfob_api::{Certificate, Timestamp};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
    client::{
        VerifierBuilderError, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

pub use file::verifier_of_file;

/// Trusts servers whose certificate one of these signed, or is.
///
/// A certificate that is one of these must have the server's name and be within its dates, and the server must have its
/// key. For the platform's authorities this is not the right verifier: nobody chose them one by one.
pub fn verifier_of(
    certificates: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, VerifierBuilderError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
    Ok(Arc::new(Verifier { webpki, certificates }))
}

#[derive(Debug)]
struct Verifier {
    webpki: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
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
        let verified = self.webpki.verify_server_cert(certificate, intermediates, name, ocsp, now);
        match verified {
            Err(_) if self.certificates.contains(certificate) => {
                check_dates(certificate, now)?;
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

fn check_dates(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let read = Certificate::parse(certificate)
        .map_err(|error| CertificateError::Other(OtherError(Arc::new(error))))?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < seconds(read.not_before) {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > seconds(read.not_after) {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

fn seconds(time: Timestamp) -> i64 {
    time.unix_seconds()
}
