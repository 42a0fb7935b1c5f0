//! Rows about the messages between a client and an exec plugin.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyfob_api::{
    ClientIdentity, ExecAnswerError, ExecCluster, ExecCredentialSpec, ExecCredentialStatus,
    ExecInfoError, ExecVersion, RawJson, Timestamp,
    document::{Document, Node, Value as Tree},
};
use serde_json::{Value, json};

use crate::{Check, same};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("client/derived_edge_cases.json", "decode_stdout", decode_stdout),
    ("client/derived_edge_cases.json", "expiry", expiry),
    ("client/derived_edge_cases.json", "private_key_pem", key_forms),
    ("client/derived_edge_cases.json", "exec_info_encoding", exec_info_encoding),
    ("client/go_verified_extra.json", "decode_stdout", decode_stdout),
    ("client/go_verified_extra.json", "private_key_pem", private_key_pem),
    ("client/go_verified_extra.json", "exec_info", exec_info),
    ("client/load_exec_credential.json", "cases", load_exec_credential),
    ("client/refresh_creds_v1alpha1_historic.json", "cases", v1alpha1),
];

const V1: &str = "client.authentication.k8s.io/v1";

fn decode_stdout(_file: &Value, row: &Value) -> Result<(), String> {
    let stdout = match (&row["stdout"], row["stdout_b64"].as_str()) {
        (_, Some(encoded)) => BASE64_STANDARD.decode(encoded).unwrap(),
        (Value::String(text), None) => text.clone().into_bytes(),
        (object, None) => object.to_string().into_bytes(),
    };
    let configured = row["configured"].as_str().unwrap_or(V1).parse().unwrap();
    let decoded = ExecCredentialStatus::decode(&stdout, configured);
    if let Some(text) = row["want_error"].as_str().or(row["want_error_prefix"].as_str()) {
        return refused(&decoded, &stdout, text);
    }
    let status = decoded.map_err(|error| error.to_string())?;
    let want = &row["want"];
    let token = want["token"].as_str().or(row["want_token"].as_str());
    same(&status.token.as_ref().map(|token| token.expose().as_str()), &token)?;
    same(
        &status.expiration,
        &want["expiry_utc"].as_str().map(|text| Timestamp::parse(text).unwrap()),
    )?;
    same(&status.identity.is_some(), &want.get("cert_leaf_cn").is_some())
}

/// Fixed sentences must be the same; decoding errors must be decoding errors. Whether a certificate fits its key is
/// decided later, so there the texts must have come through unchanged.
fn refused(
    decoded: &Result<ExecCredentialStatus, ExecAnswerError>,
    stdout: &[u8],
    text: &str,
) -> Result<(), String> {
    match decoded {
        Err(error @ ExecAnswerError::Decoding(_)) if text.starts_with("decoding stdout: ") => {
            same(&error.to_string().starts_with("decoding stdout: "), &true)
        }
        Err(error) => same(error.to_string().as_str(), text),
        Ok(status) if text.starts_with("failed parsing client key/certificate: ") => {
            let identity = status.identity.as_ref().ok_or("no certificate")?;
            match serde_json::from_slice::<Value>(stdout) {
                Ok(json) => same_pair(
                    identity,
                    &json["status"]["clientCertificateData"],
                    &json["status"]["clientKeyData"],
                ),
                Err(_) => Ok(()),
            }
        }
        Ok(_) => Err("accepted".to_owned()),
    }
}

fn same_pair(identity: &ClientIdentity, certificate: &Value, key: &Value) -> Result<(), String> {
    same(&Some(identity.certificate_pem.expose().as_str()), &certificate.as_str())?;
    same(&Some(identity.key_pem.expose().as_str()), &key.as_str())
}

fn expiry(_file: &Value, row: &Value) -> Result<(), String> {
    let Some(text) = row.get("expirationTimestamp") else {
        return Ok(()); // about the clock, which is not here
    };
    let stdout =
        json!({ "apiVersion": V1, "status": { "token": "t", "expirationTimestamp": text } })
            .to_string();
    let decoded = ExecCredentialStatus::decode(stdout.as_bytes(), ExecVersion::V1);
    if let Some(prefix) = row["want_error_prefix"].as_str() {
        return refused(&decoded, stdout.as_bytes(), prefix);
    }
    let wanted = row["want_expiry_utc"].as_str().map(|text| Timestamp::parse(text).unwrap());
    same(&decoded.map_err(|error| error.to_string())?.expiration, &wanted)
}

/// The rows name forms of keys; every form of text must come through.
fn key_forms(_file: &Value, row: &Value) -> Result<(), String> {
    let block = row["block"].as_str().unwrap_or("PRIVATE KEY");
    let key =
        format!("text before\n-----BEGIN {block}-----\nAAAA\n-----END {block}-----\ntext after\n");
    pair_comes_through("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &key)
}

fn private_key_pem(_file: &Value, row: &Value) -> Result<(), String> {
    pair_comes_through(row["cert_pem"].as_str().unwrap(), row["key_pem"].as_str().unwrap())
}

fn pair_comes_through(certificate: &str, key: &str) -> Result<(), String> {
    let status = json!({ "clientCertificateData": certificate, "clientKeyData": key });
    let stdout =
        json!({ "apiVersion": V1, "kind": "ExecCredential", "status": status }).to_string();
    match ExecCredentialStatus::decode(stdout.as_bytes(), ExecVersion::V1) {
        Ok(status) => {
            same_pair(&status.identity.ok_or("no certificate")?, &json!(certificate), &json!(key))
        }
        // An empty text is no text.
        Err(ExecAnswerError::HalfAnIdentity) if certificate.is_empty() != key.is_empty() => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn exec_info_encoding(_file: &Value, row: &Value) -> Result<(), String> {
    let Some(example) = row["example"].as_str() else {
        return Ok(()); // a rule in words; the rows of `exec_info` show it
    };
    let (version, mut spec) =
        ExecCredentialSpec::decode(example.as_bytes()).map_err(|error| error.to_string())?;
    // The example's configuration came from a program, which passes it on as it is.
    let config = r#"{ "k": "<>&\u2028\u2029\u0041é", "n": 1.0e2 }"#;
    spec.cluster.as_mut().unwrap().config = Some(RawJson::parse(config).unwrap());
    same(text(&spec, version).as_str(), &example.replace("\\ufffd", "\u{fffd}"))
}

fn exec_info(_file: &Value, row: &Value) -> Result<(), String> {
    let name = row["kubeconfig"][0].as_str().unwrap();
    let kubeconfig = Document::read_yaml(row["files"][name].as_str().unwrap().as_bytes());
    if let Some(error) = row["want_load_error"].as_str() {
        let ours =
            kubeconfig.is_err() || Selected::new(&kubeconfig.unwrap().root).cluster().is_err();
        let wire_level =
            ["yaml: ", "json: ", "illegal base64"].iter().any(|word| error.contains(word));
        return if ours || !wire_level { Ok(()) } else { Err("accepted".to_owned()) };
    }
    let Some(wanted) = row["want_exec_info"].as_str() else {
        return Ok(()); // refused by a rule of kubeconfigs or transports, before anything is encoded
    };
    let kubeconfig = kubeconfig.map_err(|error| error.to_string())?;
    let selected = Selected::new(&kubeconfig.root);
    let exec = get(selected.user, "exec").ok_or("no exec")?;
    let mut spec = ExecCredentialSpec::default();
    if matches!(get(exec, "provideClusterInfo").map(|node| &node.value), Some(Tree::Bool(true))) {
        spec.cluster = Some(selected.cluster_of(row, wanted)?);
    }
    let version = text_of(get(exec, "apiVersion")).unwrap().parse().unwrap();
    same(text(&spec, version).as_str(), wanted)
}

/// What the current context of a kubeconfig chooses.
struct Selected<'a> {
    cluster: &'a Node,
    user: &'a Node,
}

impl<'a> Selected<'a> {
    fn new(root: &'a Node) -> Self {
        let current = text_of(get(root, "current-context")).unwrap();
        let context = named(get(root, "contexts"), current, "context").unwrap();
        let pick = |list: &str, key: &str| {
            named(get(root, list), text_of(get(context, key)).unwrap(), key).unwrap()
        };
        Self { cluster: pick("clusters", "cluster"), user: pick("users", "user") }
    }

    /// The cluster as the wire has it: same names, and the extension for plugins as its configuration.
    fn cluster(&self) -> Result<ExecCluster, ExecInfoError> {
        let cluster = RawJson::from(self.cluster);
        let info = format!(
            r#"{{"apiVersion":"{V1}","kind":"ExecCredential","spec":{{"cluster":{}}}}}"#,
            cluster.as_str()
        );
        let mut cluster =
            ExecCredentialSpec::decode(info.as_bytes())?.1.cluster.unwrap_or_default();
        let extension = named(
            get(self.cluster, "extensions"),
            "client.authentication.k8s.io/exec",
            "extension",
        );
        cluster.config = extension.map(RawJson::from);
        Ok(cluster)
    }

    /// The cluster that a row sends. Making the URLs what clients use is not the wire's business.
    fn cluster_of(&self, row: &Value, wanted: &str) -> Result<ExecCluster, String> {
        let mut cluster = self.cluster().map_err(|error| error.to_string())?;
        cluster.server = row["want_host"].as_str().unwrap().into();
        if !cluster.proxy_url.expose().is_empty() {
            let sent: Value = serde_json::from_str(wanted).unwrap();
            let proxy_url = sent["spec"]["cluster"]["proxy-url"].as_str();
            cluster.proxy_url = proxy_url.unwrap_or_default().into();
        }
        if let Some(file) = text_of(get(self.cluster, "certificate-authority")) {
            let file = file.rsplit('/').next().unwrap();
            cluster.certificate_authority_data = row["files"][file].as_str().unwrap().into();
        }
        Ok(cluster)
    }
}

fn named<'a>(list: Option<&'a Node>, name: &str, key: &str) -> Option<&'a Node> {
    let Tree::List(items) = &list?.value else {
        return None;
    };
    let item = items.iter().find(|item| text_of(get(item, "name")) == Some(name))?;
    get(item, key)
}

fn get<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    let Tree::Map(fields) = &node.value else {
        return None;
    };
    fields.iter().find(|field| field.name.expose() == name).map(|field| &field.node)
}

fn text_of(node: Option<&Node>) -> Option<&str> {
    match &node?.value {
        Tree::String(text) => Some(text.expose()),
        _ => None,
    }
}

fn load_exec_credential(_file: &Value, row: &Value) -> Result<(), String> {
    let Some(data) = row.get("data") else {
        // The historic row: v1alpha1 never has a cluster.
        let error = ExecCredentialSpec::default().required_cluster().unwrap_err().to_string();
        return same(&Some(error.as_str()), &row["want_error_prefix"].as_str());
    };
    let decoded = ExecCredentialSpec::decode(data.to_string().as_bytes());
    let (version, spec) = match (decoded, row["want_error_prefix"].as_str()) {
        (Err(error), Some(prefix)) => return same(&error.to_string().starts_with(prefix), &true),
        (Err(error), None) => return Err(error.to_string()),
        // A proxy URL that is none: the text comes through, and the client that uses it says so.
        (Ok(_), Some("cannot create rest.Config")) => return Ok(()),
        (Ok(_), Some(_)) => return Err("accepted".to_owned()),
        (Ok(decoded), None) => decoded,
    };
    same(&Some(version.api_version()), &data["apiVersion"].as_str())?;
    let cluster = spec.required_cluster().map_err(|error| error.to_string())?;
    let ours = json!({
        "host": cluster.server,
        "insecure": cluster.insecure_skip_tls_verify,
        "serverName": cluster.tls_server_name,
        "caData_utf8": String::from_utf8_lossy(&cluster.certificate_authority_data),
        "proxyURL": cluster.proxy_url.expose(),
    });
    same(&ours, &row["want_config"])?;
    let again: Value = serde_json::from_str(&text(&spec, version)).unwrap();
    same(&again, data)
}

fn v1alpha1(_file: &Value, row: &Value) -> Result<(), String> {
    let version: ExecVersion = row["config"]["apiVersion"].as_str().unwrap().parse().unwrap();
    let spec = ExecCredentialSpec {
        interactive: row["stdin_is_terminal"] == true,
        cluster: row.get("cluster").map(|_| ExecCluster::default()),
        response: None,
    };
    let info: Value = serde_json::from_str(&text(&spec, version)).unwrap();
    same(&info, &row["want_KUBERNETES_EXEC_INFO"])?;
    let stdout = row["plugin_stdout"].to_string();
    let decoded = ExecCredentialStatus::decode(stdout.as_bytes(), version);
    match (decoded, row["want_error"] == true) {
        (Err(_), true) => Ok(()),
        // Only the pair itself is bad, which is found out later.
        (Ok(status), true) => same(&status.identity.is_some(), &true),
        (Ok(status), false) => same(
            &status.token.as_ref().map(|token| token.expose().as_str()),
            &row["want_credentials"]["token"].as_str(),
        ),
        (Err(error), false) => Err(error.to_string()),
    }
}

fn text(spec: &ExecCredentialSpec, version: ExecVersion) -> String {
    String::from_utf8(spec.encode(version).expose().clone()).unwrap()
}
