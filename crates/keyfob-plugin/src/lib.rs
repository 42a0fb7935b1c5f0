#![doc = include_str!("../README.md")]
//!
//! # The main types
//!
//! - [`ImageCredentials`] and [`main`], or [`Plugin`] for more settings: a plugin for image credentials.
//! - [`ClusterCredentials`] and [`cluster_main`]: a plugin for a kubeconfig.
//! - [`Answer`] and [`ClusterAnswer`]: what a plugin answers; [`Failure`] and [`Doing`]: why it cannot.
//! - [`Call`]: one run of a plugin, with its clock, its deadline and the secrets that it must not show.
//! - [`ExecInfo`]: for a program that has a `main` already, what a kubeconfig's client asks.
//! - [`testing`]: asks a provider without a process.
//!
//! # What `main` does
//!
//! - It reads the request in every version, and in the first KEP's dialect, and answers in the version asked for.
//! - It keeps stdout for the protocol: what else prints there goes to stderr.
//! - It turns a [`Failure`] into exit code 1 and one line on stderr, without the secrets of the run.
//! - It ends before the kubelet's minute does, and says which step used the time.
//! - It checks the [`Answer`]: keys parse, the pod's token is not handed out by mistake, nothing outlives its credential.
//! - It answers `docker-credential-*` callers too, who often end up here by mistake.

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
