//! What a kubelet refuses, all of it at once.
//!
//! Upstream: `validateCredentialProviderConfig` in `pkg/credentialprovider/plugin/config.go`.
//! Differs: a provider of the first KEP needs neither `apiVersion` nor `defaultCacheDuration`, which it did not have.

use std::{
    collections::{BTreeSet, HashSet},
    fmt::Write as _,
};

use keyfob_api::{FeatureGates, MatchPattern, ProviderVersion, Quoted};

use super::{
    Config, ConfigError, ErrorKind, Invalid, Protocol, ProviderConfig, TokenAttributes,
    annotation_key, help,
};

impl Config {
    /// Judges everything and returns all that is wrong.
    pub fn validate(&self, gates: FeatureGates) -> Result<(), Invalid> {
        let mut errors = Vec::new();
        if self.providers.is_empty() {
            let detail = "at least 1 item in plugins is required";
            let place = self.place.clone();
            errors.push(ConfigError { place, ..problem("providers", ErrorKind::Required, detail) });
        }
        let mut seen = HashSet::new();
        for (index, provider) in self.providers.iter().enumerate() {
            let mut judge = Judge { config: self, index, provider, errors: &mut errors };
            judge.name(!seen.insert(&provider.name));
            judge.api_version();
            judge.match_images();
            judge.default_cache_duration();
            if let Some(attributes) = &provider.token_attributes {
                judge.token_attributes(attributes, gates);
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(Invalid::new(errors)) }
    }
}

fn problem(path: &str, kind: ErrorKind, detail: &str) -> ConfigError {
    let separator = if detail.is_empty() { "" } else { ": " };
    let message = format!("{path}: {}{separator}{detail}", kind.words());
    ConfigError {
        path: path.to_owned(),
        kind,
        message,
        place: None,
        help: help::invalid(path, kind),
    }
}

/// Judges one provider.
struct Judge<'a> {
    config: &'a Config,
    index: usize,
    provider: &'a ProviderConfig,
    errors: &'a mut Vec<ConfigError>,
}

impl Judge<'_> {
    fn name(&mut self, seen: bool) {
        let name = self.provider.name.as_str();
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
        if seen {
            self.add("name", "name", ErrorKind::Duplicate, &Quoted(name).to_string());
        }
    }

    fn api_version(&mut self) {
        let version = self.provider.api_version.as_str();
        if self.provider.protocol == Protocol::FirstKep && version.is_empty() {
            return;
        }
        if version.is_empty() {
            self.add("apiVersion", "apiVersion", ErrorKind::Required, "");
        } else if version.parse::<ProviderVersion>().is_err() {
            let mut versions = ProviderVersion::ALL.map(ProviderVersion::api_version);
            versions.sort_unstable();
            let detail = format!("{}: {}", Quoted(version), supported(&versions));
            self.add("apiVersion", "apiVersion", ErrorKind::Unsupported, &detail);
        }
    }

    fn match_images(&mut self) {
        if self.provider.match_images.is_empty() {
            let detail = "at least 1 item in matchImages is required";
            self.add("matchImages", "matchImages", ErrorKind::Required, detail);
        }
        for (index, pattern) in self.provider.match_images.iter().enumerate() {
            if let Err(error) = MatchPattern::parse(pattern) {
                let detail = format!("{}: match image is invalid: {error}", Quoted(pattern));
                let place = format!("matchImages[{index}]");
                self.add("matchImages", &place, ErrorKind::Invalid, &detail);
            }
        }
    }

    fn default_cache_duration(&mut self) {
        const PATH: &str = "defaultCacheDuration";
        match self.provider.default_cache_duration {
            None if self.provider.protocol == Protocol::FirstKep => {}
            None => self.add(PATH, PATH, ErrorKind::Required, ""),
            Some(duration) if duration.is_negative() => {
                let detail = format!("\"{duration}\": must be greater than or equal to 0");
                self.add(PATH, PATH, ErrorKind::Invalid, &detail);
            }
            Some(_) => {}
        }
    }

    fn token_attributes(&mut self, attributes: &TokenAttributes, gates: FeatureGates) {
        const PATH: &str = "tokenAttributes";
        const REQUIRED: &str = "tokenAttributes.requiredServiceAccountAnnotationKeys";
        const OPTIONAL: &str = "tokenAttributes.optionalServiceAccountAnnotationKeys";
        let v1 = ProviderVersion::V1.api_version();
        let required = &attributes.required_service_account_annotation_keys;
        let optional = &attributes.optional_service_account_annotation_keys;
        if !gates.service_account_token {
            let detail = "tokenAttributes is not supported when KubeletServiceAccountTokenForCredentialProviders feature gate is disabled";
            self.add(PATH, PATH, ErrorKind::Forbidden, detail);
        }
        if attributes.service_account_token_audience.is_empty() {
            self.required("tokenAttributes.serviceAccountTokenAudience", "");
        }
        if attributes.require_service_account.is_none() {
            self.required("tokenAttributes.requireServiceAccount", "");
            self.help_with_what_kep_4412_lacks(attributes);
        }
        if self.provider.api_version != v1 {
            let detail = format!("tokenAttributes is only supported for {v1} API version");
            self.add(PATH, PATH, ErrorKind::Forbidden, &detail);
        }
        if attributes.require_service_account == Some(false) && !required.is_empty() {
            let detail = "requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set";
            self.add(REQUIRED, REQUIRED, ErrorKind::Forbidden, detail);
        }
        self.annotation_keys(REQUIRED, required);
        self.annotation_keys(OPTIONAL, optional);
        self.keys_in_both(PATH, required, optional);
        self.cache_type(&attributes.cache_type);
    }

    /// To whoever wrote what KEP-4412 calls complete, both fields that are missing are named at once.
    fn help_with_what_kep_4412_lacks(&mut self, attributes: &TokenAttributes) {
        if let (true, Some(error)) = (attributes.cache_type.is_empty(), self.errors.last_mut()) {
            error.help = Some(help::TWO_MORE_FIELDS.to_owned());
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

    fn cache_type(&mut self, cache_type: &str) {
        const PATH: &str = "tokenAttributes.cacheType";
        const TYPES: [&str; 2] = ["ServiceAccount", "Token"];
        if cache_type.is_empty() {
            let detail = "cacheType is required to be set when tokenAttributes is specified. Supported values are: ServiceAccount, Token";
            self.required(PATH, detail);
        } else if !TYPES.contains(&cache_type) {
            let detail = format!("{}: {}", json_string(cache_type), supported(&TYPES));
            self.add(PATH, PATH, ErrorKind::Unsupported, &detail);
        }
    }

    fn required(&mut self, path: &str, detail: &str) {
        self.add(path, path, ErrorKind::Required, detail);
    }

    /// `place` is the path with indices, for finding the value in its file.
    fn add(&mut self, path: &str, place: &str, kind: ErrorKind, detail: &str) {
        let place = self.config.place(self.index, self.provider, place);
        let error = problem(&format!("providers.{path}"), kind, detail);
        self.errors.push(ConfigError { place, ..error });
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
            default_cache_duration: Some(keyfob_api::GoDuration::ZERO),
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
