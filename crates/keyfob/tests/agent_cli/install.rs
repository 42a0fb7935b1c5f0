//! `keyfob provider install --agent`: the relay as the kubelet's only plugin.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    node::{Node, Said, keyfob},
    running_agent::{IMAGE, OTHER, PASSWORD, RunningAgent, agent_file, node, own_rule},
};

/// `cargo test --workspace` builds it beside keyfob.
fn relay() -> PathBuf {
    let relay = Path::new(env!("CARGO_BIN_EXE_keyfob")).with_file_name("keyfob-relay");
    assert!(relay.exists(), "build {} first: cargo build -p keyfob-relay", relay.display());
    relay
}

/// The kubelet's side of a node.
struct Kubelet<'a>(&'a Node);

impl Kubelet<'_> {
    fn path(&self, name: &str) -> String {
        self.0.path(name).to_str().unwrap().to_owned()
    }

    fn install(&self, args: &[&str]) -> Said {
        let (plugins, file) = (self.path("kubelet-plugins"), self.path("agent.yaml"));
        let known = ["provider", "install", &plugins, "--agent", "--agent-file", &file];
        keyfob(&[&known[..], args].concat())
    }

    /// Asks the plugin as the kubelet does.
    fn get(&self, image: &str) -> Said {
        let (config, plugins) = (self.path("kubelet.yaml"), self.path("kubelet-plugins"));
        let place = ["--config", &config, "--bin-dir", &plugins];
        keyfob(&[&["get", image, "-o", "json", "--show-secrets"], &place[..]].concat())
    }
}

#[test]
fn the_relay_gives_the_kubelet_what_the_agent_has() {
    let relay = relay();
    let agent = RunningAgent::start();
    let kubelet = Kubelet(&agent.node);
    let config = kubelet.path("kubelet.yaml");

    let rehearsed = kubelet.install(&["--config-file", &config, "--dry-run"]);
    assert_eq!(rehearsed.code, 0, "{}", rehearsed.stderr);
    assert!(!Path::new(&config).exists() && !agent.node.path("kubelet-plugins").exists());
    let said = kubelet.install(&["--config-file", &config]);
    assert_eq!((said.code, said.stdout.as_str()), (0, ""), "{}", said.stderr);

    let written = fs::read_to_string(&config).unwrap();
    assert_eq!(written, rehearsed.stdout);
    assert_eq!(
        written,
        format!(
            "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n\
             - name: \"keyfob-credential-provider\"\n  apiVersion: \"credentialprovider.kubelet.k8s.io/v1\"\n  \
             matchImages:\n  - \"*.example\"\n  defaultCacheDuration: \"0s\"\n  args:\n  - \"--socket\"\n  - \"{}\"\n",
            agent.socket()
        )
    );
    let link = agent.node.path("kubelet-plugins/keyfob-credential-provider");
    assert_eq!(fs::read_link(link).unwrap(), relay);
    let found = kubelet.get(IMAGE);
    assert_eq!(found.code, 0, "{}", found.stderr);
    let login = &found.json()["credentials"][0];
    assert_eq!(login["provider"], "keyfob-credential-provider");
    assert_eq!((&login["username"], &login["password"]), (&json!("ada"), &json!(PASSWORD)));
    let denied = kubelet.get(OTHER);
    assert_eq!(denied.code, 1, "{}", denied.stdout);
    let error = denied.json()["errors"][0]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("no rule allows s.example/team/app"), "{error}");
}

#[test]
fn without_an_agent_the_kubelet_runs_the_plugin_or_is_told_why_not() {
    relay();
    let node = node();
    agent_file(&node, &own_rule("r.example"));
    let kubelet = Kubelet(&node);
    let config = kubelet.path("kubelet.yaml");
    assert_eq!(kubelet.install(&["--config-file", &config]).code, 0);

    let refused = kubelet.get(IMAGE);
    assert_eq!(refused.code, 1, "{}", refused.stdout);
    let error = refused.json()["errors"][0]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("keyfob-relay: "), "{error}");

    let plugin = kubelet.path("plugins/plugin");
    let said = kubelet.install(&["--config-file", &config, "--merge", "--if-down", "run", &plugin]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("the old file is kept as "), "{}", said.stderr);
    // Variables may be secrets. A file that was there keeps its mode.
    let new = kubelet.path("new.yaml");
    let said = kubelet.install(&["--config-file", &new, "--if-down", "run", &plugin]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&config), mode(&new)), (0o644, 0o600));
    let written = fs::read_to_string(&config).unwrap();
    let args = format!(
        "--if-down\"\n  - \"run\"\n  - \"--fallback-image\"\n  - \"*.example\"\n  - \"--\"\n  - \"{plugin}\""
    );
    assert!(written.contains(&args), "{written}");
    let env = "env:\n  - name: \"PLUGIN_TOKEN\"\n    value: \"hunter2-token\"";
    assert!(written.contains(env), "{written}");
    let found = kubelet.get(IMAGE);
    assert_eq!(found.code, 0, "{}", found.stdout);
    assert_eq!(found.json()["credentials"][0]["username"], "ada");

    let any = ["--config-file", &config, "--merge", "--any-registry", "--if-down", "run", &plugin];
    assert_eq!(kubelet.install(&any).code, 0);
    let other = kubelet.get("registry.test/app").json();
    assert_eq!((&other["credentials"], &other["errors"]), (&json!([]), &json!([])), "{other}");
    let runs = fs::read_to_string(node.path("runs")).unwrap();
    assert_eq!(runs, "run\n", "it is not asked about an image that is not its own");
}

#[test]
fn without_an_agent_the_plugin_is_protected_as_its_provider_says() {
    relay();
    let attributes = |keys: &[&str]| {
        json!({
            "serviceAccountTokenAudience": "a", "cacheType": "Token", "requireServiceAccount": true,
            "requiredServiceAccountAnnotationKeys": keys, "optionalServiceAccountAnnotationKeys": ["r.example/role"],
        })
    };
    let node = Node::new()
        .answering("plain", &["r.example", "*.r.example:5000/team"], &[])
        .answering("old", &["r.example"], &[])
        .having("apiVersion", json!("credentialprovider.kubelet.k8s.io/v1beta1"))
        .answering("tokens", &["t.example"], &[])
        .having("tokenAttributes", attributes(&["r.example/tenant"]));
    agent_file(&node, &own_rule("r.example"));
    let kubelet = Kubelet(&node);
    let installed = |plugin: &str, more: &[&str]| {
        let plugin = kubelet.path(&format!("plugins/{plugin}"));
        let args = ["--any-registry", "--if-down", "run", &plugin, "-o", "json", "--dry-run"];
        let said = kubelet.install(&[&args[..], more].concat());
        assert_eq!(said.code, 0, "{}", said.stderr);
        let mut provider = said.json()["providers"][0].take();
        let mut args = provider["args"].take().as_array().unwrap().clone();
        assert_eq!(args.drain(..4).collect::<Vec<_>>()[2..], ["--if-down", "run"]);
        (provider, args)
    };

    let (provider, args) = installed("plain", &["--token-audience", "a"]);
    assert_eq!(provider["apiVersion"], "credentialprovider.kubelet.k8s.io/v1");
    assert_eq!(provider["env"], json!([{"name": "PLUGIN_TOKEN", "value": "hunter2-token"}]));
    let plugin = |name: &str| kubelet.path(&format!("plugins/{name}"));
    let script = |name: &str| kubelet.path(&format!("{name}.sh"));
    let image = "--fallback-image";
    let expected = [image, "r.example", image, "*.r.example:5000/team", "--"];
    assert_eq!(args, [&expected[..], &[&plugin("plain"), &script("plain")]].concat());
    let (provider, args) = installed("old", &[]);
    assert_eq!(provider["apiVersion"], "credentialprovider.kubelet.k8s.io/v1beta1");
    assert_eq!(args, [image, "r.example", "--", &plugin("old"), &script("old")]);
    let (_, args) = installed("tokens", &["--token-audience", "a"]);
    let expected = [
        &[image, "t.example", "--fallback-token", "required"][..],
        &["--fallback-required-annotation", "r.example/tenant"],
        &["--fallback-annotation", "r.example/role", "--", &plugin("tokens"), &script("tokens")],
    ];
    assert_eq!(args, expected.concat());
}

#[test]
fn a_plugin_that_could_not_run_as_its_provider_says_is_refused() {
    relay();
    let node = Node::new()
        .answering("plain", &["r.example"], &[])
        .answering("old", &["r.example"], &[])
        .having("apiVersion", json!("credentialprovider.kubelet.k8s.io/v1beta1"))
        .answering("tokens", &["t.example"], &[])
        .having("tokenAttributes", json!({
            "serviceAccountTokenAudience": "a", "cacheType": "Token", "requireServiceAccount": false,
        }));
    symlink("/bin/sh", node.path("plugins/other")).unwrap();
    agent_file(&node, &own_rule("r.example"));
    let kubelet = Kubelet(&node);
    let config = kubelet.path("config.json");
    for (plugin, more, wrong, help) in [
        (
            "other",
            &[][..],
            format!("{config} has no provider of this name, which says for which images it may run; it has plain, old, tokens"),
            "name the plugin of one of these, or add a provider to that file",
        ),
        (
            "tokens",
            &[],
            "its provider wants the pod's token for \"a\", and without an agent it would get none".to_owned(),
            "write --token-audience a, or leave --if-down out",
        ),
        (
            "tokens",
            &["--token-audience", "b"],
            "its provider wants the pod's token for \"a\", and without an agent it would get one for \"b\"".to_owned(),
            "write --token-audience a, or leave --if-down out",
        ),
        (
            "old",
            &["--token-audience", "a"],
            "its provider has apiVersion credentialprovider.kubelet.k8s.io/v1beta1, in which a kubelet sends nobody a token".to_owned(),
            "leave --token-audience or --if-down out, or use a plugin that speaks credentialprovider.kubelet.k8s.io/v1",
        ),
    ] {
        let path = kubelet.path(&format!("plugins/{plugin}"));
        let said = kubelet.install(&[&["--any-registry", "--if-down", "run", &path], more].concat());
        let expected = format!("keyfob: --if-down run {plugin}: {wrong}\nkeyfob: {help}\n");
        assert_eq!((said.code, said.stderr), (2, expected));
    }
    fs::remove_file(node.path("agent.yaml")).unwrap();
    let path = kubelet.path("plugins/plain");
    let said = kubelet.install(&["--any-registry", "--if-down", "run", &path]);
    let help = "keyfob: --if-down run reads the plugin's provider from the agent's files: name the agent's file with --agent-file\n";
    assert!(said.code == 2 && said.stderr.ends_with(help), "{}", said.stderr);
    assert!(!node.path("kubelet-plugins").exists());
}

#[test]
fn the_flags_choose_images_socket_and_audience() {
    relay();
    let node = node();
    let kubelet = Kubelet(&node);
    let chosen =
        ["--match", "r.example", "--match", "*.io", "--socket", "/s", "--token-audience", "a"];
    let said = kubelet.install(&[&chosen[..], &["-o", "json", "--dry-run"]].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(
        said.json()["providers"],
        json!([{
            "name": "keyfob-credential-provider",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "matchImages": ["r.example", "*.io"],
            "defaultCacheDuration": "0s",
            "args": ["--socket", "/s"],
            "tokenAttributes": {
                "serviceAccountTokenAudience": "a", "cacheType": "Token", "requireServiceAccount": false,
                "requiredServiceAccountAnnotationKeys": [], "optionalServiceAccountAnnotationKeys": [],
            },
        }])
    );
    let said = kubelet.install(&["--any-registry", "-o", "json", "--dry-run"]);
    let images = &said.json()["providers"][0]["matchImages"];
    assert_eq!((&images[0], &images[6]), (&json!("*.*"), &json!("*.*.*.*.*.*.*.*")), "{images}");
}

#[test]
fn the_kubelet_sends_the_annotations_that_providers_of_the_agent_want() {
    relay();
    let node = node();
    agent_file(&node, &own_rule("r.example"));
    let provider = |name: &str, required: &[&str], optional: &[&str]| {
        json!({
            "name": name,
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "matchImages": ["r.example"],
            "defaultCacheDuration": "1h",
            "tokenAttributes": {
                "serviceAccountTokenAudience": "a", "cacheType": "Token", "requireServiceAccount": true,
                "requiredServiceAccountAnnotationKeys": required, "optionalServiceAccountAnnotationKeys": optional,
            },
        })
    };
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1",
        "kind": "CredentialProviderConfig",
        "providers": [
            provider("one", &["x.example/tenant"], &["x.example/role"]),
            provider("two", &["x.example/role"], &["a.example/b"]),
        ],
    });
    fs::write(node.config(), config.to_string()).unwrap();
    let kubelet = Kubelet(&node);

    let said = kubelet.install(&["--token-audience", "a", "-o", "json", "--dry-run"]);

    assert_eq!(said.code, 0, "{}", said.stderr);
    let attributes = &said.json()["providers"][0]["tokenAttributes"];
    let want = json!({
        "serviceAccountTokenAudience": "a", "cacheType": "Token", "requireServiceAccount": false,
        "requiredServiceAccountAnnotationKeys": [],
        "optionalServiceAccountAnnotationKeys": ["a.example/b", "x.example/role", "x.example/tenant"],
    });
    assert_eq!(attributes, &want);
    let plain = kubelet.install(&["-o", "json", "--dry-run"]).json();
    assert!(
        plain["providers"][0].get("tokenAttributes").is_none(),
        "without a token, nothing is sent"
    );
}

#[test]
fn what_is_missing_is_named_with_what_to_do() {
    let node = node();
    let kubelet = Kubelet(&node);
    let file = kubelet.path("agent.yaml");
    for (args, first, second) in [
        (&[][..], format!("{file}: cannot be read: "), "name the images with --match PATTERN"),
        (
            &["--match", "r.example", "--relay", "/no/relay"],
            "there is no relay at /no/relay".to_owned(),
            "build it with `cargo build --release -p keyfob-relay`",
        ),
    ] {
        let said = kubelet.install(args);
        let lines: Vec<_> = said.stderr.lines().collect();
        assert_eq!((said.code, lines.len()), (2, 2), "{}", said.stderr);
        assert!(lines[0].starts_with(&format!("keyfob: {first}")), "{}", said.stderr);
        assert!(lines[1].starts_with(&format!("keyfob: {second}")), "{}", said.stderr);
    }
    let said = kubelet.install(&["--providers", "ecr"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("cannot be used with"), "{}", said.stderr);
    assert!(!node.path("kubelet-plugins").exists());
}
