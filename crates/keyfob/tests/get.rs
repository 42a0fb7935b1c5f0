//! `keyfob get` as its users see it, with real plugin processes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

#[path = "support/node.rs"]
mod node;
#[path = "support/signals.rs"]
mod signals;

use std::{
    fs,
    process::{Output, Stdio},
};

use keyfob_testkit::LeakCheck;
use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use node::{Node, Said, keyfob, program};
use serde_json::json;

const IMAGE: &str = "r.example/team/app:v1";
const FAILING: &str = "cat >/dev/null\necho \"no $PLUGIN_TOKEN\" >&2\nexit 3\n";

/// One that answers, beside one that fails.
fn node() -> Node {
    let logins = [["r.example", "ada", "hunter2-ada"], ["*.example", "bob", "hunter2-bob"]];
    Node::new().answering("good", &["r.example"], &logins).with("bad", &["*.example"], FAILING)
}

fn get(node: &Node, args: &[&str]) -> Said {
    node.run("get", args)
}

fn error_of_bad(node: &Node) -> String {
    let plugin = node.path("plugins/bad");
    format!("{} failed: exit code 3; it said: no [redacted]", plugin.display())
}

#[test]
fn json_is_exactly_the_documented_object() {
    let node = node();

    let said = get(&node, &[IMAGE, "-o", "json"]);

    let error = serde_json::to_string(&error_of_bad(&node)).unwrap();
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert_eq!(
        said.stdout,
        [
            r#"{"image":"r.example/team/app:v1","credentials":["#,
            r#"{"provider":"good","key":"r.example","username":"ada","password":"***"},"#,
            r#"{"provider":"good","key":"*.example","username":"bob","password":"***"}],"#,
            &format!(r#""errors":[{{"provider":"bad","error":{error}}}]}}"#),
            "\n"
        ]
        .concat()
    );
}

#[test]
fn a_table_hides_passwords_and_errors_are_told_on_stderr() {
    let node = node();

    let said = get(&node, &[IMAGE]);

    assert_eq!(said.code, 0);
    assert_eq!(
        said.stdout,
        "ORDER  PROVIDER  KEY        USERNAME  PASSWORD\n\
         1      good      r.example  ada       ***\n\
         2      good      *.example  bob       ***\n"
    );
    assert_eq!(said.stderr, format!("keyfob: provider bad failed: {}\n", error_of_bad(&node)));
}

#[test]
fn passwords_are_shown_when_asked_for() {
    let node = node();
    let shown = get(&node, &[IMAGE, "--show-secrets", "-o", "json"]).json();
    assert_eq!(shown["credentials"][0]["password"], "hunter2-ada");
    assert!(get(&node, &[IMAGE, "--show-secrets"]).stdout.contains("ada       hunter2-ada\n"));
}

#[test]
fn docker_gets_a_configuration_with_the_first_credential_of_each_key_it_understands() {
    let node = Node::new()
        .answering("one", &["r.example"], &[["r.example", "ada", "pass"]])
        .answering("two", &["r.example"], &[["r.example", "bob", "x"], ["*.example", "eve", "y"]])
        .answering("all", &["*.hub"], &[["*.hub", "kim", "z"]]);

    let said = get(&node, &[IMAGE, "-o", "docker"]);

    assert_eq!(said.code, 0);
    let login = json!({"username": "ada", "password": "pass", "auth": "YWRhOnBhc3M="});
    assert_eq!(said.json(), json!({"auths": {"r.example": login}}));
    let hub = get(&node, &["eu.hub/app", "-o", "docker"]).json();
    assert_eq!(hub["auths"]["eu.hub"]["username"], "kim");
    let nothing = get(&node, &["x.example/app", "-o", "docker"]);
    assert_eq!((nothing.code, nothing.json()), (3, json!({"auths": {}})));
}

#[test]
fn sources_come_in_a_kubelets_order() {
    let node = Node::new().answering("plugin", &["r.example"], &[["r.example", "p", "x"]]);
    let docker = |user: &str| {
        json!({"auths": {"r.example": {"username": user, "password": "x"}}}).to_string()
    };
    let first = node.file("first.json", &docker("s1"));
    let second = node.file("second.json", &docker("s2"));
    let config = node.file("docker.json", &docker("d"));
    let files =
        ["--docker-config", &config, "--pull-secret", &first, "--pull-secret", &second, IMAGE];

    let rows = get(&node, &[&files[..], &["-o", "json"]].concat()).json();

    let order: Vec<_> = rows["credentials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["provider"].as_str().unwrap(), row["username"].as_str().unwrap()))
        .collect();
    let [first, second] = [&first, &second].map(|path| format!("pull-secret:{path}"));
    let config = format!("docker-config:{config}");
    assert_eq!(order, [(&*first, "s1"), (&*second, "s2"), (&*config, "d"), ("plugin", "p")]);

    // They are enough without providers.
    assert_eq!(keyfob(&[&["get"], &files[..]].concat()).code, 0);
}

#[test]
fn a_secret_as_kubectl_prints_it_is_a_pull_secret() {
    let node = Node::new();
    let auths = r#"{"auths":{"r.example":{"username":"ada","password":"hunter2"}}}"#;
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": "regcred", "namespace": "team"},
        "stringData": {".dockerconfigjson": auths},
    });
    let file = node.file("secret.yaml", &secret.to_string());

    let said = keyfob(&["get", IMAGE, "--pull-secret", &file, "-o", "json"]);

    assert_eq!(said.json()["credentials"][0]["provider"], "pull-secret:regcred", "{}", said.stderr);
}

#[test]
fn without_credentials_the_code_is_3() {
    let node = Node::new()
        .answering("other", &["r.example"], &[["x.example", "ada", "hunter2"]])
        .with("bad", &["*.example"], FAILING);

    let unmatched = get(&node, &["y.io/app", "-o", "json"]);
    assert_eq!(unmatched.code, 3);
    assert_eq!(unmatched.stdout, "{\"image\":\"y.io/app\",\"credentials\":[],\"errors\":[]}\n");
    let table = get(&node, &["y.io/app"]);
    assert_eq!((table.code, table.stdout.as_str()), (3, ""));
    assert!(table.stderr.contains("no credentials for y.io/app"), "{}", table.stderr);
    assert_eq!(get(&node, &[IMAGE]).code, 3, "one failed, another answered for others");
}

#[test]
fn if_every_provider_that_matches_failed_the_code_is_1() {
    let node = Node::new().with("bad", &["*.example"], FAILING);
    assert_eq!(get(&node, &[IMAGE]).code, 1);

    let docker = json!({"auths": {"r.example": {"username": "d"}}}).to_string();
    let docker = node.file("docker.json", &docker);
    assert_eq!(get(&node, &[IMAGE, "--docker-config", &docker]).code, 0);
}

#[test]
fn wrong_input_exits_with_2_and_says_what_is_wrong() {
    let node = node();
    let wrong = |said: Said, expected: &str| {
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{expected}");
        assert!(said.stderr.contains(expected), "{expected} in {}", said.stderr);
    };
    let bin_dir = node.path("plugins");
    let bin_dir = bin_dir.to_str().unwrap();
    let config = node.file("broken.yaml", "kind: CredentialProviderConfig\n");

    wrong(get(&node, &["r.example/App"]), "App");
    wrong(get(&node, &[IMAGE, "--timeout", "30"]), "missing unit in duration");
    wrong(get(&node, &[IMAGE, "--timeout", "0s"]), "a plugin needs some time");
    wrong(get(&node, &[IMAGE, "--feature-gates", "A=maybe"]), "A");
    wrong(get(&node, &[IMAGE, "--pull-secret", "/no/such/file"]), "/no/such/file");
    wrong(get(&node, &[IMAGE, "--docker-config", "/no/such/file"]), "/no/such/file");
    wrong(keyfob(&["get", IMAGE]), "give --config and --bin-dir");
    wrong(keyfob(&["get", IMAGE, "--bin-dir", bin_dir]), "--bin-dir needs --config");
    wrong(keyfob(&["get", IMAGE, "--config", &config]), "--config needs --bin-dir");
    let broken = ["get", IMAGE, "--config", &config, "--bin-dir", bin_dir];
    wrong(keyfob(&broken), "a kubelet would not start");
    wrong(keyfob(&broken), "broken.yaml");
    let unversioned = Node::new()
        .answering("good", &["r.example"], &[["r.example", "ada", "hunter2"]])
        .having("apiVersion", json!("v9"))
        .having("matchImages", json!([]));
    wrong(get(&unversioned, &[IMAGE]), "config.json:1:");
    wrong(get(&unversioned, &[IMAGE]), "providers.matchImages: Required value");
}

#[test]
fn a_plugin_that_is_not_there_fails_alone_and_a_kubelets_view_is_told() {
    let node = node().answering("other", &["r.example"], &[["r.example", "eve", "hunter2-eve"]]);
    fs::remove_file(node.path("plugins/good")).unwrap();
    let said = get(&node, &[IMAGE, "-o", "json"]);
    assert_eq!((said.code, said.json()["errors"][0]["provider"].as_str()), (0, Some("good")));
    assert!(said.stderr.contains("a kubelet would not start with this: no plugin at"));
    assert!(said.stderr.contains("plugins/good"), "{}", said.stderr);

    fs::remove_file(node.path("plugins/other")).unwrap();
    assert_eq!(get(&node, &[IMAGE]).code, 1, "every provider that matches failed");
}

#[test]
fn a_kubelets_flags_are_understood() {
    let node = node();
    let (config, plugins) = (node.config(), node.path("plugins"));
    // The second is the first KEP's name.
    for config_flag in ["--image-credential-provider-config", "--registry-credential-config-path"] {
        let flags = [
            config_flag,
            &config,
            "--image-credential-provider-bin-dir",
            plugins.to_str().unwrap(),
            "--feature-gates",
            "KubeletServiceAccountTokenForCredentialProviders=true,SomethingElse=false",
        ];

        let said = keyfob(&[&["get", IMAGE], &flags[..]].concat());

        assert_eq!(said.code, 0, "{}", said.stderr);
    }
}

#[test]
fn a_gate_that_kubernetes_has_removed_is_refused_and_no_plugin_runs() {
    let node = Node::new();
    let ran = node.path("ran");
    let node = node.with("good", &["r.example"], &format!("touch {}\n", ran.display()));
    let off = "to turn credential providers off, remove --image-credential-provider-config and \
               --image-credential-provider-bin-dir as well";
    for (gate, called) in [
        ("KubeletCredentialProviders", "KubeletCredentialProviders"),
        (
            "KubeletCredentialProvider",
            "KubeletCredentialProvider (KEP-2133's name for KubeletCredentialProviders)",
        ),
    ] {
        for command in ["get", "explain", "pull"] {
            let said = node.run(command, &[IMAGE, "--feature-gates", &format!("{gate}=false")]);

            let why = format!("the feature gate {called} was removed in Kubernetes 1.28");
            let words =
                format!("keyfob: {why}\nkeyfob: remove {gate} from the feature gates; {off}\n");
            assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (2, "", &*words));
        }
    }
    assert!(!ran.exists(), "the plugin ran");
}

#[test]
fn a_plugin_that_hangs_is_killed_in_time() {
    let node = Node::new().with("stuck", &["r.example"], "while :; do sleep 600; done\n");

    let said = get(&node, &[IMAGE, "--timeout", "200ms", "-o", "json"]);

    assert_eq!(said.code, 1);
    let error = said.json()["errors"][0]["error"].as_str().unwrap().to_owned();
    assert!(error.ends_with("stuck was killed after 0.2 s without an answer"), "{error}");
}

#[test]
fn whoever_stops_the_command_stops_its_plugins() {
    let node = Node::new();
    let pid = node.path("pid").display().to_string();
    let script = format!("echo $$ >{pid}.new; mv {pid}.new {pid}; while :; do sleep 600; done\n");
    let node = node.with("stuck", &["r.example"], &script);
    let all = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];
    for number in all.into_iter().filter(|signal| signals::heeded(*signal)) {
        let mut command = program();
        command.args(["get", IMAGE, "--config", &node.config(), "--bin-dir"]);
        let started = command.arg(node.path("plugins")).stderr(Stdio::piped()).spawn().unwrap();
        let plugin = until(|| fs::read_to_string(&pid).ok()?.trim().parse().ok());
        fs::remove_file(&pid).unwrap();

        signal::kill(Pid::from_raw(i32::try_from(started.id()).unwrap()), number).unwrap();

        let said = Said::from(started.wait_with_output().unwrap());
        assert_eq!(said.code, 130, "{}", said.stderr);
        assert_eq!(said.stderr, "keyfob: stopped; the plugins that ran were killed\n");
        until(|| signal::kill(Pid::from_raw(plugin), None).err());
    }
}

/// As `nohup` starts it.
#[test]
#[expect(clippy::disallowed_methods, reason = "a shell that ignores a signal")]
fn a_signal_that_the_command_was_started_to_ignore_stops_nothing() {
    let node = Node::new();
    let [ready, go] = ["ready", "go"].map(|name| node.path(name).display().to_string());
    let answer = node::answer(&[["r.example", "ada", "x"]]);
    let script = format!("touch {ready}; until [ -e {go} ]; do sleep 0.01; done\n{answer}");
    let node = node.with("slow", &["r.example"], &script);
    let started = std::process::Command::new("/bin/sh")
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_keyfob")])
        .args(["get", IMAGE, "--config", &node.config(), "--bin-dir"])
        .arg(node.path("plugins"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    until(|| fs::exists(&ready).unwrap().then_some(()));

    signal::kill(Pid::from_raw(i32::try_from(started.id()).unwrap()), Signal::SIGHUP).unwrap();
    fs::write(&go, "").unwrap();

    let said = Said::from(started.wait_with_output().unwrap());
    assert_eq!(said.code, 0);
    assert!(said.stdout.contains("ada"), "{}", said.stdout);
}

/// Waits for something that takes a moment, and not for ever.
#[expect(clippy::disallowed_methods, reason = "another process cannot be told to use our clock")]
fn until<T>(mut happened: impl FnMut() -> Option<T>) -> T {
    let mut waits = (0..10_000).map(|_| std::thread::sleep(std::time::Duration::from_millis(2)));
    waits.find_map(|()| happened()).unwrap()
}

#[test]
fn no_secret_is_shown_unless_it_is_asked_for() {
    let node = node();
    let docker = json!({"auths": {"r.example": {"auth": "ZDpodW50ZXIyLWRvY2tlcg=="}}}).to_string();
    let docker = node.file("docker.json", &docker);
    let leaks = LeakCheck::new(["hunter2", "ZDpodW50ZXIyLWRvY2tlcg"]);
    for output in ["table", "json"] {
        for logs in [&[][..], &["-vvv"], &["-vvv", "--log-format", "json"]] {
            for files in [&["--docker-config", &docker][..], &["--pull-secret", &docker]] {
                let said = get(&node, &[&[IMAGE, "-o", output], logs, files].concat());
                assert_eq!(said.code, 0);
                assert_eq!(said.stderr.contains("asking the plugin"), !logs.is_empty());
                leaks.text("stdout", &said.stdout).text("stderr", &said.stderr);
            }
        }
    }
    let shown = get(&node, &[IMAGE, "-vvv", "-o", "docker"]);
    assert!(shown.stdout.contains("hunter2-ada"));
    leaks.text("stderr", &shown.stderr);
}

#[test]
fn logs_are_lines_of_json_on_stderr_when_asked_for() {
    let said = get(&node(), &[IMAGE, "-o", "json", "-vv", "--log-format", "json"]);

    let lines: Vec<serde_json::Value> =
        said.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let message = "the plugin gave no credentials; other providers may";
    let is_failure = |line: &&serde_json::Value| line["fields"]["message"] == message;
    let failure = lines.iter().find(is_failure).unwrap();
    assert_eq!(failure["fields"]["provider"], "bad");
    assert_eq!(failure["level"], "ERROR", "as a kubelet logs it");

    let quiet = get(&node(), &[IMAGE, "-o", "json", "--log-format", "json"]);
    assert_eq!(quiet.stderr, "", "the answer says it already");
}

#[test]
fn an_answer_cannot_forge_a_line_of_the_table() {
    let node = Node::new().answering("good", &["r.example"], &[["r.example", "a\nb \u{1b}", "x"]]);

    let said = get(&node, &[IMAGE]);

    assert_eq!(said.stdout.lines().count(), 2, "{:?}", said.stdout);
    assert!(!said.stdout.contains('\u{1b}'), "{:?}", said.stdout);
}

#[test]
fn an_answer_that_cannot_be_written_is_no_answer() {
    let node = node();
    let (config, plugins) = (node.config(), node.path("plugins"));
    let run = |stdout: Stdio| -> Output {
        let mut command = program();
        command.args(["get", IMAGE, "--config"]).arg(&config).arg("--bin-dir").arg(&plugins);
        command.stdout(stdout).output().unwrap()
    };

    let full = run(fs::File::create("/dev/full").unwrap().into());
    assert_eq!(full.status.code(), Some(4));

    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(run(writer.into()).status.code(), Some(4));
}

#[test]
fn help_tells_the_exit_codes() {
    let help = keyfob(&["get", "--help"]).stdout;
    assert!(help.contains("Exit codes: 0 there are credentials"), "{help}");
}
