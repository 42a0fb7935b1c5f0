//! Whom a client trusts.
//!
//! The cryptography is named here, and not installed for the whole process: that is for the program to decide, and `kube`, which
//! takes what is installed, panics if there are two to choose from.

use std::sync::Arc;

use kube::Config;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

use super::ClientError;

/// The TLS configuration for a server, which presents no certificate of our own.
pub(super) fn client_config(config: &Config) -> Result<ClientConfig, ClientError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(ClientError::Tls)?;
    let builder = match verifier(config, provider)? {
        Some(verifier) => builder.dangerous().with_custom_certificate_verifier(verifier),
        None => builder.with_root_certificates(RootCertStore::empty()),
    };
    Ok(builder.with_no_client_auth())
}

/// Checks the server's certificate; `None` if no server is trusted.
///
/// A server is also trusted if its own certificate is named as its authority.
fn verifier(
    config: &Config,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ServerCertVerifier>>, ClientError> {
    let verifier = match (&config.root_cert_file, &config.root_cert) {
        _ if config.accept_invalid_certs => Ok(Arc::new(Anybody { provider }) as _),
        (Some(file), _) => keyfob_net::tls::verifier_of_file(file.clone(), provider),
        (None, Some(authorities)) if authorities.is_empty() => return Ok(None),
        (None, Some(authorities)) => {
            let authorities = authorities.iter().cloned().map(Into::into);
            keyfob_net::tls::verifier_of(authorities.collect(), provider)
        }
        (None, None) => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            WebPkiServerVerifier::builder_with_provider(roots.into(), provider)
                .build()
                .map(|verifier| verifier as _)
        }
    };
    verifier.map(Some).map_err(ClientError::Authorities)
}

/// Takes every certificate, as the kubeconfig asks with `insecure-skip-tls-verify`.
#[derive(Debug)]
struct Anybody {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config::new("https://cluster.example".parse().unwrap())
    }

    #[test]
    fn nothing_is_installed_for_the_whole_process() {
        let mut config = config();
        config.accept_invalid_certs = true;

        client_config(&config).unwrap();

        assert!(CryptoProvider::get_default().is_none());
    }

    #[test]
    fn authorities_that_cannot_be_read_are_refused_and_none_at_all_trust_nobody() {
        let mut config = config();
        config.root_cert = Some(vec![b"no certificate".to_vec()]);
        assert!(matches!(client_config(&config), Err(ClientError::Authorities(_))));

        config.root_cert = Some(Vec::new());
        assert!(client_config(&config).is_ok());
    }
}
