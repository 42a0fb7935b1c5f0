//! Rows about whole kubeconfigs: what client-go made of their files, up to the first run of a plugin.
//!
//! What a plugin is run with, and what a server sees, is judged where authenticators are: [`Prepared`] is what they start
//! with.

use std::{fs, path::Path};

use keyfob_api::ExecCredentialSpec;
use keyfob_client::{
    ClientConfig, Dialect, ExecConfig, InteractiveMode, Kubeconfig, LoadingRules, Overrides,
    RelativePaths,
};
use serde_json::{Value, json};

use crate::{Check, client_refusal::same_refusal, fact, same, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("client/go_verified_extra.json", "kubeconfig", kubeconfig),
    ("client/go_verified_extra.json", "exec_info", kubeconfig),
];

fn kubeconfig(_file: &Value, row: &Value) -> Result<(), String> {
    let prepared = Prepared::new(row);
    let loaded = prepared.load();
    if let Some(wanted) = row["want_load_error"].as_str() {
        return same_refusal(&loaded.err().ok_or("loaded")?, wanted);
    }
    let loaded = loaded?;
    if let Some(wanted) = row.get("want_merged_users_command") {
        fact("users", &prepared.shown(&commands(&loaded).to_string()), &wanted.to_string())?;
    }
    let config = prepared.client_config(&loaded);
    if let Some(wanted) = row["want_client_config_error"].as_str() {
        return same(config.err().ok_or("accepted")?.as_str(), wanted);
    }
    let config = config?;
    fact("host", &Some(config.server.as_str()), &row["want_host"].as_str())?;
    let ours = config.exec.as_ref().map_or(Value::Null, |exec| as_row(exec, &row["want_exec"]));
    fact("exec", &prepared.shown(&ours.to_string()), &row["want_exec"].to_string())?;
    let transport = transport(&config);
    match row["want_transport_error"].as_str() {
        // The authenticator knows the versions.
        Some(wanted) if wanted.starts_with("exec plugin: ") => {}
        Some(wanted) => return same(transport.err().ok_or("accepted")?.as_str(), wanted),
        None => {}
    }
    let info = transport?;
    match row["want_exec_info"].as_str() {
        Some(wanted) => fact("exec info", info.as_deref().unwrap_or_default(), wanted),
        None => Ok(()),
    }
}

/// What upstream looks at when it makes a transport, in its order; and what a plugin would be told.
fn transport(config: &ClientConfig) -> Result<Option<String>, String> {
    let said = |error: keyfob_client::UnusableConfig| error.to_string();
    let exec = config.plugin().map_err(said)?;
    let cluster = config.exec_cluster().map_err(said)?;
    config.certificate_authorities().map_err(said)?;
    let Some(version) = exec.and_then(|exec| exec.api_version.parse().ok()) else {
        return Ok(None);
    };
    let spec = ExecCredentialSpec { cluster, ..ExecCredentialSpec::default() };
    Ok(Some(String::from_utf8(spec.encode(version).expose().clone()).unwrap()))
}

/// The row's files in a directory of their own, and how they are to be read.
pub(crate) struct Prepared {
    pub(crate) directory: tempfile::TempDir,
    /// The text to read in place of any file.
    bytes: Option<String>,
    rules: LoadingRules,
    overrides: Overrides,
}

impl Prepared {
    pub(crate) fn new(row: &Value) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for (name, content) in row["files"].as_object().unwrap() {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, placed(root, content.as_str().unwrap())).unwrap();
        }
        let names = row["kubeconfig"].as_array().unwrap().iter();
        let names: Vec<&str> = names.map(|name| name.as_str().unwrap()).collect();
        let mut rules = LoadingRules::default();
        rules.explicit = row["explicit"].as_str().map(|name| root.join(name));
        rules.precedence = names.iter().map(|name| root.join(name)).collect();
        rules.relative_paths = match row["no_resolve"].as_bool() {
            Some(true) => RelativePaths::Keep,
            _ => RelativePaths::Resolve,
        };
        rules.dialect = Dialect::ClientGo;
        let bytes = (row["bytes"] == true).then(|| placed(root, text(&row["files"], names[0])));
        Self { overrides: overrides(root, row), bytes, rules, directory }
    }

    pub(crate) fn load(&self) -> Result<Kubeconfig, String> {
        let loaded = match &self.bytes {
            Some(text) => Kubeconfig::parse(text.as_bytes()).map_err(|error| error.to_string()),
            None => self.rules.load().map_err(|error| error.to_string()),
        };
        loaded.map_err(|error| self.shown(&error))
    }

    pub(crate) fn client_config(&self, loaded: &Kubeconfig) -> Result<ClientConfig, String> {
        let config = loaded.client_config(&self.overrides);
        config.map_err(|error| self.shown(&error.to_string()))
    }

    /// A text in the notation of the rows.
    pub(crate) fn shown(&self, text: &str) -> String {
        text.replace(self.directory.path().to_str().unwrap(), "<DIR>")
    }
}

fn placed(root: &Path, text: &str) -> String {
    text.replace("<DIR>", root.to_str().unwrap())
}

fn overrides(root: &Path, row: &Value) -> Overrides {
    let named = |field: &str| placed(root, row[field].as_str().unwrap_or_default());
    let mut overrides = Overrides::default();
    overrides.context_name = named("override_context");
    overrides.context.user = named("override_user");
    overrides.cluster.server = named("override_server");
    overrides.user.token = named("override_token").into();
    overrides.user.exec = row["override_exec_command"].as_str().map(|command| ExecConfig {
        command: placed(root, command),
        api_version: "client.authentication.k8s.io/v1".to_owned(),
        interactive_mode: InteractiveMode::Never,
        ..ExecConfig::default()
    });
    overrides
}

fn commands(loaded: &Kubeconfig) -> Value {
    let users = loaded.users.iter();
    users.filter_map(|(name, user)| Some((name, json!(user.exec.as_ref()?.command)))).collect()
}

/// A plugin in the notation of the rows, which tell no list from an empty one.
fn as_row(exec: &ExecConfig, wanted: &Value) -> Value {
    let list =
        |ours: Value, field: &str| if ours == json!([]) { wanted[field].clone() } else { ours };
    let env = exec.env.iter().map(|(name, value)| (name, value.expose()));
    json!({
        "command": exec.command,
        "args": list(json!(exec.args), "args"),
        "env": list(json!(env.collect::<Vec<_>>()), "env"),
        "apiVersion": exec.api_version,
        "installHint": exec.install_hint,
        "provideClusterInfo": exec.provide_cluster_info,
        "interactiveMode": exec.interactive_mode.as_str(),
        "config_json": exec.config.as_ref().map(keyfob_api::RawJson::as_str),
    })
}
