//! What sources give, and what of it is for an image.
//!
//! Sources are kept apart, since their answers live for different times; [`select`] looks at several as if they were
//! one keyring. It sees neither cache nor clock.
//! Upstream: `BasicDockerKeyring` in `pkg/credentialprovider/keyring.go` (1.37).
//! Differs: keys of one source that normalise to one key keep their order (upstream: random).
//! Differs: what is wrong with a key that is skipped is said without quoting it (upstream logs it): it may hold a
//! password.

use std::{fmt, path::Path, sync::Arc};

use keyfob_api::{InvalidKey, JsonWriter, MatchTarget, RegistryKey, Secret};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// A user name and a password for a registry. `email` only docker configurations have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what docker configurations know of a login")]
pub struct Login {
    /// The user name.
    pub username: Box<str>,
    /// The password.
    pub password: Secret<String>,
    /// The e-mail address, mostly empty.
    pub email: Box<str>,
}

impl Login {
    /// Kept for long: no room for what is not there. The roomier copy is wiped.
    fn compact(self) -> Self {
        let password = self.password.expose();
        if password.capacity() == password.len() {
            return self;
        }
        Self { password: password.as_str().into(), ..self }
    }
}

/// Where a credential came from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// One of the pod's `imagePullSecrets`.
    PullSecret(Arc<SecretCoordinates>),
    /// The node's docker configuration, at this path.
    DockerConfig(Arc<Path>),
    /// A plugin.
    Provider(Arc<ProviderSource>),
}

impl Source {
    /// The plugin of this name, asked without a service account.
    pub fn provider(name: impl Into<Arc<str>>) -> Self {
        Self::Provider(Arc::new(ProviderSource { name: name.into(), account: None }))
    }

    /// The service account that a plugin was asked with.
    pub fn service_account(&self) -> Option<&Arc<ServiceAccountCoordinates>> {
        match self {
            Self::Provider(plugin) => plugin.account.as_ref(),
            Self::PullSecret(_) | Self::DockerConfig(_) => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PullSecret(secret) => write!(f, "pull-secret:{}", secret.name),
            Self::DockerConfig(path) => write!(f, "docker-config:{}", path.display()),
            Self::Provider(plugin) => f.write_str(&plugin.name),
        }
    }
}

/// Which plugin, asked as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a complete value that callers build")]
pub struct ProviderSource {
    /// Its name.
    pub name: Arc<str>,
    /// The service account it was asked with, and whose pods alone may use its answer; nothing if there was none.
    pub account: Option<Arc<ServiceAccountCoordinates>>,
}

/// Which secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the three names of an object")]
pub struct SecretCoordinates {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

/// Which service account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the three names of an object")]
pub struct ServiceAccountCoordinates {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl fmt::Display for ServiceAccountCoordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What one source gave: keys and their logins, in its order.
#[derive(Debug)]
pub struct Logins {
    source: Source,
    entries: Box<[Entry]>,
    skipped: Box<[SkippedKey]>,
}

#[derive(Clone, Debug)]
struct Entry {
    key: RegistryKey,
    login: Login,
}

impl Logins {
    /// Reads the keys. One that is no URL is skipped, as upstream.
    pub fn new<K: AsRef<str>>(
        source: Source,
        entries: impl IntoIterator<Item = (K, Login)>,
    ) -> Self {
        let (mut read, mut skipped) = (Vec::new(), Vec::new());
        for (index, (key, login)) in entries.into_iter().enumerate() {
            match RegistryKey::parse(key.as_ref()) {
                Ok(key) => read.push(Entry { key, login: login.compact() }),
                Err(error) => skipped.push(SkippedKey { number: index + 1, error }),
            }
        }
        Self { source, entries: read.into(), skipped: skipped.into() }
    }

    /// The same, of another source.
    #[must_use]
    pub fn as_of(&self, source: Source) -> Self {
        Self { source, entries: self.entries.clone(), skipped: self.skipped.clone() }
    }

    /// Where they came from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The keys and their logins, in the source's order.
    pub fn iter(&self) -> impl Iterator<Item = (&RegistryKey, &Login)> {
        self.entries.iter().map(|entry| (&entry.key, &entry.login))
    }

    /// The keys, in the source's order.
    pub fn keys(&self) -> impl Iterator<Item = &RegistryKey> {
        self.iter().map(|(key, _)| key)
    }

    /// What is wrong with the keys that were skipped.
    pub fn skipped(&self) -> &[SkippedKey] {
        &self.skipped
    }
}

/// A key that nothing can be found under, by its number: it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("key number {number}: {error}")]
#[non_exhaustive]
pub struct SkippedKey {
    /// Which key of the source, counted from 1.
    pub number: usize,
    /// What is wrong with it.
    pub error: InvalidKey,
}

/// A login for an image, where it came from and under which key. Cloning it copies no secret.
#[derive(Clone, Debug)]
pub struct Credential {
    logins: Arc<Logins>,
    /// The position of its entry. Only `gather` creates credentials, and only of entries that exist.
    index: usize,
}

impl Credential {
    /// Where it came from.
    pub fn source(&self) -> &Source {
        &self.logins.source
    }

    /// The service account that its plugin was asked with; nothing if every pod of the node may use it.
    pub fn service_account(&self) -> Option<&ServiceAccountCoordinates> {
        self.source().service_account().map(|account| &**account)
    }

    /// The key it was found under.
    pub fn key(&self) -> &RegistryKey {
        &self.entry().key
    }

    /// The user name.
    pub fn username(&self) -> &str {
        &self.entry().login.username
    }

    /// The password.
    pub fn password(&self) -> &Secret<String> {
        &self.entry().login.password
    }

    /// User name, password and e-mail address.
    pub fn login(&self) -> &Login {
        &self.entry().login
    }

    /// Everything its source gave.
    pub fn logins(&self) -> &Arc<Logins> {
        &self.logins
    }

    /// What pull records know the credential by: a SHA-256 in hexadecimal digits, computed anew each time.
    ///
    /// Upstream: `hashAuthConfig`.
    pub fn hash(&self) -> String {
        let login = self.login();
        let mut json = JsonWriter::default();
        json.open('{')
            .field_unless_empty("username", &login.username)
            .field_unless_empty("password", login.password.expose())
            .field_unless_empty("email", &login.email)
            .close('}');
        hex::encode(Sha256::digest(json.into_text().expose()))
    }

    #[expect(clippy::indexing_slicing, reason = "`gather` took the index from these entries")]
    fn entry(&self) -> &Entry {
        &self.logins.entries[self.index]
    }
}

/// The credentials for an image among what several sources gave, in the order in which to try them.
///
/// `image` is a repository without tag and digest, and `target` the same as patterns see it; nothing if it is no URL.
/// Every key that matches counts, in descending byte order; equal keys count in the order of the sources, then in their
/// own. Only if none matches, an image of Docker Hub finds what is stored under `index.docker.io`.
pub fn select<'a>(
    image: &str,
    target: Option<&MatchTarget>,
    sources: impl IntoIterator<Item = &'a Arc<Logins>> + Clone,
) -> Vec<Credential> {
    let mut found = match target {
        Some(target) => gather(sources.clone(), |key| key.matches(target)),
        None => Vec::new(),
    };
    if found.is_empty() {
        // Most sources have none, which is quicker to see than whose image it is.
        let for_docker_hub = gather(sources, RegistryKey::is_docker_hub);
        let is_for_image = !for_docker_hub.is_empty() && is_on_docker_hub(image);
        return if is_for_image { for_docker_hub } else { found };
    }
    found.sort_by(|one, other| other.key().as_bytes().cmp(one.key().as_bytes()));
    found
}

fn gather<'a>(
    sources: impl IntoIterator<Item = &'a Arc<Logins>>,
    wanted: impl Fn(&RegistryKey) -> bool,
) -> Vec<Credential> {
    let mut found = Vec::new();
    for logins in sources {
        for (index, _) in logins.entries.iter().enumerate().filter(|(_, entry)| wanted(&entry.key))
        {
            found.push(Credential { logins: logins.clone(), index });
        }
    }
    found
}

/// Upstream: `isDefaultRegistryMatch`.
fn is_on_docker_hub(image: &str) -> bool {
    match image.split_once('/') {
        Some(("", _)) => false,
        Some(("docker.io" | "index.docker.io", _)) => true,
        Some((first, _)) => !first.contains(['.', ':']),
        None => !image.is_empty(),
    }
}

#[cfg(test)]
mod tests;
