//! Which servers a client trusts that was given certificates.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

use std::{fs, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyfob_net::tls::{verifier_of, verifier_of_file};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::{
    CertificateError, Error,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// In 2026.
const NOW: Duration = Duration::from_secs(1_790_000_000);

fn certificate(change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
    let mut params = CertificateParams::new(["server.test".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "one name for all");
    change(&mut params);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
}

/// What comes of a server with this certificate, if that one was given.
fn verified(
    server: &CertificateDer<'static>,
    given: &CertificateDer<'static>,
    name: &'static str,
) -> Result<(), Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = verifier_of(vec![given.clone()], provider).unwrap();
    let name = ServerName::try_from(name).unwrap();
    let now = UnixTime::since_unix_epoch(NOW);
    verifier.verify_server_cert(server, &[], &name, &[], now).map(drop)
}

#[test]
fn a_server_whose_own_certificate_was_given_is_trusted() {
    let sorts: [fn(&mut CertificateParams); 3] = [
        |_| {},
        |params| params.is_ca = IsCa::ExplicitNoCa,
        |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained),
    ];
    for sort in sorts {
        let own = certificate(sort);
        assert_eq!(verified(&own, &own, "server.test"), Ok(()));
    }
}

#[test]
fn under_another_name_it_is_not() {
    let own = certificate(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));

    let refused = verified(&own, &own, "other.test");

    assert!(
        matches!(
            refused,
            Err(Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. }))
        ),
        "{refused:?}"
    );
}

#[test]
fn outside_of_its_dates_it_is_not() {
    let expired = certificate(|params| params.not_after = date_time_ymd(2020, 1, 1));
    let early = certificate(|params| params.not_before = date_time_ymd(2090, 1, 1));

    assert_eq!(verified(&expired, &expired, "server.test"), Err(CertificateError::Expired.into()));
    assert_eq!(verified(&early, &early, "server.test"), Err(CertificateError::NotValidYet.into()));
}

#[test]
fn another_certificate_of_the_same_name_is_not() {
    let given = certificate(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    let other = certificate(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));

    assert!(verified(&other, &given, "server.test").is_err());
}

#[test]
fn a_file_of_certificates_may_be_replaced() {
    let [first, second] = [(); 2].map(|()| certificate(|_| {}));
    let pem = |certificate: &CertificateDer<'_>| {
        let text = BASE64_STANDARD.encode(certificate);
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    let provider = Arc::new(aws_lc_rs::default_provider());
    assert!(verifier_of_file(file.clone(), Arc::clone(&provider)).is_err());
    fs::write(&file, pem(&first)).unwrap();
    let verifier = verifier_of_file(file.clone(), provider).unwrap();
    fs::remove_file(&file).unwrap();
    let is_trusted = |server: &CertificateDer<'static>| {
        let name = ServerName::try_from("server.test").unwrap();
        let now = UnixTime::since_unix_epoch(NOW);
        verifier.verify_server_cert(server, &[], &name, &[], now).is_ok()
    };

    assert!(is_trusted(&first), "there is no file, and what it had counts");
    fs::write(&file, pem(&second)).unwrap();
    assert_eq!((is_trusted(&first), is_trusted(&second)), (false, true));
    fs::write(&file, "no certificate").unwrap();
    assert!(is_trusted(&second));
}
