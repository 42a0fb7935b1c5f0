//! A client certificate and its key, ready for a handshake.
//!
//! All `CERTIFICATE` blocks in their order, the first of them the client's own; the first block whose name says that it is
//! a private key, whatever form its name promises. Dates are not looked at: the server decides.
//!
//! Upstream: `tls.X509KeyPair` of Go 1.26, as `plugin/pkg/client/auth/exec` uses it, and its sentences.
//! Differs: keys that rustls cannot sign with (RSA below 2048 bits, P-224) are refused at once, and an error names only a few
//! of the blocks it passed over, and only if their names look like names.

mod key;
mod pem;
mod skipped;

use std::{fmt, sync::Arc};

use keyfob_api::{Certificate, ClientIdentity, MalformedCertificate, Timestamp};
use rustls::{pki_types::CertificateDer, sign::CertifiedKey};
use thiserror::Error;

use pem::{Block, blocks};
pub use skipped::SkippedBlocks;

/// A certificate with its key.
pub struct Identity {
    certified: Arc<CertifiedKey>,
    pem: ClientIdentity,
    leaf: Leaf,
}

/// What the client's own certificate says of itself.
struct Leaf {
    not_before: Timestamp,
    not_after: Timestamp,
    common_name: Option<String>,
    organizations: Vec<String>,
}

impl Identity {
    /// Reads a pair as a plugin returns it.
    pub fn parse(pem: ClientIdentity) -> Result<Self, IdentityError> {
        let chain = certificates(pem.certificate_pem.expose().as_bytes())?;
        let key = private_key(pem.key_pem.expose().as_bytes())?;
        let own = chain.first().ok_or(IdentityError::NoCertificatePem)?;
        let certificate = Certificate::parse(own).map_err(IdentityError::Certificate)?;
        let key = key::signing_key(key.der.expose())?;
        key::check_match(&certificate, &*key)?;
        let leaf = Leaf {
            not_before: certificate.not_before,
            not_after: certificate.not_after,
            common_name: certificate.common_name,
            organizations: certificate.organizations,
        };
        Ok(Self { certified: Arc::new(CertifiedKey::new(chain, key)), pem, leaf })
    }

    /// What rustls presents in a handshake.
    pub fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }

    /// The pair as the plugin returned it.
    pub fn pem(&self) -> &ClientIdentity {
        &self.pem
    }

    /// From when the certificate is valid.
    pub fn not_before(&self) -> Timestamp {
        self.leaf.not_before
    }

    /// Until when the certificate is valid. Its credential may end earlier.
    pub fn not_after(&self) -> Timestamp {
        self.leaf.not_after
    }

    /// Whom it certifies: Kubernetes takes the common name for the user.
    pub fn common_name(&self) -> Option<&str> {
        self.leaf.common_name.as_deref()
    }

    /// The user's groups: the certificate's organizations.
    pub fn organizations(&self) -> &[String] {
        &self.leaf.organizations
    }

    /// Whether a handshake would be the same: the texts may differ, and the form of the key, which the certificate fixes.
    pub fn is_same(&self, other: &Self) -> bool {
        self.certified.cert == other.certified.cert
    }
}

/// Whose it is and until when.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("common_name", &self.leaf.common_name)
            .field("not_after", &self.leaf.not_after)
            .finish_non_exhaustive()
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let mut skipped = SkippedBlocks::default();
    let mut chain = Vec::new();
    for block in blocks(pem) {
        match block.label {
            b"CERTIFICATE" => chain.push(CertificateDer::from(block.der.expose().clone())),
            label => skipped.push(label),
        }
    }
    match (chain.is_empty(), skipped.only()) {
        (false, _) => Ok(chain),
        (true, _) if skipped.is_empty() => Err(IdentityError::NoCertificatePem),
        (true, Some(label)) if label.ends_with("PRIVATE KEY") => Err(IdentityError::Switched),
        (true, _) => Err(IdentityError::NoCertificate(skipped)),
    }
}

fn private_key(pem: &[u8]) -> Result<Block<'_>, IdentityError> {
    let mut skipped = SkippedBlocks::default();
    for block in blocks(pem) {
        if block.label == b"PRIVATE KEY" || block.label.ends_with(b" PRIVATE KEY") {
            return Ok(block);
        }
        skipped.push(block.label);
    }
    match skipped.only() {
        _ if skipped.is_empty() => Err(IdentityError::NoKeyPem),
        Some("CERTIFICATE") => Err(IdentityError::CertificateForKey),
        _ => Err(IdentityError::NoKey(skipped)),
    }
}

/// Why a pair cannot be used. Never quotes it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The certificate is no PEM.
    #[error("tls: failed to find any PEM data in certificate input")]
    NoCertificatePem,
    /// The certificate is PEM of something else.
    #[error(
        "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: {0}"
    )]
    NoCertificate(SkippedBlocks),
    /// The certificate is a key.
    #[error(
        "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched"
    )]
    Switched,
    /// The key is no PEM.
    #[error("tls: failed to find any PEM data in key input")]
    NoKeyPem,
    /// The key is PEM of something else.
    #[error(
        "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: {0}"
    )]
    NoKey(SkippedBlocks),
    /// The key is a certificate.
    #[error("tls: found a certificate rather than a key in the PEM for the private key")]
    CertificateForKey,
    /// The client's own certificate is none. A sentence of Go's too, so it is no source.
    #[error("{0}")]
    Certificate(MalformedCertificate),
    /// The key is none, or encrypted.
    #[error("tls: failed to parse private key")]
    UnreadableKey,
    /// The key is one that nobody here can sign with.
    #[error(
        "the private key is of a sort that cannot be used here: it must be RSA of 2048 to 8192 bits, ECDSA on P-256, P-384 or P-521, or Ed25519"
    )]
    UnsupportedKey,
    /// The certificate is for a sort of key that no handshake has.
    #[error("tls: unknown public key algorithm")]
    UnknownAlgorithm,
    /// The certificate is for another sort of key.
    #[error("tls: private key type does not match public key type")]
    OtherKeyType,
    /// The certificate is for another key.
    #[error("tls: private key does not match public key")]
    OtherKey,
}

#[cfg(test)]
mod tests;
