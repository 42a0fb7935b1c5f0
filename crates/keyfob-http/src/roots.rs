//! Whom to trust.

use std::{path::Path, sync::Arc};

use keyfob_exec::read_bounded;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use crate::ConnectionError;

/// All the authorities that there are fit into a tenth of this.
const LARGEST_FILE: u64 = 4 << 20;

/// The certificates of a file, or the platform's.
pub(crate) fn load(ca_file: Option<&Path>) -> Result<RootCertStore, ConnectionError> {
    let mut roots = RootCertStore::empty();
    let certificates = match ca_file {
        Some(path) => of_file(path)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let (added, _) = roots.add_parsable_certificates(certificates);
    match (added, ca_file) {
        (0, Some(path)) => {
            let path = path.display();
            Err(ConnectionError::Roots(format!("no certificate in {path}: it must be a PEM file")))
        }
        (0, None) => Err(ConnectionError::Roots(
            "this machine has no trusted certificates: install ca-certificates, or name a file with --ca-file"
                .into(),
        )),
        _ => Ok(roots),
    }
}

fn of_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConnectionError> {
    let pem = read_bounded(path, LARGEST_FILE).map_err(|error| {
        ConnectionError::Roots(format!("cannot read {}: {error}", path.display()))
    })?;
    CertificateDer::pem_slice_iter(pem.expose())
        .collect::<Result<_, _>>()
        .map_err(|error| ConnectionError::Roots(format!("{}: {error}", path.display())))
}

pub(crate) fn client_config(roots: RootCertStore) -> Result<ClientConfig, ConnectionError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ConnectionError::Roots(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
