//! What the demo plays on: a registry and an API server on loopback, and a temporary directory with what a node has.
//!
//! ```text
//! admin.kubeconfig, node-1.kubeconfig   the ways to the API server
//! developer.kubeconfig                  another, for a user whose plugin is this program
//! node-login.json                       the node's login at the registry
//! config.yaml, plugins/                 the CredentialProviderConfig and its plugins
//! agent.yaml, agent.sock                the node agent, as long as it is shown
//! oci/                                  the images on disk, and the records of who may use them
//! keyfob, docker-credential-keyfob      this program
//! copy/                                 a copy of this program, which is another one to the agent
//! ```

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use clap::Parser as _;
use keyfob_api::Secret;
use keyfob_exec::SystemClock;
use keyfob_oci::Platform;
use keyfob_playground::{
    embedded,
    registry::{self, ImageToMake, Registry, Trust, User},
};
use serde_json::json;
use tempfile::TempDir;

use super::{
    cluster::{self, AUDIENCE, PODS, Pod},
    issuer::Issuer,
    kubeconfig_user,
    node::told,
};
use crate::{
    Verdict,
    api_args::Api,
    apiserver::Folder,
    cli::{Cli, Command},
    provider,
};

/// For every pod: the node has a login for it.
pub(super) const BASE: &str = "platform/base:v1";
/// The same, but plugins may also get a login as the pod.
pub(super) const TOOLS: &str = "platform/tools:v1";
/// A team's own.
pub(super) const APP: &str = "team-a/app:v1";
/// The image of the team that is new.
pub(super) const REPORTS: &str = "team-c/reports:v1";

/// The kubeconfig of somebody who may do everything.
pub(super) const ADMIN: &str = "admin.kubeconfig";
/// The kubeconfig of a user with a plugin.
pub(super) const DEVELOPER: &str = "developer.kubeconfig";

/// Where everything is put, for its owner alone. It is gone when this is dropped.
pub(super) fn directory() -> io::Result<TempDir> {
    let owners = Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix("keyfob-demo-").permissions(owners).tempdir()
}

/// The servers end when this is dropped.
pub(super) struct Stage {
    path: PathBuf,
    pub(super) registry: registry::Running,
    pub(super) cluster: embedded::Running,
    /// The API server, for somebody who may do everything.
    pub(super) admin: Api,
}

impl Stage {
    pub(super) async fn build(directory: &Path) -> Result<Self, String> {
        let path = directory.canonicalize().map_err(told)?;
        let cluster = cluster::start().await?;
        let admin = cluster.admin_kubeconfig().ok_or("the system gives no random numbers")?;
        let admin = Api::of(admin.expose()).map_err(told)?;
        let issuer = Issuer::ask(&admin.client, cluster.issuer(), Arc::new(SystemClock)).await?;
        let password = password()?;
        let registry = start_registry(&password, issuer).await?;
        let stage = Self { path, registry, cluster, admin };
        let filled = stage.fill(&password);
        filled.map_err(|error| format!("cannot fill {}: {error}", stage.path.display()))?;
        stage.install()?;
        Ok(stage)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// An image by its full name.
    pub(super) fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.registry.address())
    }

    /// The files that are not the plugins'. Those with secrets are their owner's alone.
    fn fill(&self, password: &Secret<String>) -> Result<(), Box<dyn std::error::Error>> {
        Folder::open(Some(&self.path))?.fill(&self.cluster)?;
        let login = Secret::new(format!("node:{}", password.expose()));
        let auth = Secret::new(BASE64_STANDARD.encode(login.expose()));
        let address = self.registry.address().to_string();
        let config = json!({"auths": {address: {"auth": auth.expose()}}});
        let config = Secret::new(config.to_string());
        let path = self.file("node-login.json");
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(config.expose().as_bytes())?;
        symlink(std::env::current_exe()?, self.file("keyfob"))?;
        fs::write(self.file(DEVELOPER), kubeconfig_user::kubeconfig(self))?;
        Ok(())
    }

    /// What anybody would type: links to this program, and the configuration that goes with them.
    fn install(&self) -> Result<(), String> {
        let (plugins, config) = (self.file("plugins"), self.file("config.yaml"));
        let [plugins, config] = [plugins, config].map(|path| path.display().to_string());
        let here = |name: &str, pattern: &str| format!("{name}={}", self.image(pattern));
        let of_node = here("docker-config", "platform");
        let login = format!("docker-config=--path={}", self.file("node-login.json").display());
        let of_pods = [PODS.map(|pod| pod.namespace).as_slice(), &["platform/tools"]].concat();
        let of_pods = of_pods.into_iter().map(|pattern| here("exchange", pattern));
        let url = format!("exchange=--url={}/exchange", self.registry.url());
        let mut words: Vec<String> = ["keyfob", "provider", "install", &plugins]
            .into_iter()
            .chain(["--providers", "docker-config,exchange", "--config-file", &config])
            .chain(["--match-images", &of_node, "--args", &login])
            .chain(["--args", "docker-config=--cache-duration=10m"])
            .chain(["--args", &url, "--args", "exchange=--allow-http"])
            .chain(["--token-audience", AUDIENCE])
            .map(str::to_owned)
            .collect();
        words.extend(of_pods.flat_map(|pattern| ["--match-images".to_owned(), pattern]));
        let command = Cli::try_parse_from(words).map_err(told)?.command;
        let Command::Provider(command) = command else { return Err("no plugins".to_owned()) };
        let done = provider::run(&command);
        if done.verdict == Verdict::Yes { Ok(()) } else { Err(done.stderr) }
    }
}

/// It knows the node by its password, and pods by what the cluster says of them.
async fn start_registry(
    password: &Secret<String>,
    issuer: Issuer,
) -> Result<registry::Running, String> {
    let pods = |Pod { namespace, name }| User::service_account(namespace, name).may_pull(namespace);
    let node = User::new("node", password.clone()).may_pull("platform");
    let options = registry::Options {
        users: [vec![node], PODS.map(pods).into()].concat(),
        trust: Some(Trust::new(AUDIENCE, issuer)),
        ..registry::Options::default()
    };
    let registry = Registry::start(options).await.map_err(told)?;
    for name in [BASE, TOOLS, APP, REPORTS] {
        let (repository, tag) = name.split_once(':').unwrap_or((name, "latest"));
        let pushed = registry.push_image(repository, tag, &image(name)).await;
        pushed.map_err(told)?;
    }
    Ok(registry)
}

/// An image that shares no layer with another.
fn image(name: &str) -> ImageToMake {
    let layer = |number| format!("layer {number} of {name}\n").repeat(10_000).into_bytes();
    ImageToMake {
        layers: (1..=4).map(layer).collect(),
        platforms: vec![Platform::this_machine().to_string()],
        ..ImageToMake::default()
    }
}

/// As kubeconfigs write certificates.
pub(super) fn base64(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

fn password() -> Result<Secret<String>, String> {
    let mut bytes = [0; 24];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| "the system gives no random numbers")?;
    Ok(Secret::new(BASE64_STANDARD.encode(bytes)))
}
