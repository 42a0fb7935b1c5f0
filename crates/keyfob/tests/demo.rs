//! The demo does what it says, shows no secret and leaves nothing behind.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and this is the real program"
)]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyfob_testkit::LeakCheck;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::TempDir;

const HEADINGS: [&str; 8] = [
    "0. A private registry, a small cluster, a node with plugins\n",
    "\n1. The node's own login, cold and warm\n",
    "\n2. A pod pulls by its own identity\n",
    "\n3. Another pod is refused that image, although it is on disk\n",
    "\n4. A token that the node may not ask for\n",
    "\n5. A plugin that hangs harms no other\n",
    "\n6. One agent for every program on the node\n",
    "\n7. A kubeconfig's user logs in with a plugin\n",
];

/// What it says when it is done, and when everything stays.
const SUMMARY: &str = "ACT  WHAT WAS SHOWN";
const READY: &str = "Ctrl-C ends it";

fn demo(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keyfob"));
    command.arg("demo").env("TMPDIR", directory).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Exit code, stdout and stderr.
fn said(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Neither files nor processes; plugins are started by paths in the directory.
fn assert_nothing_left(directory: &Path) {
    assert_eq!(fs::read_dir(directory).unwrap().count(), 0, "it cleans up");
    let path = directory.to_str().unwrap();
    for process in fs::read_dir("/proc").unwrap() {
        let line = fs::read(process.unwrap().path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        assert!(!line.contains(path), "{line} still runs");
    }
}

#[test]
fn every_step_does_what_it_should() {
    let directory = TempDir::new().unwrap();

    // A proxy that is not there: nothing goes through it to this machine.
    let proxy = "http://127.0.0.1:9";
    let mut demo = demo(directory.path());
    let (code, stdout, stderr) =
        said(demo.env("HTTPS_PROXY", proxy).env("HTTP_PROXY", proxy).output().unwrap());

    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    let mut rest = stdout.as_str();
    for heading in HEADINGS {
        rest = rest.split_once(heading).unwrap_or_else(|| panic!("{heading} in {stdout}")).1;
    }
    let (acts, summary) = stdout.split_once(SUMMARY).unwrap();
    assert_eq!((acts.matches("\n  ✓ ").count(), stdout.matches('✗').count()), (27, 0), "{stdout}");
    assert_eq!(summary.matches('✓').count(), HEADINGS.len(), "{stdout}");
    for told in [
        "refused with status code 401",
        "1 process started, ",
        "layers are on disk\n    no process started, ",
        "system:serviceaccount:team-a:web",
        "POST /exchange: 200",
        "no process started, no request to the registry",
        "team-b/batch may not do this: repository:team-a/app:pull",
        "is not present with pull policy of Never",
        "/team-a/app: pods of the service account team-a/web",
        "is not authorized to request tokens for audience \"registry.demo\"",
        "verbs: [request-serviceaccounts-token-audience]",
        "was killed after 0.5 s without an answer",
        "runs of the plugin: 1\n",
        " | docker-credential-keyfob get\n    user node, ",
        "copy/docker-credential-keyfob get\n    exit code 1: keyfob-relay: no rule allows ",
        "403: no rule allows ",
        "fifty requests at once are answered after one run",
    ] {
        assert!(stdout.contains(told), "{told} in {stdout}");
    }
    assert!(!stdout.contains("eyJ"), "a token begins like that: {stdout}");
    assert_nothing_left(directory.path());
}

#[test]
fn a_demo_that_cannot_be_set_up_fails_and_says_why() {
    let (code, stdout, stderr) = said(demo(Path::new("/no/such/directory")).output().unwrap());

    assert_eq!((code, stderr.as_str()), (Some(1), ""), "{stdout}");
    assert!(stdout.starts_with("  ✗ there is a temporary directory\n"), "{stdout}");
}

#[test]
fn a_step_that_goes_wrong_is_told_and_fails_the_demo() {
    let directory = TempDir::new().unwrap();

    // The plugin honours this variable, as it should, and so has no login for the demo's registry.
    let mut demo = demo(directory.path());
    let demo = demo.env("KEYFOB_EXCHANGE_REGISTRY", "elsewhere.example");
    let (code, stdout, stderr) = said(demo.output().unwrap());

    assert_eq!((code, stderr.as_str()), (Some(1), ""), "{stdout}");
    let of_act = |number: &str| {
        let summary = stdout.split_once(SUMMARY).unwrap_or_else(|| panic!("no summary: {stdout}"));
        summary.1.lines().filter(|row| row.starts_with(number)).any(|row| row.contains(" ✓ "))
    };
    assert_eq!(["0", "1", "2", "3"].map(of_act), [true, true, false, false], "{stdout}");
    assert_nothing_left(directory.path());
}

/// A demo that runs, and what it has said so far.
struct Running {
    program: Child,
    stdout: BufReader<std::process::ChildStdout>,
    said: String,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut program = command.spawn().unwrap();
        let stdout = BufReader::new(program.stdout.take().unwrap());
        Self { program, stdout, said: String::new() }
    }

    /// Reads until a line begins like this.
    fn until(&mut self, beginning: &str) {
        while !self.said.lines().last().is_some_and(|line| line.starts_with(beginning)) {
            assert_ne!(self.stdout.read_line(&mut self.said).unwrap(), 0, "{}", self.said);
        }
    }

    fn stop(mut self) -> (Option<i32>, String, String) {
        let pid = Pid::from_raw(i32::try_from(self.program.id()).unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        self.stdout.read_to_string(&mut self.said).unwrap();
        let (code, _, stderr) = said(self.program.wait_with_output().unwrap());
        (code, self.said, stderr)
    }
}

#[test]
fn a_demo_that_is_stopped_cleans_up() {
    let directory = TempDir::new().unwrap();
    let mut demo = Running::start(&mut demo(directory.path()));

    // By then signals are waited for.
    demo.until("  ✓ ");
    let (code, stdout, stderr) = demo.stop();

    assert_eq!(code, Some(130), "{stdout}{stderr}");
    assert!(stderr.starts_with("keyfob: stopped"), "{stderr}");
    assert_nothing_left(directory.path());
}

#[test]
fn what_is_kept_can_be_played_with_by_the_commands_that_are_printed() {
    let directory = TempDir::new().unwrap();
    let mut demo = Running::start(demo(directory.path()).arg("--keep"));
    demo.until(READY);
    let commands: Vec<String> =
        demo.said.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect();
    let place = PathBuf::from(commands.first().unwrap().strip_prefix("cd ").unwrap());
    let secrets = secrets(&place);
    let leaks = LeakCheck::new(secrets);

    let mut ran = Vec::new();
    for line in commands.iter().skip(1) {
        let (words, comment) = line.split_once("  # ").unwrap_or((line, ""));
        let (program, words) = words.split_once(' ').unwrap();
        ran.push(program);
        // `.ci/run e2e` has the others, too.
        if program != "./keyfob" && std::env::var_os("KEYFOB_E2E").is_none() {
            continue;
        }
        // A bare name is for the search path; joined, `./` is the directory.
        let is_here = program.starts_with("./");
        let program = if is_here { place.join(program) } else { PathBuf::from(program) };
        let mut command = Command::new(program);
        command.args(words.split(' ')).current_dir(&place).env("HOME", &place);
        let (code, stdout, stderr) = said(command.output().unwrap());
        assert_eq!(code, Some(i32::from(comment == "refused")), "{line}\n{stdout}{stderr}");
        leaks.text(words, &stdout).text(words, &stderr);
    }
    assert_eq!(ran, [["./keyfob"; 8].as_slice(), &["kubectl", "skopeo"]].concat());

    let (code, stdout, stderr) = demo.stop();
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    leaks.text("stdout", &stdout);
    assert_nothing_left(directory.path());
}

/// The password of the node and the tokens of the kubeconfigs.
fn secrets(place: &Path) -> Vec<String> {
    let read = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(place.join(name)).unwrap()).unwrap()
    };
    let text = |value: Option<&Value>| value.unwrap().as_str().unwrap().to_owned();
    let token =
        |user: &str| text(read(&format!("{user}.kubeconfig")).pointer("/users/0/user/token"));
    let mut secrets: Vec<String> = ["admin", "node-1"].map(token).into();
    let logins = read("node-login.json");
    let logins = logins.get("auths").unwrap().as_object().unwrap();
    let login = text(logins.values().next().unwrap().get("auth"));
    let decoded = String::from_utf8(BASE64_STANDARD.decode(&login).unwrap()).unwrap();
    secrets.extend([login, decoded.strip_prefix("node:").unwrap().to_owned()]);
    secrets
}
