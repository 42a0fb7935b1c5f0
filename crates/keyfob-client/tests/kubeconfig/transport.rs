//! What a transport is made of, and the order in which it is looked at.

use keyfob_api::ExecCluster;
use keyfob_client::{AuthProvider, ClientConfig, ExecConfig, UnusableConfig};

use crate::Folder;

const AUTHORITY: &str = include_str!("authority.pem");

fn told() -> ClientConfig {
    let mut config = ClientConfig::default();
    config.server = "https://hall.test".into();
    config.exec = Some(ExecConfig { provide_cluster_info: true, ..ExecConfig::default() });
    config
}

#[test]
fn a_plugin_is_told_about_its_cluster_if_it_shall_be() {
    let mut config = told();
    config.tls.ca_data = b"ca".to_vec();
    config.tls.server_name = "hall".into();
    config.proxy_url = Some("HTTP://me:pass word@proxy.test".replace(' ', "%20").as_str().into());
    config.disable_compression = true;
    config.user.token = Some("not the plugin's business".into());

    let wanted = ExecCluster {
        server: "https://hall.test".into(),
        tls_server_name: "hall".into(),
        certificate_authority_data: b"ca".to_vec(),
        proxy_url: "http://me:pass%20word@proxy.test".into(),
        disable_compression: true,
        ..ExecCluster::default()
    };
    assert_eq!(config.exec_cluster().unwrap(), Some(wanted));

    config.exec.as_mut().unwrap().provide_cluster_info = false;
    assert_eq!(config.exec_cluster().unwrap(), None);
}

#[test]
fn a_file_of_certificates_is_read_when_it_is_needed() {
    let folder = Folder::new(&[("ca.pem", AUTHORITY)]);
    let mut config = told();
    config.tls.ca_file = Some(folder.at("ca.pem"));
    let cluster = config.exec_cluster().unwrap().unwrap();
    assert_eq!(cluster.certificate_authority_data, AUTHORITY.as_bytes());

    config.tls.ca_file = Some(folder.at("gone"));
    let error = config.exec_cluster().unwrap_err();
    assert_eq!(
        folder.shown(&error),
        "failed to load CA bundle for execProvider: open $DIR/gone: no such file or directory"
    );
    // Data comes first.
    config.tls.ca_data = b"data".to_vec();
    assert!(config.exec_cluster().is_ok());
}

#[test]
fn a_contradiction_comes_before_everything_else() {
    let mut config = told();
    config.tls.ca_file = Some("/no/such/file".into());
    config.user.auth_provider = Some(AuthProvider { name: "oidc".into(), ..<_>::default() });

    let error = config.exec_cluster().unwrap_err();
    assert_eq!(error.to_string(), "execProvider and authProvider cannot be used in combination");
    config.exec = None;
    let error = config.plugin().unwrap_err();
    assert!(matches!(&error, UnusableConfig::AuthProvider(provider) if provider.name == "oidc"));
    let want = "no Auth Provider found for name \"oidc\": only exec plugins are supported";
    assert_eq!(error.to_string(), want);
}

#[test]
fn what_is_no_url_is_not_quoted() {
    let mut config = told();
    config.proxy_url = Some("http://me:hunter2@%zz".into());
    let error = config.exec_cluster().unwrap_err().to_string();
    assert_eq!(error, "failed to get proxy URL for execProvider: proxy-url is no URL");

    config.server = "https://me:hunter2@%zz".into();
    let error = config.exec_cluster().unwrap_err().to_string();
    assert_eq!(error, "failed to create proxy URL request for execProvider: the server is no URL");
}

#[test]
fn certificates_are_checked_and_not_beside_a_server_that_is_not() {
    let authorities = |data: &str, insecure| {
        let mut config = told();
        config.tls.ca_data = data.into();
        config.tls.insecure = insecure;
        config.certificate_authorities().map_err(|error| error.to_string())
    };
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let unable = |why: &str| Err(format!("unable to load root certificates: {why}"));

    assert_eq!(authorities("", false), Ok(None));
    assert_eq!(authorities("", true), Ok(None));
    let mixed = format!("{broken}text\n{AUTHORITY}{key}");
    assert_eq!(authorities(&mixed, false), Ok(Some(mixed.clone().into_bytes())));
    assert_eq!(authorities("text", false), unable("unable to parse bytes as PEM block"));
    assert_eq!(authorities(broken, false), unable("failed to parse certificate"));
    assert_eq!(authorities(key, false), unable("no valid certificate authority data seen"));
    assert_eq!(
        authorities(AUTHORITY, true),
        Err("specifying a root certificates file with the insecure flag is not allowed".into())
    );
}

#[test]
fn an_empty_file_trusts_nobody() {
    let folder = Folder::new(&[("ca.pem", "")]);
    let mut config = told();
    config.tls.ca_file = Some(folder.at("ca.pem"));

    assert_eq!(config.certificate_authorities().unwrap(), Some(Vec::new()));
    config.tls.ca_file = Some(folder.at("gone"));
    let error = config.certificate_authorities().unwrap_err();
    assert_eq!(folder.shown(&error), "open $DIR/gone: no such file or directory");
}

#[test]
fn a_certificate_s_file_must_be_there() {
    let mut config = told();
    assert!(config.user.identity().unwrap().is_none());

    config.user.cert_file = Some("/no/such/file".into());
    assert!(config.user.identity().unwrap().is_none(), "without a key it is none");
    config.user.key_data = b"key".to_vec().into();
    let error = config.user.identity().unwrap_err();
    assert_eq!(error.to_string(), "open /no/such/file: no such file or directory");
}
