//! The private key of a pair.

use std::sync::Arc;

use keyfob_api::{
    Certificate,
    der::{Der, INTEGER, SEQUENCE},
};
use rustls::{
    SignatureAlgorithm,
    crypto::aws_lc_rs::sign::any_supported_type,
    pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer},
    sign::SigningKey,
};

use super::IdentityError;

const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEC1_PARAMETERS: u8 = 0xa0;

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const ED25519: &[u8] = &[0x2b, 101, 112];
const P224: &[u8] = &[0x2b, 0x81, 4, 0, 0x21];

/// A key to sign with, in whichever of the three forms it is.
pub(super) fn signing_key(der: &[u8]) -> Result<Arc<dyn SigningKey>, IdentityError> {
    let forms = [
        PrivateKeyDer::from(PrivatePkcs1KeyDer::from(der)),
        PrivateKeyDer::from(PrivatePkcs8KeyDer::from(der)),
        PrivateKeyDer::from(PrivateSec1KeyDer::from(der)),
    ];
    let key = forms.iter().find_map(|form| any_supported_type(form).ok());
    key.ok_or_else(|| {
        if is_unsupported(der) {
            IdentityError::UnsupportedKey
        } else {
            IdentityError::UnreadableKey
        }
    })
}

/// Whether the certificate is for this key.
pub(super) fn check_match(
    certificate: &Certificate<'_>,
    key: &dyn SigningKey,
) -> Result<(), IdentityError> {
    let wanted = match certificate.key_algorithm {
        RSA => SignatureAlgorithm::RSA,
        ECDSA => SignatureAlgorithm::ECDSA,
        ED25519 => SignatureAlgorithm::ED25519,
        _ => return Err(IdentityError::UnknownAlgorithm),
    };
    if key.algorithm() != wanted {
        return Err(IdentityError::OtherKeyType);
    }
    let public_key = key.public_key().ok_or(IdentityError::OtherKey)?;
    if *public_key == *certificate.public_key { Ok(()) } else { Err(IdentityError::OtherKey) }
}

/// Whether it is a key that Go would take, and rustls cannot sign with.
fn is_unsupported(der: &[u8]) -> bool {
    let Some((_, fields)) = Der(der).take(SEQUENCE) else { return false };
    is_unusual_rsa(fields)
        || in_sec1(fields) == Some(P224)
        || in_pkcs8(fields).is_some_and(|(algorithm, parameters, key)| match algorithm {
            RSA => key.take(SEQUENCE).is_some_and(|(_, fields)| is_unusual_rsa(fields)),
            ECDSA => parameters == P224,
            _ => false,
        })
}

/// The modulus of PKCS #1 has another length than rustls wants.
fn is_unusual_rsa(fields: Der<'_>) -> bool {
    let modulus = fields.take(INTEGER).and_then(|(rest, _)| rest.take(INTEGER));
    let Some((_, Der(modulus))) = modulus else { return false };
    let bytes = modulus.iter().skip_while(|byte| **byte == 0).count();
    (64..256).contains(&bytes) || bytes > 1024
}

/// The curve of SEC 1.
fn in_sec1(fields: Der<'_>) -> Option<&[u8]> {
    let (rest, _) = fields.take(INTEGER)?;
    let (rest, _) = rest.take(OCTET_STRING)?;
    let (_, parameters) = rest.take(SEC1_PARAMETERS)?;
    Some(parameters.take(OBJECT_IDENTIFIER)?.1.0)
}

/// Algorithm, curve and key of PKCS #8.
fn in_pkcs8(fields: Der<'_>) -> Option<(&[u8], &[u8], Der<'_>)> {
    let (rest, _) = fields.take(INTEGER)?;
    let (rest, algorithm) = rest.take(SEQUENCE)?;
    let (parameters, Der(algorithm)) = algorithm.take(OBJECT_IDENTIFIER)?;
    let curve = parameters.take(OBJECT_IDENTIFIER).map(|(_, Der(curve))| curve);
    let (_, key) = rest.take(OCTET_STRING)?;
    Some((algorithm, curve.unwrap_or_default(), key))
}
