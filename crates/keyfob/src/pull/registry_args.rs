//! The flags about registries.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::Args;
use keyfob_exec::SystemEnvironment;
use keyfob_host::HostOptions;
use keyfob_images::{MirrorError, Mirrors};
use keyfob_oci::{Client, Layout, Patience, Platform, Puller};

use super::screen::Screen;
use crate::host_args::timeout;

/// Where images come from, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Registry")]
pub(super) struct RegistryArgs {
    /// For what the image is to be: `linux/arm64`, `linux/arm/v7`. Without it, for this machine.
    #[arg(long, value_name = "OS/ARCH[/VARIANT]")]
    platform: Option<Platform>,
    /// Where the same images are, with credentials of its own: `docker.io=mirror.example/hub`. Asked first; may be repeated.
    #[arg(long, value_name = "HOST[/PATH]=HOST[/PATH]")]
    mirror: Vec<String>,
    /// Speak plain http with this registry: `host`, or `host:port`. Without it, only with this machine. May be repeated.
    #[arg(long, value_name = "HOST")]
    insecure_registry: Vec<String>,
    /// Trust the certificates of this PEM file, and no others.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// How many blobs are fetched at a time.
    #[arg(long, value_name = "N", default_value = "4")]
    parallel: NonZeroUsize,
    /// How often something is tried again that may pass: a connection that breaks off, a registry that is busy.
    #[arg(long, value_name = "N", default_value_t = Patience::default().attempts.saturating_sub(1))]
    retries: u32,
    /// How long a registry may be silent, or send less than 1000 bytes a second on average. Manifests and tokens must be
    /// complete within it and a second for every 16,000 bytes.
    #[arg(long, value_name = "DURATION", value_parser = timeout, default_value = "30s")]
    stall_timeout: Duration,
    /// If every credential fails, try without any. A kubelet does so only if there is none.
    #[arg(long)]
    anonymous_last: bool,
}

impl RegistryArgs {
    pub(super) fn mirrors(&self) -> Result<Mirrors, MirrorError> {
        Mirrors::parse(&self.mirror)
    }

    pub(super) fn host_options(&self) -> HostOptions {
        let mut options = HostOptions::default();
        options.anonymous_last = self.anonymous_last;
        options
    }

    pub(super) fn puller(&self, layout: Layout, screen: Screen) -> Puller {
        let patience = Patience { attempts: self.retries.saturating_add(1), ..Patience::default() };
        let client = Client::builder(&SystemEnvironment)
            .ca_file(self.ca_file.clone())
            .insecure(&self.insecure_registry)
            .patience(patience)
            .stall_timeout(self.stall_timeout)
            .build();
        let puller = Puller::builder(client, layout).parallel(self.parallel.get()).progress(screen);
        match &self.platform {
            Some(platform) => puller.platform(platform.clone()).build(),
            None => puller.build(),
        }
    }
}
