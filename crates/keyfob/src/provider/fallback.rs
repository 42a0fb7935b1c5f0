//! `keyfob provider install --agent --if-down run PLUGIN`: what the relay must know of a plugin that it runs without the agent.
//!
//! The plugin's provider in the agent's configuration protects the plugin: it names the images, and whether a pod's token is for it. The
//! relay does what it says while there is no agent, so a plugin without a provider is refused.

use std::path::{Path, PathBuf};

use keyfob_api::{FeatureGates, ProviderVersion};
use keyfob_config::{Config, EnvVar, Invalid, PluginProtocol, ValidProvider, ValidTokenAttributes};
use thiserror::Error;

/// A plugin, with the provider that it is of.
pub(super) struct Fallback {
    program: PathBuf,
    provider: ValidProvider,
    version: ProviderVersion,
}

/// Why the relay cannot run the plugin as a kubelet would. All but the first name its provider.
#[derive(Debug, Error)]
pub(super) enum FallbackError {
    #[error("--if-down run {}: there is no such file", .0.display())]
    NoFile(PathBuf),
    #[error(
        "--if-down run {plugin}: {} has no provider of this name, which says for which images it may run; it has {known}\n\
         name the plugin of one of these, or add a provider to that file",
        config.display()
    )]
    NoProvider { plugin: String, config: PathBuf, known: String },
    #[error(
        "--if-down run {plugin}: the agent would not start with {}: {invalid}\nsee how to fix it: keyfob validate {}",
        config.display(),
        config.display()
    )]
    Invalid { plugin: String, config: PathBuf, invalid: Invalid },
    #[error(
        "--if-down run {0}: its provider is written in the first KEP's words, and no kubelet can run such a plugin\n\
         leave --if-down out, or name another plugin"
    )]
    FirstKep(String),
    #[error(
        "--if-down run {plugin}: its provider wants the pod's token for {wanted:?}, and without an agent it would get {given}\n\
         write --token-audience {wanted}, or leave --if-down out"
    )]
    Audience { plugin: String, wanted: String, given: String },
    #[error(
        "--if-down run {plugin}: its provider has apiVersion {version}, in which a kubelet sends nobody a token\n\
         leave --token-audience or --if-down out, or use a plugin that speaks {}",
        ProviderVersion::V1
    )]
    NoTokens { plugin: String, version: ProviderVersion },
}

impl Fallback {
    /// Finds the provider of a plugin. `audience` is that of the tokens that the kubelet will send, if it does.
    pub(super) fn new(
        program: PathBuf,
        (path, config): (&Path, &Config),
        audience: Option<&str>,
    ) -> Result<Self, FallbackError> {
        if !program.is_file() {
            return Err(FallbackError::NoFile(program));
        }
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let valid = config.validate(FeatureGates::default()).map_err(|invalid| {
            FallbackError::Invalid { plugin: name.clone(), config: path.to_owned(), invalid }
        })?;
        let provider = valid.providers().iter().find(|each| each.name() == name);
        let Some(provider) = provider.cloned() else {
            let known: Vec<_> = valid.providers().iter().map(ValidProvider::name).collect();
            let known = known.join(", ");
            return Err(FallbackError::NoProvider { plugin: name, config: path.to_owned(), known });
        };
        let PluginProtocol::Kubelet(version) = provider.protocol() else {
            return Err(FallbackError::FirstKep(name));
        };
        let wanted = provider.token_attributes().map(ValidTokenAttributes::audience);
        if let Some(wanted) = wanted.filter(|wanted| Some(*wanted) != audience) {
            let given = audience.map_or("none".to_owned(), |other| format!("one for {other:?}"));
            return Err(FallbackError::Audience { plugin: name, wanted: wanted.to_owned(), given });
        }
        if audience.is_some() && !version.carries_service_account() {
            return Err(FallbackError::NoTokens { plugin: name, version });
        }
        Ok(Self { program, provider, version })
    }

    /// The version in which the kubelet must speak to the relay: the plugin reads what the kubelet writes, and the other way round.
    pub(super) fn version(&self) -> ProviderVersion {
        self.version
    }

    /// The variables that the kubelet must give the relay, from which the plugin inherits them.
    pub(super) fn env(&self) -> &[EnvVar] {
        self.provider.env()
    }

    /// The relay's arguments.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut args = ["--if-down", "run"].map(str::to_owned).to_vec();
        let mut push = |option: &str, value: &str| args.extend([option, value].map(str::to_owned));
        for pattern in self.provider.match_images() {
            push("--fallback-image", &pattern.to_string());
        }
        if let Some(attributes) = self.provider.token_attributes() {
            let is_required = attributes.requires_service_account();
            push("--fallback-token", if is_required { "required" } else { "optional" });
            for key in attributes.required_annotation_keys() {
                push("--fallback-required-annotation", key);
            }
            for key in attributes.optional_annotation_keys() {
                push("--fallback-annotation", key);
            }
        }
        args.extend(["--".to_owned(), self.program.display().to_string()]);
        args.extend(self.provider.args().iter().cloned());
        args
    }
}
