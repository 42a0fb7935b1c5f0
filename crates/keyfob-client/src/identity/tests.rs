use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyfob_testkit::LeakCheck;
use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};

use super::*;

/// A certificate and its key in PEM.
fn pair(name: &str, key: &KeyPair) -> (String, String) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.distinguished_name.push(DnType::OrganizationName, "builders");
    (params.self_signed(key).unwrap().pem(), key.serialize_pem())
}

fn parse(certificate: &str, key: &str) -> Result<Identity, IdentityError> {
    let pem = ClientIdentity { certificate_pem: certificate.into(), key_pem: key.into() };
    let parsed = Identity::parse(pem);
    if let Err(error) = &parsed {
        LeakCheck::new(key.lines().filter(|line| line.len() > 20)).error(error);
    }
    parsed
}

fn refused(certificate: &str, key: &str) -> String {
    parse(certificate, key).unwrap_err().to_string()
}

/// The content of a block under another name.
fn labelled(pem: &str, label: &str) -> String {
    let inside: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    format!("-----BEGIN {label}-----\n{inside}\n-----END {label}-----\n")
}

/// The inner key of PKCS #8 of the elliptic curve P-256, with the curve beside it: SEC 1.
fn sec1(key: &KeyPair) -> String {
    let der = key.serialize_der();
    let at = der.windows(4).position(|window| window == [0x30, 0x6b, 2, 1]).unwrap();
    let mut inner = der[at..].to_vec();
    // `[0] { OID P-256 }` between the secret and the public key.
    let curve = [0xa0, 10, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
    inner.splice(39..39, curve);
    inner[1] += 12;
    let text = BASE64_STANDARD.encode(inner);
    format!("-----BEGIN EC PRIVATE KEY-----\n{text}\n-----END EC PRIVATE KEY-----\n")
}

#[test]
fn a_pair_is_read_and_says_whose_it_is() {
    for key in [
        KeyPair::generate().unwrap(),
        KeyPair::generate_for(&PKCS_ED25519).unwrap(),
        KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap(),
    ] {
        let (certificate, key) = pair("ada", &key);
        let identity = parse(&certificate, &key).unwrap();

        assert_eq!((identity.common_name(), identity.organizations().len()), (Some("ada"), 1));
        assert!(identity.not_before() < identity.not_after());
        LeakCheck::new(key.lines()).debug("an identity", &identity);
        assert!(format!("{identity:?}").contains("ada"));
    }
}

#[test]
fn a_key_may_have_any_form_under_any_name_that_ends_well() {
    let key = KeyPair::generate().unwrap();
    let (certificate, pkcs8) = pair("ada", &key);
    let sec1 = sec1(&key);
    for label in ["PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY", " PRIVATE KEY"] {
        for key in [&pkcs8, &sec1] {
            assert!(parse(&certificate, &labelled(key, label)).is_ok(), "{label}");
        }
    }
    let parameters =
        "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
    let bundle = format!("{parameters}{sec1}{certificate}");
    let identity = parse(&bundle, &bundle).unwrap();
    assert!(identity.is_same(&parse(&certificate, &pkcs8).unwrap()));
    assert_eq!(
        refused(&certificate, &labelled(&pkcs8, "XPRIVATE KEY")),
        "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [XPRIVATE KEY]"
    );
}

#[test]
fn the_first_certificate_is_the_clients_own_and_all_of_them_are_sent() {
    let (ada, bob) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let ((ada, key), (bob, _)) = (pair("ada", &ada), pair("bob", &bob));
    let garbage = labelled("aGVsbG8=", "CERTIFICATE");

    let chain = parse(&format!("{ada}{bob}{garbage}"), &key).unwrap();
    assert_eq!((chain.common_name(), chain.certified().cert.len()), (Some("ada"), 3));
    assert!(!chain.is_same(&parse(&ada, &key).unwrap()));
    assert_eq!(refused(&format!("{bob}{ada}"), &key), "tls: private key does not match public key");
    assert_eq!(refused(&format!("{garbage}{ada}"), &key), "x509: malformed certificate");
}

#[test]
fn what_does_not_fit_is_said() {
    let (key, other) =
        (KeyPair::generate().unwrap(), KeyPair::generate_for(&PKCS_ED25519).unwrap());
    let ((certificate, key), (_, other)) = (pair("ada", &key), pair("ada", &other));
    let any = "tls: failed to find any PEM data in";
    for (certificate, key, want) in [
        ("hello", key.as_str(), format!("{any} certificate input")),
        (&certificate, "hello", format!("{any} key input")),
        (
            &key,
            &certificate,
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched".into(),
        ),
        (
            &certificate,
            &certificate,
            "tls: found a certificate rather than a key in the PEM for the private key".into(),
        ),
        (&certificate, &other, "tls: private key type does not match public key type".into()),
        (&certificate, &labelled("aGVsbG8=", "PRIVATE KEY"), "tls: failed to parse private key".into()),
    ] {
        assert_eq!(refused(certificate, key), want);
    }
    let odd = format!("{}{}", labelled("", "A B"), labelled("", "hunter2:\u{7}"));
    assert_eq!(
        refused(&odd, &key),
        "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [A B something else]"
    );
}

#[test]
fn a_key_that_cannot_be_used_here_is_no_unreadable_one() {
    let key = KeyPair::generate().unwrap();
    let (certificate, _) = pair("ada", &key);
    // PKCS #1 with a modulus of 1024 bits; SEC 1 on P-224.
    let mut small = vec![0x30, 0x81, 0x87, 2, 1, 0, 2, 0x81, 0x81, 0];
    small.extend([0xff; 128]);
    let curve = [0x30, 16, 2, 1, 1, 4, 2, 7, 7, 0xa0, 7, 6, 5, 0x2b, 0x81, 4, 0, 0x21];
    for der in [&small[..], &curve] {
        let key = labelled(&BASE64_STANDARD.encode(der), "PRIVATE KEY");
        assert_eq!(parse(&certificate, &key).unwrap_err(), IdentityError::UnsupportedKey);
    }
}

#[test]
fn pem_is_read_as_go_reads_it() {
    let labels = |pem: &str| -> Vec<(String, Vec<u8>)> {
        let text = |label: &[u8]| String::from_utf8_lossy(label).into_owned();
        blocks(pem.as_bytes())
            .map(|block| (text(block.label), block.der.expose().clone()))
            .collect()
    };
    let (a, b) = (("A".to_owned(), b"hi".to_vec()), ("B".to_owned(), vec![]));
    let good = "-----BEGIN A-----\naGk=\n-----END A-----\n";
    for pem in [
        good,
        "text\n-----BEGIN A----- \t\r\n a G k \t=\r\n-----END A-----  \r\nmore",
        "-----BEGIN A-----\nX: y\nZ: w\n\naGk=\n-----END A-----",
        "-----BEGIN B-----\n-----BEGIN A-----\naGl=\n-----END A-----",
        "-----BEGIN C-----\n!\n-----END C-----\n-----BEGIN A-----\naGk=\n-----END A-----",
        "-----BEGIN C-----\naGk=\n-----END A-----\n-----BEGIN A-----\naGk=\n-----END A-----",
    ] {
        assert_eq!(labels(pem), std::slice::from_ref(&a), "{pem:?}");
    }
    let empty = "-----BEGIN B-----\n-----END B-----\n";
    assert_eq!(labels(&format!("{empty}{good}{empty}")), [b.clone(), a, b]);
    for pem in [
        "",
        "-----BEGIN A-----",
        " -----BEGIN A-----\naGk=\n-----END A-----\n",
        "-----BEGIN A-----\naGk=\n -----END A-----\n",
        "-----BEGIN A-----\naGk=\n-----END A----- x\n",
        "-----BEGIN A-----\naGk\n-----END A-----\n",
        "-----BEGIN A-----\nX: y\n-----END A-----\n",
        "-----BEGIN A\naGk=\n-----END A\n",
    ] {
        assert_eq!(labels(pem), [], "{pem:?}");
    }
}
