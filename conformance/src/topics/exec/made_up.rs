//! Kubeconfigs, plugins and servers.

use proptest::{
    collection::vec,
    option,
    prelude::{Just, Strategy, any},
    prop_oneof,
    sample::select,
    strategy::BoxedStrategy,
};
use serde_json::{Map, Value, json};

use super::Question;

pub(super) fn questions() -> BoxedStrategy<Question> {
    let environment = vec(select(vec!["A=parent", "KUBERNETES_EXEC_INFO=parent"]), 0..2);
    let statuses = vec(select(vec![200, 200, 401, 401, 403, 500]), 1..5);
    (cluster(), user(), vec(run(), 1..4), statuses, environment, any::<bool>())
        .prop_map(|(cluster, user, plugin, statuses, environment, asks_for_certificates)| {
            let environment = environment.into_iter().map(str::to_owned).collect();
            Question { cluster, user, plugin, statuses, environment, asks_for_certificates }
        })
        .boxed()
}

fn cluster() -> impl Strategy<Value = Map<String, Value>> {
    let extension =
        option::weighted(0.4, select(vec!["{\"b\":1.0,\"a\":\"<\"}", "null", "[1e3]", "\"x\""]));
    let fields = (extension, any::<bool>(), any::<bool>(), any::<bool>());
    fields.prop_map(|(extension, named, insecure, uncompressed)| {
        let mut cluster = Map::from_iter([("server".to_owned(), json!("SERVER"))]);
        if insecure {
            cluster.insert("insecure-skip-tls-verify".to_owned(), json!(true));
        } else {
            cluster.insert("certificate-authority-data".to_owned(), json!("CADATA64"));
        }
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
    let version = select(vec!["v1", "v1", "v1", "v1beta1", "v1beta1", "v1alpha1"]);
    let mode =
        select(vec![Some("Never"), Some("Never"), Some("IfAvailable"), Some("Always"), None]);
    let args = vec(select(vec!["", "get-token", "--a b", "é"]), 0..3);
    let env = vec(select(vec!["A", "B", "KUBERNETES_EXEC_INFO", "PATH"]), 0..3);
    let fields = (version, mode, args, env, any::<bool>(), option::weighted(0.1, Just("static")));
    fields.prop_map(|(version, mode, args, env, provide, token)| {
        let args: Vec<_> = ["SCRIPT"].into_iter().chain(args).collect();
        let entry = |name: &&str| json!({"name": name, "value": "of the user"});
        let env: Vec<_> = env.iter().map(entry).collect();
        let exec = json!({
            "apiVersion": format!("client.authentication.k8s.io/{version}"),
            "command": "PLUGIN",
            "args": args,
            "env": env,
            "provideClusterInfo": provide,
            "interactiveMode": mode,
        });
        let mut user = Map::from_iter([("exec".to_owned(), exec)]);
        if let Some(token) = token {
            user.insert("token".to_owned(), json!(token));
        }
        user
    })
}

/// What a plugin does in one run.
fn run() -> impl Strategy<Value = Vec<Value>> {
    let status = select(vec![
        r#"{"token":"a"}"#,
        r#"{"token":"b","expirationTimestamp":"2001-01-01T00:00:00Z"}"#,
        r#"{"token":"c","expirationTimestamp":"2999-01-01T00:00:00Z"}"#,
        r#"{"token":"d","clientCertificateData":"CERT_A","clientKeyData":"KEY_A"}"#,
        r#"{"clientCertificateData":"CERT_B","clientKeyData":"KEY_B"}"#,
        r#"{"clientKeyData":"KEY_A"}"#,
        "{}",
        "null",
        r#"{"token":5}"#,
    ]);
    let version = select(vec!["v1", "v1", "v1", "v1beta1"]);
    let answer = (version, status).prop_map(|(version, status)| {
        let status: Value = serde_json::from_str(status).expect("it is JSON");
        let version = format!("client.authentication.k8s.io/{version}");
        json!({"answer": {"apiVersion": version, "kind": "ExecCredential", "status": status}})
    });
    prop_oneof![
        8 => answer.prop_map(|answer| vec![answer]),
        1 => select(vec![json!({"exit": 3}), json!({"signal": 9}), json!({"print": "{"})]).prop_map(|step| vec![step]),
    ]
}
