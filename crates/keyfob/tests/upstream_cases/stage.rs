//! A host with plugins that say what a row has them say.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    sync::Arc,
    time::Duration,
};

use keyfob_api::{FeatureGates, GoDuration, ProviderVersion};
use keyfob_config::{Config, ProviderConfig};
use keyfob_exec::{Finished, Invocation, Status, StderrTail};
use keyfob_host::{Answer, Host, HostBuilder, HostOptions, Pull};
use keyfob_testkit::{FakeRunner, ManualClock};
use prometheus_client::{encoding::text, registry::Registry};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::accounts::Accounts;

/// A host on a plugin directory of its own.
pub(crate) struct Stage {
    pub(crate) plugins: TempDir,
    pub(crate) clock: ManualClock,
    pub(crate) registry: Registry,
    pub(crate) options: HostOptions,
    pub(crate) accounts: Option<Accounts>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            plugins: tempfile::tempdir().unwrap(),
            clock: ManualClock::default(),
            registry: Registry::default(),
            options: HostOptions::default(),
            accounts: None,
        }
    }

    /// Providers whose plugins answer with what a function makes of their names.
    pub(crate) fn host(
        &mut self,
        providers: &[ProviderConfig],
        says: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
    ) -> (Host, FakeRunner) {
        let runner = FakeRunner::new(move |invocation| Ok(finished(invocation, &says)));
        for provider in providers {
            self.script(&provider.name, "");
        }
        let host = self.builder(providers).runner(runner.clone()).build().unwrap();
        host.register_metrics(&mut self.registry);
        (host, runner)
    }

    pub(crate) fn builder(&self, providers: &[ProviderConfig]) -> HostBuilder {
        let config = Config::new(providers.to_vec()).validate(FeatureGates::default()).unwrap();
        let builder = Host::builder(config, self.plugins.path())
            .clock(Arc::new(self.clock.clone()))
            .options(self.options.clone());
        match &self.accounts {
            Some(accounts) => builder.service_accounts(accounts.clone()),
            None => builder,
        }
    }

    pub(crate) fn script(&self, name: &str, body: &str) {
        let path = self.plugins.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }

    /// The metrics as they are read.
    pub(crate) fn metrics(&self) -> String {
        let mut shown = String::new();
        text::encode(&mut shown, &self.registry).unwrap();
        shown
    }

    pub(crate) fn errors(&self) -> u64 {
        let shown = self.metrics();
        let line = shown
            .lines()
            .find(|line| line.starts_with("kubelet_credential_provider_plugin_errors_total{"));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
    }
}

fn finished(invocation: &Invocation, says: &dyn Fn(&str) -> Vec<u8>) -> Finished {
    let program = invocation.program();
    let name = program.file_name().unwrap().to_string_lossy();
    Finished {
        program: program.into(),
        status: Status::Exited(0),
        stdout: says(&name).into(),
        stderr: StderrTail::default(),
        elapsed: Duration::ZERO,
    }
}

pub(crate) fn provider(name: &str, patterns: &[&str]) -> ProviderConfig {
    ProviderConfig {
        name: if name.is_empty() { "plugin".into() } else { name.into() },
        match_images: patterns.iter().map(|text| (*text).to_owned()).collect(),
        default_cache_duration: Some(GoDuration::parse("10m").unwrap()),
        api_version: ProviderVersion::V1.api_version().into(),
        ..ProviderConfig::default()
    }
}

/// An answer in upstream's form, from auth entries in the notation of the rows.
pub(crate) fn answer(scope: &str, duration: &Value, auth: &Value) -> Vec<u8> {
    let entries = auth.as_object().cloned().unwrap_or_default().into_iter().map(|(key, login)| {
        (key, json!({ "username": login["Username"], "password": login["Password"] }))
    });
    let mut answer = json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": ProviderVersion::V1.api_version(),
        "cacheKeyType": scope,
        "auth": Value::Object(entries.collect()),
    });
    if !duration.is_null() {
        answer["cacheDuration"] = duration.clone();
    }
    answer.to_string().into()
}

pub(crate) fn ask(host: &Host, image: &str) -> Answer {
    block_on(host.credentials(&Pull::of_repository(image)))
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// What a provider answered, whether or not it is for the image, in the notation of the rows.
pub(crate) fn answered(answer: &Answer) -> Value {
    let mut entries = Map::new();
    for logins in answer.reports.iter().filter_map(|report| report.outcome.logins()) {
        for (key, login) in logins.iter() {
            let login = json!({
                "Username": *login.username,
                "Password": login.password.expose(),
            });
            entries.insert(key.to_string(), login);
        }
    }
    Value::Object(entries)
}
