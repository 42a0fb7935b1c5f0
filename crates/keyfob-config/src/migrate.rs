//! A configuration in today's form.
//!
//! Every text is in double quotes, so that YAML takes none for something else.

use std::fmt::Write as _;

use keyfob_api::{ProviderVersion, document::yaml_quoted};

use super::{Config, Protocol, ProviderConfig, TokenAttributes};

impl Config {
    /// The whole as one file of `kubelet.config.k8s.io/v1`. It holds the values of environment variables.
    ///
    /// What is read from it is equal to this, but for providers of the first KEP, whose plugins a kubelet cannot talk to:
    /// a comment says what is to be done about those. KEP-4412's dialect becomes the kubelet's, which allows answers with
    /// `cacheKeyType: Global`.
    pub fn migrate(&self) -> String {
        let mut out = Writer::default();
        out.line(0, "apiVersion: kubelet.config.k8s.io/v1");
        out.line(0, "kind: CredentialProviderConfig");
        if self.providers.is_empty() {
            out.line(0, "providers: []");
            return out.0;
        }
        out.line(0, "providers:");
        for provider in &self.providers {
            out.provider(provider);
        }
        out.0
    }
}

#[derive(Default)]
struct Writer(String);

impl Writer {
    fn line(&mut self, indent: usize, text: &str) {
        writeln!(self.0, "{:indent$}{text}", "").unwrap_or_default();
    }

    fn text(&mut self, indent: usize, name: &str, text: &str) {
        self.line(indent, &format!("{name}: {}", yaml_quoted(text)));
    }

    fn list(&mut self, indent: usize, name: &str, texts: &[String]) {
        if texts.is_empty() {
            return;
        }
        self.line(indent, &format!("{name}:"));
        for text in texts {
            self.line(indent, &format!("- {}", yaml_quoted(text)));
        }
    }

    fn provider(&mut self, provider: &ProviderConfig) {
        let mut modern = provider.clone();
        if provider.protocol == Protocol::FirstKep {
            self.about_the_first_kep();
            ProviderVersion::V1.api_version().clone_into(&mut modern.api_version);
            modern.default_cache_duration.get_or_insert_default();
            modern.args.insert(0, "get-credentials".to_owned());
        }
        self.line(0, &format!("- name: {}", yaml_quoted(&modern.name)));
        if !modern.api_version.is_empty() {
            self.text(2, "apiVersion", &modern.api_version);
        }
        self.list(2, "matchImages", &modern.match_images);
        if let Some(duration) = modern.default_cache_duration {
            self.text(2, "defaultCacheDuration", &duration.to_string());
        }
        self.list(2, "args", &modern.args);
        self.environment(&modern);
        if let Some(attributes) = &modern.token_attributes {
            self.token_attributes(attributes);
        }
    }

    fn about_the_first_kep(&mut self) {
        for line in [
            "The plugin below was configured for the first proposal's protocol. A kubelet speaks another one to it:",
            "it gets a CredentialProviderRequest of credentialprovider.kubelet.k8s.io/v1 on stdin, and must answer with a",
            "CredentialProviderResponse of that version: cacheKeyType, cacheDuration (how long, not until when) and auth.",
            "Replace or rebuild the plugin before a kubelet uses this. `0s` keeps no answer that does not say for how long.",
        ] {
            self.line(0, &format!("# {line}"));
        }
    }

    fn environment(&mut self, provider: &ProviderConfig) {
        if provider.env.is_empty() {
            return;
        }
        self.line(2, "env:");
        for variable in &provider.env {
            self.line(2, &format!("- name: {}", yaml_quoted(&variable.name)));
            self.text(4, "value", variable.value.expose());
        }
    }

    fn token_attributes(&mut self, attributes: &TokenAttributes) {
        self.line(2, "tokenAttributes:");
        self.text(4, "serviceAccountTokenAudience", &attributes.service_account_token_audience);
        self.text(4, "cacheType", &attributes.cache_type);
        if let Some(required) = attributes.require_service_account {
            self.line(4, &format!("requireServiceAccount: {required}"));
        }
        let required = &attributes.required_service_account_annotation_keys;
        self.list(4, "requiredServiceAccountAnnotationKeys", required);
        let optional = &attributes.optional_service_account_annotation_keys;
        self.list(4, "optionalServiceAccountAnnotationKeys", optional);
    }
}

#[cfg(test)]
mod tests {
    use keyfob_api::GoDuration;

    use super::*;
    use crate::EnvVar;

    #[test]
    fn what_is_written_is_read_back_whatever_the_texts() {
        let odd = [
            "",
            " a ",
            "*",
            "yes",
            "0",
            "~",
            "a: b # c",
            "\"\\'",
            "é日\u{1f600}",
            "\0\x07\t\r\n\x7f\u{85}\u{a0}",
            "\u{2028}\u{feff}\u{ffff}\u{e000}",
            "- x",
            "{{ a }}",
            "a\n\nb\n",
        ];
        let texts: Vec<String> = odd.iter().map(|text| (*text).to_owned()).collect();
        let providers = odd.iter().map(|text| ProviderConfig {
            name: (*text).to_owned(),
            match_images: texts.clone(),
            default_cache_duration: Some(GoDuration::from_nanos(-1_234_567)),
            api_version: (*text).to_owned(),
            args: texts.clone(),
            env: vec![EnvVar { name: (*text).to_owned(), value: (*text).into() }],
            token_attributes: Some(TokenAttributes {
                service_account_token_audience: (*text).to_owned(),
                require_service_account: Some(false),
                required_service_account_annotation_keys: texts.clone(),
                ..TokenAttributes::default()
            }),
            protocol: Protocol::Kubelet,
        });
        let config = Config::new(providers);

        let read = Config::from_files([("new.yaml", config.migrate())]).unwrap();

        assert_eq!(read.providers, config.providers);
    }

    #[test]
    fn nothing_is_made_up() {
        let config =
            Config::new([ProviderConfig { name: "p".into(), ..ProviderConfig::default() }]);
        let text = config.migrate();
        let head =
            "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n";
        assert_eq!(text, format!("{head}- name: \"p\"\n"));
        assert_eq!(Config::from_files([("a", text)]).unwrap().providers, config.providers);
        let empty = Config::default().migrate();
        assert!(Config::from_files([("a", empty)]).unwrap().providers.is_empty());
    }
}
