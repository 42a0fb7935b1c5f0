//! Keyfob where little is allowed: no stdout, little memory, no threads, no core files.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]
#![expect(clippy::disallowed_methods, reason = "another process cannot be told to use our clock")]

#[expect(dead_code, reason = "shared with tests that use all of it")]
#[path = "support/node.rs"]
mod node;

use std::{
    fs,
    io::{PipeReader, PipeWriter, Write as _},
    os::unix::fs::PermissionsExt as _,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use node::{Node, program};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Runs keyfob after a line of the shell has changed what it is allowed.
fn after(shell: &str, args: &[&str]) -> Output {
    let keyfob = env!("CARGO_BIN_EXE_keyfob");
    let script = format!("{shell}\nexec \"$0\" \"$@\"");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &script, keyfob]).args(args).stdin(Stdio::null()).output().unwrap()
}

const COMMANDS: [&[&str]; 8] = [
    &["match", "r.io", "r.io/app"],
    &["match", "-o", "json", "r.io", "r.io/app"],
    &["provider", "list"],
    &["completions", "bash"],
    &["--help"],
    &["--version"],
    &["kube", "exec-cache", "--help"],
    &["provider", "echo", "--help"],
];

#[test]
fn a_result_for_a_closed_stdout_is_a_failure() {
    for closed in ["exec >&-", "exec <&- >&-"] {
        for args in COMMANDS {
            let output = after(closed, args);
            assert_eq!(output.status.code(), Some(4), "{closed} {args:?}");
        }
    }
    assert_eq!(after("exec >&- 2>&-", COMMANDS[0]).status.code(), Some(4));
    let said = String::from_utf8(after("exec >&-", COMMANDS[0]).stderr).unwrap();
    assert_eq!(said, "keyfob: the result could not be written: stdout is closed\n");
}

#[test]
fn a_full_disk_or_a_reader_that_left_is_a_failure_of_every_command() {
    for args in COMMANDS {
        let full = after("exec >/dev/full", args);
        assert_eq!(full.status.code(), Some(4), "{args:?}");
        assert!(!String::from_utf8_lossy(&full.stderr).contains("panic"), "{args:?}");
    }
    let pipe = program().args(COMMANDS[0]).stdout(closed_pipe()).output().unwrap();
    assert_eq!(pipe.status.code(), Some(4));
}

fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn a_plugin_whose_stdout_is_closed_fails() {
    let request = r#"{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderRequest","image":"r.example/app","serviceAccountToken":"hunter2-token"}"#;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("request");
    fs::write(&file, request).unwrap();
    let args = ["provider", "echo", "--registry", "r.example"];

    let answered = after(&format!("exec <{}", file.display()), &args);
    let closed = after(&format!("exec <{} >&-", file.display()), &args);

    assert_eq!(answered.status.code(), Some(0), "{answered:?}");
    assert_eq!(closed.status.code(), Some(4), "{closed:?}");
}

/// It took half a gigabyte; now it takes about as much as its text.
#[test]
fn a_huge_answer_under_a_memory_limit_costs_nobody_elses_answer() {
    let answers = [
        // An unknown field, a login, a list of logins.
        ("{\"x\":[", "0,", "0]}"),
        (
            "{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"auth\":{\"r.example\":[",
            "0,",
            "0]}}",
        ),
        (
            "{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"auth\":{",
            "\"\":{},",
            "\"a\":{}}}",
        ),
    ];
    for (start, piece, end) in answers {
        let node =
            Node::new().answering("good", &["r.example"], &[["r.example", "ada", "hunter2-ada"]]);
        let size = (8 << 20) - start.len() - end.len() - piece.len();
        let answer = format!("{start}{}{end}", piece.repeat(size / piece.len()));
        let answer = node.file("answer", &answer);
        let node = node.with(
            "huge",
            &["*.example", "r.example"],
            &format!("cat >/dev/null; cat {answer}"),
        );
        let (config, plugins) = (node.config(), node.path("plugins"));

        let output = after(
            "ulimit -v 400000",
            &["get", "r.example/app", "--config", &config, "--bin-dir", plugins.to_str().unwrap()],
        );

        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(
            stdout.contains("good"),
            "{:?} {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn a_process_that_may_hold_secrets_leaves_no_core_file() {
    let mut command = program();
    command.args(["provider", "echo", "--registry", "r.example"]);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = piped.spawn().unwrap();
    let core = || {
        let limits = fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        line.split_whitespace().skip(4).take(2).map(str::to_owned).collect::<Vec<_>>()
    };

    // It waits for its request, so that it does not end before.
    while core() != ["0", "0"] {
        std::thread::yield_now();
    }

    child.stdin.take().unwrap().write_all(b"{}").unwrap();
    child.wait().unwrap();
}

/// The system refuses a thread whose stack does not fit, as it does under `ulimit -u`.
#[test]
fn a_thread_that_the_system_refuses_is_told_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("config");
    let text = "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], \
                clusters: [{name: a, cluster: {server: 'https://localhost:1'}}], users: [{name: a, user: {token: hunter2}}]}";
    fs::write(&kubeconfig, text).unwrap();

    let output = after(
        "export RUST_MIN_STACK=70368744177664",
        &["kube", "get", "--raw", "/version", "--kubeconfig", kubeconfig.to_str().unwrap()],
    );

    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("the system refused to start another thread: raise the limit"),
        "{stderr}"
    );
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert!(matches!(output.status.code(), Some(1 | 2)), "{:?}", output.status);
}

/// Each of these prints while it works. A write to a full pipe blocks, and signals used to wait two seconds for it.
#[test]
fn a_signal_ends_whoever_writes_to_a_pipe_that_nobody_reads() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("config");
    let text = "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], \
                clusters: [{name: a, cluster: {server: 'https://localhost:1'}}], users: [{name: a, user: {token: hunter2}}]}";
    fs::write(&kubeconfig, text).unwrap();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let commands: [(&[&str], i32); 3] = [
        (&["apiserver"], 0),
        (&["kube", "proxy", "--kubeconfig", kubeconfig], 0),
        (&["demo"], 130),
    ];
    for (args, code) in commands {
        let (_reader, full) = full_pipe();
        let own = folder.path().join(args[0]);
        fs::create_dir(&own).unwrap();
        let mut command = program();
        let mut child = command.args(args).env("TMPDIR", &own).stdout(full).spawn().unwrap();
        wait_until_asleep(child.id());

        let signalled = Instant::now();
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
        let status = child.wait().unwrap();

        assert_eq!(status.code(), Some(code), "{args:?}");
        let took = signalled.elapsed();
        assert!(took < Duration::from_millis(1500), "{args:?} took {took:?}");
        assert_eq!(fs::read_dir(&own).unwrap().count(), 0, "{args:?} left files behind");
    }
}

fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while (&writer).write(&[b' '; 4096]).is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

/// Waits until the main thread of a process has not run for a tenth of a second.
fn wait_until_asleep(pid: u32) {
    let is_asleep = || {
        std::thread::sleep(Duration::from_millis(10));
        let stat = fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat")).unwrap();
        stat.rsplit(") ").next().unwrap().starts_with('S')
    };
    while !(0..10).all(|_| is_asleep()) {}
}

/// The thread that would kill the plugin is blocked: it shows what the plugin says, and nobody reads that.
#[test]
fn a_signal_while_nobody_reads_stderr_leaves_no_plugin_running() {
    let folder = tempfile::tempdir().unwrap();
    let (plugin, pid_file) = (folder.path().join("plugin"), folder.path().join("pid"));
    let script = format!(
        "#!/bin/sh\necho $$ >{0}.new; mv {0}.new {0}\nwhile echo noise >&2; do :; done\n",
        pid_file.display()
    );
    fs::write(&plugin, script).unwrap();
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o700)).unwrap();
    let kubeconfig = folder.path().join("config");
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
         clusters: [{{name: a, cluster: {{server: 'https://localhost:1'}}}}], users: [{{name: a, user: {{exec: \
         {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: {}}}}}}}]}}",
        plugin.display()
    );
    fs::write(&kubeconfig, text).unwrap();
    let (_reader, full) = full_pipe();
    let mut command = program();
    command.args(["kube", "token", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    let mut child = command.stdout(Stdio::null()).stderr(full).spawn().unwrap();
    while !pid_file.exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    wait_until_asleep(child.id());

    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();

    assert_eq!(child.wait().unwrap().code(), Some(130));
    let plugin: i32 = fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    // It was killed; the system's init may take a moment to reap it.
    let is_running = || {
        let stat = fs::read_to_string(format!("/proc/{plugin}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    };
    let ended = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(2));
        !is_running()
    });
    assert!(ended, "the plugin goes on");
}
