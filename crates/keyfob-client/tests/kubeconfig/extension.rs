//! What a cluster has for its plugins.

use keyfob_client::{Dialect, Overrides};

use crate::{PLUGIN, parsed};

const TODAY: &str = "client.authentication.k8s.io/exec";

fn config(extensions: &str, dialect: Dialect) -> Option<String> {
    let cluster = format!("{{server: 'https://hall.test', extensions: [{extensions}]}}");
    let mut kubeconfig = parsed(&cluster, PLUGIN);
    kubeconfig.dialect = dialect;
    let exec = kubeconfig.client_config(&Overrides::default()).unwrap().exec.unwrap();
    exec.config.map(|config| config.as_str().to_owned())
}

fn extension(name: &str, value: &str) -> String {
    format!("{{name: {name}, extension: {value}}}")
}

#[test]
fn a_plugin_gets_the_extension_of_its_name() {
    let both = [extension("exec", "{b: 1}"), extension(TODAY, "{a: [1.50, y]}")].join(", ");

    for dialect in [Dialect::WithKep541, Dialect::ClientGo] {
        assert_eq!(config(&both, dialect).as_deref(), Some(r#"{"a":[1.5,true]}"#));
        assert_eq!(config(&extension("Exec", "1"), dialect), None);
        assert_eq!(config(&extension(TODAY, "null"), dialect), None);
    }
}

#[test]
fn the_name_of_the_kep_counts_where_there_is_none_of_today_s() {
    let old = extension("exec", "{b: 1}");

    assert_eq!(config(&old, Dialect::WithKep541).as_deref(), Some(r#"{"b":1}"#));
    assert_eq!(config(&old, Dialect::ClientGo), None);
    let both = [old, extension(TODAY, "null")].join(", ");
    assert_eq!(config(&both, Dialect::WithKep541), None);
}
