//! Certificates in a file that may be replaced while a client lives.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use keyfob_exec::read_bounded;
use rustls::{
    DigitallySignedStruct, Error, SignatureScheme,
    client::{
        VerifierBuilderError,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};

use crate::verifier_of;

/// All the authorities that there are fit into a tenth of this.
const LARGEST_FILE: u64 = 4 << 20;

/// Like [`verifier_of`], with the certificates that the file has at each handshake. If it cannot be used any more, those that it
/// had before count. A file that cannot be read now has no certificates, which is an error.
pub fn verifier_of_file(
    path: PathBuf,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, VerifierBuilderError> {
    let pem = read_bounded(&path, LARGEST_FILE);
    let pem = pem.map(|pem| pem.expose().clone()).unwrap_or_default();
    let verifier = of_pem(&pem, &provider)?;
    Ok(Arc::new(FileVerifier { path, provider, last: Mutex::new(Last { pem, verifier }) }))
}

#[derive(Debug)]
struct FileVerifier {
    path: PathBuf,
    provider: Arc<CryptoProvider>,
    last: Mutex<Last>,
}

/// What the file had when it was last read.
#[derive(Debug)]
struct Last {
    pem: Vec<u8>,
    verifier: Arc<dyn ServerCertVerifier>,
}

impl FileVerifier {
    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn verifier(&self) -> Arc<dyn ServerCertVerifier> {
        Arc::clone(&self.last().verifier)
    }

    fn read_again(&self) {
        let Ok(pem) = read_bounded(&self.path, LARGEST_FILE) else { return };
        let mut last = self.last();
        if *pem.expose() == last.pem {
            return;
        }
        if let Ok(verifier) = of_pem(pem.expose(), &self.provider) {
            *last = Last { pem: pem.expose().clone(), verifier };
        }
    }
}

fn of_pem(
    pem: &[u8],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, VerifierBuilderError> {
    let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect();
    verifier_of(certificates, Arc::clone(provider))
}

impl ServerCertVerifier for FileVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.read_again();
        self.verifier().verify_server_cert(certificate, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier().verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier().verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier().supported_verify_schemes()
    }
}
