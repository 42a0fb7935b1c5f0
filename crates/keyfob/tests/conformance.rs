//! `keyfob conformance` as its users see it: on plugins of ours, and on others.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

#[path = "support/node.rs"]
#[expect(dead_code, reason = "other tests use the rest of it")]
mod node;

use std::{fs, os::unix::fs::symlink};

use keyfob_testkit::LeakCheck;
use node::{Said, keyfob};
use serde_json::Value;

const OURS: &str = env!("CARGO_BIN_EXE_keyfob");
const IMAGE: &str = "registry.example/team/app:v1";
/// Its middle says that it ends in 2099.
const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJleHAiOjQwNzA5MDg4MDAsInN1YiI6ImEifQ.hunter2-signature";
const PASSWORD: &str = "hunter2-password";

/// Our plugins that need no network to answer, or to say why they cannot, each with its flags.
const OUR_PLUGINS: &[(&str, &[&str])] = &[
    ("echo", &["--image", IMAGE, "--token", TOKEN]),
    ("docker-config", &["--image", IMAGE, "--env", "DOCKER_CONFIG=/nowhere"]),
    ("exchange", &["--image", IMAGE]),
    ("exec", &["--image", IMAGE]),
];

/// A shell as a plugin: answers, unless the request is not one.
const GOOD: &str = r#"
request=$(cat)
case "$request" in
*CredentialProviderRequest*) ;;
*) echo "no request" >&2; exit 1 ;;
esac
version=${request#*k8s.io/}
version=${version%%\"*}
case "$request" in
*nobody*) auth= ;;
*) auth="\"registry.example\":{\"username\":\"robot\",\"password\":\"hunter2-password\"}" ;;
esac
echo "{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/$version\",\"cacheKeyType\":\"Registry\",\"auth\":{$auth}}"
"#;

/// A shell as a plugin of a kubeconfig: its first argument is what it says on stderr if nobody asks.
const GOOD_CLIENT: &str = r#"
case "$KUBERNETES_EXEC_INFO" in
*k8s.io/v1beta1*) version=v1beta1 ;;
*k8s.io/v1\"*) version=v1 ;;
*) echo "$1" >&2; exit 1 ;;
esac
echo "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/$version\",\"status\":{\"token\":\"hunter2-password\",\"expirationTimestamp\":\"2099-01-01T00:00:00Z\"}}"
"#;

/// Runs the command on a shell that follows this script; the report is searched for secrets.
fn on_script(script: &str, flags: &[&str]) -> Said {
    conformance("/bin/sh", &[&["--image", IMAGE, "--arg", "-c", "--arg", script], flags].concat())
}

fn conformance(plugin: &str, flags: &[&str]) -> Said {
    let said = keyfob(&[&["conformance", plugin], flags].concat());
    LeakCheck::new([PASSWORD, TOKEN, "hunter2-signature"])
        .text("stdout", &said.stdout)
        .text("stderr", &said.stderr);
    said
}

fn finding<'a>(report: &'a Value, check: &str) -> &'a Value {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["check"] == check).unwrap()
}

#[test]
fn our_plugins_fail_cleanly_where_they_have_no_answer() {
    let links = tempfile::tempdir().unwrap();
    for (name, flags) in OUR_PLUGINS {
        let link = links.path().join(keyfob_providers::named(name).unwrap().program);
        symlink(OURS, &link).unwrap();
        let allowed = [*flags, &["--allow-no-answer"]].concat();
        let by_name = [&["--arg", "provider", "--arg", name], &*allowed].concat();
        for said in [conformance(OURS, &by_name), conformance(link.to_str().unwrap(), &allowed)] {
            assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{name}: {}", said.stdout);
        }
    }
}

#[test]
fn a_plugin_that_conforms_exits_with_0_and_a_line_for_each_check() {
    let said = on_script(GOOD, &[]);

    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{}", said.stdout);
    assert!(said.stdout.starts_with("pass  start            it can be run\n"), "{}", said.stdout);
    assert!(
        said.stdout.ends_with("/bin/sh conforms: 0 failed, 0 warnings, 27 passed, 0 not checked\n"),
        "{}",
        said.stdout
    );
}

#[test]
fn a_fault_exits_with_1_and_says_what_to_do() {
    let script = GOOD.replace("\"cacheKeyType\\\":\\\"Registry", "\"cacheKeyType\\\":\\\"registry");

    let said = on_script(&script, &[]);

    assert_eq!(said.code, 1);
    let line = "FAIL  cache-key-type   credential provider plugin did not return a valid cacheKeyType: letter case matters: \
                write Registry\n                       do: cacheKeyType is required: Image, Registry or Global\n";
    assert!(said.stdout.contains(line), "{}", said.stdout);
    assert!(said.stdout.contains("/bin/sh does not conform: 1 failed, "), "{}", said.stdout);
}

#[test]
fn a_warning_counts_when_it_shall() {
    let noisy = format!("echo hello >&2\n{GOOD}");

    let (lenient, strict) = (on_script(&noisy, &[]), on_script(&noisy, &["--strict"]));

    assert_eq!((lenient.code, strict.code), (0, 1), "{}", strict.stdout);
    assert!(lenient.stdout.contains(" conforms: 0 failed, 1 warning, "), "{}", lenient.stdout);
}

#[test]
fn json_is_the_documented_object() {
    let said = on_script(GOOD, &["-o", "json"]);

    let report = said.json();
    let names: Vec<_> = report.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["conforms", "findings", "plugin", "summary"]);
    assert_eq!(report["conforms"], true);
    assert_eq!(
        report["summary"],
        serde_json::json!({"passed": 27, "warnings": 0, "failed": 0, "notChecked": 0})
    );
    let start = serde_json::json!({"check": "start", "grade": "pass", "reason": "it can be run"});
    assert_eq!(*finding(&report, "start"), start);
}

#[test]
fn no_answer_may_be_allowed() {
    let script = "cat >/dev/null; echo \"no cloud for $REGISTRY_TOKEN\" >&2; exit 3";
    let flags = ["--env", "REGISTRY_TOKEN=hunter2-password", "-o", "json"];

    let refused = on_script(script, &flags);
    let allowed = on_script(script, &[&flags[..], &["--allow-no-answer"]].concat());

    assert_eq!(refused.code, 1);
    let answer = allowed.json();
    let answer = finding(&answer, "answer");
    assert_eq!(answer["grade"], "notChecked", "{answer}");
    assert_eq!(answer["reason"], "exit code 3; it said: no cloud for [redacted]");
    assert_eq!(allowed.code, 1, "the token is on stderr all the same: {}", allowed.stdout);
    assert_eq!(finding(&allowed.json(), "stderr-secrets")["grade"], "fail");
}

#[test]
fn a_token_may_lie_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (token, empty) = (folder.path().join("token"), folder.path().join("empty"));
    fs::write(&token, format!("{TOKEN}\n")).unwrap();
    fs::write(&empty, "\n").unwrap();
    // Hands it out, if its end is the end.
    let echo = GOOD.replace(
        "hunter2-password",
        "$(printf %s \"$request\" | sed -n 's/.*serviceAccountToken\":\"\\([^\"]*\\)\".*/\\1/p')",
    );

    let said = on_script(&echo, &["--token-file", token.to_str().unwrap(), "-o", "json"]);

    let report = said.json();
    assert_eq!(finding(&report, "service-account")["grade"], "warn", "{report}");
    let said = on_script(GOOD, &["--token-file", empty.to_str().unwrap()]);
    assert_eq!(
        (said.code, said.stderr.as_str()),
        (2, "keyfob: the token is empty: leave it out, or give one\n")
    );
}

#[test]
fn a_plugin_of_a_kubeconfig_has_checks_of_its_own() {
    let said =
        conformance("--client", &["/bin/sh", "--", "-c", GOOD_CLIENT, "plugin", "nobody asks"]);

    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{}", said.stdout);
    assert!(said.stdout.starts_with("pass  start            it can be run\n"), "{}", said.stdout);
    let sum = "/bin/sh conforms: 0 failed, 0 warnings, 24 passed, 0 not checked\n";
    assert!(said.stdout.ends_with(sum), "{}", said.stdout);
}

#[test]
fn a_fault_of_a_kubeconfigs_plugin_is_told_and_its_token_is_not() {
    let flags = ["-o", "json", "/bin/sh", "--arg", "-c", "--arg", GOOD_CLIENT, "plugin"];
    let said = conformance("--client", &[&flags[..], &["hunter2-password", "--strict"]].concat());

    assert_eq!(said.code, 1, "{}", said.stdout);
    let report = said.json();
    assert_eq!(finding(&report, "stderr-secrets")["grade"], "fail");
    assert_eq!(report["summary"]["failed"], 1, "{report}");
}

#[test]
fn a_kubeconfigs_plugin_is_told_of_the_cluster_that_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let info = folder.path().join("info");
    let cluster = r#"{"server":"https://given.example","proxy-url":"http://me:hunter2-signature@p","config":null}"#;
    let text = format!(
        r#"{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{{"cluster":{cluster},"interactive":false}}}}"#
    );
    fs::write(&info, text).unwrap();
    let picky = format!(
        "case \"$KUBERNETES_EXEC_INFO\" in *given.example*) ;; *) echo \"no cluster\" >&2; exit 1 ;; esac\n{GOOD_CLIENT}"
    );
    let on = |flags: &[&str]| {
        conformance("--client", &[flags, &["/bin/sh", "--", "-c", &picky, "plugin"]].concat())
    };

    let given = on(&["--exec-info", info.to_str().unwrap()]);

    assert_eq!(given.code, 0, "{}", given.stdout);
    assert!(given.stdout.contains("provideClusterInfo: true"), "{}", given.stdout);
    assert_eq!(on(&[]).code, 1);
    fs::write(&info, "{}").unwrap();
    assert_eq!(on(&["--exec-info", info.to_str().unwrap()]).code, 2);
}

#[test]
fn fields_of_a_request_that_the_plugin_is_not_told_of_are_warned_about() {
    let folder = tempfile::tempdir().unwrap();
    let info = folder.path().join("info.json");
    // The input of KEP-541, word for word but for its values.
    let request = r#"{
  "apiVersion": "client.authentication.k8s.io/v1",
  "kind": "ExecCredential",
  "spec": {
    "cluster": {
      "server": "https://1.2.3.4:8080",
      "serverName": "bar",
      "caData": "Cg==",
      "config": {"serverName": "its own affair"}
    },
    "colour": "blue"
  }
}"#;
    fs::write(&info, request).unwrap();
    let path = info.to_str().unwrap();

    let said = conformance("--client", &["--exec-info", path, "/bin/false"]);

    let want = format!(
        "keyfob: warning: {path}:7:7: unknown field \"spec.cluster.serverName\" is not sent to the plugin; clients call it \
         tls-server-name, KEP-541 serverName\n\
         keyfob: warning: {path}:8:7: unknown field \"spec.cluster.caData\" is not sent to the plugin; clients call it \
         certificate-authority-data, KEP-541 caData\n\
         keyfob: warning: {path}:11:5: unknown field \"spec.colour\" is not sent to the plugin\n"
    );
    assert_eq!((said.code, said.stderr), (1, want));
    let today = request.replace("caData", "certificate-authority-data");
    let today = today.replacen("serverName", "tls-server-name", 1).replace("colour", "interactive");
    fs::write(&info, today.replace("\"blue\"", "false")).unwrap();
    assert_eq!(conformance("--client", &["--exec-info", path, "/bin/false"]).stderr, "");
}

#[test]
fn wrong_input_exits_with_2() {
    for (flags, told) in [
        (&["/nowhere/plugin"][..], "no plugin at /nowhere/plugin"),
        (&["no-such-plugin-anywhere"], "was not found on PATH"),
        (&["/bin/sh", "--image", "r.io/UPPER"], "invalid"),
        (&["/bin/sh", "--env", "NAME"], "equals sign"),
        (&["/bin/sh", "--annotation", "=x"], "equals sign"),
        (&["/bin/sh", "--timeout", "soon"], "duration"),
        (&["/bin/sh", "--token-file", "/nowhere/token"], "cannot read the token in /nowhere/token"),
        (&["/bin/sh", "--token-file", "x", "--token", "y"], "cannot be used with"),
        (&["/bin/sh", "--client", "--image", "r.io/a"], "cannot be used with"),
        (&["/bin/sh", "--exec-info", "x"], "--client"),
        (&["/bin/sh", "--client", "--exec-info", "/nowhere/info"], "/nowhere/info"),
    ] {
        let said = keyfob(&[&["conformance"], flags].concat());
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{flags:?}");
        assert!(said.stderr.contains(told), "{flags:?}: {}", said.stderr);
    }
}

#[test]
fn a_file_that_cannot_be_run_is_the_plugins_fault() {
    let said = conformance("/etc/passwd", &[]);

    assert_eq!(said.code, 1);
    assert!(
        said.stdout.starts_with("FAIL  start            cannot run /etc/passwd: "),
        "{}",
        said.stdout
    );
}

#[test]
fn help_lists_the_checks_the_json_and_the_exit_codes() {
    let help = keyfob(&["conformance", "--help"]).stdout;

    for text in [
        "stderr-secrets",
        "large-authority",
        "JSON:",
        "\"findings\"",
        "Exit codes: 0 ",
        "--allow-no-answer",
    ] {
        assert!(help.contains(text), "{text}: {help}");
    }
}
