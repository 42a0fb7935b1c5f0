#![doc = include_str!("../README.md")]
//!
//! # The main types
//!
//! - [`Logins`]: what one source gave, with the registry key of each login.
//! - [`DockerConfig`], [`NodeDockerConfig`]: logins from docker's configuration files.
//! - [`PullSecret`]: logins from a pod's `imagePullSecrets`.
//! - [`select()`]: the credentials for an image from several sources, in order.

mod docker_config;
mod logins;
mod node_docker_config;
mod pull_secret;

pub use docker_config::{DockerConfig, DockerConfigError, DockerConfigProblem};
pub use logins::{
    Credential, Login, Logins, ProviderSource, SecretCoordinates, ServiceAccountCoordinates,
    SkippedKey, Source, select,
};
pub use node_docker_config::{DockerConfigFileError, NodeDockerConfig};
pub use pull_secret::{PullSecret, PullSecretError, PullSecretFileError};
