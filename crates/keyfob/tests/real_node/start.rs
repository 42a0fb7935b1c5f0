//! The kubelet starts exactly with those configurations that `keyfob validate` accepts.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;

use crate::{
    containerd::Runtime,
    node::{Node, NodeOptions, health},
    shell::{output, run},
    wait::wait_for,
    world::World,
};

const GOOD: &str = "\
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: plugin
  matchImages: [registry.example.com]
  defaultCacheDuration: 1m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
";
/// A field of the provider.
const TOKEN_ATTRIBUTES: &str = "  tokenAttributes:
    serviceAccountTokenAudience: registry.example.com
    cacheType: Token
    requireServiceAccount: true
";

const FIRST_PROPOSAL: &str = "\
apiVersion: v1alpha1
kind: credentialprovider
providers:
- name: plugin
  imageMatchers: [registry.example.com]
";

/// A configuration and the flags that go with it.
struct Case {
    name: &'static str,
    /// Names and texts; more than one if the flag names their directory.
    files: Vec<(&'static str, String)>,
    plugins: &'static str,
    feature_gates: Option<&'static str>,
    /// Keyfob reads the dialects of proposals and takes their names of gates. So its words about them are not a kubelet's.
    is_proposed: bool,
}

/// What a program says of a configuration: its hash, or why it is refused.
type Verdict = Result<String, String>;

pub(crate) fn the_kubelet_starts_exactly_where_validate_exits_with_0(world: &mut World) {
    let root = world.files.join("configurations");
    prepare_plugins(&root);
    let mut node = Node::start(world, &NodeOptions::new(Runtime::Containerd21));
    let mut disagreements = Vec::new();
    let (mut started, mut refused) = (0, 0);
    for case in cases() {
        let flags = case.write(&root);
        let kubelet = kubelet_verdict(&mut node, &flags);
        let keyfob = keyfob_verdict(world, &flags);
        match &kubelet {
            Ok(_) => started += 1,
            Err(_) => refused += 1,
        }
        let agree = match (&kubelet, &keyfob) {
            (Err(_), Err(text)) if case.is_proposed => text.is_empty(),
            (Err(kubelet), Err(keyfob)) => kubelet == keyfob || at_the_same_step(kubelet, keyfob),
            _ => kubelet == keyfob,
        };
        if !agree {
            disagreements
                .push(format!("{}:\n  kubelet {kubelet:?}\n  keyfob  {keyfob:?}", case.name));
        }
    }
    assert!(disagreements.is_empty(), "{}", disagreements.join("\n"));
    assert_eq!((started, refused), (10, 26));
}

/// Whether both refuse the same file, and at the same step: Keyfob has words of its own for syntax and types, and does not
/// quote the file (`syntax-error-words`, `wrong-type-words` and `config-not-quoted` in DIFFERENCES.md).
fn at_the_same_step(kubelet: &str, keyfob: &str) -> bool {
    const STEPS: [(&str, &str); 4] = [
        ("couldn't get version/kind; json parse error: unexpected end", "invalid JSON at line "),
        ("yaml: line ", "invalid YAML at line "),
        (
            "json: cannot unmarshal number into Go struct field CredentialProvider.providers.defaultCacheDuration ",
            "providers[0].defaultCacheDuration: expected a string, found a number (line ",
        ),
        ("Object 'Kind' is missing in '", "Object 'Kind' is missing"),
    ];
    let (Some((file, kubelet)), Some((same_file, keyfob))) =
        (kubelet.split_once("\": "), keyfob.split_once("\": "))
    else {
        return false;
    };
    let same =
        |(theirs, ours): &(&str, &str)| kubelet.starts_with(theirs) && keyfob.starts_with(ours);
    file == same_file && STEPS.iter().any(same)
}

fn cases() -> Vec<Case> {
    let good = || case("good", GOOD);
    let edit = |name, from: &str, to: &str| {
        assert!(GOOD.contains(from), "{from}");
        case(name, &GOOD.replacen(from, to, 1))
    };
    let tokens = |name, from: &str, to: &str| {
        let text = format!("{GOOD}{TOKEN_ATTRIBUTES}");
        assert!(text.contains(from), "{from}");
        case(name, &text.replacen(from, to, 1))
    };
    let second = GOOD.replace("plugin", "second");
    let gates = |name, gates| Case { feature_gates: Some(gates), ..tokens(name, "", "") };
    let plugins = |name, plugins| Case { name, plugins, ..good() };
    let directory = |name, files: &[(&'static str, &str)]| Case {
        files: files.iter().map(|(file, text)| (*file, (*text).to_owned())).collect(),
        ..case(name, "")
    };
    vec![
        good(),
        case("JSON", &json_of_good()),
        edit("v1beta1", "kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1beta1"),
        edit("a pattern that never matches", "registry.example.com", "registry.example.com/*"),
        edit("no cache", "1m", "0s"),
        tokens("token attributes", "", ""),
        directory("two files", &[("a.yaml", GOOD), ("b.yml", &second), ("c.txt", "no")]),
        plugins("plugins are links", "links"),
        plugins("a plugin that is no regular file", "special"),
        gates("gate on", "KubeletServiceAccountTokenForCredentialProviders=true"),
        // What follows is refused.
        case("empty", ""),
        case("not JSON", "{"),
        edit("not YAML", "providers:", "\tproviders:"),
        edit("no kind", "kind: CredentialProviderConfig\n", ""),
        edit("another kind", "CredentialProviderConfig", "KubeletConfiguration"),
        edit("an unknown version", "config.k8s.io/v1", "config.k8s.io/v2"),
        edit("a misspelt field", "matchImages", "matchImage"),
        edit("a field twice", "defaultCacheDuration: 1m", "defaultCacheDuration: 1m\n  name: b"),
        edit("a duration without its unit", "1m", "60"),
        edit("a negative duration", "1m", "-1m"),
        edit("no providers", &GOOD[GOOD.find("- name").unwrap()..], "[]"),
        edit(
            "several errors",
            "plugin\n  matchImages: [registry",
            "a/b c\n  matchImages: ['h:x', registry",
        ),
        edit("an unknown protocol", "kubelet.k8s.io/v1\n", "kubelet.k8s.io/v9\n"),
        tokens("no audience", "registry.example.com\n    cache", "''\n    cache"),
        tokens("a wrong cache type", "cacheType: Token", "cacheType: token"),
        gates("gate off", "KubeletServiceAccountTokenForCredentialProviders=false"),
        directory("the same name in two files", &[("a.yaml", GOOD), ("b.yaml", GOOD)]),
        directory("a directory without configurations", &[("a.txt", ""), ("b.YAML", GOOD)]),
        plugins("no plugin directory", "nowhere"),
        plugins("a plugin is missing", "empty"),
        plugins("a plugin cannot be executed", "unexecutable"),
        plugins("a plugin is a directory", "directories"),
        edit("no name", "name: plugin", "name: ''"),
        // Keyfob reads what follows; no kubelet does.
        Case { is_proposed: true, ..case("the first proposal", FIRST_PROPOSAL) },
        Case {
            is_proposed: true,
            ..tokens(
                "KEP-4412's annotations",
                "    cacheType",
                "    serviceAccountAnnotationKeys: [a]\n    cacheType",
            )
        },
        Case {
            is_proposed: true,
            ..gates("KEP-4412's gate", "ServiceAccountTokenForKubeletCredentialProviders=true")
        },
    ]
}

fn case(name: &'static str, text: &str) -> Case {
    let files = vec![("config.yaml", text.to_owned())];
    Case { name, files, plugins: "plugins", feature_gates: None, is_proposed: false }
}

fn json_of_good() -> String {
    let provider = serde_json::json!({
        "name": "plugin",
        "matchImages": ["registry.example.com"],
        "defaultCacheDuration": "1m",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
    });
    let (version, kind) = ("kubelet.config.k8s.io/v1", "CredentialProviderConfig");
    serde_json::json!({"apiVersion": version, "kind": kind, "providers": [provider]}).to_string()
}

/// Directories with plugins of all kinds.
fn prepare_plugins(root: &Path) {
    for name in ["plugins", "links", "special", "empty", "unexecutable", "directories/plugin"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    for name in ["plugin", "second"] {
        let path = root.join("plugins").join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(root.join("unexecutable/plugin"), "").unwrap();
    symlink("../plugins/plugin", root.join("links/plugin")).unwrap();
    run("mkfifo", &["--mode=755", root.join("special/plugin").to_str().unwrap()]);
}

impl Case {
    /// Writes the files, and returns the flags for the kubelet, which keyfob takes too.
    fn write(&self, root: &Path) -> Vec<String> {
        let directory = root.join(self.name.replace(' ', "-"));
        fs::create_dir_all(&directory).unwrap();
        for (file, text) in &self.files {
            fs::write(directory.join(file), text).unwrap();
        }
        let config: PathBuf = match &self.files[..] {
            [(file, _)] => directory.join(file),
            _ => directory,
        };
        let mut flags = vec![
            format!("--image-credential-provider-config={}", config.display()),
            format!("--image-credential-provider-bin-dir={}", root.join(self.plugins).display()),
        ];
        flags.extend(self.feature_gates.map(|gates| format!("--feature-gates={gates}")));
        flags
    }
}

/// Restarts the kubelet with these flags: the hash that it shows as a metric, or its error when it does not start.
fn kubelet_verdict(node: &mut Node, flags: &[String]) -> Verdict {
    node.kubelet.kill();
    node.start_kubelet(&NodeOptions::new(Runtime::Containerd21).flags(flags));
    wait_for("the kubelet to start or to end", Duration::from_secs(30), || {
        if !node.kubelet.is_running() {
            return Ok(Err(registration_error(&node.kubelet.log())));
        }
        health()?;
        let metrics = node.metrics();
        let metric = metrics.split_once("kubelet_credential_provider_config_info{hash=\"");
        let (_, rest) = metric.ok_or("it does not show the hash")?;
        Ok(Ok(rest.split('"').next().unwrap().to_owned()))
    })
}

/// The error of a log's line `"Failed to register CRI auth plugins" err="…"`, or `err=<` with indented lines behind it.
fn registration_error(log: &str) -> String {
    let error = log.split_once("\"Failed to register CRI auth plugins\" err=");
    // An unknown feature gate keeps a kubelet from starting before it looks at its plugins.
    let Some((_, error)) = error.or_else(|| log.split_once("\"command failed\" err=")) else {
        panic!("the kubelet ended for another reason:\n{log}")
    };
    let text = match error.strip_prefix("<\n") {
        Some(lines) => {
            let (lines, _) = lines.split_once("\n >").unwrap();
            lines.lines().map(|line| line.trim_start_matches('\t')).collect::<Vec<_>>().join("\n")
        }
        None => serde_json::from_str(error.lines().next().unwrap()).unwrap(),
    };
    let prefix = "failed to validate credential provider config: ";
    // Where upstream's code makes its scheme: a kubelet that was built from modules does not know, one of a release does.
    let (built_here, released) =
        ("pkg/runtime/scheme.go:111", "pkg/credentialprovider/plugin/plugin.go:69");
    text.strip_prefix(prefix).unwrap_or(&text).replace(built_here, released)
}

/// The same of `keyfob validate`, and that its exit code fits.
fn keyfob_verdict(world: &World, flags: &[String]) -> Verdict {
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let output = output(&mut world.keyfob(&[&["validate", "-o", "json"], &flags[..]].concat()));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |field: &str| report[field].as_str().unwrap().to_owned();
    match output.status.code() {
        Some(0) => Ok(text("hash")),
        Some(1) => Err(text("aggregate")),
        code => panic!("keyfob validate exited with {code:?}: {report}"),
    }
}
