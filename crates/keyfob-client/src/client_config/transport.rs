//! What a transport needs of a configuration, in the order in which upstream looks at it.
//!
//! [`ClientConfig::plugin`] (a contradiction), [`ClientConfig::exec_cluster`], then the authenticator, which is made even if
//! [`StaticCredentials::has_any`] leaves it unused, so that its errors show; at last
//! [`ClientConfig::certificate_authorities`] and [`StaticCredentials::identity`].
//!
//! Upstream: `Config.TransportConfig` and `ConfigToExecCluster` in `rest`, `TLSConfigFor` in `transport`.
//! Differs: a server that is no URL and a proxy with a password are not quoted. A file has at most 16 MiB. No `auth-provider` is
//! supported, `oidc` neither, which kubectl still has; the error is that of a client-go program without them.

use std::path::Path;

use keyfob_api::{ClientIdentity, ExecCluster, GoUrl, Secret};
use rustls::{
    RootCertStore,
    pki_types::{
        CertificateDer,
        pem::{PemObject as _, SectionKind},
    },
};

use super::{
    ClientConfig, FileError, InvalidAuthorities, StaticCredentials, UnusableConfig, read_file,
};
use crate::{ExecConfig, Identity};

impl ClientConfig {
    /// The user's plugin. It is asked unless [`StaticCredentials::has_any`].
    pub fn plugin(&self) -> Result<Option<&ExecConfig>, UnusableConfig> {
        match (&self.exec, &self.user.auth_provider) {
            (Some(_), Some(_)) => Err(UnusableConfig::ExecAndAuthProvider),
            (None, Some(provider)) => Err(UnusableConfig::AuthProvider(provider.clone())),
            (exec, None) => Ok(exec.as_ref()),
        }
    }

    /// What the user's plugin is told about the cluster, if the kubeconfig says so. A file of certificates is read now.
    pub fn exec_cluster(&self) -> Result<Option<ExecCluster>, UnusableConfig> {
        let Some(exec) = self.plugin()?.filter(|exec| exec.provide_cluster_info) else {
            return Ok(None);
        };
        let authorities = self.authorities().map_err(UnusableConfig::ExecAuthorities)?;
        Ok(Some(ExecCluster {
            server: self.server.clone(),
            tls_server_name: self.tls.server_name.clone(),
            insecure_skip_tls_verify: self.tls.insecure,
            certificate_authority_data: authorities.unwrap_or_default(),
            proxy_url: self.exec_proxy()?,
            disable_compression: self.disable_compression,
            config: exec.config.clone(),
        }))
    }

    /// The PEM certificates that the server's must be issued by; `None` for those that the machine trusts.
    ///
    /// There is at least one in it, unless it is an empty file: then no server is trusted.
    pub fn certificate_authorities(&self) -> Result<Option<Vec<u8>>, UnusableConfig> {
        let has_any = !self.tls.ca_data.is_empty() || self.tls.ca_file.is_some();
        if has_any && self.tls.insecure {
            return Err(UnusableConfig::InsecureWithAuthorities);
        }
        let authorities = self.authorities()?;
        if let Some(pem) = authorities.as_ref().filter(|pem| !pem.is_empty()) {
            check_certificates(pem).map_err(UnusableConfig::Authorities)?;
        }
        Ok(authorities)
    }

    fn authorities(&self) -> Result<Option<Vec<u8>>, FileError> {
        let data = data_or_file(&self.tls.ca_data, self.tls.ca_file.as_deref())?;
        Ok(data.map(|pem| pem.expose().clone()))
    }

    /// The kubeconfig's proxy only: what the environment names is not passed on.
    fn exec_proxy(&self) -> Result<Secret<String>, UnusableConfig> {
        let Some(proxy) = &self.proxy_url else { return Ok(Secret::default()) };
        GoUrl::parse(&self.server).map_err(|_| UnusableConfig::ExecServer)?;
        let proxy = GoUrl::parse(proxy.expose()).map_err(|_| UnusableConfig::ExecProxy)?;
        Ok(proxy.text())
    }
}

impl StaticCredentials {
    /// The user's own certificate; files are read now.
    pub fn identity(&self) -> Result<Option<Identity>, UnusableConfig> {
        if !self.has_certificate() {
            return Ok(None);
        }
        let pem = |data: &[u8], file: Option<&Path>| -> Result<Secret<String>, FileError> {
            let pem = data_or_file(data, file)?.unwrap_or_default();
            Ok(String::from_utf8_lossy(pem.expose()).into_owned().into())
        };
        let certificate_pem = pem(&self.cert_data, self.cert_file.as_deref())?;
        let key_pem = pem(self.key_data.expose(), self.key_file.as_deref())?;
        Ok(Some(Identity::parse(ClientIdentity { certificate_pem, key_pem })?))
    }
}

fn data_or_file(data: &[u8], file: Option<&Path>) -> Result<Option<Secret<Vec<u8>>>, FileError> {
    match file {
        _ if !data.is_empty() => Ok(Some(data.to_vec().into())),
        Some(file) => read_file(file).map(Some),
        None => Ok(None),
    }
}

/// Whether at least one certificate can be trusted; others may be whatever they like.
fn check_certificates(pem: &[u8]) -> Result<(), InvalidAuthorities> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem).flatten().collect();
    let is_none = certificates.is_empty();
    match RootCertStore::empty().add_parsable_certificates(certificates) {
        (0, _) if !is_none => Err(InvalidAuthorities::Malformed),
        (0, _) if <(SectionKind, Vec<u8>)>::pem_slice_iter(pem).flatten().next().is_some() => {
            Err(InvalidAuthorities::NoCertificate)
        }
        (0, _) => Err(InvalidAuthorities::NotPem),
        _ => Ok(()),
    }
}
