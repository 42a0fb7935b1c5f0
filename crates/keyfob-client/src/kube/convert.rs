//! Between our configuration and that of `kube`.

use std::collections::HashMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::Uri;
use keyfob_api::{ClientIdentity, ExecCluster, RawJson, Secret};
use keyfob_exec::Environment;
use kube::{
    Config,
    config::{AuthInfo, ExecAuthCluster, ExecInteractiveMode},
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use secrecy::ExposeSecret as _;

use super::{ClientError, proxies::proxy_for};
use crate::{
    ClientConfig, ExecConfig, Identity, InteractiveMode, PluginPolicy,
    client_config::{read_file, shown_url},
};

/// The configuration of `kube` without what we do ourselves: the plugin, the certificate and the file of a token.
pub(super) fn kube_config(
    config: &ClientConfig,
    environment: &dyn Environment,
) -> Result<Config, ClientError> {
    let server = server(config)?;
    let mut kube = Config::new(server);
    kube.default_namespace.clone_from(&config.namespace);
    kube.accept_invalid_certs = config.tls.insecure;
    kube.disable_compression = config.disable_compression;
    kube.tls_server_name = Some(config.tls.server_name.clone()).filter(|name| !name.is_empty());
    if let Some(roots) = config.certificate_authorities()? {
        let roots = CertificateDer::pem_slice_iter(&roots).filter_map(Result::ok);
        kube.root_cert = Some(roots.map(|root| root.to_vec()).collect());
        kube.root_cert_file = config.tls.ca_file.clone().filter(|_| config.tls.ca_data.is_empty());
    }
    kube.proxy_url = match &config.proxy_url {
        Some(proxy) => Some(proxy.expose().parse().map_err(|_| ClientError::Proxy)?),
        None => proxy_for(&kube.cluster_url, environment),
    };
    kube.auth_info = auth_info(config);
    Ok(kube)
}

/// An address without a scheme is `https` if something says so. As upstream a user in it is sent to nobody.
fn server(config: &ClientConfig) -> Result<Uri, ClientError> {
    let text = &config.server;
    let complete = if text.contains("://") {
        text.clone()
    } else {
        let tls = &config.tls;
        let is_tls = tls.insecure || !tls.ca_data.is_empty() || tls.ca_file.is_some();
        format!("{}://{text}", if is_tls { "https" } else { "http" })
    };
    let (scheme, rest) = complete.split_once("://").unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let shown = || ClientError::Server(shown_url(&format!("{scheme}://{host}{path}")).to_owned());
    let uri = format!("{}://{host}{path}", scheme.to_lowercase()).parse::<Uri>();
    let uri = uri.map_err(|_| shown())?;
    if matches!(uri.scheme_str(), Some("http" | "https")) { Ok(uri) } else { Err(shown()) }
}

fn auth_info(config: &ClientConfig) -> AuthInfo {
    let user = &config.user;
    let named = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let impersonate = &config.impersonate;
    let mut info = AuthInfo::default();
    let token = user.token.as_ref().filter(|_| user.token_file.is_none());
    info.token = token.map(|token| token.expose().clone().into());
    info.username = named(&user.username);
    info.password = info.username.as_ref().map(|_| user.password.expose().clone().into());
    info.impersonate = named(&impersonate.user);
    info.impersonate_uid = named(&impersonate.uid);
    info.impersonate_groups = Some(impersonate.groups.clone()).filter(|groups| !groups.is_empty());
    let extra = impersonate.extra.iter().cloned().collect();
    info.impersonate_user_extra = Some(extra).filter(|_| !impersonate.extra.is_empty());
    info
}

/// The plugin of a `kube::Config`, and the cluster it is told about.
pub(super) fn exec_config(
    exec: kube::config::ExecConfig,
) -> Result<(ExecConfig, Option<ExecCluster>), ClientError> {
    if exec.drop_env.is_some_and(|names| !names.is_empty()) {
        return Err(ClientError::DropEnv);
    }
    let cluster = exec.cluster.map(exec_cluster);
    let variable = |mut entry: HashMap<String, String>| {
        let mut part = |name: &str| entry.remove(name).unwrap_or_default();
        (part("name"), Secret::new(part("value")))
    };
    let api_version = exec.api_version.unwrap_or_default();
    let interactive_mode = match exec.interactive_mode {
        Some(ExecInteractiveMode::Never) => InteractiveMode::Never,
        Some(ExecInteractiveMode::IfAvailable) => InteractiveMode::IfAvailable,
        Some(ExecInteractiveMode::Always) => InteractiveMode::Always,
        // What a kubeconfig of ours would be read as.
        None => InteractiveMode::default_for(&api_version),
    };
    let config = ExecConfig {
        command: exec.command.unwrap_or_default(),
        args: exec.args.unwrap_or_default(),
        env: exec.env.unwrap_or_default().into_iter().map(variable).collect(),
        api_version,
        install_hint: crate::printable_hint(&exec.install_hint.unwrap_or_default()),
        provide_cluster_info: exec.provide_cluster_info,
        interactive_mode,
        config: cluster.as_ref().and_then(|cluster| cluster.config.clone()),
        stdin_unavailable: None,
        policy: PluginPolicy::default(),
    };
    Ok((config, cluster))
}

fn exec_cluster(cluster: ExecAuthCluster) -> ExecCluster {
    let config = cluster.config.and_then(|config| RawJson::parse(&config.to_string()).ok());
    ExecCluster {
        server: cluster.server.unwrap_or_default(),
        tls_server_name: cluster.tls_server_name.unwrap_or_default(),
        insecure_skip_tls_verify: cluster.insecure_skip_tls_verify.unwrap_or_default(),
        certificate_authority_data: cluster.certificate_authority_data.unwrap_or_default(),
        proxy_url: Secret::new(cluster.proxy_url.unwrap_or_default()),
        disable_compression: false,
        config,
    }
}

/// The user's own certificate, which is presented by us.
pub(super) fn take_identity(user: &mut AuthInfo) -> Result<Option<Identity>, ClientError> {
    let certificate = user.client_certificate_data.take().map(Secret::new);
    let certificate = part("client-certificate", certificate, user.client_certificate.take())?;
    let key = user.client_key_data.take().map(|key| key.expose_secret().into());
    let key = part("client-key", key, user.client_key.take())?;
    let (Some(certificate_pem), Some(key_pem)) = (certificate, key) else { return Ok(None) };
    Ok(Some(Identity::parse(ClientIdentity { certificate_pem, key_pem })?))
}

fn part(
    field: &'static str,
    data: Option<Secret<String>>,
    file: Option<String>,
) -> Result<Option<Secret<String>>, ClientError> {
    let data = data.filter(|data| !data.expose().is_empty());
    let bytes = match (data, file.filter(|file| !file.is_empty())) {
        (Some(data), _) => BASE64_STANDARD
            .decode(data.expose())
            .map(Secret::new)
            .map_err(|_| ClientError::NotBase64 { field })?,
        (None, Some(file)) => {
            read_file(file.as_ref()).map_err(|source| ClientError::UserFile { field, source })?
        }
        (None, None) => return Ok(None),
    };
    let text = str::from_utf8(bytes.expose());
    text.map(|text| Some(text.into())).map_err(|source| ClientError::NotText { field, source })
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use keyfob_testkit::LeakCheck;

    use super::*;

    #[test]
    fn what_is_wrong_with_a_users_key_is_typed_and_quotes_nothing() {
        let key = |data: &str| part("client-key", Some(data.into()), None).unwrap_err();
        let not_base64 = key("s3cr3t!");
        assert_eq!(not_base64.to_string(), "client-key-data is not in base64");
        let not_text = key(&BASE64_STANDARD.encode(b"s3cr3t\xff"));
        assert!(matches!(not_text, ClientError::NotText { field: "client-key", .. }));
        LeakCheck::new(["s3cr3t"]).error(&not_base64).error(&not_text);

        let missing = part("client-key", None, Some("/no/such".into())).unwrap_err();
        assert_eq!(missing.to_string(), "cannot read client-key of the user");
        let source = missing.source().unwrap().to_string();
        assert_eq!(source, "open /no/such: no such file or directory");
    }
}
