//! Kubeconfigs from real files: what they come to, and what is said of those that come to nothing.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

mod extension;
mod faults;
mod files;
mod overriding;
mod paths;
mod secrets;
mod server;
mod transport;
mod validation;

use std::{
    fs,
    path::{Path, PathBuf},
};

use keyfob_client::{ClientConfig, Kubeconfig, LoadingRules, Overrides};
use tempfile::TempDir;

/// A directory of files.
struct Folder(TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            fs::create_dir_all(folder.at(name).parent().unwrap()).unwrap();
            fs::write(folder.at(name), text).unwrap();
        }
        folder
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// How these files are read, the first to say something first.
    fn rules(&self, names: &[&str]) -> LoadingRules {
        let mut rules = LoadingRules::default();
        rules.precedence = names.iter().map(|name| self.at(name)).collect();
        rules
    }

    fn load(&self, names: &[&str]) -> Result<Kubeconfig, String> {
        self.rules(names).load().map_err(|error| self.shown(&error))
    }

    /// A message with `$DIR` in the place of the directory.
    fn shown(&self, message: &impl ToString) -> String {
        message.to_string().replace(self.path().to_str().unwrap(), "$DIR")
    }
}

/// A kubeconfig of one context, with this cluster and this user in YAML's flow notation.
fn kubeconfig(cluster: &str, user: &str) -> String {
    format!(
        "current-context: lab\n\
         contexts: [{{name: lab, context: {{cluster: hall, user: ada}}}}]\n\
         clusters: [{{name: hall, cluster: {cluster}}}]\n\
         users: [{{name: ada, user: {user}}}]\n"
    )
}

const SERVER: &str = "{server: 'https://hall.test:6443'}";
const PLUGIN: &str = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: hall-login, interactiveMode: Never}}";

fn parsed(cluster: &str, user: &str) -> Kubeconfig {
    Kubeconfig::parse(kubeconfig(cluster, user).as_bytes()).unwrap()
}

/// What such a kubeconfig comes to, or why not.
fn config(cluster: &str, user: &str) -> Result<ClientConfig, String> {
    let config = parsed(cluster, user).client_config(&Overrides::default());
    config.map_err(|error| error.to_string())
}
