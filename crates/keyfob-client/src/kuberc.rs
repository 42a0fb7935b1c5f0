//! The policy of a kuberc, kubectl's file of preferences.
//!
//! Of all preferences only those about plugins are read; aliases and defaults are kubectl's.
//!
//! Upstream: `pkg/kuberc` and `pkg/config` of kubectl 1.37 (`LoadKuberc`, `DefaultGetPreferences`, `decodePreference`).
//! Differs: a file in the usual place that cannot be read is an error, as one that was asked for is, and so is a document
//! before the one that counts. Upstream warns, or says nothing, and goes on without the policy, so that a slip of the pen
//! lets every plugin run. There is one way to do without: `KUBERC=off` (kubectl's gate `KUBECTL_KUBERC` is its own).
//! Differs: a file of comments has no policy (upstream: it is no valid file).

mod preference;
#[cfg(test)]
mod tests;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use keyfob_exec::{
    Environment,
    go::{clean_path, error_text},
    read_bounded,
};
use thiserror::Error;

use crate::{PluginPolicy, PolicyError};
use preference::Preference;
pub use preference::{PreferenceError, Problem as PreferenceProblem};

/// More than this is no list of preferences.
const LARGEST_FILE: u64 = 1 << 20;

/// What a kuberc says about plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kuberc {
    path: PathBuf,
    policy: PluginPolicy,
    warnings: Vec<String>,
}

impl Kuberc {
    /// The kuberc that counts: `explicit` (`--kuberc`), or `$KUBERC`, or `~/.kube/kuberc`. `None` if there is none there,
    /// if it is empty, or if `$KUBERC` is `off`.
    pub fn load(
        explicit: Option<&Path>,
        environment: &dyn Environment,
    ) -> Result<Option<Self>, KubercError> {
        let Some(place) = Place::choose(explicit, environment)? else { return Ok(None) };
        let path = place.path();
        let text = match read_bounded(path, LARGEST_FILE) {
            Ok(text) => text,
            Err(error) if place.may_be_missing(&error) => return Ok(None),
            Err(error) => {
                return Err(KubercError::Unreadable { path: path.into(), error: error.into() });
            }
        };
        let error = |reason| KubercError::Invalid { path: path.into(), reason };
        let Some(Preference { policy, warnings }) =
            Preference::read(text.expose()).map_err(error)?
        else {
            return Ok(None);
        };
        policy.validate().map_err(|reason| KubercError::Policy { path: path.into(), reason })?;
        Ok(Some(Self { path: path.into(), policy, warnings }))
    }

    /// Which plugins may be run. It is valid.
    pub fn policy(&self) -> &PluginPolicy {
        &self.policy
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What stands in the file and means nothing: perhaps something that was meant to.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// Where a kuberc is looked for.
enum Place {
    /// Somebody named it.
    Named(PathBuf),
    /// Nobody did.
    Usual(PathBuf),
}

impl Place {
    fn choose(
        explicit: Option<&Path>,
        environment: &dyn Environment,
    ) -> Result<Option<Self>, KubercError> {
        let explicit = explicit.filter(|path| !path.as_os_str().is_empty());
        let variable = environment.var("KUBERC").filter(|value| !value.is_empty());
        if variable.as_ref().is_some_and(|value| value == "off") {
            return if explicit.is_some() { Err(KubercError::Off) } else { Ok(None) };
        }
        let home = PathBuf::from(environment.var("HOME").unwrap_or_default());
        let usual = clean_path(home.join(".kube/kuberc").as_os_str());
        Ok(Some(match (explicit, variable) {
            (Some(path), None) => Self::Named(path.into()),
            // As upstream: to name the usual place leaves the word to the variable.
            (Some(path), Some(_)) if path != usual => Self::Named(path.into()),
            (_, Some(variable)) => Self::Named(variable.into()),
            (None, None) => Self::Usual(usual),
        }))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Named(path) | Self::Usual(path) => path,
        }
    }

    fn may_be_missing(&self, error: &io::Error) -> bool {
        matches!(self, Self::Usual(_)) && error.kind() == io::ErrorKind::NotFound
    }
}

/// Why nobody knows which plugins may be run. Nothing may be run then.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum KubercError {
    /// A file is named, and files are switched off.
    #[error(
        "disabling kuberc via KUBERC=off and passing kuberc flag are mutually exclusive: leave out one of them"
    )]
    Off,
    /// The file cannot be read.
    #[error(
        "kuberc: open {}: {}: no plugin is run without its policy; mend the file, or set KUBERC=off",
        path.display(),
        error_text(error)
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says. Part of the sentence, so it is no source.
        error: Arc<io::Error>,
    },
    /// It cannot be understood.
    #[error(
        "kuberc: {}: {reason}; no plugin is run without its policy: mend the file, or set KUBERC=off",
        path.display()
    )]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong. Part of the sentence, so it is no source.
        reason: PreferenceError,
    },
    /// Its policy cannot be meant.
    #[error("kuberc: {}: {reason}", path.display())]
    Policy {
        /// The file.
        path: PathBuf,
        /// What is wrong. Part of the sentence, so it is no source.
        reason: PolicyError,
    },
}
