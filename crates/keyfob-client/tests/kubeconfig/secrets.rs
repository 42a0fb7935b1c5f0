//! What a kubeconfig says is shown by nothing that is printed.

use keyfob_client::{Kubeconfig, Overrides};
use keyfob_testkit::LeakCheck;

use crate::{Folder, kubeconfig};

const SECRETS: [&str; 9] = [
    "s3cr3t-token",
    "s3cr3t-pass",
    "czNjcjN0LWtleQ==",
    "s3cr3t-key",
    "s3cr3t-arg",
    "s3cr3t-env",
    "s3cr3t-proxy",
    "s3cr3t-config",
    "s3cr3t-server",
];
const CLUSTER: &str = "{server: 'https://me:s3cr3t-server@hall.test', proxy-url: 'http://me:s3cr3t-proxy@proxy.test', \
                       extensions: [{name: exec, extension: s3cr3t-config}]}";
const USER: &str = "{token: s3cr3t-token, client-certificate-data: eA==, client-key-data: czNjcjN0LWtleQ==, \
                    exec: {apiVersion: v1, command: login, interactiveMode: Never, provideClusterInfo: true, \
                    args: [s3cr3t-arg], env: [{name: A, value: s3cr3t-env}]}, unknown: s3cr3t-pass}";

#[test]
fn debug_shows_no_secret() {
    let check = LeakCheck::new(SECRETS);
    let kubeconfig = Kubeconfig::parse(kubeconfig(CLUSTER, USER).as_bytes()).unwrap();
    let selection = kubeconfig.select(&Overrides::default()).unwrap();
    let config = kubeconfig.client_config(&Overrides::default()).unwrap();
    let mut overrides = Overrides::default();
    overrides.context = selection.context.clone();
    overrides.cluster = selection.cluster.clone();
    overrides.user = selection.user.clone();

    check.debug("a kubeconfig", &kubeconfig).debug("a selection", &selection);
    check.debug("a configuration", &config).debug("overrides", &overrides);
    check.debug("a cluster", &config.exec_cluster().unwrap());
    check.debug("variables", &config.exec.as_ref().unwrap().env);
    let shown = format!("{config:?}");
    assert!(shown.contains("command: \"login\"") && shown.contains("1 hidden"), "{shown}");
}

#[test]
fn an_auth_provider_is_read_and_its_values_are_not_shown() {
    let user = "{auth-provider: {name: oidc, config: {client-id: s3cr3t-token, refresh-token: s3cr3t-pass}}}";
    let kubeconfig = Kubeconfig::parse(kubeconfig(CLUSTER, user).as_bytes()).unwrap();
    let config = kubeconfig.client_config(&Overrides::default()).unwrap();

    let error = config.plugin().unwrap_err();

    let provider = config.user.auth_provider.as_ref().unwrap();
    assert_eq!(provider.name, "oidc");
    assert_eq!(provider.config["refresh-token"].expose(), "s3cr3t-pass");
    let check = LeakCheck::new(SECRETS);
    check.debug("a kubeconfig", &kubeconfig).debug("a configuration", &config).error(&error);
}

#[test]
fn no_error_quotes_a_secret() {
    let check = LeakCheck::new(SECRETS);
    // Wherever the text ends, or something stands that should not, what was said before it stays hidden.
    let whole = kubeconfig(CLUSTER, USER);
    for end in (0..whole.len()).step_by(3) {
        for fault in ["", "\u{1}", "]"] {
            let text = format!("{}{fault}", &whole[..end]);
            if let Err(error) = Kubeconfig::parse(text.as_bytes()) {
                check.error(&error);
            }
        }
    }
    for (field, value) in
        [("token", "[s3cr3t-token]"), ("s3cr3t-pass", "1"), ("exec", "s3cr3t-arg")]
    {
        let folder =
            Folder::new(&[("config", &kubeconfig("{}", &format!("{{{field}: {value}}}")))]);
        if let Err(error) = folder.rules(&["config"]).load() {
            check.error(&error);
        }
    }
}

#[test]
fn a_proxy_with_a_password_is_not_quoted() {
    let check = LeakCheck::new(["hunter2"]);
    for proxy in
        ["http://me:hunter2@pro xy", "me:hunter2@proxy", "hunter2:x@proxy", "ftp://p/?k=hunter2"]
    {
        let cluster = format!("{{server: 'https://hall.test', proxy-url: '{proxy}'}}");
        let error = crate::config(&cluster, "{}").unwrap_err();
        check.text("an error", &error);
        assert!(
            error.starts_with(
                "invalid configuration: invalid 'proxy-url' \"[redacted]\" for cluster \"hall\": "
            ),
            "{error}"
        );
    }
}
