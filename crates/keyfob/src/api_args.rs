//! The flags that lead to a cluster, and the client that is made with them.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::Args;
use keyfob_api::{Claims, SecretSet};
use keyfob_client::{Authenticators, Clients, Kubeconfig, KubeconfigError, Overrides};
use keyfob_exec::SystemEnvironment;
use kube::{Client, Config};
use thiserror::Error;

use crate::kube::{
    chosen::{Chosen, Cluster, Wanted, kubeconfigs},
    failure::KubeFailure,
};

/// Which cluster is asked.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ApiArgs {
    /// The kubeconfigs: one, which must be there, or several with colons between them. Without it: `$KUBECONFIG`, else
    /// `~/.kube/config`, else the service account of the pod this runs in.
    #[arg(long, value_name = "PATHS")]
    pub(crate) kubeconfig: Option<OsString>,
    /// The context of the kubeconfig. Without it: the current one.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// A client, the address of the server it asks, its user, the file of the token it shows, if it has one, and what it has
/// shown.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) client: Client,
    pub(crate) server: String,
    pub(crate) user: ClaimedUser,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) secrets: SecretSet,
}

/// Who a user is by its own certificate or token, or else what the kubeconfig calls it. Only the server knows for sure.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimedUser {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

impl ClaimedUser {
    fn of(chosen: &Chosen) -> Self {
        let user = &chosen.config.user;
        if let Ok(Some(certificate)) = user.identity()
            && let Some(name) = certificate.common_name()
        {
            return Self { name: name.to_owned(), groups: certificate.organizations().to_vec() };
        }
        let subject = user.token.as_ref().and_then(Claims::of).and_then(|claims| claims.subject);
        let name = subject.unwrap_or_else(|| chosen.selection.user_name.clone());
        Self { name, groups: Vec::new() }
    }
}

impl ApiArgs {
    /// Whether a flag names a cluster.
    pub(crate) fn named(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// Makes the client; nothing is asked yet, and the user's plugin is run when something is. It must be called within a
    /// runtime.
    pub(crate) fn open(&self) -> Result<Api, ApiError> {
        match self.wanted().choose(&SystemEnvironment) {
            Ok(chosen) => Api::new(chosen),
            Err(KubeFailure::Nothing { .. }) if !self.named() => Api::of_this_pod(),
            Err(failure) => Err(failure.into()),
        }
    }

    fn wanted(&self) -> Wanted {
        let mut overrides = Overrides::default();
        overrides.context_name = self.context.clone().unwrap_or_default();
        let rules = kubeconfigs(self.kubeconfig.as_deref(), &SystemEnvironment);
        Wanted { rules, overrides, kuberc: None }
    }
}

impl Api {
    /// A client of the server that a kubeconfig's text leads to.
    pub(crate) fn of(kubeconfig: &str) -> Result<Self, ApiError> {
        let kubeconfig = Kubeconfig::parse(kubeconfig.as_bytes()).map_err(ApiError::Embedded)?;
        Self::new(Wanted::default().choose_from(&kubeconfig, &SystemEnvironment)?)
    }

    fn new(chosen: Chosen) -> Result<Self, ApiError> {
        chosen.warn();
        let cluster = Cluster::new(chosen, Authenticators::system());
        let (client, server) = cluster.connect()?;
        let token_file = cluster.chosen.config.user.token_file.clone();
        let user = ClaimedUser::of(&cluster.chosen);
        let secrets = cluster.secrets().clone();
        Ok(Self { client, server, user, token_file, secrets })
    }

    fn of_this_pod() -> Result<Self, ApiError> {
        let mut config =
            Config::incluster().map_err(|error| ApiError::NoCluster(error.to_string()))?;
        config.connect_timeout = Some(Duration::from_secs(5));
        config.default_retry = false;
        let server = config.cluster_url.to_string();
        let token_file = config.auth_info.token_file.clone().map(PathBuf::from);
        let clients = Clients::system();
        let client = clients.connect_kube(config).map_err(KubeFailure::from)?;
        let user =
            ClaimedUser { name: "this pod's service account".to_owned(), ..ClaimedUser::default() };
        let secrets = clients.secrets().clone();
        Ok(Self { client, server, user, token_file, secrets })
    }
}

/// Why there is no client.
#[derive(Debug, Error)]
pub(crate) enum ApiError {
    #[error(transparent)]
    Cluster(#[from] KubeFailure),
    #[error("the kubeconfig of the embedded API server is none: {0}")]
    Embedded(KubeconfigError),
    #[error(
        "no cluster is known: there is no kubeconfig ($KUBECONFIG, ~/.kube/config), and this is no pod of one ({0}); \
         name a kubeconfig with --kubeconfig"
    )]
    NoCluster(String),
}
