//! Kubeconfigs: what their files say, put together.
//!
//! Files → [`LoadingRules::load`] → [`Kubeconfig`], the first to say something wins → a context and what a program says
//! against it ([`Kubeconfig::select`]) → checked → [`Kubeconfig::client_config`]. Nothing is written here.
//!
//! Upstream: `k8s.io/client-go/tools/clientcmd` and its `api`.
//! Differs: a cluster's extension for plugins may have KEP-541's name `exec` too ([`Dialect`]).

mod decode;
mod edit;
mod entries;
mod error;
mod hint;
mod load;
mod overrides;
mod select;
mod validate;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use keyfob_api::{RawJson, document::StrictIssue};

pub use edit::ExecEdit;
pub use entries::{AuthProvider, Cluster, Context, User};
pub use error::{KubeconfigError, LoadError, LoadProblem};
pub use hint::printable_hint;
pub use load::{LoadingRules, RelativePaths};
pub use select::{NotFound, Overrides, Selection};
pub use validate::{ConfigProblem, InvalidConfiguration, InvalidProxy};

/// Named values that are not ours to understand. `null` is kept as such.
pub type Extensions = BTreeMap<String, Option<RawJson>>;

/// What one kubeconfig says, or several together.
///
/// ```
/// use keyfob_client::{Kubeconfig, Overrides};
///
/// let kubeconfig = Kubeconfig::parse(
///     b"
/// current-context: lab
/// contexts: [{name: lab, context: {cluster: lab, user: ada, namespace: optics}}]
/// clusters: [{name: lab, cluster: {server: 'https://lab.test:6443'}}]
/// users:
/// - name: ada
///   user:
///     exec: {apiVersion: client.authentication.k8s.io/v1, command: lab-login, interactiveMode: Never}
/// ",
/// )?;
/// let config = kubeconfig.client_config(&Overrides::default())?;
/// assert_eq!(config.server, "https://lab.test:6443");
/// assert_eq!(config.namespace, "optics");
/// assert_eq!(config.exec.unwrap().command, "lab-login");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Kubeconfig {
    /// `current-context`
    pub current_context: String,
    /// `contexts`, by name.
    pub contexts: BTreeMap<String, Context>,
    /// `clusters`, by name.
    pub clusters: BTreeMap<String, Cluster>,
    /// `users`, by name.
    pub users: BTreeMap<String, User>,
    /// `extensions` of the whole, which nobody looks at.
    pub extensions: Extensions,
    /// The files that this was read from, in order.
    pub sources: Vec<Source>,
    /// Files that were to be read and are not there.
    pub missing: Vec<PathBuf>,
    /// What is understood beyond upstream.
    pub dialect: Dialect,
}

/// What is understood of a kubeconfig.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// What client-go understands, and KEP-541: a cluster's extension `exec` counts if there is none of today's name.
    #[default]
    WithKep541,
    /// What client-go understands.
    ClientGo,
}

/// One text that was read. `Debug` shows its path only.
#[derive(Clone)]
#[non_exhaustive]
pub struct Source {
    /// Its file, unless it was in memory.
    pub path: Option<PathBuf>,
    /// All that it says, with every field that we do not know, as JSON.
    pub document: RawJson,
    /// The fields that we do not know: clients pass over them, whatever their author meant. At most a hundred.
    pub ignored: Vec<StrictIssue>,
}

impl Kubeconfig {
    /// Reads a text that is in no file, so that relative paths stay as they are.
    pub fn parse(text: &[u8]) -> Result<Self, KubeconfigError> {
        decode::decode(text)
    }

    /// What two say; where both say something, the first counts, for each user, cluster and context as a whole.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        if self.current_context.is_empty() {
            self.current_context = other.current_context;
        }
        add_missing(&mut self.contexts, other.contexts);
        add_missing(&mut self.clusters, other.clusters);
        add_missing(&mut self.users, other.users);
        add_missing(&mut self.extensions, other.extensions);
        self.sources.extend(other.sources);
        self.missing.extend(other.missing);
        self
    }

    /// Notes the file that everything here comes from.
    fn read_from(mut self, path: &Path) -> Self {
        let contexts = self.contexts.values_mut().map(|context| &mut context.origin);
        let clusters = self.clusters.values_mut().map(|cluster| &mut cluster.origin);
        let users = self.users.values_mut().map(|user| &mut user.origin);
        let sources = self.sources.iter_mut().map(|source| &mut source.path);
        for origin in contexts.chain(clusters).chain(users).chain(sources) {
            *origin = Some(path.to_owned());
        }
        self
    }
}

fn add_missing<T>(target: &mut BTreeMap<String, T>, from: BTreeMap<String, T>) {
    for (name, value) in from {
        target.entry(name).or_insert(value);
    }
}

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubeconfig")
            .field("current_context", &self.current_context)
            .field("contexts", &self.contexts)
            .field("clusters", &self.clusters)
            .field("users", &self.users)
            .field("sources", &self.sources)
            .field("missing", &self.missing)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("path", &self.path).finish_non_exhaustive()
    }
}
