//! The configuration that goes with the plugins that are installed.

use std::{collections::BTreeSet, str::FromStr};

use keyfob_api::{FeatureGates, GoDuration, ProviderVersion};
use keyfob_config::{Config, FieldValue, Fields, Invalid, ProviderConfig, TokenAttributes};
use keyfob_plugin::Failure;
use keyfob_providers::Provider;
use serde_json::{Value, json};
use thiserror::Error;

/// `NAME=VALUE`, about the plugin of that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    name: &'static str,
    value: String,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("it needs the name of a plugin and a =")?;
        let known = keyfob_providers::named(name).ok_or_else(|| {
            let known: Vec<_> = keyfob_providers::ALL.iter().map(|known| known.name).collect();
            format!("there is no plugin named {name}: this build has {}", known.join(", "))
        })?;
        Ok(Self { name: known.name, value: value.to_owned() })
    }
}

/// An audience, for the plugin of a name or for all. It may have a `=` of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Audience {
    name: Option<&'static str>,
    value: String,
}

impl From<&str> for Audience {
    fn from(text: &str) -> Self {
        match text.parse() {
            Ok(Named { name, value }) => Self { name: Some(name), value },
            Err(_) => Self { name: None, value: text.to_owned() },
        }
    }
}

impl Audience {
    /// The audience, if no plugin is named before it.
    pub(super) fn of_nobody(&self) -> Option<&str> {
        self.name.is_none().then_some(&*self.value)
    }
}

/// What the flags say about the plugins.
pub(super) struct Choices<'a> {
    pub(super) audiences: &'a [Audience],
    pub(super) match_images: &'a [Named],
    pub(super) args: &'a [Named],
}

#[derive(Debug, Error)]
pub(super) enum Unfit {
    #[error("{0} can do nothing without the pod's token: give --token-audience")]
    NeedsToken(&'static str),
    #[error("{0} cannot use a pod's token: leave --token-audience {0}=… out")]
    CannotUseToken(&'static str),
    #[error("{name} cannot work so: {reason} (its arguments are given by --args {name}=ARGUMENT)")]
    CannotWork { name: &'static str, reason: Failure },
    #[error("--token-audience says two things of {0}: a kubelet sends a token for one audience")]
    TwoAudiences(&'static str),
    #[error(
        "each cloud has an audience of its own, and several of these plugins can use a token: say whose it is, as in \
         --token-audience {0}=…"
    )]
    WhoseAudience(&'static str),
    #[error(
        "{0} has no images of its own: give --match-images {0}=PATTERN, such as --match-images {0}=registry.example.com"
    )]
    NeedsImages(&'static str),
    #[error("{flag} {name}=… is about a plugin that is not installed: add {name} to --providers")]
    NotInstalled { flag: &'static str, name: &'static str },
    #[error(
        "none of the plugins that are installed can use a pod's token: leave --token-audience out"
    )]
    TokenForNobody,
    #[error("a kubelet would not start with this: {0}")]
    Invalid(#[from] Invalid),
}

/// The configuration of these plugins, valid.
pub(super) fn of(providers: &[&'static Provider], choices: &Choices<'_>) -> Result<Config, Unfit> {
    choices.are_about(providers)?;
    let configured = providers.iter().map(|provider| choices.configured(provider));
    let config = Config::new(configured.collect::<Result<Vec<_>, _>>()?);
    if !choices.audiences.is_empty() && audiences(&config).is_empty() {
        return Err(Unfit::TokenForNobody);
    }
    choices.are_clear(providers, &config)?;
    config.validate(FeatureGates::default())?;
    Ok(config)
}

/// The audiences that tokens are asked for.
pub(super) fn audiences(config: &Config) -> BTreeSet<&str> {
    let attributes = config.providers.iter().filter_map(|each| each.token_attributes.as_ref());
    attributes.map(|attributes| attributes.service_account_token_audience.as_str()).collect()
}

impl Choices<'_> {
    fn are_about(&self, providers: &[&'static Provider]) -> Result<(), Unfit> {
        let audiences = self.audiences.iter().filter_map(|audience| audience.name);
        let flags = [("--match-images", self.match_images), ("--args", self.args)];
        let others = flags
            .into_iter()
            .flat_map(|(flag, about)| about.iter().map(move |named| (flag, named.name)));
        for (flag, name) in audiences.map(|name| ("--token-audience", name)).chain(others) {
            if !providers.iter().any(|provider| provider.name == name) {
                return Err(Unfit::NotInstalled { flag, name });
            }
        }
        Ok(())
    }

    /// An audience without a name is for one plugin.
    fn are_clear(&self, providers: &[&'static Provider], config: &Config) -> Result<(), Unfit> {
        let named = |name| self.audiences.iter().any(|audience| audience.name == Some(name));
        let mut unnamed = providers
            .iter()
            .zip(&config.providers)
            .filter(|(provider, each)| each.token_attributes.is_some() && !named(provider.name));
        match (unnamed.next(), unnamed.next()) {
            (Some((first, _)), Some(_)) => Err(Unfit::WhoseAudience(first.name)),
            _ => Ok(()),
        }
    }

    fn configured(&self, provider: &'static Provider) -> Result<ProviderConfig, Unfit> {
        let match_images = instead(provider.match_images, self.match_images, provider);
        if match_images.is_empty() {
            return Err(Unfit::NeedsImages(provider.name));
        }
        let args = instead(provider.args, self.args, provider);
        let token_attributes = self.token_attributes(provider, &args)?;
        if provider.needs_token && token_attributes.is_none() {
            return Err(Unfit::NeedsToken(provider.name));
        }
        Ok(ProviderConfig {
            name: provider.program.to_owned(),
            match_images,
            default_cache_duration: GoDuration::parse(provider.default_cache_duration).ok(),
            api_version: ProviderVersion::V1.api_version().to_owned(),
            args,
            token_attributes,
            ..ProviderConfig::default()
        })
    }

    /// Only who can use a token is sent one, with the annotations that it reads.
    fn token_attributes(
        &self,
        provider: &'static Provider,
        args: &[String],
    ) -> Result<Option<TokenAttributes>, Unfit> {
        let name = provider.name;
        let annotations = provider.annotations(args);
        let annotations = annotations.map_err(|reason| Unfit::CannotWork { name, reason })?;
        let uses_tokens = provider.needs_token || !annotations.is_empty();
        if !uses_tokens && self.audiences.iter().any(|audience| audience.name == Some(name)) {
            return Err(Unfit::CannotUseToken(name));
        }
        let audience = self.audience(name)?.filter(|_| uses_tokens);
        Ok(audience.map(|audience| token_attributes(provider, audience, annotations)))
    }

    /// What is said of a plugin by its name comes before what is said of all.
    fn audience(&self, name: &'static str) -> Result<Option<&str>, Unfit> {
        let said_of = |name| {
            let said = self.audiences.iter().filter(move |audience| audience.name == name);
            said.map(|audience| audience.value.as_str()).collect::<BTreeSet<_>>()
        };
        let said = Some(said_of(Some(name))).filter(|said| !said.is_empty());
        let said = said.unwrap_or_else(|| said_of(None));
        if said.len() > 1 { Err(Unfit::TwoAudiences(name)) } else { Ok(said.into_iter().next()) }
    }
}

/// What is given for the plugin, or else its own.
fn instead(own: &[&str], given: &[Named], provider: &Provider) -> Vec<String> {
    let given = given.iter().filter(|named| named.name == provider.name);
    let given: Vec<_> = given.map(|named| named.value.clone()).collect();
    if given.is_empty() { own.iter().map(|text| (*text).to_owned()).collect() } else { given }
}

/// A plugin that can do without a token does, for pods that have none. One that cannot may answer differently for each
/// token, and if it hands that out a kubelet insists on `Token`.
fn token_attributes(
    provider: &Provider,
    audience: &str,
    annotations: Vec<String>,
) -> TokenAttributes {
    let cache_type = if provider.needs_token { "Token" } else { "ServiceAccount" };
    TokenAttributes {
        service_account_token_audience: audience.to_owned(),
        cache_type: cache_type.to_owned(),
        require_service_account: Some(provider.needs_token),
        required_service_account_annotation_keys: Vec::new(),
        optional_service_account_annotation_keys: annotations,
        ..TokenAttributes::default()
    }
}

/// The configuration as JSON.
pub(super) fn json(config: &Config) -> String {
    let document = json!({
        "apiVersion": "kubelet.config.k8s.io/v1",
        "kind": "CredentialProviderConfig",
        "providers": config.providers.iter().map(|each| object(each.fields())).collect::<Value>(),
    });
    format!("{document:#}\n")
}

fn object(fields: Fields<'_>) -> Value {
    let fields = fields.into_iter();
    fields.filter_map(|(name, value)| Some((name.to_owned(), field(value)?))).collect()
}

/// What a field has; nothing if it may be left out.
fn field(value: FieldValue<'_>) -> Option<Value> {
    match value {
        FieldValue::Text(text) => Some(json!(text)),
        FieldValue::Secret(text) => Some(json!(text.expose())),
        FieldValue::Texts(texts) => Some(json!(texts)),
        FieldValue::Duration(duration) => duration.map(|duration| json!(duration.to_string())),
        FieldValue::Bool(truth) => truth.map(|truth| json!(truth)),
        FieldValue::Object(fields) => fields.map(object),
        FieldValue::Objects(objects) => {
            (!objects.is_empty()).then(|| objects.into_iter().map(object).collect())
        }
    }
}
