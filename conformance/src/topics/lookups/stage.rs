//! A folder with a configuration and its plugins, which are real processes.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::PathBuf, time::SystemTime};

use keyfob_exec::Clock as _;
use keyfob_host::{Config, Host};
use keyfob_testkit::{ManualClock, Script, Step, scripted_plugin};
use prometheus_client::{encoding::text, registry::Registry};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Provider, since};

pub(super) struct Stage {
    pub(super) clock: ManualClock,
    folder: TempDir,
    registry: Registry,
    /// How much of the file of a plugin's requests was read.
    read: BTreeMap<String, usize>,
}

impl Stage {
    pub(super) fn new(providers: &[Provider]) -> Self {
        let stage = Self {
            clock: ManualClock::default(),
            folder: tempfile::tempdir().expect("a folder"),
            registry: Registry::default(),
            read: providers.iter().map(|provider| (provider.name.clone(), 0)).collect(),
        };
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
        Host::builder(config, &plugins)
            .clock(self.clock.clone())
            .metrics(&mut self.registry)
            .build()
            .map_err(|error| shown(error.to_string()))
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
            of.insert(cached.key.base().to_owned(), expires);
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

    /// Puts the plugin in its place; gives what the configuration says of it.
    fn install(&self, provider: &Provider) -> Value {
        let Provider { name, answers, .. } = provider;
        let script = self.path(&format!("{name}.script"));
        let turns = Step::TakeTurns(self.path(&format!("{name}.requests")), answers.clone());
        fs::write(&script, Script::new([turns]).to_arg()).expect("a new file");
        symlink(scripted_plugin(), self.path("plugins").join(name)).expect("a new link");
        let mut configured = json!(provider);
        if let Some(fields) = configured.as_object_mut() {
            fields.remove("answers");
            fields.insert("args".to_owned(), json!([script]));
        }
        configured
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
