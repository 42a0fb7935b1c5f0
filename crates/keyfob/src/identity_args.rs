//! The flags that say as whom an image is pulled, and where that service account is known.

mod embedded;
mod node_check;

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use keyfob_api::FeatureGates;
use keyfob_control::{
    facts::Cluster,
    objects::ObjectsError,
    rule::{Policy, node_of},
};
use keyfob_exec::SystemClock;
use keyfob_host::{HostBuilder, KubernetesApi, PodIdentity, PodReference, TokenDirectory};
use keyfob_playground::embedded::{Running, StartError};
use thiserror::Error;

pub(crate) use self::node_check::{Finding, Findings, Standing, is_of_the_audience};
use self::node_check::{Missing, NodeChecked, Rules};
use crate::{
    api_args::{Api, ApiArgs, ApiError},
    explain::command::quoted,
    match_images::shown,
    namespaced::Namespaced,
};

/// As whom it is pulled.
#[derive(Debug, Args)]
#[command(next_help_heading = "Service account")]
pub(crate) struct IdentityArgs {
    /// The service account of the pod that pulls. Providers with tokenAttributes are asked with a token of it.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    service_account: Option<Namespaced>,
    /// The pod that pulls, in the account's namespace; tokens are bound to it.
    #[arg(long, value_name = "NAME")]
    pod: Option<String>,
    /// The pod's uid. Without it the API server is asked.
    #[arg(long, value_name = "UID")]
    pod_uid: Option<String>,
    /// Take tokens from the files of a directory, such as a projected volume, instead of an API server. Files in .yaml or
    /// .json are what `kubectl get serviceaccount -o yaml` prints.
    #[arg(long, value_name = "DIR")]
    token_dir: Option<PathBuf>,
    /// Which API server is asked for the account and its tokens.
    #[arg(long, value_enum, value_name = "WHICH")]
    api: Option<ApiServer>,
    /// The objects of the embedded API server: a file, or a directory of .json, .yaml and .yml files. May be repeated.
    #[arg(long, value_name = "PATH")]
    objects: Vec<PathBuf>,
    /// The audiences that the embedded API server allows to every node.
    #[arg(long, value_name = "AUDIENCES", value_delimiter = ',')]
    allowed_kubelet_audiences: Vec<String>,
    /// The node that pulls. Without it: the pod's. Tokens that it may not request are not requested.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Request tokens as the user of the kubeconfig even if the pod's node may not request them. The answer then is not what
    /// a kubelet gets.
    #[arg(long)]
    as_me: bool,
    #[command(flatten)]
    cluster: ApiArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ApiServer {
    /// A cluster's: see --kubeconfig.
    Cluster,
    /// One in this process, that knows what --objects holds. It is asked as the pod's node; without a pod, or with --as-me,
    /// as an admin.
    Embedded,
}

/// Whoever pulls.
#[derive(Debug)]
pub(crate) struct Puller {
    pub(crate) pod: PodIdentity,
    pub(crate) place: Place,
    /// What is known of the requests for tokens; nothing is if they come from files.
    pub(crate) findings: Option<Arc<Findings>>,
    /// Where a role that is missing is to be added.
    missing: Missing,
    #[expect(dead_code, reason = "it answers until it is dropped")]
    server: Option<Running>,
}

impl Puller {
    /// What is known of the requests for tokens that were made.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.findings.as_ref().map(|findings| findings.all()).unwrap_or_default()
    }

    /// How the requests for tokens differ from a kubelet's, and what to do about it, a line each; refusals are left out if
    /// [`Self::refused`] told them.
    pub(crate) fn warnings(&self, are_refusals_told: bool) -> Vec<String> {
        let findings = self.findings();
        let told = |finding: &&Finding| are_refusals_told && finding.cause("").is_some();
        let others = findings.iter().filter(|finding| !told(finding));
        others.flat_map(|finding| finding.warnings(&self.missing)).collect()
    }

    /// Why a provider that failed with these words has no token for the audience, and what to do about it, if its node may
    /// not have one.
    pub(crate) fn refused(&self, audience: &str, words: &str) -> Option<(String, Vec<String>)> {
        let findings = self.findings();
        let finding = findings.iter().find(|finding| finding.audience == audience)?;
        Some((finding.cause(words)?, finding.remedies(&self.missing)))
    }

    /// That nothing can be said about a node, if tokens come from files.
    pub(crate) fn unchecked(&self) -> Option<String> {
        let Place::Directory(path) = &self.place else { return None };
        Some(format!(
            "whether a node may request such tokens was not checked: they are from {}, and no API server was asked",
            path.display()
        ))
    }
}

/// Where its service account is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A cluster's API server, by its address.
    Cluster(String),
    Directory(PathBuf),
    Embedded,
}

/// Whoever pulls, and where a host is to ask.
pub(crate) struct Opened {
    puller: Puller,
    accounts: Accounts,
}

enum Accounts {
    Api(Box<NodeChecked>),
    Directory(TokenDirectory),
}

impl Opened {
    /// Lets a host ask there.
    pub(crate) fn hand_to(self, host: HostBuilder) -> (HostBuilder, Option<Puller>) {
        let host = match self.accounts {
            Accounts::Api(api) => host.service_accounts(*api),
            Accounts::Directory(directory) => host.service_accounts(directory),
        };
        (host, Some(self.puller))
    }
}

impl IdentityArgs {
    pub(crate) fn is_given(&self) -> bool {
        self.service_account.is_some()
    }

    /// Whether the API server is to run in this process.
    pub(crate) fn is_embedded(&self) -> bool {
        self.api == Some(ApiServer::Embedded)
    }

    /// Refuses flags that do not go together.
    pub(crate) fn check(&self) -> Result<(), IdentityArgsError> {
        let (all, of_embedded) = (self.given(), self.given_for_embedded());
        let is_embedded = self.is_embedded();
        if let (false, Some(flag)) = (self.is_given(), all.first()) {
            return Err(IdentityArgsError::NoAccount(flag));
        }
        if self.pod_uid.is_some() && self.pod.is_none() {
            return Err(IdentityArgsError::NoPod);
        }
        if let [one, other, ..] = *self.places() {
            return Err(IdentityArgsError::TwoPlaces(one, other));
        }
        let of_node = self.given_for_node();
        if let (Some(flag), true) = (of_node.first(), self.token_dir.is_some()) {
            return Err(IdentityArgsError::NothingToCheck(flag));
        }
        match of_embedded.first() {
            Some(flag) if !is_embedded => Err(IdentityArgsError::NotEmbedded(flag)),
            _ if is_embedded && self.objects.is_empty() => Err(IdentityArgsError::NoObjects),
            _ => Ok(()),
        }
    }

    fn places(&self) -> Vec<&'static str> {
        given(&[
            ("--token-dir", self.token_dir.is_some()),
            ("--api embedded", self.is_embedded()),
            ("--api cluster", self.api == Some(ApiServer::Cluster) && !self.cluster.named()),
            ("--kubeconfig", self.cluster.kubeconfig.is_some()),
            ("--context", self.cluster.context.is_some() && self.cluster.kubeconfig.is_none()),
        ])
    }

    fn given_for_embedded(&self) -> Vec<&'static str> {
        given(&[
            ("--objects", !self.objects.is_empty()),
            ("--allowed-kubelet-audiences", !self.allowed_kubelet_audiences.is_empty()),
        ])
    }

    fn given_for_node(&self) -> Vec<&'static str> {
        given(&[("--node", self.node.is_some()), ("--as-me", self.as_me)])
    }

    /// Everything that is given, but for the account itself.
    fn given(&self) -> Vec<&'static str> {
        let pod = given(&[("--pod", self.pod.is_some()), ("--pod-uid", self.pod_uid.is_some())]);
        [pod, self.places(), self.given_for_embedded(), self.given_for_node()].concat()
    }

    /// Opens the place, if an account is given. Nothing is asked yet. It must be called within a runtime.
    pub(crate) async fn open(
        &self,
        timeout: Option<Duration>,
        gates: FeatureGates,
    ) -> Result<Option<Opened>, IdentityArgsError> {
        let Some(pod) = self.identity() else { return Ok(None) };
        let policy = self.policy(gates);
        if let Some(path) = &self.token_dir {
            let directory = TokenDirectory::new(path, Arc::new(SystemClock));
            let place = Place::Directory(path.clone());
            let missing = Missing::Cluster { kubectl: self.kubectl() };
            let puller = Puller { pod, place, findings: None, missing, server: None };
            return Ok(Some(Opened { puller, accounts: Accounts::Directory(directory) }));
        }
        let (place, missing, api, server) = if self.is_embedded() {
            let (api, server) = self.start(&pod, policy.clone()).await?;
            (Place::Embedded, Missing::Objects, api, Some(server))
        } else {
            let api = self.cluster.open()?;
            let missing = Missing::Cluster { kubectl: self.kubectl() };
            (Place::Cluster(api.server.clone()), missing, api, None)
        };
        let accounts = self.accounts(api, policy, timeout);
        if server.is_none() {
            self.check_node(&accounts).await?;
        }
        let findings = Some(accounts.findings.clone());
        let puller = Puller { pod, place, findings, missing, server };
        Ok(Some(Opened { puller, accounts: Accounts::Api(Box::new(accounts)) }))
    }

    /// The API server's rule. The gates of a cluster's are its own, and not to be weakened by a kubelet's list: a node would
    /// be thought to get tokens that it is refused.
    fn policy(&self, gates: FeatureGates) -> Policy {
        Policy {
            gates: if self.is_embedded() { gates } else { FeatureGates::default() },
            allowed_kubelet_audiences: self.allowed_kubelet_audiences.clone(),
            ..Policy::default()
        }
    }

    async fn start(
        &self,
        pod: &PodIdentity,
        policy: Policy,
    ) -> Result<(Api, Running), IdentityArgsError> {
        let who = embedded::Who { pod, node: self.node.as_deref(), as_me: self.as_me };
        embedded::start(&self.objects, policy, &who).await
    }

    /// Refuses a node that the user of the kubeconfig cannot speak for, being another. Who it is says the API server, or
    /// else its own credential.
    async fn check_node(&self, accounts: &NodeChecked) -> Result<(), IdentityArgsError> {
        let Some(named) = &self.node else { return Ok(()) };
        let (user, groups) = accounts.user().await;
        match node_of(&user, &groups) {
            Some(node) if node != named => Err(IdentityArgsError::OtherUser {
                named: shown(named).into(),
                user: shown(&user).into(),
            }),
            _ => Ok(()),
        }
    }

    /// The kubectl that asks the same cluster.
    fn kubectl(&self) -> String {
        let mut words = vec!["kubectl".to_owned()];
        if let Some(paths) = &self.cluster.kubeconfig {
            let paths = paths.to_string_lossy();
            // kubectl's flag takes one file, its variable several.
            if paths.contains(':') {
                words.insert(0, format!("KUBECONFIG={}", quoted(&paths)));
            } else {
                words.extend(["--kubeconfig".to_owned(), quoted(&paths)]);
            }
        }
        if let Some(context) = &self.cluster.context {
            words.extend(["--context".to_owned(), quoted(context)]);
        }
        words.join(" ")
    }

    fn accounts(&self, api: Api, policy: Policy, timeout: Option<Duration>) -> NodeChecked {
        let mut accounts =
            KubernetesApi::new(api.client.clone(), api.server).redacting(api.secrets.clone());
        if let Some(timeout) = timeout {
            accounts = accounts.timeout(timeout);
        }
        NodeChecked {
            accounts,
            cluster: Cluster::new(api.client).redacting(api.secrets),
            user: api.user,
            rules: Rules { node: self.node.clone(), policy, as_me: self.as_me },
            timeout,
            findings: Arc::default(),
        }
    }

    fn identity(&self) -> Option<PodIdentity> {
        let Namespaced { namespace, name } = self.service_account.clone()?;
        let uid = self.pod_uid.clone().unwrap_or_default();
        let pod = self.pod.clone().map(|name| PodReference { name, uid });
        Some(PodIdentity { namespace, service_account: name, pod })
    }
}

fn given(flags: &[(&'static str, bool)]) -> Vec<&'static str> {
    flags.iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| *flag).collect()
}

/// Why the identity flags are invalid.
#[derive(Debug, Error)]
pub(crate) enum IdentityArgsError {
    #[error("{0} needs --service-account NAMESPACE/NAME")]
    NoAccount(&'static str),
    #[error("--pod-uid needs --pod NAME beside it")]
    NoPod,
    #[error("a service account is looked for in one place: leave out {0} or {1}")]
    TwoPlaces(&'static str, &'static str),
    #[error("--api embedded needs --objects PATH: it knows nothing else")]
    NoObjects,
    #[error("{0} is for --api embedded: add that, or leave it out")]
    NotEmbedded(&'static str),
    #[error(
        "{0} is about an API server, and tokens from files are requested from none: leave out {0} or --token-dir"
    )]
    NothingToCheck(&'static str),
    #[error(
        "--node {named} contradicts the kubeconfig, whose user is {user}\nkeyfob: leave out --node, or name another kubeconfig"
    )]
    OtherUser { named: String, user: String },
    #[error(
        "--node {named} contradicts --objects, where pod {pod} runs on {node}\nkeyfob: leave out --node, or write --node {node}"
    )]
    OtherNode { named: String, pod: String, node: String },
    #[error("--service-account is for providers: add --config and --bin-dir")]
    NoProviders,
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("the objects cannot be used")]
    Objects(#[from] ObjectsError),
    #[error("--objects holds no pod {0}; correct --pod, or add the pod")]
    NoSuchPod(String),
    #[error(
        "pod {0} of --objects is on no node, and only its node may ask for its tokens: set spec.nodeName"
    )]
    NoNode(String),
    #[error("the embedded API server cannot be started")]
    Embedded(#[from] StartError),
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Typed {
        #[command(flatten)]
        identity: IdentityArgs,
    }

    fn refusal(flags: &str) -> String {
        let typed = Typed::try_parse_from(["x"].into_iter().chain(flags.split_whitespace()));
        typed.unwrap().identity.check().err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn flags_that_do_not_go_together_are_refused_with_advice() {
        let rows = [
            ("", ""),
            ("--service-account a/b", ""),
            ("--service-account a/b --pod p --pod-uid u --kubeconfig k --context c", ""),
            ("--service-account a/b --api cluster --kubeconfig k", ""),
            ("--service-account a/b --token-dir d", ""),
            (
                "--service-account a/b --api embedded --objects o --allowed-kubelet-audiences x,y",
                "",
            ),
            ("--service-account a/b --node n --as-me", ""),
            ("--as-me", "--as-me needs --service-account NAMESPACE/NAME"),
            ("--service-account a/b --token-dir d --node n", "leave out --node or --token-dir"),
            ("--pod p", "--pod needs --service-account NAMESPACE/NAME"),
            ("--token-dir d", "--token-dir needs --service-account NAMESPACE/NAME"),
            ("--kubeconfig k", "--kubeconfig needs --service-account NAMESPACE/NAME"),
            ("--objects o", "--objects needs --service-account NAMESPACE/NAME"),
            ("--service-account a/b --pod-uid u", "--pod-uid needs --pod"),
            (
                "--service-account a/b --token-dir d --context c",
                "leave out --token-dir or --context",
            ),
            (
                "--service-account a/b --token-dir d --api cluster",
                "leave out --token-dir or --api cluster",
            ),
            (
                "--service-account a/b --api embedded --objects o --kubeconfig k",
                "leave out --api embedded or --kubeconfig",
            ),
            ("--service-account a/b --api embedded", "--api embedded needs --objects PATH"),
            ("--service-account a/b --objects o", "--objects is for --api embedded"),
            (
                "--service-account a/b --allowed-kubelet-audiences o",
                "--allowed-kubelet-audiences is for --api embedded",
            ),
        ];
        for (flags, words) in rows {
            let refusal = refusal(flags);
            assert!(
                refusal.contains(words) && refusal.is_empty() == words.is_empty(),
                "{flags}: {refusal}"
            );
        }
    }
}
