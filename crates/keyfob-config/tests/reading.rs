//! Reading from real files, and what is said about them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

use std::{fs, os::unix::net::UnixListener, path::Path};

use keyfob_api::FeatureGates;
use keyfob_config::{Config, ProviderConfig, Warning};

const GOOD: &str = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: p\n  \
                    matchImages: [r.io]\n  defaultCacheDuration: 1m\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n";

fn error(path: &Path, directory: &Path) -> String {
    let error = Config::read(path).unwrap_err().to_string();
    error.replace(&directory.display().to_string(), "$DIR")
}

#[test]
fn what_cannot_be_read_is_told_in_upstreams_words() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();

    assert_eq!(error(Path::new(""), dir), "credential provider config path is empty");
    assert_eq!(
        error(&dir.join("none"), dir),
        "unable to access path \"$DIR/none\": stat $DIR/none: no such file or directory"
    );
    assert_eq!(error(dir, dir), "no configuration files found in directory \"$DIR\"");
}

#[test]
fn only_regular_files_of_a_sensible_size_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let _listener = UnixListener::bind(dir.join("socket")).unwrap();
    let large = fs::File::create(dir.join("large")).unwrap();
    large.set_len((16 << 20) + 1).unwrap();

    let socket = error(&dir.join("socket"), dir);
    assert_eq!(socket, "unable to read file \"$DIR/socket\": not a regular file");
    assert_eq!(
        error(Path::new("/dev/zero"), dir),
        "unable to read file \"/dev/zero\": not a regular file"
    );
    assert_eq!(
        error(&dir.join("large"), dir),
        "unable to read file \"$DIR/large\": larger than 16 MiB"
    );
}

#[test]
fn files_of_a_directory_are_read_in_the_order_of_their_names() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["b", "a", "B"] {
        fs::write(
            folder.path().join(format!("{name}.yml")),
            GOOD.replace("name: p", &format!("name: {name}")),
        )
        .unwrap();
    }

    let config = Config::read(folder.path()).unwrap();

    let names: Vec<&str> = config.providers.iter().map(|provider| provider.name.as_str()).collect();
    assert_eq!(names, ["B", "a", "b"]);
}

#[test]
fn a_second_provider_of_a_name_is_told_with_both_places() {
    let error = Config::from_files([("a.yaml", GOOD), ("b.yaml", GOOD)]).unwrap_err();

    assert_eq!(error.place().unwrap().to_string(), "b.yaml:4:9");
    assert!(error.help().unwrap().starts_with("the first stands at a.yaml:4:9; "), "{error:?}");
}

#[test]
fn every_unknown_field_has_its_place_and_advice() {
    let text = GOOD.replace("matchImages", "matchImage") + "  cacheDuration: 1h\nfoo: 1\n";

    let error = Config::from_files([("c.yaml", text)]).unwrap_err();

    let told: Vec<String> = error
        .errors()
        .iter()
        .map(|error| {
            let help = error.help.as_deref().unwrap().split([';', ':']).next().unwrap();
            format!("{}: {} ({help})", error.place.as_ref().unwrap(), error)
        })
        .collect();
    assert_eq!(
        told,
        [
            "c.yaml:9:1: unknown field \"foo\" (leave it out)",
            "c.yaml:8:3: unknown field \"providers[0].cacheDuration\" (cacheDuration belongs into the plugin's answer)",
            "c.yaml:5:3: unknown field \"providers[0].matchImage\" (did you mean `matchImages`?)",
        ]
    );
}

#[test]
fn neither_debug_nor_the_single_errors_show_the_file() {
    let secret = "hunter2-in-a-variable";
    let text = GOOD.replace("kind: ", "kindd: ")
        + &format!("  env:\n  - name: TOKEN\n    value: {secret}\n    valu: 1\n");

    for text in [text.clone(), text.replace("kindd", "kind")] {
        let error = Config::from_files([("c.yaml", text)]).unwrap_err();
        let shown = format!("{error:?} {:?}", error.errors());
        assert!(!shown.contains(secret), "{shown}");
    }
    let config = Config::from_files([(
        "c.yaml",
        text.replace("kindd", "kind").replace("    valu: 1\n", ""),
    )])
    .unwrap();
    assert!(!format!("{config:?} {:?}", config.lint(None)).contains(secret));
}

/// Upstream quotes the whole file, or the value.
#[test]
fn what_is_no_configuration_is_told_without_quoting_it() {
    let said = |text: &str| Config::from_files([("c.yaml", text)]).unwrap_err().to_string();
    for text in [
        "providers:\n- name: p\n  env: [{name: A, value: hunter2}]\n",
        r#"{"auths":{"r.io":{"auth":"aHVudGVyMg==","identitytoken":"hunter2"}}}"#,
        r#"{"apiVersion":"v1","auth":{"r.io":{"username":"u","password":"p"}}}"#,
        "providers:\n- name: p\n",
        "",
    ] {
        assert_eq!(said(text), "error decoding config \"c.yaml\": Object 'Kind' is missing");
    }
    let cases = [
        (
            "env:\n- name: A\n  value: !!int hunter2\n",
            "invalid YAML at line 3, column 10: value does not fit its tag",
        ),
        ("a: *hunter2", "invalid YAML at line 1, column 4: unknown anchor referenced"),
        ("? {a: hunter2}\n: b", "invalid YAML at line 1, column 3: invalid map key"),
        ("~: hunter2", "invalid YAML at line 1, column 1: unsupported map key"),
        ("{\"a\": hunter2}", "invalid JSON at line 1, column 7: expected a value"),
    ];
    for (text, want) in cases {
        assert_eq!(said(text), format!("error decoding config \"c.yaml\": {want}"), "{text}");
    }
}

#[test]
fn a_value_of_a_wrong_type_is_told_with_its_path_and_place() {
    let said = |text: &str| Config::from_files([("c.yaml", text)]).unwrap_err().to_string();
    let with = |from: &str, to: &str| said(&GOOD.replace(from, to));
    let cases = [
        (said("[1]"), "document: expected an object, found a list (line 1, column 1)"),
        (said("KIND: 1"), "kind: expected a string, found a number (line 1, column 7)"),
        (
            with("name: p", "name: no"),
            "providers[0].name: expected a string, found a boolean (line 4, column 9)",
        ),
        (
            with("[r.io]", "r.io"),
            "providers[0].matchImages: expected a list, found a string (line 5, column 16)",
        ),
        (
            with("1m", "1 day"),
            "providers[0].defaultCacheDuration: time: unknown unit \" day\" in duration \"1 day\" (line 6, column 25)",
        ),
        (
            with("1m", "60"),
            "providers[0].defaultCacheDuration: expected a string, found a number (line 6, column 25)",
        ),
        (
            said("kind: credentialprovider\napiVersion: v1alpha1\nproviders: [{kind: 1}]"),
            "providers[0].kind: expected a string, found a number (line 3, column 20)",
        ),
        (
            said(
                "kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/__internal\nProviders: [{APIVersion: 1}]",
            ),
            "Providers[0].APIVersion: expected a string, found a number (line 3, column 26)",
        ),
    ];
    for (said, want) in cases {
        assert_eq!(said, format!("error decoding config \"c.yaml\": {want}"));
    }
}

#[test]
fn a_wrong_version_is_told_at_the_version_and_a_wrong_kind_at_the_kind() {
    let place = |text: &str| {
        Config::from_files([("c.yaml", text)]).unwrap_err().place().unwrap().to_string()
    };
    assert_eq!(place(&GOOD.replace("config.k8s.io/v1\n", "config.k8s.io/v2\n")), "c.yaml:1:13");
    assert_eq!(place(&GOOD.replace("ProviderConfig", "Config")), "c.yaml:2:7");
    assert_eq!(place("apiVersion: a/b/c\nkind: Pod\n"), "c.yaml:1:13");
}

#[test]
fn a_star_for_any_registry_is_warned_of() {
    for text in ["*", "*/*", "*/team", "te*"] {
        let provider = ProviderConfig {
            match_images: vec![text.into()],
            name: "p".into(),
            ..Default::default()
        };
        let warnings = lint(provider, None);
        let message = format!(
            "the pattern {text:?} is only for registries of one label, such as localhost: \"*\" stands for one label"
        );
        assert_eq!(messages(&warnings), [message]);
        assert!(warnings[0].help.ends_with("there is no pattern for all registries"));
    }
    let named = ["*.io", "*:5000", "localhost"].map(str::to_owned).to_vec();
    let provider = ProviderConfig { match_images: named, name: "p".into(), ..Default::default() };
    assert_eq!(messages(&lint(provider, None)), [""; 0]);
}

fn lint(provider: ProviderConfig, plugins: Option<&Path>) -> Vec<Warning> {
    Config::new([provider]).lint(plugins)
}

fn messages(warnings: &[Warning]) -> Vec<&str> {
    warnings.iter().map(|warning| warning.message.as_str()).collect()
}

#[test]
fn what_a_kubelet_accepts_and_people_regret_is_warned_of() {
    let text = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: \"a\\tb\"\n  \
                matchImages: ['', r.io, r.io, 'https://r.io', '*.r.io', eu.r.io/team, '[::1]']\n  \
                defaultCacheDuration: 0s\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  env: [{name: A}, {name: A}, {name: ''}]\n";
    let config = Config::from_files([("c.yaml", text)]).unwrap();
    config.validate(FeatureGates::default()).unwrap();

    let told: Vec<String> = config
        .lint(None)
        .iter()
        .map(|warning| {
            let place = warning.place.as_ref().unwrap().at.unwrap();
            let message: String = warning.message.chars().take(48).collect();
            format!("{}:{} {message}", place.line, place.column)
        })
        .collect();

    assert_eq!(
        told,
        [
            "4:9 the name \"a\\tb\" contains white space or control ",
            "5:17 an empty pattern matches no image",
            "5:27 the pattern \"r.io\" is there twice",
            "5:33 the pattern \"https://r.io\" never matches: image ",
            "5:59 every image that \"eu.r.io/team\" matches is match",
            "5:73 the pattern \"[::1]\" never matches: without a por",
            "6:25 a default of zero never keeps answers that do no",
            "8:20 the environment variable A is set twice; the las",
            "8:31 \"\" cannot be the name of an environment variable",
        ]
    );
}

#[test]
fn plugins_are_looked_at_where_their_directory_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let provider = ProviderConfig { name: "plugin".into(), ..ProviderConfig::default() };

    let missing = lint(provider.clone(), Some(folder.path()));
    assert!(missing[0].message.starts_with("no plugin at "), "{missing:?}");
    assert!(missing[0].kubelet_refuses);

    let nowhere = lint(provider.clone(), Some(&folder.path().join("none")));
    assert!(nowhere[0].message.ends_with("/none is not there"), "{nowhere:?}");
    assert_eq!(nowhere.len(), 1, "the plugins are not looked for");

    let none = ProviderConfig::default();
    let warnings = lint(none, Some(folder.path()));
    assert_eq!(
        messages(&warnings),
        ["the provider has no name, so that the plugin directory itself would be run"]
    );
    assert!(lint(provider, None).is_empty());
}

#[test]
fn a_plugin_that_anybody_may_write_is_warned_of() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("plugin");
    fs::write(&plugin, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o777)).unwrap();

    let provider = ProviderConfig { name: "plugin".into(), ..ProviderConfig::default() };
    let warnings = lint(provider, Some(folder.path()));

    let everybody =
        |message: &&str| message.ends_with("/plugin is writable by everybody: chmod o-w it");
    assert!(messages(&warnings).iter().any(everybody), "{warnings:?}");
    assert!(!warnings.iter().any(|warning| warning.kubelet_refuses));
}
