//! A token, read and verified as whoever trusts its issuer does.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::Value;

/// The claims of a token that was signed by one of the keys.
pub(crate) fn verified(token: &str, keys: &Value) -> Value {
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let header: Value = serde_json::from_slice(&decode(header)).unwrap();
    let mut keys = keys["keys"].as_array().unwrap().iter();
    let key = keys.find(|key| key["kid"] == header["kid"]).unwrap();
    assert!(is_signed(key, &header, signed.as_bytes(), &decode(signature)), "{key}");
    serde_json::from_slice(&decode(claims)).unwrap()
}

fn is_signed(key: &Value, header: &Value, signed: &[u8], signature: &[u8]) -> bool {
    let part = |name: &str| decode(key[name].as_str().unwrap());
    match header["alg"].as_str().unwrap() {
        "ES256" => {
            let point = [vec![4], part("x"), part("y")].concat();
            let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
            key.verify(signed, signature).is_ok()
        }
        "RS256" => {
            let key = RsaPublicKeyComponents { n: part("n"), e: part("e") };
            key.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature).is_ok()
        }
        other => unreachable!("algorithm {other}"),
    }
}

fn decode(part: &str) -> Vec<u8> {
    BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()
}
