//! What a kubelet accepts, and whoever wrote it regrets; and what only we accept.
//!
//! Upstream: none.

use std::{collections::HashSet, path::Path, sync::Arc};

use keyfob_api::GoDuration;
use keyfob_exec::{LookupError, Program, TrustPolicy, check_trust};

use super::{
    Config, Place, Protocol, ProviderConfig, TokenDialect, lookup::lookup_error, patterns,
};

/// Something that is allowed and probably not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The provider's name; empty if it is about the whole.
    pub provider: String,
    /// The field below the provider, with indices: `matchImages[1]`.
    pub path: String,
    /// What is the matter.
    pub message: String,
    /// What to do about it.
    pub help: String,
    /// Where it is.
    pub place: Option<Place>,
    /// Whether a kubelet would not start with this.
    pub kubelet_refuses: bool,
}

impl Warning {
    pub(super) fn new(provider: &str, path: &str, message: String, help: String) -> Self {
        Self {
            provider: provider.to_owned(),
            path: path.to_owned(),
            message,
            help,
            place: None,
            kubelet_refuses: false,
        }
    }

    fn refused(self) -> Self {
        Self { kubelet_refuses: true, ..self }
    }
}

impl Config {
    /// Everything that is worth a warning. Plugins are looked at if their directory is given.
    pub fn lint(&self, plugins: Option<&Path>) -> Vec<Warning> {
        let mut warnings = self.first_kep_files();
        let plugins = plugins.filter(|directory| {
            let missing = missing_directory(directory);
            let there = missing.is_none();
            warnings.extend(missing);
            there
        });
        for (index, provider) in self.providers.iter().enumerate() {
            let mut linter = Linter { config: self, index, provider, warnings: &mut warnings };
            linter.name();
            linter.annotations();
            patterns::lint(self, index, provider, linter.warnings);
            linter.duration();
            linter.environment();
            if let Some(directory) = plugins {
                linter.plugin(directory);
            }
        }
        warnings
    }

    fn first_kep_files(&self) -> Vec<Warning> {
        let mut seen: HashSet<Option<Arc<str>>> = HashSet::new();
        let mut warnings = Vec::new();
        for (index, provider) in self.providers.iter().enumerate() {
            let file = self.origin(index, provider).and_then(|origin| origin.file.clone());
            if provider.protocol == Protocol::FirstKep && seen.insert(file.clone()) {
                let message = "this is the first proposal's configuration (imageMatchers, extraArgs); its plugins are run as `NAME get-credentials` and answer one login with an expirationTimestamp".to_owned();
                let help = "keyfob validate --migrate prints today's form and what to change in the plugins".to_owned();
                let place = file.map(|file| Place::new(&file, None));
                warnings.push(Warning { place, ..Warning::new("", "", message, help) }.refused());
            }
        }
        warnings
    }
}

fn missing_directory(directory: &Path) -> Option<Warning> {
    if directory.is_dir() {
        return None;
    }
    let message = format!("the plugin directory {} is not there", directory.display());
    let help = "create it and install the plugins, or correct --bin-dir".to_owned();
    Some(Warning::new("", "", message, help).refused())
}

/// Looks at one provider.
struct Linter<'a> {
    config: &'a Config,
    index: usize,
    provider: &'a ProviderConfig,
    warnings: &'a mut Vec<Warning>,
}

impl Linter<'_> {
    fn name(&mut self) {
        let name = self.provider.name.as_str();
        let is_odd = |c: char| c != ' ' && (c.is_whitespace() || c.is_control());
        if name.is_empty() {
            let message =
                "the provider has no name, so that the plugin directory itself would be run";
            self.warn("name", message, "write the name of the plugin's file").kubelet_refuses =
                true;
        } else if name.contains(is_odd) {
            let message = format!("the name {name:?} contains white space or control characters");
            self.warn("name", &message, "hardly any file is called so: correct the name");
        }
    }

    fn annotations(&mut self) {
        let attributes = self.provider.token_attributes.as_ref();
        if attributes.is_some_and(|each| each.dialect == TokenDialect::Kep4412) {
            let message = "serviceAccountAnnotationKeys is KEP-4412's name, which a kubelet does not know; keyfob reads it as optionalServiceAccountAnnotationKeys, with cacheType ServiceAccount and requireServiceAccount true where they are missing, and refuses answers with cacheKeyType Global, which the KEP forbids and a kubelet allows";
            let help = "write requiredServiceAccountAnnotationKeys or optionalServiceAccountAnnotationKeys, cacheType and requireServiceAccount; --migrate does";
            let path = "tokenAttributes.serviceAccountAnnotationKeys";
            self.warn(path, message, help).kubelet_refuses = true;
        }
    }

    fn duration(&mut self) {
        if self.provider.default_cache_duration.is_some_and(GoDuration::is_zero) {
            let message = "a default of zero never keeps answers that do not say for how long: the plugin then runs for every pull";
            self.warn(
                "defaultCacheDuration",
                message,
                "write \"1m\" or more, unless that is meant",
            );
        }
    }

    fn environment(&mut self) {
        let mut seen = HashSet::new();
        for (number, variable) in self.provider.env.iter().enumerate() {
            let path = format!("env[{number}]");
            let name = variable.name.as_str();
            if name.is_empty() || name.contains(['=', '\0']) {
                let message = format!("{name:?} cannot be the name of an environment variable");
                self.warn(&path, &message, "write a name such as AWS_REGION");
            } else if !seen.insert(name) {
                let message =
                    format!("the environment variable {name} is set twice; the last one counts");
                self.warn(&path, &message, "leave one out");
            }
        }
    }

    fn plugin(&mut self, directory: &Path) {
        // What the name already says is not said again.
        if matches!(self.provider.name.as_str(), "" | "." | "..")
            || self.provider.name.contains('/')
        {
            return;
        }
        let program = match Program::in_directory(directory, &self.provider.name) {
            Ok(program) => program,
            Err(error) => {
                let help = match error {
                    // The error says so itself.
                    LookupError::NotFound { .. } => "install it there or correct its name",
                    _ => "install the plugin, or correct the name",
                };
                let kubelet_refuses = lookup_error(directory, &self.provider.name).is_some();
                self.warn("name", &error.to_string(), help).kubelet_refuses = kubelet_refuses;
                return;
            }
        };
        let help = "whoever may change it gets the node's registry credentials";
        match check_trust(program.path(), TrustPolicy::Report) {
            Ok(concerns) => {
                for concern in concerns {
                    self.warn("name", &format!("the plugin is not safe: {concern}"), help);
                }
            }
            Err(error) => drop(self.warn("name", &error.to_string(), help)),
        }
    }

    fn warn(&mut self, path: &str, message: &str, help: &str) -> &mut Warning {
        let place = self.config.place(self.index, self.provider, path);
        let warning = Warning::new(&self.provider.name, path, message.to_owned(), help.to_owned());
        self.warnings.push_mut(Warning { place, ..warning })
    }
}
