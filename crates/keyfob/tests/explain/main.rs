//! `keyfob explain` as its users see it, with real plugin processes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

#[path = "../support/node.rs"]
mod node;
mod problems;

use keyfob_testkit::LeakCheck;
use node::{Node, Said, keyfob, program};
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
        "notes": [],
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
        "notes": [],
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
fn a_login_that_docker_keeps_elsewhere_is_a_problem_of_the_images_it_is_for() {
    let node = Node::new();
    let auths = json!({"auths": {"r.example": {}, "x.example": {}}, "credsStore": "desktop"});
    let file = node.file("docker.json", &auths.to_string());

    let said = keyfob(&["explain", IMAGE, "--docker-config", &file, "-o", "json"]);

    assert_eq!(said.code, 0, "a kubelet tries it");
    assert_eq!(
        said.json()["files"][0]["problems"],
        json!([{
            "problem": "the login for r.example is empty: docker keeps it in a helper (credsStore, credHelpers), which a \
                        kubelet does not run",
            "do": "take the helper out of the file and log in again with docker login, or use a provider",
        }])
    );
}

#[test]
fn a_registry_that_no_pattern_can_name_is_told_so() {
    let node = Node::new().answering("good", &["[::1]"], &[ADA]);

    let problem = report(&node, "[::1]/team/app")["problems"][0].clone();

    let remedy = problem["do"].as_str().unwrap();
    assert!(remedy.starts_with("no pattern can name this registry"), "{remedy}");
}

#[test]
fn what_others_wrote_cannot_steer_the_terminal() {
    let odd = "odd\u{1b}[2J\u{202e}";
    let node = Node::new().with(odd, &["r.example"], FAILING);
    let node = node.having("env", json!([{"name": "A;touch b;\u{1b}", "value": "x"}]));
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull\u{1b}[2J"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": "eyJhdXRocyI6e319"},
    });
    let secret = node.file("secret\u{1b}.json", &secret.to_string());
    let steers = |text: &str| text.contains(['\u{1b}', '\u{202e}']);

    let said = explain(&node, &[IMAGE, "--pull-secret", &secret]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stdout.contains("provider \"odd\\u{1b}[2J\\u{202e}\""), "{}", said.stdout);
    let by_hand = said.stdout.split("to see it by hand: ").nth(1).unwrap().lines().next().unwrap();
    assert!(by_hand.contains(" | $'") && !by_hand.contains("touch"), "{by_hand}");
    let missing = node.path("none\u{1b}").display().to_string();
    let unread = keyfob(&["explain", IMAGE, "--pull-secret", &missing]);
    assert!(unread.stderr.contains("none\\u{1b}"), "{}", unread.stderr);
    let got = node.run("get", &[IMAGE]);
    assert!(got.stderr.contains("odd\\u{1b}[2J"), "{}", got.stderr);
    for said in [said, unread, got] {
        assert!(!steers(&said.stdout) && !steers(&said.stderr), "{}", said.stderr);
    }
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
fn an_explanation_that_nobody_reads_is_not_written() {
    let node = Node::new().answering("good", &["r.example"], &[ADA]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = program();
    command.args(["explain", IMAGE, "--config"]).arg(node.config());
    command.arg("--bin-dir").arg(node.path("plugins")).stdout(writer);

    let output = command.output().unwrap();

    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(stderr, "keyfob: the result could not be written: Broken pipe (os error 32)\n");
}
