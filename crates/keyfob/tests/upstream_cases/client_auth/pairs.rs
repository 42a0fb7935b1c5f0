//! Rows about certificates and keys.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyfob_api::ClientIdentity;
use keyfob_client::Identity;
use rcgen::{KeyPair, PKCS_ED25519, PKCS_RSA_SHA256};
use serde_json::{Value, json};

use super::theatre::{Pair, Theatre, answer};
use crate::{Check, client_connections, fact, same, stage::block_on, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("client/derived_edge_cases.json", "private_key_pem", forms),
    ("client/go_verified_extra.json", "private_key_pem", pairs),
];

/// Pairs as upstream read them, and what a server saw of them.
fn pairs(_file: &Value, row: &Value) -> Result<(), String> {
    let theatre = Theatre::new();
    let config = theatre.plug();
    let (certificate, key) = (text(row, "cert_pem"), text(row, "key_pem"));
    theatre.prints(answer(&json!({ "clientCertificateData": certificate, "clientKeyData": key })));
    let given = block_on(theatre.authenticator(&config, None).credential());
    match (given, row["ok"] == true) {
        (Err(error), false) => same(&Some(error.to_string().as_str()), &row["want_error"].as_str()),
        (Err(error), true) => Err(error.to_string()),
        (Ok(_), false) => Err("accepted".to_owned()),
        (Ok(credential), true) => {
            let identity = credential.identity().ok_or("no certificate")?;
            fact("leaf", &identity.common_name(), &row["leaf_cn"].as_str())?;
            let length = u64::try_from(identity.certified().cert.len()).ok();
            fact("chain", &length, &row["chain_len"].as_u64())?;
            client_connections::handshake(row)
        }
    }
}

/// The rows name forms of keys.
fn forms(_file: &Value, row: &Value) -> Result<(), String> {
    let ec = Pair::new("alice");
    let pkcs8 = ec.key.serialize_der();
    let sec1 = sec1(&pkcs8);
    let block = row["block"].as_str().unwrap_or("PRIVATE KEY");
    let keys: Vec<(Pair, String)> = match (block, row["der"].as_str(), row["case"].as_str()) {
        ("PRIVATE KEY", Some("SEC1"), _) => vec![(ec, pem("PRIVATE KEY", &sec1))],
        ("PRIVATE KEY", Some(_), _) => [
            KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap(),
            KeyPair::generate().unwrap(),
            KeyPair::generate_for(&PKCS_ED25519).unwrap(),
        ]
        .into_iter()
        .map(|key| Pair::of("alice", key))
        .map(|pair| (pem_of(&pair), pair))
        .map(|(pem, pair)| (pair, pem))
        .collect(),
        (block, _, _) if block.contains("preceded by EC PARAMETERS") => {
            let parameters =
                pem("EC PARAMETERS", &BASE64_STANDARD.decode("BggqhkjOPQMBBw==").unwrap());
            vec![(ec, parameters + &pem("EC PRIVATE KEY", &sec1))]
        }
        ("ENCRYPTED PRIVATE KEY", ..) => vec![(ec, pem(block, &encrypted()))],
        (_, _, Some("key does not match leaf")) => return mismatches(row, &ec),
        (_, _, Some("text around PEM blocks")) => {
            let around = format!("Bag Attributes\n{}bye", pem(block, &pkcs8));
            vec![(ec, around)]
        }
        (block, _, _) => vec![(ec, pem(block, &pkcs8))],
    };
    for (pair, key) in keys {
        let read = read(&pair.certificate, &key);
        fact("read", &Some(read.is_ok()), &row["ok"].as_bool())?;
        if let (Err(error), Some(wanted)) = (read, row["want_error"].as_str()) {
            same(error.as_str(), wanted)?;
        }
    }
    Ok(())
}

fn mismatches(row: &Value, pair: &Pair) -> Result<(), String> {
    let other = Pair::new("bob").key.serialize_pem();
    let error = read(&pair.certificate, &other).err();
    same(&error.as_deref(), &row["want_error"].as_str())?;
    let other = KeyPair::generate_for(&PKCS_ED25519).unwrap().serialize_pem();
    let error = read(&pair.certificate, &other).err();
    same(&error.as_deref(), &row["want_error_other_key_type"].as_str())
}

fn read(certificate: &str, key: &str) -> Result<Identity, String> {
    let pem = ClientIdentity { certificate_pem: certificate.into(), key_pem: key.into() };
    Identity::parse(pem).map_err(|error| format!("failed parsing client key/certificate: {error}"))
}

fn pem_of(pair: &Pair) -> String {
    pem("PRIVATE KEY", &pair.key.serialize_der())
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

/// The key inside PKCS #8 on P-256, with its curve.
fn sec1(pkcs8: &[u8]) -> Vec<u8> {
    let at = pkcs8.windows(4).position(|window| window == [0x30, 0x6b, 2, 1]).unwrap();
    let mut key = pkcs8[at..].to_vec();
    key.splice(39..39, [0xa0, 10, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7]);
    key[1] += 12;
    key
}

/// The shape of an encrypted key: how, and what nobody can read.
fn encrypted() -> Vec<u8> {
    let pbes2 = [0x30, 11, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 0x0d];
    [&[0x30, 23][..], &pbes2, &[4, 8, 1, 2, 3, 4, 5, 6, 7, 8]].concat()
}
