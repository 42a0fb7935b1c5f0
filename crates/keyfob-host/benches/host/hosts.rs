//! Hosts whose plugins answer at once, and the patterns they are made with.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    pin::pin,
    process::Command,
    task::{Context, Poll, Waker},
    time::Duration,
};

use keyfob_api::FeatureGates;
use keyfob_config::{Config, ProviderConfig};
use keyfob_host::{Answer, Host, Pull};
use keyfob_testkit::FakeRunner;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

pub(crate) const ECR: &str = "123456789012.dkr.ecr.eu-west-1.amazonaws.com";
const VERSION: &str = "credentialprovider.kubelet.k8s.io/v1";

/// A directory of programs that are there and are never run.
pub(crate) struct Plugins(TempDir);

impl Plugins {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    /// A host with a provider for each list of patterns. Whatever they are asked, they give a login for these keys.
    pub(crate) fn host(
        &self,
        patterns: Vec<Vec<String>>,
        scope: &str,
        keys: &[&str],
        password: &str,
    ) -> Host {
        let login =
            |key: &&str| ((*key).to_owned(), json!({"username": "AWS", "password": password}));
        let auth: serde_json::Map<_, _> = keys.iter().map(login).collect();
        let answer = json!({
            "kind": "CredentialProviderResponse",
            "apiVersion": VERSION,
            "cacheKeyType": scope,
            "cacheDuration": "12h",
            "auth": auth,
        });
        let providers = patterns.into_iter().enumerate().map(|(n, patterns)| {
            let name = format!("provider-{n}");
            let program = std::env::current_exe().expect("a path");
            // There already, if this is not the first host.
            drop(symlink(program, self.0.path().join(&name)));
            provider(&name, patterns)
        });
        let config = Config::new(providers)
            .validate(FeatureGates::default())
            .expect("a valid configuration");
        Host::builder(config, self.0.path())
            .runner(FakeRunner::printing(answer.to_string()))
            .build()
            .expect("a good configuration")
    }
}

pub(crate) fn provider(name: &str, match_images: Vec<String>) -> ProviderConfig {
    ProviderConfig {
        name: name.into(),
        match_images,
        default_cache_duration: Some(Duration::from_mins(1).into()),
        api_version: VERSION.into(),
        ..ProviderConfig::default()
    }
}

pub(crate) fn pull(image: &str) -> Pull {
    Pull::parse(image).expect("an image")
}

/// A lookup that needs nothing but the cache, so that no runtime is in the way.
pub(crate) fn look_up(host: &Host, pull: &Pull) -> Answer {
    match pin!(host.credentials(pull)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("the answer is in the cache"),
    }
}

/// Has it answered once.
pub(crate) fn warm_up(host: &Host, pull: &Pull) {
    let answer = runtime().block_on(host.credentials(pull));
    assert_eq!((answer.errors().count(), answer.credentials.is_empty()), (0, false), "{answer:?}");
}

pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Builds the plugin of cold lookups into a folder.
pub(crate) fn build_plugin(folder: &Path, name: &str) {
    let source = folder.join(format!("{name}.rs"));
    fs::write(&source, include_str!("static_plugin.rs")).expect("a new file");
    let built = Command::new("rustc")
        .args(["--edition=2024", "-O", "-Cpanic=abort", "-Cstrip=symbols"])
        .args(["-Ctarget-feature=+crt-static".as_ref(), source.as_os_str(), "-o".as_ref()])
        .arg(folder.join(name))
        .status();
    assert!(built.expect("rustc is there").success(), "the plugin does not build");
}

/// Three providers with twelve patterns each, as the clouds' manuals give them.
pub(crate) fn three_clouds() -> Vec<Vec<String>> {
    let amazon = [
        "*.dkr.ecr.*.amazonaws.com",
        "*.dkr-ecr.*.on.aws",
        "*.dkr.ecr.*.amazonaws.com.cn",
        "*.dkr-ecr.*.on.amazonwebservices.com.cn",
        "*.dkr.ecr-fips.*.amazonaws.com",
        "*.dkr-ecr-fips.*.on.aws",
        "*.dkr.ecr.us-iso-east-1.c2s.ic.gov",
        "*.dkr.ecr.us-iso-west-1.c2s.ic.gov",
        "*.dkr.ecr.us-isob-east-1.sc2s.sgov.gov",
        "*.dkr.ecr.us-isof-south-1.csp.hci.ic.gov",
        "public.ecr.aws",
        "ecr-public.aws.com",
    ];
    let google = [
        "gcr.io",
        "*.gcr.io",
        "*.pkg.dev",
        "container.cloud.google.com",
        "us.gcr.io/team",
        "eu.gcr.io/team",
        "asia.gcr.io/team",
        "europe-docker.pkg.dev/team",
        "us-docker.pkg.dev/team",
        "mirror.gcr.io",
        "marketplace.gcr.io",
        "k8s.gcr.io",
    ];
    let own = [
        "*.azurecr.io",
        "*.azurecr.cn",
        "*.azurecr.de",
        "*.azurecr.us",
        "mcr.microsoft.com",
        "registry.example",
        "registry.example:5000",
        "registry.example/team",
        "*.registry.example",
        "*.registry.example:5000",
        "mirror*.registry.example",
        "docker.io/team",
    ];
    [amazon, google, own].map(|patterns| patterns.map(String::from).into()).into()
}

/// Ten thousand patterns, dealt to three providers in turn.
pub(crate) fn ten_thousand(pattern: impl Fn(usize) -> String) -> Vec<Vec<String>> {
    (0..3).map(|first| (first..10_000).step_by(3).map(&pattern).collect()).collect()
}

/// A pattern for a host of its own.
pub(crate) fn own_host(n: usize) -> String {
    format!("registry-{n}.example")
}

/// A pattern for an account of its own.
pub(crate) fn account(n: usize) -> String {
    format!("{}.dkr.ecr.eu-west-1.amazonaws.com", 123_456_780_000 + n)
}

/// Patterns of many sorts, in turn.
pub(crate) fn mixed(n: usize) -> String {
    match n % 4 {
        0 => account(n),
        1 => format!("*.dkr.ecr.region-{n}.amazonaws.com"),
        2 => format!("registry-{n}.example:5000/team"),
        _ => format!("team{n}-*.pkg.dev/project/repository{n}"),
    }
}
