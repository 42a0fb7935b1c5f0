//! What does a plugin find in `KUBERNETES_EXEC_INFO`?

use keyfob_api::{
    ExecCluster, ExecCredentialSpec, ExecVersion, Quoted, RawJson,
    document::{Document, Node, Value as Tree},
};
use proptest::{
    collection::vec,
    option,
    prelude::{Just, Strategy, any},
    prop_oneof,
    strategy::BoxedStrategy,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    syntax::{is_no_json, is_no_yaml},
    words::{one_of, soup, url, with_slips},
};
use crate::Topic;

pub(crate) struct ExecInfo;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question {
    api_version: String,
    interactive: bool,
    cluster: Option<Cluster>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Cluster {
    server: String,
    tls_server_name: String,
    insecure_skip_tls_verify: bool,
    certificate_authority_data: Vec<u8>,
    proxy_url: String,
    disable_compression: bool,
    config: Option<Config>,
}

/// What the plugin is told besides.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
enum Config {
    /// Set by a program: JSON, passed on as it is.
    Program(String),
    /// The cluster's extension in a kubeconfig: YAML.
    Kubeconfig(String),
}

impl Topic for ExecInfo {
    const NAME: &'static str = "exec-info";
    const QUESTIONS: u32 = 10_000;
    type Question = Question;

    fn questions() -> BoxedStrategy<Question> {
        let version = prop_oneof![
            20 => Just("client.authentication.k8s.io/v1"),
            10 => Just("client.authentication.k8s.io/v1beta1"),
            1 => one_of(OTHER_VERSIONS),
        ];
        (version, any::<bool>(), option::weighted(0.9, cluster()))
            .prop_map(|(api_version, interactive, cluster)| Question {
                api_version: api_version.to_owned(),
                interactive,
                cluster,
            })
            .boxed()
    }

    fn ours(question: &Question) -> Value {
        match info(question) {
            Ok(info) => json!({ "info": info }),
            Err(error) => json!({ "error": error }),
        }
    }

    fn difference(_: &Question, ours: &Value, upstream: &Value) -> Option<&'static str> {
        let (ours, upstream) = (ours.get("error")?.as_str()?, upstream.get("error")?.as_str()?);
        let is_json = ours.starts_with("invalid JSON at line ");
        let is_yaml = ours.starts_with("invalid YAML at line ");
        let json = "json: error calling MarshalJSON for type runtime.RawExtension: ";
        match upstream.strip_prefix(json) {
            // Upstream looks at the first byte before it reads.
            Some("cannot convert RawExtension with unrecognized content type to unstructured") => {
                ours.ends_with(": expected a value").then_some("exec-config-no-json")
            }
            Some(words) => (is_json && is_no_json(words)).then_some("syntax-error-words"),
            None => (is_yaml && is_no_yaml(upstream)).then_some("syntax-error-words"),
        }
    }

    fn sort(upstream: &Value) -> &'static str {
        let Some(info) = upstream.get("info").and_then(Value::as_str) else { return "are refused" };
        if !info.contains("\"cluster\"") {
            "without a cluster"
        } else if info.contains("\"config\":null") {
            "without config"
        } else {
            "with config"
        }
    }
}

fn info(question: &Question) -> Result<String, String> {
    let known =
        question.api_version.parse().ok().filter(|&version| version != ExecVersion::V1Alpha1);
    let version: ExecVersion = known.ok_or_else(|| {
        format!("exec plugin: invalid apiVersion {}", Quoted(question.api_version.clone()))
    })?;
    let cluster = question.cluster.as_ref().map(Cluster::to_exec).transpose()?;
    let spec = ExecCredentialSpec { cluster, interactive: question.interactive, response: None };
    Ok(String::from_utf8_lossy(spec.encode(version).expose()).into_owned())
}

impl Cluster {
    fn to_exec(&self) -> Result<ExecCluster, String> {
        Ok(ExecCluster {
            server: self.server.clone(),
            tls_server_name: self.tls_server_name.clone(),
            insecure_skip_tls_verify: self.insecure_skip_tls_verify,
            certificate_authority_data: self.certificate_authority_data.clone(),
            proxy_url: self.proxy_url.as_str().into(),
            disable_compression: self.disable_compression,
            config: self.config.as_ref().map_or(Ok(None), Config::read)?,
        })
    }
}

impl Config {
    fn read(&self) -> Result<Option<RawJson>, String> {
        match self {
            Self::Program(json) => {
                RawJson::parse(json).map(Some).map_err(|error| error.to_string())
            }
            Self::Kubeconfig(yaml) => {
                let text = kubeconfig(yaml);
                let document =
                    Document::read_yaml(text.as_bytes()).map_err(|error| error.to_string())?;
                Ok(extension(&document.root.value).map(RawJson::from))
            }
        }
    }
}

/// The file that the oracle reads.
fn kubeconfig(extension: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{extensions: [{{name: {EXTENSION}, \
        extension: {extension}\n}}]}}}}]"
    )
}

const EXTENSION: &str = "client.authentication.k8s.io/exec";

/// The node of the extension, wherever it lies.
fn extension(tree: &Tree) -> Option<&Node> {
    match tree {
        Tree::List(items) => items.iter().find_map(|item| extension(&item.value)),
        Tree::Map(fields) => fields.iter().find_map(|field| {
            if field.name.expose() == "extension" {
                (!matches!(field.node.value, Tree::Null)).then_some(&field.node)
            } else {
                extension(&field.node.value)
            }
        }),
        _ => None,
    }
}

const OTHER_VERSIONS: &str =
    "client.authentication.k8s.io/v1alpha1 client.authentication.k8s.io/v2 v1  é\u{7f}\"";
const JSON: &str = "null true false 0 -0 1 1.0 1e2 1E+2 123456789012345678901234567890 1.5e-7 \
    1e21 \"\" \"a\" \"<a>&\" \"\\u003c\" \"\\/\" \"\u{2028}\u{2029}\" \
    \"\\u2028\" \"é😀\" \"\\ud83d\\ude00\" \"\\ud800\" \"\\n\\t\" \"\u{7f}\" [] {} [1,2] [[],{}] \
    {\"a\":1,\"b\":2} {\"b\":1,\"a\":2} {\"a\":1,\"a\":2} {\"a<\":\"&\"} \
    {\"\":null} {\"kind\":\"X\",\"apiVersion\":\"v1\"} \"\u{fffd}\" [null]";
const YAML: &str = "yes no on off y n ~ 0x10 0o17 017 1_000 .inf .nan 1:30 2001-01-01 1.0 1e3 +1 \
    'a' \"b\" plain a-b &a !!str !!int {a:,b:} {b:&2,a:&1} [a,b] {1:2} {true:x} {1.5:x} \
    !!binary {<<:{a:1}} {a:yes} \"\\x41\" 'it''s' \"<\" 12345678901234567890 0.1 1e-7 1e400 - * | >";

fn config() -> impl Strategy<Value = Config> {
    let json = || {
        prop_oneof![
            5 => one_of(JSON).prop_map(str::to_owned),
            2 => vec((one_of(JSON), one_of(" b a <")), 0..4).prop_map(|fields| {
                let fields: Vec<_> =
                    fields.iter().map(|(value, name)| format!(" \"{name}\" : {value}\n")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    };
    let yaml = (one_of(YAML), one_of(YAML)).prop_map(|(a, b)| format!("{{k: {a}, j: [{b}]}}"));
    prop_oneof![
        2 => json().prop_map(Config::Program),
        2 => with_slips(json().boxed()).prop_map(Config::Program),
        1 => json().prop_map(Config::Kubeconfig),
        1 => one_of(YAML).prop_map(|text| Config::Kubeconfig(text.to_owned())),
        1 => yaml.prop_map(Config::Kubeconfig),
    ]
}

fn cluster() -> impl Strategy<Value = Cluster> {
    let text = || prop_oneof![3 => Just(String::new()), 2 => url(), 1 => soup()];
    let server = prop_oneof![2 => url().prop_map(|rest| format!("https://{rest}")), 1 => text()];
    let certificates = prop_oneof![1 => Just(Vec::new()), 1 => vec(any::<u8>(), 0..70)];
    let switches = (any::<bool>(), any::<bool>());
    (server, text(), certificates, text(), switches, option::weighted(0.8, config())).prop_map(
        |(server, tls_server_name, certificate_authority_data, proxy_url, switches, config)| {
            Cluster {
                server,
                tls_server_name,
                insecure_skip_tls_verify: switches.0,
                certificate_authority_data,
                proxy_url,
                disable_compression: switches.1,
                config,
            }
        },
    )
}
