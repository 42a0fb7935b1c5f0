//! A provider as its file has it, and the tables of its fields.

use std::fmt;

use keyfob_api::{GoDuration, Secret};

use super::fields::{self, Access, Field, Fields, Versions, lens};

/// One plugin and how it is used. `Debug` hides the arguments, which may hold secrets.
#[derive(Clone, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors a document of Kubernetes that callers write; new fields come with new API versions"
)]
pub struct ProviderConfig {
    /// The name of the plugin's file in the plugin directory.
    pub name: String,
    /// The images it is asked about.
    pub match_images: Vec<String>,
    /// How long an answer that does not say so itself is kept.
    pub default_cache_duration: Option<GoDuration>,
    /// In which version it is spoken to.
    pub api_version: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables set over the host's environment.
    pub env: Vec<EnvVar>,
    /// Makes the provider use the pod's service account.
    pub token_attributes: Option<TokenAttributes>,
    /// Which protocol it speaks.
    pub protocol: Protocol,
}

pub(super) const PROVIDER_FIELDS: &[Field<ProviderConfig>] = &[
    Field::new("name", Access::Text(lens!(name))),
    Field::new("matchImages", Access::Texts(lens!(match_images))),
    Field::new("defaultCacheDuration", Access::Duration(lens!(default_cache_duration))),
    Field::new("apiVersion", Access::Text(lens!(api_version))),
    Field::new("args", Access::Texts(lens!(args))),
    Field::new("env", Access::Variables(lens!(env))),
    Field {
        versions: Versions::V1AndInternal,
        ..Field::new("tokenAttributes", Access::TokenAttributes(lens!(token_attributes)))
    },
];

impl ProviderConfig {
    /// What the file has in each field, or would have.
    pub fn fields(&self) -> Fields<'_> {
        fields::shown(PROVIDER_FIELDS, self)
    }
}

impl fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderConfig")
            .field("name", &self.name)
            .field("match_images", &self.match_images)
            .field("default_cache_duration", &self.default_cache_duration)
            .field("api_version", &self.api_version)
            .field("args", &format_args!("{} hidden", self.args.len()))
            .field("env", &self.env)
            .field("token_attributes", &self.token_attributes)
            .field("protocol", &self.protocol)
            .finish()
    }
}

/// A variable of a plugin's environment. The value may be a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors a document of Kubernetes that callers write; new fields come with new API versions"
)]
pub struct EnvVar {
    /// The name.
    pub name: String,
    /// The value.
    pub value: Secret<String>,
}

pub(super) const VARIABLE_FIELDS: &[Field<EnvVar>] = &[
    Field::new("name", Access::Text(lens!(name))),
    Field::new("value", Access::SecretText(lens!(value))),
];

/// How a provider uses the pod's service account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors a document of Kubernetes that callers write; new fields come with new API versions"
)]
pub struct TokenAttributes {
    /// The audience its token is for.
    pub service_account_token_audience: String,
    /// `Token` or `ServiceAccount`: what a cached answer belongs to.
    pub cache_type: String,
    /// Whether pods without a service account are left alone.
    pub require_service_account: Option<bool>,
    /// Annotations without which the plugin is not asked.
    pub required_service_account_annotation_keys: Vec<String>,
    /// Annotations that are handed over if they are there.
    pub optional_service_account_annotation_keys: Vec<String>,
    /// Whose words it is written in.
    pub dialect: TokenDialect,
}

pub(super) const TOKEN_FIELDS: &[Field<TokenAttributes>] = &[
    Field::new("serviceAccountTokenAudience", Access::Text(lens!(service_account_token_audience))),
    Field::new("cacheType", Access::Text(lens!(cache_type))),
    Field::new("requireServiceAccount", Access::Bool(lens!(require_service_account))),
    Field::new(
        "requiredServiceAccountAnnotationKeys",
        Access::Texts(lens!(required_service_account_annotation_keys)),
    ),
    Field::new(
        "optionalServiceAccountAnnotationKeys",
        Access::Texts(lens!(optional_service_account_annotation_keys)),
    ),
    Field {
        versions: Versions::OnlyV1,
        ..Field::new("serviceAccountAnnotationKeys", Access::Kep4412Keys(lens!(dialect)))
    },
];

/// Whose words `tokenAttributes` are written in. What they mean is the same, but for what `GlobalAnswers` of `keyfob-host` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenDialect {
    /// The kubelet's.
    #[default]
    Kubelet,
    /// KEP-4412's: one list of annotations, `serviceAccountAnnotationKeys`.
    Kep4412,
}

/// What a plugin is told and how it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a host must handle every protocol")]
pub enum Protocol {
    /// `CredentialProviderRequest` and `CredentialProviderResponse`, in the configured version.
    #[default]
    Kubelet,
    /// The first KEP's: `NAME get-credentials`, one login with an `expirationTimestamp`.
    FirstKep,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Config,
        schema::{Object, PROVIDER, Type, Version},
    };

    /// A value that is not the default, for each field that the tables have in v1.
    fn sample(wanted: Type) -> String {
        match wanted {
            Type::Text | Type::Any => "\"x\"".to_owned(),
            Type::Bool => "true".to_owned(),
            Type::Duration => "\"1m\"".to_owned(),
            Type::List(element) => format!("[{}]", sample(*element)),
            Type::Object(object) => object_sample(object),
        }
    }

    fn object_sample(object: &'static Object) -> String {
        let fields = Version::V1.fields(object);
        let fields = fields.map(|(name, column)| format!("\"{name}\": {}", sample(column.wanted)));
        format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
    }

    fn is_filled<T: Default + PartialEq>(value: &T) -> bool {
        *value != T::default()
    }

    /// The structs are taken apart without `..`: a new field does not compile here until it is checked, and the check fails
    /// until the field has a row.
    #[test]
    fn every_field_has_a_row_by_which_it_is_read_and_written() {
        let head =
            "\"apiVersion\": \"kubelet.config.k8s.io/v1\", \"kind\": \"CredentialProviderConfig\"";
        let text = format!("{{{head}, \"providers\": [{}]}}", object_sample(&PROVIDER));

        let config = Config::from_files([("all.json", text)]).unwrap();

        let ProviderConfig {
            name,
            match_images,
            default_cache_duration,
            api_version,
            args,
            env,
            token_attributes,
            protocol: Protocol::Kubelet,
        } = &config.providers[0]
        else {
            panic!("the file's version decides about the protocol")
        };
        assert!(is_filled(name) && is_filled(match_images) && is_filled(default_cache_duration));
        assert!(is_filled(api_version) && is_filled(args));
        let [EnvVar { name, value }] = &env[..] else { panic!("{env:?}") };
        assert!(is_filled(name) && is_filled(value));
        let TokenAttributes {
            service_account_token_audience,
            cache_type,
            require_service_account,
            required_service_account_annotation_keys,
            optional_service_account_annotation_keys,
            dialect,
        } = token_attributes.as_ref().unwrap();
        assert!(is_filled(service_account_token_audience) && is_filled(cache_type));
        assert!(is_filled(require_service_account) && is_filled(dialect));
        assert!(is_filled(required_service_account_annotation_keys));
        assert_eq!(optional_service_account_annotation_keys.len(), 2, "KEP-4412's is added");

        let mut migrated = Config::from_files([("new.yaml", config.migrate())]).unwrap();
        let attributes = migrated.providers[0].token_attributes.as_mut().unwrap();
        attributes.dialect = TokenDialect::Kep4412;
        assert_eq!(migrated.providers, config.providers);
    }
}
