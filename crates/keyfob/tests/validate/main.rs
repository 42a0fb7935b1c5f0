//! `keyfob validate` as its users see it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

mod gates;

use std::{
    fs,
    path::{Path, PathBuf},
};

use keyfob_config::Config;
use serde_json::{Value, json};

/// Exit code, stdout and stderr.
#[expect(clippy::disallowed_methods, reason = "the program under test")]
fn validate(args: &[&str], folder: &Path) -> (i32, String, String) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_keyfob"));
    let output = command.arg("validate").args(args).current_dir(folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn with(content: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("c.yaml"), content).unwrap();
    folder
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../keyfob-config/tests/fixtures")
}

const GOOD: &str = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: p\n  \
                    matchImages: [r.io]\n  defaultCacheDuration: 1m\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n";

#[test]
fn a_good_configuration_exits_with_0_and_its_hash() {
    let folder = with(GOOD);

    let (code, stdout, stderr) = validate(&["c.yaml"], folder.path());

    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.starts_with("valid: 1 provider, sha256:"), "{stdout}");
    for flag in ["--config", "--image-credential-provider-config"] {
        assert_eq!(validate(&[flag, "c.yaml"], folder.path()).1, stdout);
    }
}

#[test]
fn every_error_is_told_at_once_with_its_place_and_what_to_do() {
    let text = GOOD.replace("name: p", "name: a/b").replace("r.io", "r.io, 'r.io:x'");

    let (code, stdout, stderr) = validate(&["c.yaml"], with(&text).path());

    assert_eq!((code, stderr.as_str()), (1, ""));
    assert_eq!(
        stdout,
        "c.yaml:4:9: error: providers.name: Invalid value: \"a/b\": provider name cannot contain '/'\n    \
         help: write the name of the plugin's file in the plugin directory, without its path\n\
         c.yaml:5:23: error: providers.matchImages: Invalid value: \"r.io:x\": match image is invalid: parse \"https://r.io:x\": \
         invalid port \":x\" after host\n    \
         help: write host, optional port and optional path, as in \"*.example.com:5000/team\"; `*` stands for (part of) one label \
         of the host and for nothing in port or path\n\
         not valid, a kubelet would not start with it: 2 errors\n"
    );
}

#[test]
fn unknown_fields_are_told_in_the_order_of_the_file() {
    let text = GOOD.replace("matchImages", "matchImage") + "  cacheKeyType: Image\n";

    let (code, stdout, _) = validate(&["c.yaml"], with(&text).path());

    assert_eq!(code, 1);
    assert_eq!(
        stdout,
        "c.yaml:5:3: error: unknown field \"providers[0].matchImage\"\n    help: did you mean `matchImages`?\n\
         c.yaml:8:3: error: unknown field \"providers[0].cacheKeyType\"\n    help: cacheKeyType belongs into the plugin's \
         answer; here there is only defaultCacheDuration, for answers that say nothing\nnot valid, a kubelet would not start with it: 2 errors\n"
    );
}

#[test]
fn json_has_the_kubelets_own_text_and_the_hash_of_what_could_be_read() {
    let text = GOOD.replace("1m", "-1m");
    let folder = with(&text);
    let hash = Config::from_files([("c.yaml", &text)]).unwrap().hash;

    let (code, stdout, _) = validate(&["-o", "json", "c.yaml"], folder.path());

    let text = "providers.defaultCacheDuration: Invalid value: \"-1m0s\": must be greater than or equal to 0";
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(code, 1);
    assert_eq!(
        report,
        json!({
            "valid": false,
            "hash": hash,
            "aggregate": text,
            "errors": [{
                "path": "providers.defaultCacheDuration",
                "kind": "Invalid",
                "message": text,
                "help": "\"0s\" means that answers are not kept",
                "file": "c.yaml",
                "line": 6,
                "column": 25,
            }],
            "warnings": [],
        })
    );
}

#[test]
fn a_file_that_cannot_be_read_is_not_valid_either() {
    let folder = with(&GOOD.replace("kind: ", "#"));

    let (code, stdout, _) = validate(&["-o", "json", "c.yaml"], folder.path());
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &report["hash"]), (1, &json!("")));
    assert_eq!(report["aggregate"], "error decoding config \"c.yaml\": Object 'Kind' is missing");

    let (code, stdout, _) = validate(&["nothing.yaml"], folder.path());
    assert_eq!(code, 1);
    let said = "nothing.yaml: error: unable to access path \"nothing.yaml\": stat nothing.yaml: no such file or directory\n";
    assert!(stdout.starts_with(said), "{stdout}");
}

#[test]
fn a_text_that_is_no_yaml_is_told_with_its_place_and_what_to_do() {
    let folder = with(&GOOD.replace("[r.io]", "\n  - *.r.io"));

    let (code, stdout, _) = validate(&["c.yaml"], folder.path());
    assert_eq!(code, 1);
    assert_eq!(
        stdout,
        "c.yaml:6:5: error: invalid YAML: expected a name of letters and digits after `*` or `&`\n    \
         help: a `*` begins a YAML alias: put the pattern in quotes, as in \"*.example.com\"\n\
         not valid, a kubelet would not start with it: 1 error\n"
    );

    let (_, stdout, _) = validate(&["-o", "json", "c.yaml"], folder.path());
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["errors"][0]["kind"], "Syntax");
    assert_eq!(
        report["aggregate"],
        "error decoding config \"c.yaml\": invalid YAML at line 6, column 5: expected a name of letters and digits after `*` or `&`"
    );
}

#[test]
fn people_are_not_shown_the_whole_file() {
    let text = GOOD.replace("kind: ", "#") + "  env: [{name: TOKEN, value: hunter2}]\n";

    let (_, stdout, stderr) = validate(&["c.yaml"], with(&text).path());

    assert!(stdout.starts_with("c.yaml: error: Object 'Kind' is missing\n"), "{stdout}");
    assert!(!format!("{stdout}{stderr}").contains("hunter2"));
}

#[test]
fn a_text_of_the_file_cannot_steer_the_terminal() {
    let text = GOOD.replace("kubelet.config.k8s.io/v1\nkind", "\"a/b/\\e[2J\"\nkind");

    let (_, stdout, _) = validate(&["c.yaml"], with(&text).path());

    assert!(stdout.contains("a/b/\\u{1b}[2J") && !stdout.contains('\u{1b}'), "{stdout:?}");
}

/// KEP-4412 has the audience, and annotations that are optional.
#[test]
fn what_the_kep_calls_complete_is_told_which_two_fields_a_kubelet_requires() {
    let folder = with(&format!("{GOOD}  tokenAttributes: {{serviceAccountTokenAudience: a}}\n"));

    let (code, stdout, _) = validate(&["c.yaml"], folder.path());

    assert_eq!(code, 1);
    let told = "\
c.yaml:8:20: error: providers.tokenAttributes.requireServiceAccount: Required value
    help: add `requireServiceAccount: true` and `cacheType: ServiceAccount` to tokenAttributes: a kubelet requires both fields, \
which KEP-4412 does not have
c.yaml:8:20: error: providers.tokenAttributes.cacheType: Required value: cacheType is required to be set when tokenAttributes is \
specified. Supported values are: ServiceAccount, Token
    help: write ServiceAccount if answers depend on the service account alone, Token if they depend on the pod's token
not valid, a kubelet would not start with it: 2 errors
";
    assert_eq!(stdout, told);

    let fields =
        "serviceAccountTokenAudience: a, requireServiceAccount: true, cacheType: ServiceAccount";
    let folder = with(&format!("{GOOD}  tokenAttributes: {{{fields}}}\n"));
    assert_eq!(validate(&["c.yaml"], folder.path()).0, 0, "the help is followed");

    let one = "serviceAccountTokenAudience: a, cacheType: ServiceAccount";
    let folder = with(&format!("{GOOD}  tokenAttributes: {{{one}}}\n"));
    let (_, stdout, _) = validate(&["c.yaml"], folder.path());
    assert!(
        !stdout.contains("KEP-4412") && stdout.contains("    help: write true to "),
        "{stdout}"
    );
}

#[test]
fn programs_are_not_shown_secrets_either() {
    let text = GOOD.replace("kind: ", "#") + "  env: [{name: TOKEN, value: hunter2}]\n";
    let docker = json!({"auths": {"r.io": {"auth": "hunter2", "username": "u"}}}).to_string();
    let answer = json!({
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "auth": {"r.io": {"username": "u", "password": "hunter2"}},
    });
    for text in [text, docker, answer.to_string(), "env:\n- ~: hunter2\n".to_owned()] {
        let (code, stdout, stderr) = validate(&["-o", "json", "c.yaml"], with(&text).path());

        assert_eq!(code, 1);
        let told = stdout.contains(r#""aggregate":"error decoding config \"c.yaml\": "#);
        assert!(!stdout.contains("hunter2") && told, "{stdout}");
        assert_eq!(stderr, "");
    }
}

/// One without the plugin `p`, one where it is a directory, and one where it cannot be run.
fn add_bad_plugin_directories(path: &Path) {
    fs::create_dir(path.join("empty")).unwrap();
    fs::create_dir_all(path.join("directory/p")).unwrap();
    fs::create_dir(path.join("unexecutable")).unwrap();
    fs::write(path.join("unexecutable/p"), "").unwrap();
}

#[test]
fn whatever_keeps_a_kubelet_from_starting_exits_with_1() {
    let folder = with(GOOD);
    let path = folder.path();
    add_bad_plugin_directories(path);
    fs::write(path.join("nameless.yaml"), GOOD.replace("name: p", "name: ''")).unwrap();
    let tokens =
        "  tokenAttributes: {serviceAccountTokenAudience: a, serviceAccountAnnotationKeys: [b]}\n";
    fs::write(path.join("kep-4412.yaml"), format!("{GOOD}{tokens}")).unwrap();
    fs::copy(fixtures().join("first-kep.yaml"), path.join("first-kep.yaml")).unwrap();
    for (flags, words) in [
        ("c.yaml --bin-dir empty", "c.yaml:4:9: error: no plugin at empty/p: install it there"),
        ("c.yaml --bin-dir nowhere", "error: the plugin directory nowhere is not there"),
        ("c.yaml --bin-dir directory", "c.yaml:4:9: error: "),
        ("c.yaml --bin-dir unexecutable", "c.yaml:4:9: error: "),
        ("nameless.yaml", "nameless.yaml:4:9: error: the provider has no name"),
        ("kep-4412.yaml", "error: serviceAccountAnnotationKeys is KEP-4412's name"),
        ("first-kep.yaml", "first-kep.yaml: error: this is the first proposal's configuration"),
        (
            "c.yaml --feature-gates ServiceAccountTokenForKubeletCredentialProviders=true",
            "error: ServiceAccountTokenForKubeletCredentialProviders is KEP-4412's name",
        ),
    ] {
        let flags: Vec<_> = flags.split(' ').collect();
        let (code, stdout, _) = validate(&flags, path);
        assert_eq!(code, 1, "{flags:?}: {stdout}");
        assert!(stdout.contains(words), "{flags:?}: {stdout}");
        let last = stdout.lines().next_back().unwrap();
        let said = "not valid, a kubelet would not start with it: 1 error";
        assert!(last.starts_with(said), "{flags:?}: {stdout}");

        let (code, json, _) = validate(&[&flags[..], &["-o", "json"]].concat(), path);
        let report: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((code, &report["valid"]), (1, &json!(false)), "{flags:?}: {json}");
        assert_eq!(report["errors"][0]["kubeletRefuses"], true, "{flags:?}: {json}");

        let (code, stdout, _) = validate(&[&flags[..], &["--for", "keyfob"]].concat(), path);
        assert_eq!(code, 0, "{flags:?}: {stdout}");
        assert!(stdout.contains("    a kubelet would not start with this\n"), "{stdout}");
        let last = stdout.lines().next_back().unwrap();
        let said = "valid for keyfob, but a kubelet would not start with it: ";
        assert!(last.starts_with(said), "{flags:?}: {stdout}");
    }
}

#[test]
fn json_has_the_kubelets_own_text_about_plugins_too() {
    let folder = with(GOOD);
    let path = folder.path();
    add_bad_plugin_directories(path);
    fs::write(path.join("broken.yaml"), "").unwrap();
    let inspecting = "error inspecting binary executable : exec: ";
    for (flags, text) in [
        ("c.yaml --bin-dir nowhere", "plugin binary directory nowhere did not exist".to_owned()),
        (
            "broken.yaml --bin-dir nowhere",
            "plugin binary directory nowhere did not exist".to_owned(),
        ),
        ("c.yaml --bin-dir empty", "plugin binary executable  did not exist".to_owned()),
        ("c.yaml --bin-dir directory", format!("{inspecting}\"directory/p\": is a directory")),
        (
            "c.yaml --bin-dir unexecutable",
            format!("{inspecting}\"unexecutable/p\": permission denied"),
        ),
        ("c.yaml --bin-dir c.yaml", format!("{inspecting}\"c.yaml/p\": not a directory")),
    ] {
        let flags: Vec<_> = flags.split(' ').chain(["-o", "json"]).collect();
        let (code, stdout, _) = validate(&flags, path);
        let report: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!((code, &report["aggregate"]), (1, &json!(text)), "{flags:?}: {stdout}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "only a program makes a pipe")]
fn a_plugin_that_only_keyfob_refuses_is_a_warning() {
    let folder = with(GOOD);
    let mut mkfifo = std::process::Command::new("mkfifo");
    assert!(mkfifo.arg("--mode=755").arg(folder.path().join("p")).status().unwrap().success());

    let (code, stdout, _) = validate(&["c.yaml", "--bin-dir", "."], folder.path());

    assert_eq!(code, 0, "a kubelet starts with it: {stdout}");
    assert!(
        stdout.contains("warning: ") && stdout.contains("it is not a regular file"),
        "{stdout}"
    );
}

#[test]
fn the_kubelets_names_of_the_flags_are_known_and_unchecked_plugins_are_mentioned() {
    let folder = with(GOOD);
    fs::create_dir(folder.path().join("bin")).unwrap();
    let flags = ["--image-credential-provider-config", "c.yaml"];

    let (code, stdout, _) = validate(&flags, folder.path());
    assert_eq!(code, 0);
    assert!(stdout.ends_with(" (plugins not checked: no --bin-dir)\n"), "{stdout}");

    let bin = ["--image-credential-provider-bin-dir", "bin"];
    assert_eq!(validate(&[flags, bin].concat(), folder.path()).0, 1);
}

#[test]
fn a_migrated_configuration_is_judged_as_it_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = fixtures().join("first-kep.yaml");
    let migrate = ["--migrate", fixture.to_str().unwrap()];

    assert_eq!(validate(&migrate, folder.path()).0, 0);

    let (code, _, stderr) = validate(&[&migrate[..], &["--bin-dir", "."]].concat(), folder.path());
    assert_eq!(code, 1, "the plugins are missing");
    assert!(stderr.contains("a kubelet would not start with this"), "{stderr}");
}

#[test]
fn migrate_prints_todays_form_and_talks_on_stderr() {
    let (code, stdout, stderr) = validate(&["--migrate", "first-kep.yaml"], &fixtures());

    assert_eq!(code, 0);
    assert!(stdout.starts_with("apiVersion: kubelet.config.k8s.io/v1\nkind: "), "{stdout}");
    assert!(
        stderr.starts_with("first-kep.yaml: warning: this is the first proposal's"),
        "{stderr}"
    );
    let (code, again, stderr) = validate(&["c.yaml"], with(&stdout).path());
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(again.contains("warning: a default of zero"), "{again}");
}

#[test]
fn migrate_says_what_it_printed_and_does_not_advise_itself() {
    let tokens =
        "  tokenAttributes: {serviceAccountTokenAudience: a, serviceAccountAnnotationKeys: [b]}\n";
    let folder = with(&format!("{GOOD}{tokens}"));

    let (code, _, stderr) = validate(&["--migrate", "c.yaml"], folder.path());

    assert_eq!(code, 0, "{stderr}");
    assert!(!stderr.contains("--migrate"), "{stderr}");
    let last = stderr.lines().next_back().unwrap();
    let said = "printed a configuration that a kubelet starts with; c.yaml itself is not one";
    assert!(last.starts_with(said), "{stderr}");

    let (_, stdout, _) = validate(&["c.yaml"], folder.path());
    let words = "KEP-4412's name, which a kubelet does not know; keyfob reads it as optional";
    assert!(stdout.contains(words), "{stdout}");
}

#[test]
fn what_keyfob_cannot_read_is_told_so_to_those_who_ask_about_keyfob() {
    let folder = with("[]");

    let (code, stdout, _) = validate(&["c.yaml", "--for", "keyfob"], folder.path());

    assert_eq!(code, 1);
    assert!(stdout.contains("\nnot valid, keyfob cannot read it: 1 error"), "{stdout}");
}

#[test]
fn a_missing_plugin_is_told_once() {
    let folder = with(GOOD);

    let (_, stdout, _) = validate(&["c.yaml", "--bin-dir", "."], folder.path());

    assert_eq!(stdout.matches("install").count(), 1, "{stdout}");
}

#[test]
fn the_announcements_answers_are_wrong_in_two_ways() {
    for (name, field) in [("duration", "cacheDuration"), ("key-type", "cacheKeyType")] {
        let file = format!("announcement-answer-{name}.json");
        let (code, stdout, _) = validate(&[&file], &fixtures());

        assert_eq!(code, 1);
        let version = format!(
            "{file}: error: apiVersion from credential plugin response did not match expected"
        );
        assert!(stdout.starts_with(&version), "{stdout}");
        let place = format!("{file}:5:");
        assert!(
            stdout.contains(&place)
                && stdout.contains(&format!("error: {field} stands inside auth")),
            "{stdout}"
        );
        assert!(
            stdout.contains("move it out of auth; the announcement of Kubernetes 1.26"),
            "{stdout}"
        );
        assert!(!stdout.contains("token12345"), "{stdout}");
        let missing = stdout.contains("did not return a valid cacheKeyType: it is empty");
        assert_eq!(missing, field == "cacheDuration", "moving it out is enough: {stdout}");
        let count = if missing { 3 } else { 2 };
        assert!(stdout.ends_with(&format!("not valid: {count} errors\n")), "{stdout}");
    }
}

#[test]
fn a_wrong_version_hides_nothing_and_nothing_is_said_twice() {
    // The version's text stands somewhere else first.
    let text = r#"{"note": "v2", "apiVersion": "v2", "kind": "CredentialProviderResponse"}"#;

    let (code, stdout, _) = validate(&["-o", "json", "c.yaml"], with(text).path());

    let report: Value = serde_json::from_str(&stdout).unwrap();
    let errors = report["errors"].as_array().unwrap();
    let kinds: Vec<&str> = errors.iter().map(|error| error["kind"].as_str().unwrap()).collect();
    assert_eq!((code, kinds), (1, vec!["Unsupported", "Unknown", "Invalid"]));
}

#[test]
fn keys_of_an_answer_that_no_image_finds_are_warned_of() {
    let login = json!({"username": "u", "password": "p"});
    let answer = json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": "Image",
        "auth": {
            "https://r.io/v2/": login, "index.docker.io": login, "*.r.io:5000/team": login,
            "r.io/*": login, "r.io:x": login,
        },
    });

    let (code, stdout, _) = validate(&["-o", "json", "c.yaml"], with(&answer.to_string()).path());

    let report: Value = serde_json::from_str(&stdout).unwrap();
    let warnings = report["warnings"].as_array().unwrap();
    let messages: Vec<&str> =
        warnings.iter().map(|warning| warning["message"].as_str().unwrap()).collect();
    assert_eq!((code, messages.len()), (0, 2), "{stdout}");
    assert!(messages[0].starts_with("the key \"r.io/*\" never matches: a star"), "{messages:?}");
    assert_eq!(warnings[0]["help"], "write \"r.io/\"");
    assert!(messages[1].starts_with("a key of auth is never used: "), "{messages:?}");
    assert!(warnings.iter().all(|warning| warning["line"] == 1));
}

#[test]
fn an_answer_larger_than_a_host_reads_is_too_large() {
    let text = format!(
        r#"{{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1"{}}}"#,
        " ".repeat(8 << 20)
    );

    let (code, stdout, _) = validate(&["c.yaml"], with(&text).path());

    assert_eq!(code, 1);
    assert!(stdout.starts_with("c.yaml: error: the answer is larger than 8 MiB\n"), "{stdout}");
    let nearly = text.replace(&" ".repeat(1 << 20), "");
    let (_, stdout, _) = validate(&["c.yaml"], with(&nearly).path());
    assert!(!stdout.contains("larger"), "{stdout}");
}

#[test]
fn a_good_answer_is_valid() {
    let answer = json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1beta1",
        "cacheKeyType": "Image",
        "auth": {"r.io": {"username": "u", "password": "p"}},
    });

    let (code, stdout, _) = validate(&["c.yaml"], with(&answer.to_string()).path());

    assert_eq!((code, stdout.as_str()), (0, "valid: a plugin's answer\n"));
}

#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.yaml");
    #[expect(clippy::disallowed_methods, reason = "nothing else here makes a pipe")]
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());

    for path in ["pipe.yaml", "."] {
        let (code, stdout, _) = validate(&[path], folder.path());
        assert_eq!(code, 1);
        assert!(
            stdout.contains("unable to read file \"pipe.yaml\": not a regular file"),
            "{stdout}"
        );
    }
}

#[test]
fn wrong_usage_exits_with_2() {
    let folder = with(GOOD);
    for args in [&[][..], &["c.yaml", "--config", "c.yaml"], &["c.yaml", "--migrate", "-o", "json"]]
    {
        assert_eq!(validate(args, folder.path()).0, 2, "{args:?}");
    }
}

#[test]
fn of_many_repeated_keys_a_hundred_are_told_and_the_others_counted() {
    let folder = with(&format!("{GOOD}{}", "kind: CredentialProviderConfig\n".repeat(5_000)));

    let (code, text, _) = validate(&["c.yaml"], folder.path());
    let (_, json, _) = validate(&["c.yaml", "-o", "json"], folder.path());

    assert_eq!(code, 1);
    assert_eq!(text.matches("already set in map\n").count(), 100, "{text}");
    let summary =
        "and 4900 more errors\nnot valid, a kubelet would not start with it: 5000 errors\n";
    assert!(text.ends_with(summary), "{text}");
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["errors"].as_array().unwrap().len(), 100);
    assert_eq!(
        (&report["moreErrors"], report["aggregate"].as_str().unwrap().lines().count()),
        (&json!(4_900), 102)
    );
}

#[test]
fn of_many_errors_a_hundred_are_told_and_the_others_counted() {
    let folder = with(&GOOD.replace("[r.io]", &format!("[{}]", "'r.io:x',".repeat(300))));

    let (code, text, _) = validate(&["c.yaml"], folder.path());

    assert_eq!((code, text.matches(": error: ").count()), (1, 100), "{text}");
    let summary = "and 200 more errors\nnot valid, a kubelet would not start with it: 300 errors";
    assert!(text.contains(summary), "{text}");
}
