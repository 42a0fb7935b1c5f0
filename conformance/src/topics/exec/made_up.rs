//! Kubeconfigs, plugins and servers.

mod answers;

use proptest::{
    collection::vec,
    option,
    prelude::{Just, Strategy, any},
    prop_oneof,
    sample::select,
    strategy::BoxedStrategy,
};
use serde_json::{Map, Value, json};

use super::{Question, has_expired};

pub(super) fn questions() -> BoxedStrategy<Question> {
    let environment = vec(select(vec!["A=parent", "KUBERNETES_EXEC_INFO=parent"]), 0..2);
    let statuses = vec(select(vec![200, 200, 401, 401, 401, 403, 500]), 1..6);
    (cluster(), user(), answers::runs(), statuses, environment, any::<bool>())
        .prop_map(|(cluster, user, plugin, statuses, environment, asks_for_certificates)| {
            let environment = environment.into_iter().map(str::to_owned).collect();
            Question { cluster, user, plugin, statuses, environment, asks_for_certificates }
        })
        .prop_map(|mut question| {
            let some_expire = question.answers().flatten().any(has_expired);
            if question.asks_for_certificates && some_expire {
                // Upstream's handshake runs the plugin again. If it says the same then, the rest is the same.
                question.plugin.truncate(1);
            }
            question
        })
        .boxed()
}

fn cluster() -> impl Strategy<Value = Map<String, Value>> {
    let server = prop_oneof![
        30 => Just("SERVER"),
        2 => Just("SERVER/"),
        2 => Just("SERVER/prefix"),
        1 => select(vec!["PLAIN_SERVER", ""]),
    ];
    let authorities = prop_oneof![
        15 => Just(json!({"certificate-authority-data": "CADATA64"})),
        15 => Just(json!({"insecure-skip-tls-verify": true})),
        1 => select(vec![
            json!({"certificate-authority-data": "CADATA64", "insecure-skip-tls-verify": true}),
            json!({"certificate-authority-data": "CADATA64", "certificate-authority": "token"}),
            json!({"certificate-authority": "FOLDER/missing"}),
        ]),
    ];
    let extension =
        option::weighted(0.4, select(vec!["{\"b\":1.0,\"a\":\"<\"}", "null", "[1e3]", "\"x\""]));
    let fields = (server, authorities, extension, any::<bool>(), any::<bool>());
    fields.prop_map(|(server, authorities, extension, named, uncompressed)| {
        let mut cluster = object(authorities);
        cluster.insert("server".to_owned(), json!(server));
        if named {
            cluster.insert("tls-server-name".to_owned(), json!("example.com"));
        }
        if uncompressed {
            cluster.insert("disable-compression".to_owned(), json!(true));
        }
        if let Some(extension) = extension {
            let extension: Value = serde_json::from_str(extension).expect("it is JSON");
            let name = "client.authentication.k8s.io/exec";
            cluster
                .insert("extensions".to_owned(), json!([{"name": name, "extension": extension}]));
        }
        cluster
    })
}

fn user() -> impl Strategy<Value = Map<String, Value>> {
    let own = option::weighted(0.2, select(own_credentials()));
    (exec(), own).prop_map(|(exec, own)| {
        let mut user = own.map(object).unwrap_or_default();
        user.insert("exec".to_owned(), exec);
        user
    })
}

fn exec() -> impl Strategy<Value = Value> {
    let version = prop_oneof![
        16 => Just("client.authentication.k8s.io/v1"),
        8 => Just("client.authentication.k8s.io/v1beta1"),
        1 => select(vec!["client.authentication.k8s.io/v1alpha1", "client.authentication.k8s.io/v2", ""]),
    ];
    let mode = prop_oneof![
        20 => select(vec![Some("Never"), Some("Never"), Some("IfAvailable")]),
        1 => select(vec![Some("Always"), None, None, Some("Sometimes")]),
    ];
    let command = prop_oneof![
        20 => Just("PLUGIN"),
        4 => select(vec!["plugin", "./bin/plugin", "FOLDER/./bin/../bin/plugin"]),
        2 => select(vec!["missing", "FOLDER/missing", "FOLDER", "FOLDER/token", "token/x", ".", "/", ""]),
    ];
    let args = vec(select(vec!["", "get-token", "--a b", "é"]), 0..3);
    let name = prop_oneof![
        30 => select(vec!["A", "B", "KUBERNETES_EXEC_INFO", "PATH", "=", "C=D"]),
        1 => Just(""),
    ];
    let env = vec(name, 0..3);
    let hint = option::weighted(0.2, select(vec!["Get it", "a\u{7}b\u{1b}[0m", "é\n\tü\u{200b}"]));
    let fields = (version, mode, command, args, env, any::<bool>(), hint);
    fields.prop_map(|(version, mode, command, args, env, provide, hint)| {
        let args: Vec<_> = ["SCRIPT"].into_iter().chain(args).collect();
        let entry = |name: &&str| json!({"name": name, "value": "of the user"});
        let env: Vec<_> = env.iter().map(entry).collect();
        json!({
            "apiVersion": version,
            "command": command,
            "args": args,
            "env": env,
            "provideClusterInfo": provide,
            "interactiveMode": mode,
            "installHint": hint,
        })
    })
}

/// What a user may have beside its plugin.
fn own_credentials() -> Vec<Value> {
    vec![
        json!({"token": "static"}),
        json!({"tokenFile": "FOLDER/token"}),
        json!({"tokenFile": "token"}),
        json!({"token": "static", "tokenFile": "FOLDER/token"}),
        json!({"tokenFile": "FOLDER/missing"}),
        json!({"token": "static", "tokenFile": "FOLDER/missing"}),
        json!({"username": "ada", "password": "lovelace"}),
        json!({"username": "ada"}),
        json!({"password": "lovelace"}),
        json!({"token": "static", "username": "ada"}),
        json!({"client-certificate-data": "CERT_A64", "client-key-data": "KEY_A64"}),
        json!({"client-certificate-data": "CERT_A64", "client-key-data": "CERT_A64"}),
        json!({"client-certificate-data": "CERT_A64"}),
        json!({"client-key-data": "KEY_A64"}),
        json!({"client-certificate": "FOLDER/missing", "client-key-data": "KEY_A64"}),
        json!({"auth-provider": {"name": "oidc"}}),
        json!({"as": "grace"}),
        json!({"as-groups": ["g"]}),
        json!({"token": "a\nb"}),
    ]
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}
