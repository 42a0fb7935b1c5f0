//! One thing that is wrong with a kubeconfig, in upstream's words.

use keyfob_api::Quoted;
use thiserror::Error;

use crate::{FileError, PolicyError};

/// One thing that is wrong with a kubeconfig. Names are those of contexts, clusters and users.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigProblem {
    /// Nothing says where the server is.
    #[error(
        "no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
    )]
    Empty,
    /// No context has the name.
    #[error("context was not found for specified context: {0}")]
    NoContext(String),
    /// A context has no name.
    #[error("empty context name is not allowed")]
    NamelessContext,
    /// A context names no user, or no cluster.
    #[error("{what} was not specified for context {}", Quoted(context))]
    NotSpecified {
        /// Which of them.
        what: &'static str,
        /// The context.
        context: String,
    },
    /// A context names a user, or a cluster, that is not there.
    #[error("{what} {} was not found for context {}", Quoted(name), Quoted(context))]
    NotThere {
        /// Which of them.
        what: &'static str,
        /// Its name.
        name: String,
        /// The context.
        context: String,
    },
    /// A context's namespace cannot be one.
    #[error(
        "namespace {} for context {} does not conform to the kubernetes DNS_LABEL rules",
        Quoted(namespace),
        Quoted(context)
    )]
    Namespace {
        /// The namespace.
        namespace: String,
        /// The context.
        context: String,
    },
    /// There is no cluster, or nothing in it.
    #[error("cluster has no server defined")]
    EmptyCluster,
    /// A cluster has no server.
    #[error("{}", no_server(.0))]
    NoServer(String),
    /// A cluster's proxy cannot be one. What may hold a password is hidden.
    #[error("invalid 'proxy-url' {} for cluster {}: {reason}", Quoted(url), Quoted(cluster))]
    Proxy {
        /// Its address, if that may be shown.
        url: String,
        /// The cluster.
        cluster: String,
        /// Why not. Part of the sentence, so it is no source.
        reason: InvalidProxy,
    },
    /// A cluster has certificates in two places.
    #[error(
        "certificate-authority-data and certificate-authority are both specified for {0}. certificate-authority-data will override."
    )]
    TwoAuthorities(String),
    /// A user has a certificate in two places.
    #[error(
        "client-cert-data and client-cert are both specified for {0}. client-cert-data will override."
    )]
    TwoCertificates(String),
    /// A user has a key in two places.
    #[error(
        "client-key-data and client-key are both specified for {0}; client-key-data will override"
    )]
    TwoKeys(String),
    /// A user has a certificate and no key.
    #[error(
        "client-key-data or client-key must be specified for {0} to use the clientCert authentication method."
    )]
    NoKey(String),
    /// A file that is named cannot be read.
    #[error("unable to read {field} {} for {owner} due to {error}", error.path.display())]
    File {
        /// By which field: upstream's name for it.
        field: &'static str,
        /// By whom.
        owner: String,
        /// Why.
        error: FileError,
    },
    /// A user has a plugin and an `auth-provider`.
    #[error("authProvider cannot be provided in combination with an exec plugin for {0}")]
    ExecAndAuthProvider(String),
    /// A user's plugin lacks what it must have.
    #[error("{what} must be specified for {user} to use exec authentication plugin")]
    Exec {
        /// What is missing.
        what: &'static str,
        /// The user.
        user: String,
    },
    /// A user's plugin has a mode that there is not.
    #[error("invalid interactiveMode for {user}: {}", Quoted(mode))]
    InteractiveMode {
        /// The user.
        user: String,
        /// The mode.
        mode: String,
    },
    /// A user's plugin is under a policy that cannot be meant.
    #[error("allowlist misconfiguration: {0}")]
    Policy(PolicyError),
    /// A user has a token, and a name or a password.
    #[error(
        "more than one authentication method found for {0}; found [token basicAuth], only one is allowed"
    )]
    TwoMethods(String),
    /// A user is to act as somebody who is not named.
    #[error("requesting uid, groups or user-extra for {0} without impersonating a user")]
    ImpersonationOfNobody(String),
}

/// Why a proxy's address cannot be one. What may hold a password is hidden.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidProxy {
    /// It is no URL.
    #[error("could not parse: {0}")]
    NotAUrl(String),
    /// Nobody speaks to proxies of this scheme.
    #[error("unsupported scheme {}, must be http, https, or socks5", Quoted(.0))]
    Scheme(String),
}

fn no_server(cluster: &str) -> String {
    match cluster {
        "" => "default cluster has no server defined".to_owned(),
        name => format!("no server found for cluster {}", Quoted(name)),
    }
}
