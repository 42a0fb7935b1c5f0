//! A configuration in today's form.
//!
//! Every text is in double quotes, so that YAML takes none for something else.

use keyfob_api::{ProviderVersion, document::yaml_quoted};

use super::{Config, FieldValue, Fields, Protocol, ProviderConfig};

impl Config {
    /// The whole as one file of `kubelet.config.k8s.io/v1`. It holds the values of environment variables.
    ///
    /// What is read from it is equal to this, but for providers of the first KEP, whose plugins a kubelet cannot talk to:
    /// a comment says what is to be done about those. KEP-4412's dialect becomes the kubelet's, which allows answers with
    /// `cacheKeyType: Global`.
    pub fn migrate(&self) -> String {
        let mut lines = vec![
            "apiVersion: kubelet.config.k8s.io/v1".to_owned(),
            "kind: CredentialProviderConfig".to_owned(),
        ];
        if self.providers.is_empty() {
            lines.push("providers: []".to_owned());
        } else {
            lines.push("providers:".to_owned());
            lines.extend(self.providers.iter().flat_map(provider));
        }
        lines.join("\n") + "\n"
    }
}

fn provider(provider: &ProviderConfig) -> Vec<String> {
    let mut modern = provider.clone();
    let mut lines = Vec::new();
    if provider.protocol == Protocol::FirstKep {
        lines.extend(ABOUT_THE_FIRST_KEP.map(|line| format!("# {line}")));
        ProviderVersion::V1.api_version().clone_into(&mut modern.api_version);
        modern.default_cache_duration.get_or_insert_default();
        modern.args.insert(0, "get-credentials".to_owned());
    }
    let mut fields = modern.fields();
    // People write the version behind the name.
    fields.sort_by_key(|(name, _)| !["name", "apiVersion"].contains(name));
    lines.extend(entry(fields));
    lines
}

const ABOUT_THE_FIRST_KEP: [&str; 4] = [
    "The plugin below was configured for the first proposal's protocol. A kubelet speaks another one to it:",
    "it gets a CredentialProviderRequest of credentialprovider.kubelet.k8s.io/v1 on stdin, and must answer with a",
    "CredentialProviderResponse of that version: cacheKeyType, cacheDuration (how long, not until when) and auth.",
    "Replace or rebuild the plugin before a kubelet uses this. `0s` keeps no answer that does not say for how long.",
];

/// An object in a list. Of its texts only the first is written if it is empty.
fn entry(fields: Fields<'_>) -> Vec<String> {
    let mut is_first = true;
    let is_written =
        |field: &(_, _)| std::mem::take(&mut is_first) || !matches!(field.1, FieldValue::Text(""));
    let lines = object(fields.into_iter().filter(is_written));
    let marks = std::iter::once("- ").chain(std::iter::repeat("  "));
    marks.zip(lines).map(|(mark, line)| format!("{mark}{line}")).collect()
}

fn object<'a>(fields: impl IntoIterator<Item = (&'static str, FieldValue<'a>)>) -> Vec<String> {
    fields.into_iter().flat_map(|(name, value)| field(name, value)).collect()
}

/// The lines of a field; none if it has nothing.
fn field(name: &str, value: FieldValue<'_>) -> Vec<String> {
    match value {
        FieldValue::Text(text) => vec![format!("{name}: {}", yaml_quoted(text))],
        FieldValue::Secret(text) => vec![format!("{name}: {}", yaml_quoted(text.expose()))],
        FieldValue::Duration(Some(duration)) => {
            vec![format!("{name}: {}", yaml_quoted(&duration.to_string()))]
        }
        FieldValue::Bool(Some(truth)) => vec![format!("{name}: {truth}")],
        FieldValue::Duration(None) | FieldValue::Bool(None) | FieldValue::Object(None) => {
            Vec::new()
        }
        FieldValue::Texts(texts) => {
            let lines = texts.iter().map(|text| format!("- {}", yaml_quoted(text)));
            below(name, lines.collect())
        }
        FieldValue::Objects(objects) => below(name, objects.into_iter().flat_map(entry).collect()),
        FieldValue::Object(Some(fields)) => {
            let lines = object(fields).into_iter().map(|line| format!("  {line}"));
            below(name, lines.collect())
        }
    }
}

fn below(name: &str, lines: Vec<String>) -> Vec<String> {
    if lines.is_empty() { lines } else { [vec![format!("{name}:")], lines].concat() }
}

#[cfg(test)]
mod tests {
    use keyfob_api::GoDuration;

    use super::*;
    use crate::{EnvVar, TokenAttributes};

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
            ..ProviderConfig::default()
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
