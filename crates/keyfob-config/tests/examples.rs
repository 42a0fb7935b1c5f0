//! The examples that people copy from the announcement and the proposals: what is read of them, and what is said.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

use std::path::PathBuf;

use keyfob_api::FeatureGates;
use keyfob_config::{
    Config, EnvVar, Protocol, ProviderConfig, ReadProblem, TokenAttributes, TokenDialect,
};

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", name].iter().collect()
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Reads a fixture that is valid, and returns its one provider and what is warned of.
fn one_provider(name: &str) -> (ProviderConfig, Vec<String>) {
    let config = Config::read(&fixture(name)).unwrap();
    config.validate(FeatureGates::default()).unwrap();
    let warnings = config.lint(None).into_iter().map(|warning| {
        let refused = if warning.kubelet_refuses { "a kubelet refuses this: " } else { "" };
        format!("{refused}{} / {}", warning.message, warning.help)
    });
    let warnings = warnings.collect();
    let [provider] = <[_; 1]>::try_from(config.providers).unwrap();
    (provider, warnings)
}

fn migrated(name: &str) -> (String, Config) {
    let text = Config::read(&fixture(name)).unwrap().migrate();
    let read = Config::from_files([("modern.yaml", &text)]).unwrap();
    read.validate(FeatureGates::default()).unwrap();
    (text, read)
}

#[test]
fn the_announcements_example_is_read_and_nothing_is_said_about_it() {
    let (provider, warnings) = one_provider("announcement.yaml");

    let wanted = ProviderConfig {
        name: "auth-provider-gcp".into(),
        match_images: texts(&["container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev"]),
        default_cache_duration: Some("1m".parse().unwrap()),
        api_version: "credentialprovider.kubelet.k8s.io/v1".into(),
        args: texts(&["get-credentials", "--v=3"]),
        ..ProviderConfig::default()
    };
    assert_eq!((provider, warnings), (wanted, texts(&[])));
    let (_, modern) = migrated("announcement.yaml");
    assert_eq!(modern.providers, Config::read(&fixture("announcement.yaml")).unwrap().providers);
}

#[test]
fn kep_2133s_types_are_read_in_their_first_version() {
    let (provider, warnings) = one_provider("kep-2133.yaml");

    let wanted = ProviderConfig {
        name: "ecr-credential-provider".into(),
        match_images: texts(&[
            "123456789.dkr.ecr.us-east-1.amazonaws.com",
            "*.azurecr.io",
            "gcr.io",
            "*.*.registry.io",
            "registry.io:8080/path",
        ]),
        default_cache_duration: Some("12h".parse().unwrap()),
        api_version: "credentialprovider.kubelet.k8s.io/v1alpha1".into(),
        args: texts(&["get-credentials"]),
        env: vec![EnvVar { name: "AWS_PROFILE".into(), value: "example_profile".into() }],
        ..ProviderConfig::default()
    };
    assert_eq!((provider, warnings), (wanted, texts(&[])));
}

#[test]
fn kep_4412s_one_list_is_read_as_optional_annotations_and_its_pattern_is_useless() {
    let (provider, warnings) = one_provider("kep-4412.yaml");

    let tokens = TokenAttributes {
        service_account_token_audience: "my-audience".into(),
        cache_type: "ServiceAccount".into(),
        require_service_account: Some(true),
        optional_service_account_annotation_keys: texts(&[
            "domain.io/identity-id",
            "domain.io/identity-type",
            "domain.io/annotation-that-does-not-exist",
        ]),
        dialect: TokenDialect::Kep4412,
        ..TokenAttributes::default()
    };
    assert_eq!(provider.token_attributes, Some(tokens));
    assert_eq!(
        warnings,
        [
            "a kubelet refuses this: serviceAccountAnnotationKeys is KEP-4412's name, which a kubelet does not know; keyfob reads it as \
             optionalServiceAccountAnnotationKeys, with cacheType ServiceAccount and requireServiceAccount true where they \
             are missing, and refuses answers with cacheKeyType Global, which the KEP forbids and a kubelet allows / write \
             requiredServiceAccountAnnotationKeys or optionalServiceAccountAnnotationKeys, cacheType and \
             requireServiceAccount; --migrate does",
            "the pattern \"*.registry.io/*\" never matches: a star in the path stands for itself, and no image name has one: \
             write \"*.registry.io/\", which is a prefix / write \"*.registry.io/\"",
        ]
    );
    let (text, modern) = migrated("kep-4412.yaml");
    let mut in_todays_words = provider;
    in_todays_words.token_attributes.as_mut().unwrap().dialect = TokenDialect::Kubelet;
    assert_eq!(modern.providers, [in_todays_words]);
    assert!(!text.contains(" serviceAccountAnnotationKeys"), "{text}");
}

#[test]
fn the_first_keps_example_as_printed_is_no_yaml_and_the_help_says_why() {
    let error = Config::read(&fixture("first-kep-as-printed.yaml")).unwrap_err();

    assert_eq!(error.problem(), ReadProblem::Syntax);
    let place = error.place().unwrap().to_string();
    assert!(place.ends_with("first-kep-as-printed.yaml:8:5"), "{place}");
    assert_eq!(
        error.help().unwrap(),
        "a `*` begins a YAML alias: put the pattern in quotes, as in \"*.example.com\""
    );
    let end = "first-kep-as-printed.yaml\": invalid YAML at line 8, column 5: expected a name of letters and digits after `*` or `&`";
    assert!(error.to_string().ends_with(end), "{error}");
}

#[test]
fn the_first_keps_example_is_read_with_its_arguments_as_variables() {
    let (provider, warnings) = one_provider("first-kep.yaml");

    let wanted = ProviderConfig {
        name: "ecr-creds".into(),
        match_images: texts(&["*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr.*.amazonaws.com.cn"]),
        env: vec![EnvVar { name: "REGION".into(), value: "us-west-2".into() }],
        protocol: Protocol::FirstKep,
        ..ProviderConfig::default()
    };
    assert_eq!(provider, wanted);
    assert_eq!(
        warnings,
        [
            "a kubelet refuses this: this is the first proposal's configuration (imageMatchers, extraArgs); its plugins are run \
          as `NAME get-credentials` and answer one login with an expirationTimestamp / keyfob validate --migrate prints \
          today's form and what to change in the plugins"
        ]
    );
}

#[test]
fn the_first_keps_configuration_becomes_one_of_today_with_advice_in_a_comment() {
    let (text, modern) = migrated("first-kep.yaml");

    let [provider] = <[_; 1]>::try_from(modern.providers).unwrap();
    assert_eq!(provider.api_version, "credentialprovider.kubelet.k8s.io/v1");
    assert_eq!(provider.args, ["get-credentials"]);
    assert_eq!(provider.protocol, Protocol::Kubelet);
    assert!(provider.default_cache_duration.unwrap().is_zero());
    assert!(text.contains("# Replace or rebuild the plugin before a kubelet uses this."), "{text}");
}

#[test]
fn the_first_keps_types_have_a_list_of_arguments() {
    let (provider, _) = one_provider("first-kep-types.yaml");

    let variable = |name: &str, value: &str| EnvVar { name: name.into(), value: value.into() };
    assert_eq!(provider.env, [variable("REGION", "us-west-2"), variable("RETRIES", "3")]);
}

#[test]
fn what_yaml_has_changed_is_no_argument() {
    let head = "kind: credentialprovider\napiVersion: v1alpha1\nproviders:\n- name: p\n  imageMatchers: [r.io]\n  extraArgs:\n";
    let said = |rest: &str| {
        let error = Config::from_files([("c.yaml", format!("{head}{rest}"))]).unwrap_err();
        let place = error.place().unwrap().to_string();
        format!("{place}: {error} / {}", error.help().unwrap())
    };
    let number = "put quotes around it: YAML reads this as a number and would change it";
    let boolean = "put quotes around it: YAML reads this as a boolean and would change it";
    let wrong = "error decoding config \"c.yaml\": providers[0].extraArgs";

    for text in ["012345678910", "1.10"] {
        assert_eq!(
            said(&format!("    account: {text}\n")),
            format!(
                "c.yaml:7:14: {wrong}.account: expected a string, found a number (line 7, column 14) / {number}"
            )
        );
    }
    assert_eq!(
        said("    flag: no\n"),
        format!(
            "c.yaml:7:11: {wrong}.flag: expected a string, found a boolean (line 7, column 11) / {boolean}"
        )
    );
    assert_eq!(
        said("  - name: retries\n    value: 3\n"),
        format!(
            "c.yaml:8:12: {wrong}[0].value: expected a string, found a number (line 8, column 12) / {number}"
        )
    );
}
