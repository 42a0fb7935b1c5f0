//! Certificates in a file that may be replaced while a client lives.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use keyfob_exec::read_bounded;
use rustls::{
    client::VerifierBuilderError,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use super::trusted::Trusted;

/// All the authorities that there are fit into a tenth of this.
const LARGEST_FILE: u64 = 4 << 20;

#[derive(Debug)]
pub(crate) struct CertificateFile {
    path: PathBuf,
    provider: Arc<CryptoProvider>,
    last: Mutex<Last>,
}

/// What the file had when it was last read.
#[derive(Debug)]
struct Last {
    pem: Vec<u8>,
    trusted: Arc<Trusted>,
}

impl CertificateFile {
    pub(crate) fn open(
        path: PathBuf,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, VerifierBuilderError> {
        let pem = read_bounded(&path, LARGEST_FILE);
        let pem = pem.map(|pem| pem.expose().clone()).unwrap_or_default();
        let trusted = of_pem(&pem, &provider)?;
        Ok(Self { path, provider, last: Mutex::new(Last { pem, trusted }) })
    }

    pub(crate) fn last_read(&self) -> Arc<Trusted> {
        Arc::clone(&self.last().trusted)
    }

    /// Takes over what the file has now, if that can be used.
    pub(crate) fn read_again(&self) {
        let Ok(pem) = read_bounded(&self.path, LARGEST_FILE) else { return };
        let mut last = self.last();
        if *pem.expose() == last.pem {
            return;
        }
        if let Ok(trusted) = of_pem(pem.expose(), &self.provider) {
            *last = Last { pem: pem.expose().clone(), trusted };
        }
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of_pem(
    pem: &[u8],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<Trusted>, VerifierBuilderError> {
    let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect();
    Ok(Arc::new(Trusted::new(certificates, Arc::clone(provider))?))
}
