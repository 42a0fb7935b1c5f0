//! A server's certificate that is renewed while it runs.
//!
//! Whoever renews it writes two files, one after the other, or swaps a link as a kubelet does for a mounted Secret. So the
//! files are read again and again and compared by what is in them, and a pair that does not fit is left alone: the old one
//! is shown until there is a good new one.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use keyfob_api::{Certificate, Secret};
use keyfob_exec::{Clock, read_bounded};
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use rustls::{
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// Nobody's certificates are larger.
const LARGEST: u64 = 1 << 20;

/// The certificate of two files, as they are now.
pub struct Certificates {
    files: Files,
    current: ArcSwap<Identity>,
    failure: Mutex<Option<String>>,
    reloads: Family<[(&'static str, &'static str); 1], Counter>,
    expiry: Gauge,
    clock: Arc<dyn Clock>,
}

impl Certificates {
    /// Reads both files, which must fit.
    pub fn load(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, CertificateError> {
        let files = Files { certificate: certificate.into(), key: key.into() };
        let identity = files.read()?.identity(&files)?;
        let expiry = Gauge::default();
        expiry.set(seconds(identity.not_after));
        let current = ArcSwap::from_pointee(identity);
        let (failure, reloads) = (Mutex::default(), Family::default());
        Ok(Arc::new(Self { files, current, failure, reloads, expiry, clock }))
    }

    /// Reads both files now and then every so often, until nobody holds the certificates any more. It must be called within
    /// a runtime.
    pub fn watch(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        every: Duration,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, CertificateError> {
        let certificates = Self::load(certificate, key, clock)?;
        let watched = Arc::downgrade(&certificates);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                let Some(certificates) = watched.upgrade() else { return };
                certificates.reload();
            }
        });
        Ok(certificates)
    }

    /// Reads the files again. What cannot be used is logged once, and changes nothing.
    pub fn reload(&self) {
        match self.renewed() {
            Ok(None) => *self.failure() = None,
            Ok(Some(identity)) => {
                tracing::info!(certificate = %self.files.certificate.display(), "certificate renewed");
                self.expiry.set(seconds(identity.not_after));
                self.current.store(Arc::new(identity));
                *self.failure() = None;
                self.count("ok");
            }
            Err(error) => self.complain(error.to_string()),
        }
    }

    /// Until when the certificate is valid.
    pub fn not_after(&self) -> SystemTime {
        self.current.load().not_after
    }

    /// Whether that is over.
    pub fn has_expired(&self) -> bool {
        self.not_after() < self.clock.now()
    }

    /// Adds what is counted about the certificate to a registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        registry.register(
            "certificate_expiry_timestamp_seconds",
            "When the certificate of this server ends",
            self.expiry.clone(),
        );
        registry.register(
            "certificate_reloads",
            "How often new certificate files were read, by result",
            self.reloads.clone(),
        );
    }

    /// What the files hold, if it is not what is shown already.
    fn renewed(&self) -> Result<Option<Identity>, CertificateError> {
        let contents = self.files.read()?;
        if contents.digest() == self.current.load().digest {
            return Ok(None);
        }
        contents.identity(&self.files).map(Some)
    }

    fn complain(&self, error: String) {
        let mut known = self.failure();
        if known.as_ref() != Some(&error) {
            tracing::error!(error, "the new certificate cannot be used; the old one stays");
            self.count("failed");
            *known = Some(error);
        }
    }

    fn count(&self, result: &'static str) {
        self.reloads.get_or_create(&[("result", result)]).inc();
    }

    fn failure(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.load().key))
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("files", &self.files).finish_non_exhaustive()
    }
}

/// What is shown in handshakes.
struct Identity {
    digest: [u8; 32],
    key: Arc<CertifiedKey>,
    not_after: SystemTime,
}

#[derive(Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn read(&self) -> Result<Contents, CertificateError> {
        let read = |path: &Path| {
            read_bounded(path, LARGEST)
                .map_err(|source| CertificateError::Unreadable { path: path.to_owned(), source })
        };
        Ok(Contents { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }
}

struct Contents {
    certificate: Secret<Vec<u8>>,
    key: Secret<Vec<u8>>,
}

impl Contents {
    fn digest(&self) -> [u8; 32] {
        let of = |part: &Secret<Vec<u8>>| Sha256::digest(part.expose());
        Sha256::new()
            .chain_update(of(&self.certificate))
            .chain_update(of(&self.key))
            .finalize()
            .into()
    }

    /// A parser's error may quote what it read, so it is not asked what it did not like.
    fn identity(&self, files: &Files) -> Result<Identity, CertificateError> {
        let no_certificate = || CertificateError::NoCertificate(files.certificate.clone());
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(self.certificate.expose()).collect();
        let chain = chain.map_err(|_| no_certificate())?;
        let leaf = chain.first().and_then(|leaf| Certificate::parse(leaf).ok());
        let not_after =
            leaf.and_then(|leaf| leaf.not_after.to_system_time()).ok_or_else(no_certificate)?;
        let key = PrivateKeyDer::from_pem_slice(self.key.expose())
            .map_err(|_| CertificateError::NoKey(files.key.clone()))?;
        let key = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map_err(
            |source| CertificateError::Unfit {
                certificate: files.certificate.clone(),
                key: files.key.clone(),
                source,
            },
        )?;
        Ok(Identity { digest: self.digest(), key: Arc::new(key), not_after })
    }
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Why there is no certificate to show.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file of the certificate has none.
    #[error("{} holds no certificate: it must be PEM, with the server's own certificate first", .0.display())]
    NoCertificate(PathBuf),
    /// The file of the key has none.
    #[error("{} holds no private key: it must be PEM, and not encrypted", .0.display())]
    NoKey(PathBuf),
    /// They are no pair.
    #[error("the key in {} is not the one of the certificate in {}: {source}", key.display(), certificate.display())]
    Unfit {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// What the TLS library says.
        source: rustls::Error,
    },
}
