//! Everything that is wrong is said at once, in upstream's words.

use keyfob_client::{Kubeconfig, Overrides, PolicyType};

use crate::{Folder, PLUGIN, SERVER, config, kubeconfig};

#[test]
fn all_that_is_wrong_with_a_user_and_a_cluster_is_said_once() {
    let cluster = "{certificate-authority: /no/such/file, certificate-authority-data: eA==, proxy-url: 'gopher://hole'}";
    let user = "{exec: {env: [{value: a}, {value: b}], interactiveMode: Perhaps}, auth-provider: {}, token: t, \
                 password: p, client-certificate-data: eA==, as-uid: '7'}";

    let folder = Folder::new(&[("config", &kubeconfig(cluster, user))]);
    let loaded = folder.load(&["config"]).unwrap();
    assert_eq!(
        loaded.client_config(&Overrides::default()).unwrap_err().to_string(),
        "invalid configuration: [\
         client-key-data or client-key must be specified for ada to use the clientCert authentication method., \
         authProvider cannot be provided in combination with an exec plugin for ada, \
         command must be specified for ada to use exec authentication plugin, \
         apiVersion must be specified for ada to use exec authentication plugin, \
         env variable name must be specified for ada to use exec authentication plugin, \
         invalid interactiveMode for ada: \"Perhaps\", \
         more than one authentication method found for ada; found [token basicAuth], only one is allowed, \
         requesting uid, groups or user-extra for ada without impersonating a user, \
         no server found for cluster \"hall\", \
         invalid 'proxy-url' \"gopher://hole\" for cluster \"hall\": unsupported scheme \"gopher\", must be http, https, or socks5, \
         certificate-authority-data and certificate-authority are both specified for hall. certificate-authority-data will override., \
         unable to read certificate-authority /no/such/file for hall due to open /no/such/file: no such file or directory]"
    );
}

#[test]
fn a_plugin_excludes_neither_a_token_nor_a_certificate() {
    let user = PLUGIN.replace(
        "{exec:",
        "{token: t, client-certificate-data: eA==, client-key-data: eA==, exec:",
    );
    assert!(config(SERVER, &user).is_ok());
}

#[test]
fn two_forms_of_one_thing_are_one_too_many() {
    let user = "{client-certificate: /etc/hostname, client-certificate-data: eA==, client-key: /etc/hostname, client-key-data: eA==}";
    assert_eq!(
        config(SERVER, user).unwrap_err(),
        "invalid configuration: [client-cert-data and client-cert are both specified for ada. client-cert-data will override., \
         client-key-data and client-key are both specified for ada; client-key-data will override]"
    );
}

#[test]
fn a_cluster_of_a_file_is_not_empty_and_one_of_nowhere_is() {
    let empty = "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable";
    assert_eq!(config("{}", "{}").unwrap_err(), empty);

    let folder = Folder::new(&[("config", &kubeconfig("{}", "{}"))]);
    let loaded = folder.load(&["config"]).unwrap();
    let error = loaded.client_config(&Overrides::default()).unwrap_err();
    assert_eq!(error.to_string(), "invalid configuration: no server found for cluster \"hall\"");
}

#[test]
fn a_policy_that_cannot_be_meant_is_wrong_with_the_user() {
    let mut kubeconfig = crate::parsed(SERVER, PLUGIN);
    let exec = kubeconfig.users.get_mut("ada").unwrap().exec.as_mut().unwrap();
    exec.policy.policy_type = PolicyType::Allowlist;

    assert_eq!(
        kubeconfig.client_config(&Overrides::default()).unwrap_err().to_string(),
        "invalid configuration: allowlist misconfiguration: credential plugin policy set to \"Allowlist\", but allowlist is \
         unspecified"
    );
}

#[test]
fn a_whole_kubeconfig_can_be_looked_through() {
    let text = "current-context: none\n\
                contexts:\n\
                - {name: a, context: {user: ada, namespace: My_Space}}\n\
                - {name: '', context: {cluster: hall, user: nobody}}\n\
                users: [{name: ada, user: {exec: {}}}]\n\
                clusters: [{name: hall, cluster: {server: s}}, {name: moon}]\n";

    let invalid = Kubeconfig::parse(text.as_bytes()).unwrap().validate().unwrap_err();

    assert_eq!(
        invalid.to_string(),
        "invalid configuration: [\
         context was not found for specified context: none, \
         empty context name is not allowed, \
         user \"nobody\" was not found for context \"\", \
         cluster was not specified for context \"a\", \
         namespace \"My_Space\" for context \"a\" does not conform to the kubernetes DNS_LABEL rules, \
         command must be specified for ada to use exec authentication plugin, \
         apiVersion must be specified for ada to use exec authentication plugin, \
         interactiveMode must be specified for ada to use exec authentication plugin, \
         cluster has no server defined]"
    );
    assert!(!invalid.is_empty_configuration());
    assert!(Kubeconfig::default().validate().unwrap_err().is_empty_configuration());
    assert!(crate::parsed(SERVER, PLUGIN).validate().is_ok());
}
