//! From a kubeconfig's `exec` user to authenticated requests.
//!
//! Kubeconfig files → [`Kubeconfig`] → a context → [`ClientConfig`] with an [`ExecConfig`] → [`Authenticators::get`] → an
//! [`Authenticator`] that runs the plugin when it must → a [`Credential`] with a generation → a header ([`ExecLayer`]) and
//! a handshake ([`Rotating`]). A 401 names the generation it used.
//!
//! Beside it, [`ExecCache`] keeps what plugins answer for all processes of a user.

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
