#![doc = include_str!("../README.md")]
//!
//! # The main types
//!
//! - [`LoadingRules`] and [`Kubeconfig`]: the files, merged; [`ClientConfig`]: what a context and its overrides come to.
//! - [`ExecConfig`]: the plugin of a user; [`PluginPolicy`] and [`Kuberc`]: whether it may be run.
//! - [`Authenticators`] and [`Authenticator`]: run the plugin when needed; [`Credential`]: its answer, with a generation.
//! - [`ExecLayer`]: the header of each request; [`Rotating`]: connections that follow the client certificate.
//! - [`Behaviour`]: where this crate does better than client-go, and a switch back to what client-go does.

mod authenticator;
mod authenticators;
mod behaviour;
mod client_config;
mod credential;
mod exec_config;
mod identity;
#[cfg(feature = "kube")]
mod kube;
mod kubeconfig;
mod kuberc;
mod layer;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "metrics/disabled.rs"]
mod metrics;
mod policy;
mod rotating;
mod terminal;

#[cfg(feature = "kube")]
pub use self::kube::{ClientError, Clients};
pub use authenticator::{
    AuthError, Authenticator, AuthenticatorStatus, Help, IdentityObserver, NotInteractive,
    StartError,
};
pub use authenticators::{Authenticators, UnusableExec, World};
pub use behaviour::{Behaviour, OldConnections};
pub use client_config::{
    ClientConfig, ClientConfigError, EXEC_EXTENSION, FileError, FileProblem, Impersonation,
    InvalidAuthorities, ServerTls, StaticCredentials, UnusableConfig,
};
pub use credential::{Credential, UnusableToken};
pub use exec_config::{ExecConfig, InteractiveMode};
pub use identity::{Identity, IdentityError, SkippedBlocks};
pub use kubeconfig::{
    AuthProvider, Cluster, ConfigProblem, Context, Dialect, ExecEdit, Extensions,
    InvalidConfiguration, InvalidProxy, Kubeconfig, KubeconfigError, LoadError, LoadProblem,
    LoadingRules, NotFound, Overrides, RelativePaths, Selection, Source, User, printable_hint,
};
pub use kuberc::{Kuberc, KubercError, PreferenceError, PreferenceProblem};
pub use layer::{ExecError, ExecLayer, ExecService, ReplayBody};
pub use policy::{
    Allowed, Denied, LookPathError, PluginPolicy, PolicyError, PolicyFlagsError, PolicyType,
};
pub use rotating::{Opened, Rotating, presenting};
pub use terminal::Messages;
