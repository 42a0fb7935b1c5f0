//! Certificates that were named one by one.

use std::sync::Arc;

use keyfob_api::Certificate;
use rustls::{
    CertificateError, Error, OtherError, RootCertStore,
    client::{
        VerifierBuilderError, WebPkiServerVerifier, danger::ServerCertVerified, verify_server_name,
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

/// The certificates, and the verifier of whatever they signed.
#[derive(Debug)]
pub(crate) struct Trusted {
    webpki: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl Trusted {
    pub(crate) fn new(
        certificates: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, VerifierBuilderError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        Ok(Self { webpki: webpki.build()?, certificates })
    }

    pub(crate) fn webpki(&self) -> &WebPkiServerVerifier {
        &self.webpki
    }

    /// Checks a server's certificate that is itself one of these. `None` if it is not.
    pub(crate) fn verify_named(
        &self,
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Option<Result<ServerCertVerified, Error>> {
        let is_named = self.certificates.contains(certificate);
        is_named.then(|| {
            check_dates(certificate, now)?;
            verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            Ok(ServerCertVerified::assertion())
        })
    }
}

fn check_dates(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let read = Certificate::parse(certificate)
        .map_err(|error| CertificateError::Other(OtherError(Arc::new(error))))?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < read.not_before.unix_seconds() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > read.not_after.unix_seconds() {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}
