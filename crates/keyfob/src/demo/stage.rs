//! A temporary directory with plugins and a configuration, as on a node.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::plugin::TOKEN;

/// Answers for a whole registry.
pub(super) const REGISTRY: &str = "registry-plugin";
/// Answers for single images.
pub(super) const IMAGES: &str = "images-plugin";
/// Fails, and shouts a secret.
pub(super) const SECRETS: &str = "failing-plugin";
/// Never answers.
pub(super) const STUCK: &str = "hanging-plugin";

/// It is gone when this is dropped.
#[derive(Debug)]
pub(super) struct Stage {
    directory: TempDir,
    plugins: PathBuf,
    config: PathBuf,
}

impl Stage {
    pub(super) fn build() -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("keyfob-demo-").tempdir()?;
        let plugins = directory.path().join("plugins");
        let config = directory.path().join("config.yaml");
        fs::create_dir(&plugins)?;
        let this_program = std::env::current_exe()?;
        for name in [REGISTRY, IMAGES, SECRETS, STUCK] {
            symlink(&this_program, plugins.join(name))?;
        }
        fs::write(&config, configuration())?;
        Ok(Self { directory, plugins, config })
    }

    pub(super) fn plugins(&self) -> &Path {
        &self.plugins
    }

    pub(super) fn config(&self) -> &Path {
        &self.config
    }

    /// Removes everything, and says if that went wrong.
    pub(super) fn close(self) -> io::Result<()> {
        self.directory.close()
    }
}

fn configuration() -> String {
    let providers = [
        provider(REGISTRY, "registry.example:5000", "per-registry"),
        provider(IMAGES, "*.images.example", "per-image"),
        provider(SECRETS, "*.images.example/secret", "fail"),
        provider(STUCK, "*.images.example/slow", "hang"),
    ];
    "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n".to_owned()
        + &providers.concat()
}

fn provider(name: &str, pattern: &str, manner: &str) -> String {
    format!(
        "- name: {name}\n  matchImages: [\"{pattern}\"]\n  defaultCacheDuration: 10m\n  \
         apiVersion: credentialprovider.kubelet.k8s.io/v1\n  args: [demo-plugin, {manner}]\n  \
         env: [{{name: DEMO_TOKEN, value: {TOKEN}}}]\n"
    )
}
