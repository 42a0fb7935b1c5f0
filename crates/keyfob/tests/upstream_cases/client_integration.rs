//! Rows of upstream's integration test, against a real TLS server that asks for certificates.

use std::{error::Error, fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use keyfob_client::{
    Authenticators, Behaviour, ClientConfig, Clients, ExecConfig, InteractiveMode, PluginPolicy,
    World,
};
use keyfob_exec::SystemEnvironment;
use keyfob_testkit::{ClientCertificates, Reply, TlsServer, Visit, self_signed};
use kube::{Api, api::ListParams};
use prometheus_client::{encoding::text as metrics, registry::Registry};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::{Value, json};

use crate::{Check, fact, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] =
    &[("client/integration.json", "TestExecPluginViaClient", via_client)];

fn via_client(file: &Value, row: &Value) -> Result<(), String> {
    let base = &file["TestExecPluginViaClient"]["base_config"];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for version in [text(base, "apiVersion"), "client.authentication.k8s.io/v1beta1"] {
        runtime.block_on(list(base, row, version)).map_err(|how| format!("{version}: {how}"))?;
    }
    Ok(())
}

/// The two certificates that rows know, as a plugin returns them.
struct Pairs {
    good: (String, String),
    bad: (String, String),
}

impl Pairs {
    fn of(&self, name: &Value) -> Option<&(String, String)> {
        match name.as_str()? {
            "GOOD" => Some(&self.good),
            "BAD" => Some(&self.bad),
            _ => None,
        }
    }
}

async fn list(base: &Value, row: &Value, version: &str) -> Result<(), String> {
    let pairs = Pairs { good: self_signed("good"), bad: self_signed("bad") };
    let good = der(&pairs.good.0);
    let server =
        TlsServer::start(ClientCertificates::Asked, move |visit| answer(visit, &good)).await;
    let stage = tempfile::tempdir().unwrap();
    plugins(stage.path(), &row["plugin_status"], version, &pairs);

    let authenticators = Authenticators::new(World::system(), Behaviour::of_client_go());
    let mut registry = Registry::default();
    authenticators.register_metrics(&mut registry);
    let clients = Clients::new(authenticators, Arc::new(SystemEnvironment));
    let config = config(base, row, version, &server, stage.path());
    let client = clients.connect(&config).map_err(|error| error.to_string())?;
    let listed = Api::<ConfigMap>::default_namespaced(client).list(&ListParams::default()).await;

    let in_stage =
        |text: &str| text.replace("testdata/", &format!("{}/testdata/", stage.path().display()));
    match (row["want_client_error_prefix"].as_str(), listed) {
        (None, listed) => drop(listed.map_err(|error| format!("{error:?}"))?),
        (Some("Unauthorized"), Err(kube::Error::Api(status))) => fact("code", &status.code, &401)?,
        (Some(prefix), Err(error)) if prefix.starts_with("Get ") => {
            let wanted = in_stage(text(row, "want_get_cert_error_prefix"));
            let told = chain(&error);
            if !told.contains(&wanted) {
                return Err(format!("{told}, not {wanted}"));
            }
        }
        (Some(prefix), other) => return Err(format!("{other:?}, not {prefix}")),
    }
    same_visits(row, &server.visits(), &pairs)?;
    same_metrics(&row["want_metrics"], &registry)
}

fn config(
    base: &Value,
    row: &Value,
    version: &str,
    server: &TlsServer,
    stage: &Path,
) -> ClientConfig {
    let delta = &row["config_delta"];
    let command = delta["command"].as_str().unwrap_or(text(base, "command"));
    let list = delta["allowlist"].as_array().map(|list| {
        let entries = list.iter().map(|entry| entry.as_str().unwrap());
        let at_stage =
            |entry: &str| entry.replace("testdata/", &format!("{}/testdata/", stage.display()));
        entries.map(at_stage).collect()
    });
    let word = |name: &str| delta[name].as_str().unwrap_or_default();
    let mut config = ClientConfig::default();
    config.server = server.url();
    config.namespace = "default".into();
    config.tls.ca_data = server.ca_pem().into();
    config.exec = Some(ExecConfig {
        command: format!("{}/{command}", stage.display()),
        args: vec!["one".to_owned(), fastrand::u64(..).to_string()],
        api_version: version.to_owned(),
        interactive_mode: InteractiveMode::from(text(base, "interactiveMode")),
        policy: PluginPolicy { policy_type: word("policy").into(), allowlist: list },
        ..ExecConfig::default()
    });
    word("username").clone_into(&mut config.user.username);
    config.user.password = word("password").to_owned().into();
    config.user.token = delta["bearerToken"].as_str().map(Into::into);
    config
}

/// A script that prints the row's status, and one that cannot be run.
fn plugins(stage: &Path, status: &Value, version: &str, pairs: &Pairs) {
    let mut answer = json!({"kind": "ExecCredential", "apiVersion": version, "status": {}});
    if let Some(token) = status.get("token") {
        answer["status"]["token"] = token.clone();
    }
    if let Some((certificate, key)) = pairs.of(&status["cert"]) {
        answer["status"]["clientCertificateData"] = json!(certificate);
        answer["status"]["clientKeyData"] = json!(key);
    }
    let directory = stage.join("testdata");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("answer"), answer.to_string()).unwrap();
    let script = format!("#!/bin/sh\nexec cat '{}/answer'\n", directory.display());
    for (name, mode) in [("exec-plugin.sh", 0o755), ("exec-plugin-not-executable.sh", 0o644)] {
        fs::write(directory.join(name), &script).unwrap();
        fs::set_permissions(directory.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// Knows one token and one certificate, as upstream's server does.
fn answer(visit: &Visit, good: &[u8]) -> Reply {
    let has_token = visit.authorization().as_deref() == Some("Bearer client-authorized-token");
    let has_certificate = visit.certificates.first().is_some_and(|leaf| leaf == good);
    if has_token || has_certificate {
        let list =
            json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": []});
        return Reply::Status(200, list.to_string());
    }
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401});
    Reply::Status(401, status.to_string())
}

fn same_visits(row: &Value, visits: &[Visit], pairs: &Pairs) -> Result<(), String> {
    let headers: Vec<_> = visits.iter().map(Visit::authorization).collect();
    match &row["want_authorization"] {
        Value::String(none) if none == "no request" => fact("requests", &headers.len(), &0)?,
        Value::Null => fact("headers", &headers, &vec![None])?,
        wanted => fact("headers", &json!(headers), wanted)?,
    }
    let presented = visits.last().map(|visit| visit.certificates.clone()).unwrap_or_default();
    let wanted = pairs.of(&row["want_tls_certificate"]).map(|(pem, _)| der(pem));
    fact("certificate", &presented, &Vec::from_iter(wanted))
}

fn same_metrics(wanted: &Value, registry: &Registry) -> Result<(), String> {
    let mut shown = String::new();
    metrics::encode(&mut shown, registry).unwrap();
    let count = |start: &str, label: &str| -> u64 {
        let lines = shown.lines().filter(|line| line.starts_with(start) && line.contains(label));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    };
    let calls = wanted["calls"].as_array().unwrap();
    fact("calls", &count("rest_client_exec_plugin_call_total", ""), &(calls.len() as u64))?;
    for call in calls {
        let label = format!("call_status=\"{}\"", text(call, "call_status"));
        let alike = calls.iter().filter(|other| *other == call).count() as u64;
        fact(&label, &count("rest_client_exec_plugin_call_total", &label), &alike)?;
    }
    let policy = wanted["policy_calls"].as_array().unwrap();
    fact(
        "policy calls",
        &count("rest_client_exec_plugin_policy_call_total", ""),
        &(policy.len() as u64),
    )
}

fn der(pem: &str) -> Vec<u8> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
}

fn chain(error: &dyn Error) -> String {
    let (mut told, mut cause) = (vec![error.to_string()], error.source());
    while let Some(error) = cause {
        told.push(error.to_string());
        cause = error.source();
    }
    told.join(": ")
}
