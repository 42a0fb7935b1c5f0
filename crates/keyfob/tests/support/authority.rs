//! A certificate authority for an API server, its users and others.

use std::{fs::OpenOptions, io::Write as _, os::unix::fs::OpenOptionsExt as _, path::Path};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use serde_json::json;

/// Vouches for the server and for its users.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "the authority of a test");
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate and its key, for a server on loopback.
    pub(crate) fn server(&self) -> [String; 2] {
        self.server_at(&["127.0.0.1", "localhost"])
    }

    /// A certificate and its key, for a server with these names and addresses.
    pub(crate) fn server_at(&self, names: &[&str]) -> [String; 2] {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        self.sign(CertificateParams::new(names).unwrap(), ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate and its key, for a user in a group.
    pub(crate) fn user(&self, user: &str, group: &str) -> [String; 2] {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.distinguished_name.push(DnType::CommonName, user);
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> [String; 2] {
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        [params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem()]
    }

    /// Writes the files that an API server reads.
    pub(crate) fn furnish(&self, root: &Path) {
        let [certificate, key] = self.server();
        let accounts = KeyPair::generate().unwrap();
        let (public, private) = (accounts.public_key_pem(), accounts.serialize_pem());
        write(&root.join("ca.pem"), &self.pem());
        write(&root.join("server.pem"), &certificate);
        write(&root.join("server.key"), &key);
        write(&root.join("accounts.pem"), &public);
        write(&root.join("accounts.key"), &private);
    }

    /// A kubeconfig for a user in a group.
    pub(crate) fn kubeconfig(&self, url: &str, user: &str, group: &str) -> String {
        let [certificate, key] = self.user(user, group);
        let [authority, certificate, key] =
            [self.pem(), certificate, key].map(|pem| BASE64_STANDARD.encode(pem));
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority-data": authority}}],
            "users": [{"name": user, "user": {"client-certificate-data": certificate, "client-key-data": key}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        })
        .to_string()
    }
}

/// For nobody else to read.
pub(crate) fn write(path: &Path, text: &str) {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.unwrap().write_all(text.as_bytes()).unwrap();
}
