//! Certificates for tests, in files.

use std::{fs, path::PathBuf, sync::Arc};

use keyfob_control::server::Certificates;
use keyfob_testkit::ManualClock;
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use tempfile::TempDir;

/// An authority and the files of a server that it vouches for.
pub(crate) struct Pki {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub(crate) folder: TempDir,
    pub(crate) clock: ManualClock,
}

/// A certificate and its key, in PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Pki {
    /// With the files of a first pair.
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let pki = Self { issuer, folder, clock: ManualClock::default() };
        pki.write(&pki.pair(2040));
        pki
    }

    /// A pair that is valid until a year begins.
    pub(crate) fn pair(&self, until: i32) -> Pair {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_after = date_time_ymd(until, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    pub(crate) fn authority(&self) -> rustls::pki_types::CertificateDer<'static> {
        self.issuer.der().clone()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, pair: &Pair) {
        fs::write(self.path("tls.crt"), &pair.certificate).unwrap();
        fs::write(self.path("tls.key"), &pair.key).unwrap();
    }

    pub(crate) fn load(&self) -> Arc<Certificates> {
        let clock = Arc::new(self.clock.clone());
        Certificates::load(self.path("tls.crt"), self.path("tls.key"), clock).unwrap()
    }
}
