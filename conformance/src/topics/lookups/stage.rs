//! A folder with a configuration and its plugins, which are real processes.

use std::{
    collections::BTreeMap, fs, os::unix::fs::symlink, path::PathBuf, sync::Arc, time::SystemTime,
};

use keyfob_api::FeatureGates;
use keyfob_config::Config;
use keyfob_exec::Clock as _;
use keyfob_host::Host;
use keyfob_testkit::{ManualClock, Script, Step, Witness, scripted_plugin};
use prometheus_client::{encoding::text, registry::Registry};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    Provider,
    accounts::{Account, Accounts},
    since,
};

pub(super) struct Stage {
    pub(super) clock: ManualClock,
    pub(super) accounts: Accounts,
    /// The names of the variables that each provider sets.
    variables: BTreeMap<String, Vec<String>>,
    folder: TempDir,
    registry: Registry,
    /// How much of the file of a plugin's requests was read.
    read: BTreeMap<String, usize>,
}

impl Stage {
    pub(super) fn new(providers: &[Provider], accounts: &[Account]) -> Self {
        let stage = Self {
            clock: ManualClock::default(),
            accounts: Accounts::default(),
            variables: providers.iter().map(variables).collect(),
            folder: tempfile::tempdir().expect("a folder"),
            registry: Registry::default(),
            read: providers.iter().map(|provider| (provider.name.clone(), 0)).collect(),
        };
        for account in accounts {
            stage.accounts.set(account);
        }
        fs::create_dir(stage.path("plugins")).expect("a new folder");
        let configured: Vec<Value> =
            providers.iter().map(|provider| stage.install(provider)).collect();
        let config = json!({
            "kind": "CredentialProviderConfig",
            "apiVersion": "kubelet.config.k8s.io/v1",
            "providers": configured,
        });
        fs::write(stage.path("config.json"), config.to_string()).expect("a new file");
        stage
    }

    /// A host, or why there is none.
    pub(super) fn host(&mut self) -> Result<Host, String> {
        let (config, plugins) = (self.path("config.json"), self.path("plugins"));
        let folder = self.folder.path().display().to_string();
        let shown = |error: String| error.replace(&folder, "FOLDER");
        let config = Config::read(&config).map_err(|error| shown(error.to_string()))?;
        let config = config.validate(FeatureGates::default()).map_err(|error| {
            shown(format!("failed to validate credential provider config: {error}"))
        })?;
        let host = Host::builder(config, &plugins)
            .clock(Arc::new(self.clock.clone()))
            .service_accounts(self.accounts.clone())
            .build()
            .map_err(|error| shown(error.to_string()))?;
        host.register_metrics(&mut self.registry);
        Ok(host)
    }

    /// What the plugins were asked since it was last called.
    pub(super) fn new_requests(&mut self) -> Value {
        let mut asked = BTreeMap::new();
        let folder = self.folder.path();
        for (provider, read) in &mut self.read {
            let Ok(all) = fs::read_to_string(folder.join(format!("{provider}.requests"))) else {
                continue;
            };
            let new = all.get(*read..).expect("the file only grows").lines();
            let new: Vec<Value> =
                new.map(|line| serde_json::from_str(line).expect("a request")).collect();
            if !new.is_empty() {
                asked.insert(provider.clone(), new);
            }
            *read = all.len();
        }
        json!(asked)
    }

    /// The answers that are not expired, and when they will be.
    pub(super) fn kept(&self, host: &Host, start: SystemTime) -> Value {
        let mut kept: BTreeMap<&str, BTreeMap<String, String>> =
            self.read.keys().map(|name| (name.as_str(), BTreeMap::new())).collect();
        let cached = host.cached();
        for cached in cached.iter().filter(|cached| cached.expires >= self.clock.now()) {
            let expires = since(start, cached.expires).to_string();
            let of = kept.entry(&*cached.provider).or_default();
            of.insert(spelled_out(cached.key.as_bytes()), expires);
        }
        json!(kept)
    }

    /// How many errors of which plugin the metrics have.
    pub(super) fn errors(&self) -> Value {
        let mut shown = String::new();
        text::encode(&mut shown, &self.registry).expect("metrics are text");
        let start = r#"kubelet_credential_provider_plugin_errors_total{plugin_name=""#;
        let series = shown.lines().filter_map(|line| line.strip_prefix(start)?.split_once("\"} "));
        let errors = series.map(|(name, count)| (name.to_owned(), count.parse::<u64>().ok()));
        json!(errors.collect::<BTreeMap<_, _>>())
    }

    /// How the plugins were started the last time: their arguments, and of their environment what is configured.
    pub(super) fn started(&self) -> Value {
        let folder = self.folder.path().to_str().expect("it is text");
        let mut started = BTreeMap::new();
        for (provider, names) in &self.variables {
            let Ok(text) = fs::read(self.path(&format!("{provider}.witness"))) else { continue };
            let Witness { args, env, .. } = serde_json::from_slice(&text).expect("a witness");
            let args: Vec<String> = args.iter().map(|arg| arg.replace(folder, "FOLDER")).collect();
            let is_set = |entry: &&String| {
                names
                    .iter()
                    .any(|name| entry.strip_prefix(name).is_some_and(|v| v.starts_with('=')))
            };
            let env: Vec<&String> = env.iter().filter(is_set).collect();
            started.insert(provider, json!({ "args": args, "env": env }));
        }
        json!(started)
    }

    /// Puts the plugin in its place; gives what the configuration says of it.
    fn install(&self, provider: &Provider) -> Value {
        let Provider { name, answers, .. } = provider;
        let script = self.path(&format!("{name}.script"));
        let steps = [
            Step::Record(self.path(&format!("{name}.witness"))),
            Step::TakeTurns(self.path(&format!("{name}.requests")), answers.clone()),
        ];
        fs::write(&script, Script::new(steps).to_arg()).expect("a new file");
        symlink(scripted_plugin(), self.path("plugins").join(name)).expect("a new link");
        let mut configured = json!(provider);
        if let Some(fields) = configured.as_object_mut() {
            fields.remove("answers");
            let script = script.to_str().expect("it is text").to_owned();
            let args: Vec<String> = [script].into_iter().chain(provider.args.clone()).collect();
            fields.insert("args".to_owned(), json!(args));
        }
        configured
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// A key as text, to the byte: what is no plain letter is spelled out.
fn spelled_out(key: &[u8]) -> String {
    let spell = |byte: &u8| match byte {
        b' '..=b'[' | b']'..=b'~' => char::from(*byte).to_string(),
        byte => format!("\\x{byte:02x}"),
    };
    key.iter().map(spell).collect()
}

fn variables(provider: &Provider) -> (String, Vec<String>) {
    let names = provider.env.iter().map(|variable| variable.name.clone());
    (provider.name.clone(), names.collect())
}
