//! A certificate authority for one server, and the server's certificate.

use std::{net::IpAddr, sync::Arc};

use keyfob_control::server::tls_from_pem;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;

use super::StartError;

/// What a server shows, and what its clients trust.
pub(super) struct Identity {
    pub(super) tls: Arc<ServerConfig>,
    pub(super) authority: String,
}

/// An identity for this machine, and for the address that is listened on.
pub(super) fn make(listen: IpAddr) -> Result<Identity, StartError> {
    let authority = CertifiedIssuer::self_signed(authority(), KeyPair::generate()?)?;
    let mut names: Vec<String> =
        ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into_iter().collect();
    let listen = listen.to_string();
    if !names.contains(&listen) {
        names.push(listen);
    }
    let mut server = CertificateParams::new(names)?;
    server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // Python's library wants to know who signed it.
    server.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &authority)?;
    let tls = tls_from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes())?;
    Ok(Identity { tls, authority: authority.pem() })
}

fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "keyfob embedded API server");
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}
