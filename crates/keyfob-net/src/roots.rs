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

use crate::ConnectionError;

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
    pub(crate) fn client_config(&self) -> Result<ClientConfig, ConnectionError> {
        let certificates = match self {
            Self::Platform => rustls_native_certs::load_native_certs().certs,
            Self::File(path) => of_file(path)?,
            Self::Pem(pem) => of_pem(pem, &self.named())?,
        };
        let mut roots = RootCertStore::empty();
        let (usable, _) = roots.add_parsable_certificates(certificates.iter().cloned());
        match self {
            Self::Platform if usable == 0 => Err(ConnectionError::Roots(
                "this machine has no trusted certificates: install ca-certificates, or name a file with --ca-file"
                    .into(),
            )),
            Self::Platform => client_config(roots),
            _ if usable == 0 => {
                let named = self.named();
                Err(ConnectionError::Roots(format!("no certificate in {named}: it must be PEM")))
            }
            // Somebody named these one by one, so a server may also use one of them.
            Self::File(_) | Self::Pem(_) => {
                let mut config = client_config(roots)?;
                let provider = Arc::clone(config.crypto_provider());
                let verifier = crate::tls::verifier_of(certificates, provider)
                    .map_err(|error| ConnectionError::Roots(error.to_string()))?;
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

fn of_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConnectionError> {
    let pem = read_bounded(path, LARGEST_FILE).map_err(|error| {
        ConnectionError::Roots(format!("cannot read {}: {error}", path.display()))
    })?;
    of_pem(pem.expose(), &path.display().to_string())
}

fn of_pem(pem: &[u8], named: &str) -> Result<Vec<CertificateDer<'static>>, ConnectionError> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| ConnectionError::Roots(format!("{named}: {error}")))
}

pub(crate) fn client_config(roots: RootCertStore) -> Result<ClientConfig, ConnectionError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ConnectionError::Roots(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
