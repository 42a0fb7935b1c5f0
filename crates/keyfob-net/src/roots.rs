//! Whom to trust.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use keyfob_exec::read_bounded;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use crate::RootsError;

/// All the authorities that there are fit into a tenth of this.
const LARGEST_FILE: u64 = 4 << 20;

/// Where the certificates of those to trust come from.
#[derive(Default)]
pub(crate) enum Roots {
    #[default]
    Platform,
    File(PathBuf),
    Pem(Vec<u8>),
}

impl Roots {
    /// A TLS stack that trusts them.
    pub(crate) fn client_config(&self) -> Result<ClientConfig, RootsError> {
        let certificates = match self {
            Self::Platform => rustls_native_certs::load_native_certs().certs,
            Self::File(path) => of_file(path)?,
            Self::Pem(pem) => of_pem(pem, &self.named())?,
        };
        let mut roots = RootCertStore::empty();
        let (usable, _) = roots.add_parsable_certificates(certificates.iter().cloned());
        match self {
            Self::Platform if usable == 0 => Err(RootsError::NoneOnMachine),
            Self::Platform => client_config(roots),
            _ if usable == 0 => Err(RootsError::NoCertificate(self.named())),
            // Somebody named these one by one, so a server may also use one of them.
            Self::File(_) | Self::Pem(_) => {
                let mut config = client_config(roots)?;
                let provider = Arc::clone(config.crypto_provider());
                let verifier = crate::tls::verifier_of(certificates, provider)?;
                config.dangerous().set_certificate_verifier(verifier);
                Ok(config)
            }
        }
    }

    fn named(&self) -> String {
        match self {
            Self::Platform => "the platform's store".into(),
            Self::File(path) => path.display().to_string(),
            Self::Pem(_) => "the authority's data".into(),
        }
    }
}

/// Which, not what: certificates are long.
impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.named())
    }
}

fn of_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, RootsError> {
    let unreadable = |error| RootsError::Unreadable { path: path.into(), source: Arc::new(error) };
    let pem = read_bounded(path, LARGEST_FILE).map_err(unreadable)?;
    of_pem(pem.expose(), &path.display().to_string())
}

fn of_pem(pem: &[u8], named: &str) -> Result<Vec<CertificateDer<'static>>, RootsError> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| RootsError::Pem { named: named.to_owned(), source: Arc::new(error) })
}

pub(crate) fn client_config(roots: RootCertStore) -> Result<ClientConfig, RootsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
