//! What a kubelet refuses, all of it at once, and what to do about it; or else the configuration in types that need no
//! checking.
//!
//! Upstream: `validateCredentialProviderConfig` in `pkg/credentialprovider/plugin/config.go`.
//! Differs: a provider of the first KEP needs neither `apiVersion` nor `defaultCacheDuration`, which it did not have.

use std::{
    collections::{BTreeSet, HashSet},
    fmt::Write as _,
    time::Duration,
};

use keyfob_api::{FeatureGates, GoDuration, MatchPattern, ProviderVersion, Quoted};

use super::{
    CacheType, Config, ConfigError, ErrorKind, Invalid, PluginProtocol, Protocol, ProviderConfig,
    TokenAttributes, ValidConfig, ValidProvider, ValidTokenAttributes, annotation_key,
};

impl Config {
    /// Judges everything: returns the configuration in types that need no checking, or all that is wrong.
    pub fn validate(&self, gates: FeatureGates) -> Result<ValidConfig, Invalid> {
        let mut errors = Vec::new();
        if self.providers.is_empty() {
            let detail = "at least 1 item in plugins is required";
            let place = self.place.clone();
            errors.push(ConfigError { place, ..problem("providers", ErrorKind::Required, detail) });
        }
        let mut seen = HashSet::new();
        let mut providers = Vec::new();
        for (index, provider) in self.providers.iter().enumerate() {
            let mut judge = Judge { config: self, index, provider, errors: &mut errors };
            let is_repeated = !seen.insert(&provider.name);
            providers.extend(judge.provider(is_repeated, gates));
        }
        if !errors.is_empty() {
            return Err(Invalid::new(errors));
        }
        Ok(ValidConfig { providers, hash: self.hash.clone() })
    }
}

fn problem(path: &str, kind: ErrorKind, detail: &str) -> ConfigError {
    let separator = if detail.is_empty() { "" } else { ": " };
    let message = format!("{path}: {}{separator}{detail}", kind.words());
    ConfigError { path: path.to_owned(), kind, message, place: None, help: help(path, kind) }
}

/// Judges one provider.
struct Judge<'a> {
    config: &'a Config,
    index: usize,
    provider: &'a ProviderConfig,
    errors: &'a mut Vec<ConfigError>,
}

/// An error was added, so that there is no value.
struct Refused;

impl Judge<'_> {
    /// The struct is taken apart without `..`, so that no field can be forgotten here.
    fn provider(
        &mut self,
        is_repeated: bool,
        gates: FeatureGates,
    ) -> Result<ValidProvider, Refused> {
        let ProviderConfig {
            name,
            match_images,
            default_cache_duration,
            api_version,
            args,
            env,
            token_attributes,
            protocol,
        } = self.provider;
        self.name(name, is_repeated);
        let spoken = self.protocol(*protocol, api_version);
        let match_images = self.match_images(match_images);
        let default_cache_duration =
            self.default_cache_duration(*default_cache_duration, *protocol);
        let token_attributes =
            token_attributes.as_ref().map(|each| self.token_attributes(each, gates));
        Ok(ValidProvider {
            name: name.clone(),
            match_images: match_images?,
            default_cache_duration: default_cache_duration?,
            protocol: spoken?,
            args: args.clone(),
            env: env.clone(),
            token_attributes: token_attributes.transpose()?,
        })
    }

    fn name(&mut self, name: &str, is_repeated: bool) {
        let rules = [
            (name.contains('/'), "cannot contain '/'"),
            (name.contains(' '), "cannot contain spaces"),
            (name == ".", "cannot be '.'"),
            (name == "..", "cannot be '..'"),
        ];
        for (_, rule) in rules.into_iter().filter(|(broken, _)| *broken) {
            let detail = format!("{}: provider name {rule}", Quoted(name));
            self.add("name", "name", ErrorKind::Invalid, &detail);
        }
        if is_repeated {
            self.add("name", "name", ErrorKind::Duplicate, &Quoted(name).to_string());
        }
    }

    fn protocol(&mut self, protocol: Protocol, version: &str) -> Result<PluginProtocol, Refused> {
        const PATH: &str = "apiVersion";
        match (protocol, version, version.parse()) {
            (Protocol::FirstKep, "", _) | (Protocol::FirstKep, _, Ok(_)) => {
                Ok(PluginProtocol::FirstKep)
            }
            (Protocol::Kubelet, "", _) => Err(self.add(PATH, PATH, ErrorKind::Required, "")),
            (Protocol::Kubelet, _, Ok(version)) => Ok(PluginProtocol::Kubelet(version)),
            (Protocol::Kubelet | Protocol::FirstKep, _, Err(_)) => {
                let mut versions = ProviderVersion::ALL.map(ProviderVersion::api_version);
                versions.sort_unstable();
                let detail = format!("{}: {}", Quoted(version), supported(&versions));
                Err(self.add(PATH, PATH, ErrorKind::Unsupported, &detail))
            }
        }
    }

    fn match_images(&mut self, texts: &[String]) -> Result<Vec<MatchPattern>, Refused> {
        if texts.is_empty() {
            let detail = "at least 1 item in matchImages is required";
            return Err(self.add("matchImages", "matchImages", ErrorKind::Required, detail));
        }
        let (mut patterns, mut refused) = (Vec::new(), None);
        for (index, text) in texts.iter().enumerate() {
            match MatchPattern::parse(text) {
                Ok(pattern) => patterns.push(pattern),
                Err(error) => {
                    let detail = format!("{}: match image is invalid: {error}", Quoted(text));
                    let place = format!("matchImages[{index}]");
                    refused = Some(self.add("matchImages", &place, ErrorKind::Invalid, &detail));
                }
            }
        }
        refused.map_or(Ok(patterns), Err)
    }

    fn default_cache_duration(
        &mut self,
        duration: Option<GoDuration>,
        protocol: Protocol,
    ) -> Result<Duration, Refused> {
        const PATH: &str = "defaultCacheDuration";
        match (duration, protocol) {
            (None, Protocol::FirstKep) => Ok(Duration::ZERO),
            (None, Protocol::Kubelet) => Err(self.add(PATH, PATH, ErrorKind::Required, "")),
            (Some(duration), _) => duration.to_std().ok_or_else(|| {
                let detail = format!("\"{duration}\": must be greater than or equal to 0");
                self.add(PATH, PATH, ErrorKind::Invalid, &detail)
            }),
        }
    }

    fn token_attributes(
        &mut self,
        attributes: &TokenAttributes,
        gates: FeatureGates,
    ) -> Result<ValidTokenAttributes, Refused> {
        const PATH: &str = "tokenAttributes";
        const REQUIRED: &str = "tokenAttributes.requiredServiceAccountAnnotationKeys";
        const OPTIONAL: &str = "tokenAttributes.optionalServiceAccountAnnotationKeys";
        let TokenAttributes {
            service_account_token_audience: audience,
            cache_type,
            require_service_account,
            required_service_account_annotation_keys: required,
            optional_service_account_annotation_keys: optional,
            dialect,
        } = attributes;
        let v1 = ProviderVersion::V1.api_version();
        if !gates.service_account_token {
            let detail = "tokenAttributes is not supported when KubeletServiceAccountTokenForCredentialProviders feature gate is disabled";
            self.add(PATH, PATH, ErrorKind::Forbidden, detail);
        }
        if audience.is_empty() {
            self.required("tokenAttributes.serviceAccountTokenAudience", "");
        }
        let requires_service_account = require_service_account.ok_or_else(|| {
            let refused = self.required("tokenAttributes.requireServiceAccount", "");
            self.help_with_what_kep_4412_lacks(attributes);
            refused
        });
        if self.provider.api_version != v1 {
            let detail = format!("tokenAttributes is only supported for {v1} API version");
            self.add(PATH, PATH, ErrorKind::Forbidden, &detail);
        }
        if *require_service_account == Some(false) && !required.is_empty() {
            let detail = "requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set";
            self.add(REQUIRED, REQUIRED, ErrorKind::Forbidden, detail);
        }
        self.annotation_keys(REQUIRED, required);
        self.annotation_keys(OPTIONAL, optional);
        self.keys_in_both(PATH, required, optional);
        let cache_type = self.cache_type(cache_type);
        Ok(ValidTokenAttributes {
            audience: audience.clone(),
            cache_type: cache_type?,
            requires_service_account: requires_service_account?,
            required_annotation_keys: required.clone(),
            optional_annotation_keys: optional.clone(),
            dialect: *dialect,
        })
    }

    /// To whoever wrote what KEP-4412 calls complete, both fields that are missing are named at once.
    fn help_with_what_kep_4412_lacks(&mut self, attributes: &TokenAttributes) {
        if let (true, Some(error)) = (attributes.cache_type.is_empty(), self.errors.last_mut()) {
            error.help = Some(TWO_MORE_FIELDS.to_owned());
        }
    }

    fn annotation_keys(&mut self, path: &str, keys: &[String]) {
        let mut seen = HashSet::new();
        for (index, key) in keys.iter().enumerate() {
            let place = format!("{path}[{index}]");
            for problem in annotation_key::problems(key) {
                let detail = format!("{}: {problem}", Quoted(key));
                self.add(path, &place, ErrorKind::Invalid, &detail);
            }
            if !seen.insert(key) {
                self.add(path, &place, ErrorKind::Duplicate, &Quoted(key).to_string());
            }
        }
    }

    fn keys_in_both(&mut self, path: &str, required: &[String], optional: &[String]) {
        let optional: BTreeSet<&String> = optional.iter().collect();
        let both: BTreeSet<_> = required.iter().filter(|key| optional.contains(key)).collect();
        if !both.is_empty() {
            let both: Vec<String> = both.into_iter().map(|key| json_string(key)).collect();
            let detail = "annotation keys cannot be both required and optional";
            let detail = format!("[{}]: {detail}", both.join(","));
            self.add(path, path, ErrorKind::Invalid, &detail);
        }
    }

    fn cache_type(&mut self, cache_type: &str) -> Result<CacheType, Refused> {
        const PATH: &str = "tokenAttributes.cacheType";
        if cache_type.is_empty() {
            let detail = "cacheType is required to be set when tokenAttributes is specified. Supported values are: ServiceAccount, Token";
            return Err(self.required(PATH, detail));
        }
        CacheType::named(cache_type).ok_or_else(|| {
            let types = supported(&CacheType::ALL.map(CacheType::as_str));
            let detail = format!("{}: {types}", json_string(cache_type));
            self.add(PATH, PATH, ErrorKind::Unsupported, &detail)
        })
    }

    fn required(&mut self, path: &str, detail: &str) -> Refused {
        self.add(path, path, ErrorKind::Required, detail)
    }

    /// `place` is the path with indices, for finding the value in its file.
    fn add(&mut self, path: &str, place: &str, kind: ErrorKind, detail: &str) -> Refused {
        let place = self.config.place(self.index, self.provider, place);
        let error = problem(&format!("providers.{path}"), kind, detail);
        self.errors.push(ConfigError { place, ..error });
        Refused
    }
}

fn supported(values: &[&str]) -> String {
    let values: Vec<String> = values.iter().map(|value| Quoted(value).to_string()).collect();
    format!("supported values: {}", values.join(", "))
}

/// A string as Go's `json.Marshal` writes it.
fn json_string(text: &str) -> String {
    let mut json = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            '\x08' => json.push_str("\\b"),
            '\x0c' => json.push_str("\\f"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            '\0'..='\x1f' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(json, "\\u{:04x}", u32::from(c)).unwrap_or_default();
            }
            _ => json.push(c),
        }
    }
    json + "\""
}

/// About `tokenAttributes` that end where KEP-4412's text does.
const TWO_MORE_FIELDS: &str = "add `requireServiceAccount: true` and `cacheType: ServiceAccount` to tokenAttributes: a kubelet requires both fields, which KEP-4412 does not have";

/// What to do about a value that breaks a rule.
fn help(path: &str, kind: ErrorKind) -> Option<String> {
    let last = path.rsplit('.').next().unwrap_or_default();
    let text = match (last, kind) {
        ("providers", _) => "add a provider below `providers:`",
        ("name", ErrorKind::Duplicate) => {
            "to use one plugin twice, link it in the plugin directory under a second name"
        }
        ("name", _) => {
            "write the name of the plugin's file in the plugin directory, without its path"
        }
        ("apiVersion", _) => {
            "write `apiVersion: credentialprovider.kubelet.k8s.io/v1`, or the newest version that the plugin speaks"
        }
        ("matchImages", ErrorKind::Required) => {
            "list the images that the plugin is for, as in `- \"*.example.com\"`"
        }
        ("matchImages", _) => {
            "write host, optional port and optional path, as in \"*.example.com:5000/team\"; `*` stands for (part of) one label of the host and for nothing in port or path"
        }
        ("defaultCacheDuration", ErrorKind::Required) => {
            "say how long answers that do not say so themselves are kept, as in `defaultCacheDuration: \"10m\"`"
        }
        ("defaultCacheDuration", _) => "\"0s\" means that answers are not kept",
        ("tokenAttributes", ErrorKind::Forbidden) => {
            "set the provider's apiVersion to credentialprovider.kubelet.k8s.io/v1 and leave the feature gate KubeletServiceAccountTokenForCredentialProviders on, or leave tokenAttributes out"
        }
        ("tokenAttributes", _) => "keep each annotation key in one of the two lists",
        ("serviceAccountTokenAudience", _) => {
            "write the audience that the registry expects in the token"
        }
        ("requireServiceAccount", _) => {
            "write true to leave pods without a service account alone, false to ask the plugin for them too"
        }
        (
            "requiredServiceAccountAnnotationKeys" | "optionalServiceAccountAnnotationKeys",
            ErrorKind::Invalid,
        ) => "write an annotation's key, as in example.com/registry-identity",
        (
            "requiredServiceAccountAnnotationKeys" | "optionalServiceAccountAnnotationKeys",
            ErrorKind::Duplicate,
        ) => "keep one of the two",
        ("requiredServiceAccountAnnotationKeys", ErrorKind::Forbidden) => {
            "set requireServiceAccount to true, or make the annotations optional"
        }
        ("cacheType", _) => {
            "write ServiceAccount if answers depend on the service account alone, Token if they depend on the pod's token"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let config = Config::from_files([("c.yaml", text)]).unwrap();
        let Err(invalid) = config.validate(FeatureGates::default()) else { return Vec::new() };
        let place = |error: &ConfigError| error.place.as_ref().map(ToString::to_string);
        let line = |error: &ConfigError| format!("{}: {}", place(error).unwrap(), error.path);
        invalid.errors().iter().map(line).collect()
    }

    #[test]
    fn an_error_knows_its_place_or_that_of_what_it_is_missing_in() {
        let text = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: a/b\n  \
                    matchImages:\n  - r.io\n  - r.io:x\n  tokenAttributes:\n    cacheType: x\n";
        assert_eq!(
            errors(text),
            [
                "c.yaml:4:9: providers.name",
                "c.yaml:4:3: providers.apiVersion",
                "c.yaml:7:5: providers.matchImages",
                "c.yaml:4:3: providers.defaultCacheDuration",
                "c.yaml:9:5: providers.tokenAttributes.serviceAccountTokenAudience",
                "c.yaml:9:5: providers.tokenAttributes.requireServiceAccount",
                "c.yaml:9:5: providers.tokenAttributes",
                "c.yaml:9:16: providers.tokenAttributes.cacheType",
            ]
        );
    }

    #[test]
    fn no_providers_are_missed_where_they_would_be() {
        let head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n";
        assert_eq!(errors(&format!("{head}providers: []\n")), ["c.yaml:3:1: providers"]);
        assert_eq!(errors(&format!("---\n{head}")), ["c.yaml:2:1: providers"]);
    }

    #[test]
    fn the_same_thing_twice_is_said_once() {
        let provider = ProviderConfig {
            match_images: vec!["r.io".into()],
            default_cache_duration: Some(GoDuration::ZERO),
            ..ProviderConfig::default()
        };
        let second = ProviderConfig { name: "b".into(), ..provider.clone() };
        let invalid =
            Config::new([provider, second]).validate(FeatureGates::default()).unwrap_err();
        assert_eq!(invalid.errors().len(), 2);
        assert_eq!(invalid.to_string(), "providers.apiVersion: Required value");
    }

    #[test]
    fn strings_are_written_as_gos_json_writes_them() {
        assert_eq!(json_string("a\"<\n\x01é\u{7f}"), "\"a\\\"\\u003c\\n\\u0001é\u{7f}\"");
    }
}
