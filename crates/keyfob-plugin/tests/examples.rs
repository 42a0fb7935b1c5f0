//! The examples, as processes: what a kubelet, a docker client and kubectl see of them.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test starts the programs that it is about"
)]

use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Output, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use keyfob_api::{
    CredentialProviderRequest, CredentialProviderResponse, ExecCredentialStatus, ExecVersion,
    ProviderVersion, RegistryCredentialPluginResponse,
};
use keyfob_contract::{ClientConformance, Grade};
use keyfob_exec::{ProcessRunner, Program};
use keyfob_testkit::{LeakCheck, MapEnvironment, example};
use tempfile::TempDir;

/// An example, started with these arguments and this on stdin.
struct Run<'a> {
    example: &'a str,
    arguments: Vec<String>,
    exec_info: Option<&'a str>,
}

impl<'a> Run<'a> {
    fn of(example: &'a str) -> Self {
        Self { example, arguments: Vec::new(), exec_info: None }
    }

    fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(example(self.example));
        command.args(&self.arguments).env_remove("KUBERNETES_EXEC_INFO");
        if let Some(info) = self.exec_info {
            command.env("KUBERNETES_EXEC_INFO", info);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn with_stdin(&self, stdin: &[u8]) -> Output {
        let mut child = self.command().spawn().unwrap();
        child.stdin.take().unwrap().write_all(stdin).unwrap();
        child.wait_with_output().unwrap()
    }

    fn asked(&self, request: &CredentialProviderRequest, version: ProviderVersion) -> Output {
        self.with_stdin(request.encode(version).expose())
    }
}

fn about(image: &str) -> CredentialProviderRequest {
    CredentialProviderRequest { image: image.into(), ..Default::default() }
}

fn password_file() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("password");
    fs::write(&path, "hunter2\n").unwrap();
    (directory, path)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn every_version_is_answered_in_its_own_words() {
    let (_kept, path) = password_file();
    let run = Run::of("password-file").arg(path.to_str().unwrap());
    for version in ProviderVersion::ALL {
        let output = run.asked(&about("registry.example.com/app"), version);

        let answer = CredentialProviderResponse::decode(&output.stdout, version).unwrap();
        assert_eq!(answer.auth[0].0, "registry.example.com");
        assert_eq!(answer.auth[0].1.password.expose(), "hunter2");
        assert_eq!(answer.cache_duration.unwrap().to_string(), "10m0s");
        assert_eq!((text(&output.stderr).as_str(), output.status.code()), ("", Some(0)));
    }
}

#[test]
fn the_first_dialect_is_answered_in_its_own_words() {
    let (_kept, path) = password_file();
    let run = Run::of("password-file").arg(path.to_str().unwrap());

    let output = run.with_stdin(br#"{"image":"registry.example.com/app"}"#);

    let answer = RegistryCredentialPluginResponse::decode(&output.stdout).unwrap();
    assert_eq!((answer.username.as_str(), answer.password.expose().as_str()), ("robot", "hunter2"));
    assert!(answer.expiration.is_some());
}

#[test]
fn another_registry_gets_an_empty_answer() {
    let output = Run::of("password-file").asked(&about("quay.io/app"), ProviderVersion::V1);

    let answer = CredentialProviderResponse::decode(&output.stdout, ProviderVersion::V1).unwrap();
    assert!(answer.auth.is_empty());
    assert_eq!(answer.cache_duration.unwrap().to_string(), "0s");
}

#[test]
fn a_failure_is_one_line_with_what_was_done() {
    let run = Run::of("password-file").arg("/nowhere/at\nall");
    let output = run.asked(&about("registry.example.com/app"), ProviderVersion::V1);

    let line = "password-file: reading /nowhere/at\\nall: No such file or directory (os error 2)\n";
    assert_eq!((text(&output.stderr).as_str(), text(&output.stdout).as_str()), (line, ""));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn what_is_no_request_is_refused_with_what_to_do() {
    let rows: [(&[u8], &str); 4] = [
        (b"", "stdin is empty"),
        (b"hello", "invalid JSON at line 1, column 1"),
        (br#"{"kind":"Pod","apiVersion":"v1"}"#, "expected kind CredentialProviderRequest"),
        (
            br#"{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v2"}"#,
            "is not supported",
        ),
    ];
    for (stdin, said) in rows {
        let output = Run::of("password-file").with_stdin(stdin);

        let stderr = text(&output.stderr);
        assert!(stderr.contains(said), "{stderr}");
        assert_eq!((output.stdout.len(), output.status.code()), (0, Some(1)), "{stderr}");
    }
}

#[test]
fn a_request_without_end_is_cut() {
    let mut child = Run::of("password-file").command().spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It ends before it has read all of this.
    let written = (0..40).try_for_each(|_| stdin.write_all(&vec![b' '; 1 << 20]));
    drop(stdin);

    let output = child.wait_with_output().unwrap();
    assert!(written.is_err());
    assert!(text(&output.stderr).contains("larger than 16 MiB"));
}

#[test]
fn a_docker_client_is_answered_too() {
    let (_kept, path) = password_file();
    let run = Run::of("robot");
    let listed = run.arg("list").with_stdin(b"unused");
    assert_eq!((text(&listed.stdout).as_str(), listed.status.code()), ("{}\n", Some(0)));

    // The path is taken for a word as well; a plugin with its own arguments says which of them are words.
    let output = Run::of("password-file").arg(path.to_str().unwrap()).with_stdin(b"r.io\n");
    assert_eq!(output.status.code(), Some(1));

    let output = Run::of("password-file").arg("get").with_stdin(b"quay.io");
    assert_eq!(text(&output.stdout), "credentials not found in native keychain\n");
    assert_eq!((output.stderr.len(), output.status.code()), (0, Some(1)));
}

#[test]
fn a_service_account_gets_its_own_robot() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("blue"), "hunter2").unwrap();
    let run = Run::of("robot").arg(directory.path().to_str().unwrap());
    let asked = |robot: &str| CredentialProviderRequest {
        service_account_annotations: [("example.com/robot".into(), robot.into())].into(),
        ..about("r.io/app")
    };

    let output = run.asked(&asked("blue"), ProviderVersion::V1);
    let answer = CredentialProviderResponse::decode(&output.stdout, ProviderVersion::V1).unwrap();
    assert_eq!(answer.auth[0].1.username, "blue");

    let output = run.asked(&asked("../../etc/passwd"), ProviderVersion::V1);
    assert!(text(&output.stderr).contains("letters and digits only"));
}

#[test]
fn kubectl_gets_a_token_in_the_version_it_asked_for() {
    let (_kept, path) = password_file();
    for version in [ExecVersion::V1, ExecVersion::V1Beta1] {
        let info = format!(
            r#"{{"kind":"ExecCredential","apiVersion":"{}","spec":{{"interactive":false}}}}"#,
            version.api_version()
        );
        let run = Run { exec_info: Some(&info), ..Run::of("cluster-token") };
        let output = run.arg(path.to_str().unwrap()).with_stdin(b"");

        let status = ExecCredentialStatus::decode(&output.stdout, version).unwrap();
        assert_eq!(status.token.unwrap().expose(), "hunter2");
        assert!(status.expiration.is_some());
    }
}

#[test]
fn a_kubeconfigs_plugin_says_what_it_lacks() {
    let output = Run::of("cluster-token").with_stdin(b"");
    assert!(text(&output.stderr).contains("KUBERNETES_EXEC_INFO env var is unset or empty"));
    assert_eq!(output.status.code(), Some(1));

    let info = r#"{"kind":"Pod","apiVersion":"v1"}"#;
    let output = Run { exec_info: Some(info), ..Run::of("cluster-token") }.with_stdin(b"");
    assert_eq!((output.stdout.len(), output.status.code()), (0, Some(1)));
}

#[test]
fn stdout_is_kept_for_the_answer() {
    let output = Run::of("misbehaving").arg("prints").asked(&about("r.io/a"), ProviderVersion::V1);

    assert!(CredentialProviderResponse::decode(&output.stdout, ProviderVersion::V1).is_ok());
    assert_eq!(text(&output.stderr), "debug: looking for r.io/a\n");
}

#[test]
fn nothing_that_fails_gives_a_secret_away() {
    let leaks = LeakCheck::new(["issued-secret", "token-of-the-pod"]);
    let asked = CredentialProviderRequest {
        service_account_token: Some("token-of-the-pod".into()),
        ..about("r.io/a")
    };
    let rows = [
        ("panics", "misbehaving: a fault in this program, at "),
        ("leaks", "misbehaving: broker said: [redacted]\\nand [redacted]\n"),
        ("waits", "misbehaving: gave up after 0.3 s, the last 0.3 s of them asking the broker\n"),
        ("blocks", "misbehaving: gave up after 0.3 s\n"),
    ];
    for (manner, line) in rows {
        let output = Run::of("misbehaving").arg(manner).asked(&asked, ProviderVersion::V1);

        let stderr = text(&output.stderr);
        assert!(stderr.starts_with(line), "{manner}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert_eq!(output.stdout.len(), 0);
        assert_ne!(output.status.code(), Some(0));
        leaks.text(manner, &stderr);
    }
}

#[test]
fn an_answer_that_nobody_reads_is_a_failure() {
    let mut child = Run::of("misbehaving").command().spawn().unwrap();
    drop(child.stdout.take());
    let request = about("r.io/a").encode(ProviderVersion::V1);
    child.stdin.take().unwrap().write_all(request.expose()).unwrap();

    let output = child.wait_with_output().unwrap();
    assert!(text(&output.stderr).contains("the answer could not be written"));
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn a_request_that_does_not_come_is_not_waited_for() {
    let mut child = Run::of("misbehaving").command().spawn().unwrap();
    let stdin = child.stdin.take();
    let (ended, open) = mpsc::channel::<()>();
    // Stdin is open for as long as a plugin may take, and not much longer.
    let holder = thread::spawn(move || {
        assert!(open.recv_timeout(Duration::from_secs(10)).is_ok(), "it waits for stdin");
        drop(stdin);
    });

    let output = child.wait_with_output().unwrap();

    ended.send(()).unwrap();
    holder.join().unwrap();
    assert!(text(&output.stderr).contains("nothing came on stdin"), "{}", text(&output.stderr));
    assert_eq!((output.stdout.len(), output.status.code()), (0, Some(1)));
}

#[tokio::test]
async fn the_example_of_a_kubeconfigs_plugin_passes_every_check_of_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "hunter2-token-of-the-answer").unwrap();
    let plugin = Program::at(example("cluster-token")).unwrap();
    let runner = Arc::new(ProcessRunner::new(MapEnvironment::default()));

    let report = ClientConformance::of(plugin).args([token]).report(runner).await;

    assert_eq!(report.count(Grade::Pass), report.findings.len(), "{report:#?}");
}
