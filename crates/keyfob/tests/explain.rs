//! `keyfob explain` as its users see it, with real plugin processes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

#[path = "support/node.rs"]
mod node;

use std::{fs, os::unix::fs::PermissionsExt as _};

use keyfob_testkit::LeakCheck;
use node::{Node, Said, answer, keyfob, program};
use serde_json::{Value, json};

const IMAGE: &str = "r.example/team/app:v1";
const ADA: [&str; 3] = ["r.example", "ada", "hunter2-ada"];
const FAILING: &str = "cat >/dev/null\necho \"no $PLUGIN_TOKEN\" >&2\nexit 3\n";

fn explain(node: &Node, args: &[&str]) -> Said {
    node.run("explain", args)
}

fn report(node: &Node, image: &str) -> Value {
    explain(node, &[image, "-o", "json"]).json()
}

/// What is wrong with the only provider, and what to do about it.
fn problem(node: &Node, image: &str) -> (String, String) {
    let report = report(node, image);
    let text = |name: &str| {
        let path = format!("/providers/0/problems/0/{name}");
        report.pointer(&path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    (text("problem"), text("do"))
}

#[test]
fn json_is_exactly_the_documented_object() {
    let node = Node::new()
        .answering("good", &["r.example/team", "r.example:5000"], &[ADA, ["x.io", "b", "hunter2"]])
        .answering("other", &["x.example"], &[]);

    let said = explain(&node, &[IMAGE, "-o", "json"]);

    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let mut report = said.json();
    let provider = &mut report["providers"][0];
    assert!(provider["tookMs"].take().as_f64().unwrap() > 0.0);
    assert!(provider["cache"]["until"].take().as_str().unwrap().ends_with('Z'));
    let expected = json!({
        "image": IMAGE,
        "repository": "r.example/team/app",
        "verdict": "1 credential: ada from good",
        "anonymous": false,
        "credentials": [{"source": "good", "key": "r.example", "username": "ada"}],
        "files": [],
        "providers": [the_one_that_answered(&node), the_one_that_was_not_asked()],
        "problems": [],
    });
    assert_eq!(report, expected);
}

fn compared(text: &str, matches: bool, reason: &str) -> Value {
    json!({"text": text, "matches": matches, "reason": reason})
}

const FITS: &str = "host, port and path match";
const OTHER_LABEL: &str =
    r#"labels differ: label 1 of the image's host name is "r", the pattern's is "x""#;

fn the_one_that_answered(node: &Node) -> Value {
    let other_port = "port differs: the pattern has 5000, the image none";
    json!({
        "name": "good",
        "matches": true,
        "patterns": [
            compared("r.example/team", true, FITS),
            compared("r.example:5000", false, other_port),
        ],
        "command": {
            "program": node.path("plugins/good"),
            "args": [node.path("good.sh")],
            "environment": [{"name": "PLUGIN_TOKEN", "replacesTheHosts": false}],
            "deadline": "1m0s",
        },
        "result": "ran",
        "tookMs": null,
        "cache": {
            "state": "stored", "scope": "Registry", "key": "r.example", "until": null, "for": "10m0s"
        },
        "keys": [compared("r.example", true, FITS), compared("x.io", false, OTHER_LABEL)],
        "error": null,
        "problems": [],
    })
}

fn the_one_that_was_not_asked() -> Value {
    json!({
        "name": "other",
        "matches": false,
        "patterns": [compared("x.example", false, OTHER_LABEL)],
        "command": null,
        "result": "notAsked",
        "tookMs": null,
        "cache": null,
        "keys": [],
        "error": null,
        "problems": [],
    })
}

#[test]
fn the_answer_comes_first_and_everything_it_stands_on_follows() {
    let node = Node::new()
        .answering("good", &["r.example"], &[ADA, ["*.example", "bob", "hunter2-bob"]])
        .with("bad", &["*.example"], FAILING);

    let said = explain(&node, &[IMAGE, "--timeout", "30s"]);

    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let lines: Vec<&str> = said.stdout.lines().map(str::trim_end).collect();
    assert_eq!(lines[0], "2 credentials; the first that will be tried is ada from good");
    let script = node.path("good.sh").display().to_string();
    let plugin = node.path("plugins/good").display().to_string();
    for line in [
        "  pattern      r.example: matches: host, port and path match".to_owned(),
        format!("  command      {plugin} {script}"),
        "  environment  PLUGIN_TOKEN=*** (set)".to_owned(),
        "  deadline     killed after 30s".to_owned(),
        "  answer       *.example: matches: host, port and path match".to_owned(),
        "  1. user ada from good for r.example".to_owned(),
        "  2. user bob from good for *.example".to_owned(),
    ] {
        assert!(lines.contains(&line.as_str()), "{line}\nin {}", said.stdout);
    }
    let cache = "  cache        was empty; the answer is now kept per Registry under r.example for 10m0s, until ";
    assert!(lines.iter().any(|line| line.starts_with(cache)), "{}", said.stdout);
    assert!(said.stdout.contains("failed: exit code 3; it said: no [redacted]"), "{}", said.stdout);
    assert!(said.stdout.contains("to see it by hand: echo '{\"kind\""), "{}", said.stdout);
}

#[test]
fn when_nobody_matches_the_nearest_pattern_is_shown_with_what_to_write() {
    let node = Node::new().answering("good", &["x.io", "r.example/*"], &[]);

    let said = explain(&node, &[IMAGE, "-o", "json"]);

    assert_eq!(said.code, 3);
    let report = said.json();
    assert_eq!(
        report["verdict"],
        "no credentials: no pattern of a provider and no key of a file matches; the pull would be anonymous"
    );
    assert_eq!(report["anonymous"], true);
    let problem = &report["problems"][0];
    let text = problem["problem"].as_str().unwrap();
    assert!(
        text.starts_with(
            "no pattern matches; the nearest is \"r.example/*\" of provider good: never"
        ),
        "{text}"
    );
    assert_eq!(problem["do"], "if that provider is meant for this image, write \"r.example/\"");
}

#[test]
fn a_plugin_that_is_not_there_is_explained() {
    let node = Node::new().answering("gone", &["r.example"], &[]);
    fs::remove_file(node.path("plugins/gone")).unwrap();

    let said = explain(&node, &[IMAGE]);

    assert_eq!(said.code, 1);
    assert!(said.stdout.starts_with("no credentials: every provider that matches failed; "));
    assert!(
        said.stdout.contains("a kubelet would not start with this configuration: no plugin at")
    );
    assert!(
        said.stdout
            .contains("install the plugin there, or correct the provider's name or --bin-dir")
    );
}

#[test]
fn a_plugin_that_cannot_be_run_or_fails_is_explained() {
    let plain = Node::new().answering("plain", &["r.example"], &[]);
    fs::remove_file(plain.path("plugins/plain")).unwrap();
    plain.file("plugins/plain", "");
    let (text, remedy) = problem(&plain, IMAGE);
    assert!(text.contains("permission denied"), "{text}");
    assert!(remedy.contains("chmod +x "), "{remedy}");

    let failing = Node::new().with("bad", &["r.example"], FAILING);
    let (text, remedy) = problem(&failing, IMAGE);
    assert!(text.ends_with("exit code 3; it said: no [redacted]"), "{text}");
    assert!(remedy.contains("| PLUGIN_TOKEN=… "), "{remedy}");
}

#[test]
fn a_plugin_that_hangs_is_explained() {
    let node = Node::new().with("stuck", &["r.example"], "while :; do sleep 600; done\n");

    let said = explain(&node, &[IMAGE, "--timeout", "200ms"]);

    assert_eq!(said.code, 1);
    assert!(
        said.stdout.contains("provider stuck: matches, and failed after 200.0 ms"),
        "{}",
        said.stdout
    );
    assert!(said.stdout.contains("was killed after 0.2 s without an answer"), "{}", said.stdout);
    assert!(said.stdout.contains("find out what it waits for"), "{}", said.stdout);
}

#[test]
fn an_answer_that_is_none_or_of_no_use_is_explained() {
    let with = |script: &str| Node::new().with("odd", &["r.example"], script);
    let odd = |script: &str| problem(&with(script), IMAGE);
    let foreign = answer(&[["x.example", "ada", "hunter2"]]);

    let (_, remedy) = odd("cat >/dev/null; echo hello\n");
    assert!(remedy.contains("it must print one JSON object and nothing else"), "{remedy}");
    let (_, remedy) = odd(&foreign.replace("k8s.io/v1", "k8s.io/v1beta1"));
    assert!(remedy.contains("set the provider's apiVersion"), "{remedy}");
    let (_, remedy) = odd(&foreign.replace("\"Registry\"", "\"registry\""));
    assert!(remedy.contains("must be Image, Registry or Global"), "{remedy}");
    let (text, remedy) = odd(&foreign);
    assert_eq!(text, "its answer is only for other images");
    assert!(remedy.ends_with("such as \"r.example\""), "{remedy}");
    let (text, _) = odd(&answer(&[]));
    assert_eq!(text, "its answer has no credentials");
    let report = report(&with(&foreign.replace("\"Registry\"", "\"Global\"")), IMAGE);
    let second = report["providers"][0]["problems"][1]["do"].as_str().unwrap();
    assert!(second.contains("Registry or Image"), "{second}");
}

#[test]
fn a_provider_that_wants_a_service_account_is_explained() {
    let node = Node::new().answering("tokens", &["r.example"], &[ADA]).having(
        "tokenAttributes",
        json!({
            "serviceAccountTokenAudience": "r.example",
            "cacheType": "ServiceAccount",
            "requireServiceAccount": true,
        }),
    );

    let said = explain(&node, &[IMAGE]);

    assert_eq!(said.code, 3, "{}", said.stderr);
    assert!(said.stdout.contains("no provider that matches gave an answer"), "{}", said.stdout);
    assert!(said.stdout.contains("requires the pod's service account"), "{}", said.stdout);
}

#[test]
fn a_plugin_that_somebody_else_could_replace_is_a_problem() {
    let node = Node::new().answering("good", &["r.example"], &[ADA]);
    fs::set_permissions(node.path("plugins"), fs::Permissions::from_mode(0o777)).unwrap();

    let problems = report(&node, IMAGE)["providers"][0]["problems"].clone();

    let texts: Vec<&str> =
        problems.as_array().unwrap().iter().map(|each| each["problem"].as_str().unwrap()).collect();
    let plugins = node.path("plugins").display().to_string();
    let expected =
        format!("somebody else could replace the plugin: {plugins} is writable by everybody");
    assert!(texts.contains(&expected.as_str()), "{texts:?}");
}

#[test]
fn files_are_explained_key_by_key() {
    let node = Node::new();
    let login = json!({"username": "ada", "password": "hunter2"});
    let auths = json!({"auths": {"https://index.docker.io/v1/": login, "r.example:x": login}});
    let file = node.file("docker.json", &auths.to_string());

    let hub = keyfob(&["explain", "nginx", "--docker-config", &file, "-o", "json"]);
    let other = keyfob(&["explain", IMAGE, "--docker-config", &file, "-o", "json"]);

    assert_eq!((hub.code, other.code), (0, 3));
    assert_eq!(
        hub.json()["files"][0]["keys"],
        json!([{
            "text": "index.docker.io",
            "matches": true,
            "reason": "Docker Hub's own key, used because no other matches",
        }])
    );
    let other = other.json();
    assert_eq!(other["files"][0]["source"], format!("docker-config:{file}"));
    assert_eq!(other["files"][0]["keys"][0]["matches"], false);
    let problem = other["files"][0]["problems"][0]["problem"].as_str().unwrap();
    assert!(problem.starts_with("key number 2: the key is no registry"), "{problem}");
}

#[test]
fn wrong_input_exits_with_2_and_says_what_a_kubelet_would_do() {
    let node = Node::new().answering("good", &["r.example"], &[ADA]);
    let wrong = |said: Said, expected: &str| {
        assert_eq!((said.code, said.stdout.as_str()), (2, ""));
        assert!(said.stderr.contains(expected), "{expected} in {}", said.stderr);
    };
    wrong(explain(&node, &["r.example/App"]), "InvalidImageName");
    wrong(keyfob(&["explain", IMAGE]), "give --config and --bin-dir");
    let invalid = Node::new().answering("good", &["r.example:*"], &[]);
    wrong(explain(&invalid, &[IMAGE]), "a kubelet would not start with this configuration");
}

#[test]
fn no_secret_is_ever_shown() {
    let token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln";
    let node = Node::new()
        .answering("good", &["r.example"], &[ADA, ["x.example", "eve", "hunter2-eve"]])
        .with("bad", &["*.example"], FAILING)
        .having("args", json!([]));
    let script = node.path("bad.sh").display().to_string();
    let args = [
        &script,
        "--password=hunter2",
        "--token",
        "hunter2",
        "hunter2-token",
        "hunter2-ada",
        token,
    ];
    let node = node.having("args", json!(args));
    let docker = json!({"auths": {"r.example": {"username": "d", "password": "hunter2-docker"}}});
    let docker = node.file("docker.json", &docker.to_string());
    let leaks = LeakCheck::new(["hunter2", token]);
    for output in ["table", "json"] {
        for logs in [&[][..], &["-vvv"], &["-vvv", "--log-format", "json"]] {
            let flags = [IMAGE, "-o", output, "--docker-config", &docker, "--pull-secret", &docker];
            let said = explain(&node, &[&flags[..], logs].concat());
            assert_eq!(said.code, 0);
            assert!(said.stdout.contains("--password=***"), "{}", said.stdout);
            leaks.text("stdout", &said.stdout).text("stderr", &said.stderr);
        }
    }
}

#[test]
fn nobody_has_to_read_it_all() {
    let node = Node::new().answering("good", &["r.example"], &[ADA]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = program();
    command.args(["explain", IMAGE, "--config"]).arg(node.config());
    command.arg("--bin-dir").arg(node.path("plugins")).stdout(writer);

    let output = command.output().unwrap();

    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}
