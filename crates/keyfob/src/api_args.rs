//! The flags that lead to a cluster, and the client that is made with them.

use std::{io, net::IpAddr, path::PathBuf, time::Duration};

use clap::Args;
use keyfob_control::facts::plain;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use thiserror::Error;

use crate::{Outcome, Verdict, match_images::shown};

/// Which cluster is asked.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ApiArgs {
    /// The kubeconfig. Without it: `$KUBECONFIG`, else `~/.kube/config`, else the service account of the pod this runs in.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig. Without it: the current one.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// A client, the address of the server it asks, and the file of the token it shows, if it has one.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) client: Client,
    pub(crate) server: String,
    pub(crate) token_file: Option<PathBuf>,
}

impl ApiArgs {
    /// Whether a flag names a cluster.
    pub(crate) fn named(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// Makes the client; nothing is asked yet. It must be called within a runtime.
    pub(crate) async fn open(&self) -> Result<Api, ApiError> {
        Api::new(self.config().await?)
    }

    async fn config(&self) -> Result<Config, ApiError> {
        match self.read() {
            Ok(read) => {
                let contexts =
                    read.contexts.iter().map(|context| context.name.clone()).collect::<Vec<_>>();
                let options =
                    KubeConfigOptions { context: self.context.clone(), ..Default::default() };
                let config = Config::from_custom_kubeconfig(read, &options).await;
                config.map_err(|error| self.unusable(&error, &contexts))
            }
            Err(error) if is_absent(&error) && !self.named() => {
                Config::incluster().map_err(|error| ApiError::NoCluster(error.to_string()))
            }
            Err(error) => Err(self.unusable(&error, &[])),
        }
    }

    fn read(&self) -> Result<Kubeconfig, KubeconfigError> {
        match &self.kubeconfig {
            Some(file) => Kubeconfig::read_from(file),
            None => Kubeconfig::read(),
        }
    }

    fn unusable(&self, error: &KubeconfigError, contexts: &[String]) -> ApiError {
        let file = match &self.kubeconfig {
            Some(file) => shown(&file.to_string_lossy()).into_owned(),
            None => "of $KUBECONFIG or ~/.kube/config".to_owned(),
        };
        let contexts = contexts.iter().map(|name| shown(name).into_owned()).collect::<Vec<_>>();
        ApiError::Kubeconfig { file, fault: fault(error, &contexts.join(", ")) }
    }
}

impl Api {
    /// A client of the server that a kubeconfig's text leads to.
    pub(crate) async fn of(kubeconfig: &str) -> Result<Self, ApiError> {
        let unusable = |error| {
            let fault = fault(&error, "none");
            ApiError::Kubeconfig { file: "of the embedded API server".to_owned(), fault }
        };
        let read = Kubeconfig::from_yaml(kubeconfig).map_err(unusable)?;
        let options = KubeConfigOptions::default();
        Self::new(Config::from_custom_kubeconfig(read, &options).await.map_err(unusable)?)
    }

    fn new(mut config: Config) -> Result<Self, ApiError> {
        // How long an answer may take is for whoever asks.
        config.connect_timeout = Some(Duration::from_secs(5));
        // Whoever asks learns what the server said, and not that it took too long.
        config.default_retry = false;
        // The one TLS stack of this process; it fails only if somebody chose it before.
        rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
        hide_user(&mut config);
        forget_proxy(&mut config);
        let server = config.cluster_url.to_string();
        let token_file = config.auth_info.token_file.clone().map(PathBuf::from);
        let client = Client::try_from(config).map_err(|error| ApiError::Client(plain(&error)))?;
        Ok(Self { client, server, token_file })
    }
}

/// Whoever logs in with the address is told to nobody, and no client sends it.
fn hide_user(config: &mut Config) {
    let url = &config.cluster_url;
    let authority = url.authority().and_then(|all| all.as_str().rsplit_once('@'));
    if let Some((user, _host)) = authority
        && let Ok(url) = url.to_string().replacen(&format!("{user}@"), "", 1).parse()
    {
        config.cluster_url = url;
    }
}

/// No proxy can reach this machine for us.
fn forget_proxy(config: &mut Config) {
    let host = config.cluster_url.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    if host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback()) {
        config.proxy_url = None;
    }
}

fn is_absent(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(error, _) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

/// What is wrong with a kubeconfig, and what to do. A parser's words may quote the file, and there are tokens in it.
fn fault(error: &KubeconfigError, contexts: &str) -> String {
    match error {
        KubeconfigError::ReadConfig(error, file) => {
            format!("cannot be read: {}: {error}", shown(&file.to_string_lossy()))
        }
        KubeconfigError::FindPath => "cannot be found; name one with --kubeconfig".to_owned(),
        KubeconfigError::Parse(error) => match error.location() {
            Some(at) => format!(
                "is no kubeconfig, from line {}, column {} on; `kubectl config view` reads it too",
                at.line(),
                at.column()
            ),
            None => "is no kubeconfig; `kubectl config view` reads it too".to_owned(),
        },
        KubeconfigError::CurrentContextNotSet if contexts.is_empty() => {
            "has no context: is it a kubeconfig? `kubectl config view` reads it too".to_owned()
        }
        KubeconfigError::CurrentContextNotSet => {
            format!("has no current context; choose one with --context: {contexts}")
        }
        KubeconfigError::LoadContext(name) => {
            format!("has no context {}; it has: {contexts}", shown(name))
        }
        KubeconfigError::LoadClusterOfContext(name) => {
            format!("has no cluster {}, which its context names", shown(name))
        }
        other => format!("is of no use: {other}"),
    }
}

/// Why there is no client.
#[derive(Debug, Error)]
pub(crate) enum ApiError {
    #[error("the kubeconfig {file} {fault}")]
    Kubeconfig { file: String, fault: String },
    #[error(
        "no cluster is known: there is no kubeconfig ($KUBECONFIG, ~/.kube/config), and this is no pod of one ({0}); \
         name a kubeconfig with --kubeconfig"
    )]
    NoCluster(String),
    #[error("the client of the cluster cannot be set up: {0}")]
    Client(String),
}

impl From<ApiError> for Outcome {
    fn from(error: ApiError) -> Self {
        Self {
            stderr: format!("keyfob: {error}\n"),
            verdict: Verdict::WrongInput,
            ..Self::default()
        }
    }
}
