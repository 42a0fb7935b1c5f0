#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(any(
        feature = "acr",
        feature = "docker-config",
        feature = "echo",
        feature = "ecr",
        feature = "exchange",
        feature = "exec",
        feature = "gcp"
    )),
    expect(dead_code, reason = "a build without plugins runs none")
)]

#[cfg(feature = "acr")]
pub mod acr;
#[cfg(any(feature = "docker-config", feature = "exec"))]
mod credential_helper;
#[cfg(feature = "docker-config")]
pub mod docker_config;
#[cfg(feature = "echo")]
pub mod echo;
#[cfg(feature = "ecr")]
pub mod ecr;
#[cfg(feature = "exchange")]
pub mod exchange;
#[cfg(feature = "exec")]
pub mod exec;
#[cfg(any(feature = "acr", feature = "ecr"))]
mod fallback;
#[cfg(feature = "gcp")]
pub mod gcp;
#[cfg(feature = "http")]
pub mod http;
#[cfg(any(feature = "acr", feature = "gcp"))]
mod klog;
mod program;
#[cfg(any(feature = "echo", feature = "exchange", feature = "exec", feature = "gcp"))]
mod registry_pattern;
mod world;

pub use program::{CommonArgs, Provider, ProviderArgs};
pub use world::World;

/// Every plugin that this build has.
pub const ALL: &[Provider] = &[
    #[cfg(feature = "ecr")]
    ecr::PROVIDER,
    #[cfg(feature = "gcp")]
    gcp::PROVIDER,
    #[cfg(feature = "acr")]
    acr::PROVIDER,
    #[cfg(feature = "exchange")]
    exchange::PROVIDER,
    #[cfg(feature = "echo")]
    echo::PROVIDER,
    #[cfg(feature = "docker-config")]
    docker_config::PROVIDER,
    #[cfg(feature = "exec")]
    exec::PROVIDER,
];

/// The plugin of this name: the short one, or the program's.
pub fn named(name: &str) -> Option<&'static Provider> {
    ALL.iter().find(|provider| provider.name == name || provider.program == name)
}
