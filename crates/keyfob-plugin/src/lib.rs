//! Write a Kubernetes credential plugin: one trait, one `main`.
//!
//! [`ImageCredentials`] answers the kubelet (and any other host of credential providers) for an image;
//! [`ClusterCredentials`] answers kubectl (and any other reader of a kubeconfig) for a cluster. A whole plugin:
//!
//! ```no_run
#![doc = include_str!("../examples/password-file.rs")]
//! ```
//!
//! What [`main`] does around it:
//!
//! - reads the request in every version, and in the first KEP's dialect, and answers in the version asked for;
//! - keeps stdout for the protocol: what else prints there goes to stderr;
//! - turns a [`Failure`] into exit code 1 and one line on stderr, without the secrets of the run;
//! - ends before the kubelet's minute does, and says which step used the time;
//! - checks the [`Answer`]: keys parse, the pod's token is not handed out by mistake, nothing outlives its credential;
//! - answers `docker-credential-*` callers too, who often end up here by mistake.
//!
//! A program that has a `main` already reads what a kubeconfig's client asks with [`ExecInfo`].
//!
//! [`testing`] drives a provider without a process. `keyfob-contract` runs any plugin binary through the whole contract;
//! `keyfob conformance BIN` prints its report.

mod answer;
mod asked;
mod call;
mod check;
mod cluster;
mod docker_helper;
mod exec_info;
mod failure;
mod fitting;
mod lifetime;
mod plugin;
mod process;
mod request;
pub mod testing;

pub use answer::Answer;
pub use call::Call;
pub use cluster::{ClusterAnswer, ClusterCredentials, ClusterRequest, cluster_main};
pub use exec_info::{AnonymousConfig, ExecInfo, LoadError};
pub use failure::{Doing, Failure};
pub use keyfob_api::{CacheKeyType, ExecCluster, ExecVersion, ProviderVersion, Secret};
pub use keyfob_exec::{Clock, Environment, SystemEnvironment};
pub use lifetime::Margin;
pub use plugin::{ImageCredentials, Plugin, main};
pub use request::ImageRequest;
