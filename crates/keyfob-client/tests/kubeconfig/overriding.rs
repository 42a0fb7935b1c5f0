//! What a program says against its kubeconfig.

use keyfob_client::{ExecConfig, InteractiveMode, Overrides};

use crate::{PLUGIN, SERVER, parsed};

fn said(overrides: &Overrides, cluster: &str, user: &str) -> String {
    let config = parsed(cluster, user).client_config(overrides);
    config.map_or_else(|error| error.to_string(), |config| format!("{config:?}"))
}

#[test]
fn a_name_that_a_program_gives_must_exist() {
    let mut overrides = Overrides::default();
    overrides.context.cluster = "moon".into();
    assert_eq!(said(&overrides, SERVER, PLUGIN), "cluster \"moon\" does not exist");

    overrides.context_name = "attic".into();
    assert_eq!(said(&overrides, SERVER, PLUGIN), "context \"attic\" does not exist");

    overrides.context.user = "eve".into();
    assert_eq!(said(&overrides, SERVER, PLUGIN), "auth info \"eve\" does not exist");
}

#[test]
fn a_plugin_is_replaced_as_a_whole() {
    let mut overrides = Overrides::default();
    overrides.user.exec = Some(ExecConfig {
        command: "other".into(),
        api_version: "client.authentication.k8s.io/v1beta1".into(),
        interactive_mode: InteractiveMode::Never,
        ..ExecConfig::default()
    });
    let user = PLUGIN.replace("command:", "args: [a], installHint: hint, command:");

    let config = parsed(SERVER, &user).client_config(&overrides).unwrap();

    assert_eq!(config.exec, overrides.user.exec);
}

#[test]
fn whom_to_trust_is_said_in_one_way_only() {
    let authorities =
        "{server: 'https://hall.test', certificate-authority-data: eA==, tls-server-name: hall}";
    let kubeconfig = parsed(authorities, PLUGIN);

    let mut overrides = Overrides::default();
    overrides.cluster.insecure_skip_tls_verify = true;
    let tls = kubeconfig.client_config(&overrides).unwrap().tls;
    assert!(tls.insecure && tls.ca_data.is_empty());

    let mut overrides = Overrides::default();
    overrides.cluster.certificate_authority = "/etc/hostname".into();
    let tls = kubeconfig.client_config(&overrides).unwrap().tls;
    assert_eq!((tls.ca_data.is_empty(), tls.ca_file), (true, Some("/etc/hostname".into())));

    // A name belongs to its server.
    let mut overrides = Overrides::default();
    overrides.cluster.server = "https://other.test".into();
    assert_eq!(kubeconfig.client_config(&overrides).unwrap().tls.server_name, "");
    overrides.cluster.tls_server_name = "other".into();
    assert_eq!(kubeconfig.client_config(&overrides).unwrap().tls.server_name, "other");
}

#[test]
fn a_certificate_takes_the_place_of_the_other_form() {
    let kubeconfig = parsed(SERVER, "{client-certificate-data: eA==, client-key-data: eA==}");
    let mut overrides = Overrides::default();
    overrides.user.client_certificate = "/etc/hostname".into();
    overrides.user.client_key = "/etc/hostname".into();

    let user = kubeconfig.client_config(&overrides).unwrap().user;

    assert!(user.cert_data.is_empty() && user.key_data.expose().is_empty());
    assert_eq!(user.cert_file, user.key_file);
    assert!(user.has_any());
}

#[test]
fn single_fields_are_replaced_and_the_rest_stays() {
    let user =
        "{username: ada, password: p, as: bob, as-groups: [g], as-user-extra: {a: [x], b: [w]}}";
    let mut overrides = Overrides::default();
    overrides.context.namespace = "optics".into();
    overrides.cluster.proxy_url = "socks5://proxy.test".into();
    overrides.user.password = "q".into();
    overrides.user.impersonate.extra = vec![("b".into(), vec!["z".into()])];

    let config = parsed(SERVER, user).client_config(&overrides).unwrap();

    assert_eq!(config.namespace, "optics");
    assert_eq!(config.proxy_url.unwrap().expose(), "socks5://proxy.test");
    assert_eq!(
        (config.user.username.as_str(), config.user.password.expose().as_str()),
        ("ada", "q")
    );
    assert_eq!(
        (config.impersonate.user.as_str(), config.impersonate.groups.as_slice()),
        ("bob", &["g".to_owned()][..])
    );
    let list = |name: &str, value: &str| (name.to_owned(), vec![value.to_owned()]);
    assert_eq!(config.impersonate.extra, [list("a", "x"), list("b", "z")]);
}

#[test]
fn a_selection_tells_what_counts_even_if_it_cannot_be_used() {
    let selection = parsed("{}", "{exec: {}}").select(&Overrides::default()).unwrap();

    let names = [&selection.context_name, &selection.cluster_name, &selection.user_name];
    assert_eq!(names, ["lab", "hall", "ada"]);
    assert!(selection.user.exec.is_some());
}
