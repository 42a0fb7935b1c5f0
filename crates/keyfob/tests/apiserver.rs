//! `keyfob apiserver`, as a program.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and this is the real program"
)]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use keyfob_testkit::{HostileClient, LeakCheck};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader as AsyncBufReader};

const OBJECTS: &str = "
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: team}
spec: {nodeName: n2, containers: []}
";

fn apiserver(folder: &Path, objects: &str) -> Command {
    let file = folder.join("objects.yaml");
    fs::write(&file, objects).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_keyfob"));
    command.arg("apiserver").arg("--objects").arg(file);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The line that it is ready with, and the program.
fn ready(command: &mut Command) -> (String, Child) {
    let mut server = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (line, server)
}

fn stop(mut server: Child) -> (Option<i32>, String) {
    let pid = Pid::from_raw(i32::try_from(server.id()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    let mut stderr = String::new();
    server.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    (server.wait().unwrap().code(), stderr)
}

fn fails(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(stdout.is_empty());
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[test]
fn it_writes_kubeconfigs_for_their_owner_alone_and_stops_when_told() {
    let folder = TempDir::new().unwrap();
    let configs = folder.path().join("configs");
    fs::create_dir(&configs).unwrap();
    let mut command = apiserver(folder.path(), OBJECTS);
    let (line, server) = ready(command.arg("-vvv").arg("--kubeconfig-dir").arg(&configs));
    let (address, told) = line.trim_end().split_once(", kubeconfigs in ").unwrap();
    assert!(address.starts_with("serving on https://127.0.0.1:"), "{line}");
    assert_eq!(Path::new(told), configs);
    let mut written: Vec<PathBuf> =
        fs::read_dir(&configs).unwrap().map(|entry| entry.unwrap().path()).collect();
    written.sort();
    let names: Vec<&str> =
        written.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["admin.kubeconfig", "n1.kubeconfig", "n2.kubeconfig"]);
    let secrets = written.iter().map(|path| {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        let config: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        config["users"][0]["user"]["token"].as_str().unwrap().to_owned()
    });
    let secrets: Vec<String> = secrets.collect();
    let (code, stderr) = stop(server);
    assert_eq!(code, Some(0), "{stderr}");
    LeakCheck::new(secrets).text("stderr", &stderr).text("stdout", &line);
}

#[test]
fn without_a_directory_the_kubeconfigs_go_with_the_server() {
    let folder = TempDir::new().unwrap();
    let (line, server) = ready(&mut apiserver(folder.path(), OBJECTS));
    let configs = PathBuf::from(line.trim_end().rsplit_once(" in ").unwrap().1);
    assert!(configs.join("admin.kubeconfig").exists());
    assert_eq!(stop(server), (Some(0), String::new()));
    assert!(!configs.exists());
}

#[tokio::test]
async fn an_unfinished_request_keeps_neither_the_server_nor_its_kubeconfigs() {
    let (folder, temporary) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut command = apiserver(folder.path(), OBJECTS);
    let (line, server) = ready(command.env("TMPDIR", temporary.path()));
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1, "{line}");
    let address = line.strip_prefix("serving on https://").unwrap().split_once(',').unwrap().0;
    let client = HostileClient::tls([127, 0, 0, 1], address.parse().unwrap());
    let head = "POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\nexpect: 100-continue\r\n\r\n";
    let mut stream = AsyncBufReader::new(client.send(head.as_bytes()).await.unwrap());
    // It says so when it begins to read the body.
    let mut answer = String::new();
    stream.read_line(&mut answer).await.unwrap();
    assert_eq!(answer, "HTTP/1.1 100 Continue\r\n");

    let stopped = stop(server);

    assert_eq!(stopped, (Some(0), String::new()));
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "it cleans up");
    drop(stream);
}

#[test]
fn a_server_whose_line_nobody_reads_can_be_stopped_and_cleans_up() {
    let (folder, temporary) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (unread, mut full) = std::io::pipe().unwrap();
    let room = rustix::pipe::fcntl_getpipe_size(&full).unwrap();
    full.write_all(&vec![b'x'; room]).unwrap();
    let mut command = apiserver(folder.path(), OBJECTS);
    command.env("TMPDIR", temporary.path()).args(["--listen", "0.0.0.0:0"]).stdout(full);
    let mut server = command.spawn().unwrap();
    // The warning comes just before the line, and after the kubeconfigs.
    let mut warning = String::new();
    BufReader::new(server.stderr.as_mut().unwrap()).read_line(&mut warning).unwrap();
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1, "{warning}");

    let stopped = stop(server);

    assert_eq!(stopped, (Some(0), String::new()));
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "it cleans up");
    drop(unread);
}

#[test]
fn a_server_that_others_can_reach_is_warned_about() {
    let folder = TempDir::new().unwrap();
    let mut command = apiserver(folder.path(), OBJECTS);
    let (_, server) = ready(command.args(["--listen", "0.0.0.0:0"]));
    let (code, stderr) = stop(server);
    assert_eq!(code, Some(0));
    assert!(stderr.starts_with("keyfob: warning: others can reach this server"), "{stderr}");
}

#[test]
fn what_it_cannot_start_with_is_said() {
    let folder = TempDir::new().unwrap();
    let (code, stderr) = fails(&mut apiserver(folder.path(), "kind: ["));
    assert_eq!(code, Some(2), "{stderr}");
    let key = folder.path().join("key");
    fs::write(&key, "hunter2").unwrap();
    let (code, stderr) = fails(apiserver(folder.path(), OBJECTS).arg("--signing-key").arg(&key));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("the signing key is not a private key in PEM"), "{stderr}");
    LeakCheck::new(["hunter2"]).text("stderr", &stderr);
    let (code, stderr) = fails(apiserver(folder.path(), OBJECTS).args(["--issuer", "http://x"]));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("must be an https URL"), "{stderr}");
    let in_a_file = key.join("kubeconfigs");
    let (code, stderr) =
        fails(apiserver(folder.path(), OBJECTS).arg("--kubeconfig-dir").arg(&in_a_file));
    assert_eq!(code, Some(1));
    let said = format!("cannot make the directory of kubeconfigs {}", in_a_file.display());
    assert!(stderr.contains(&said), "{stderr}");
    let admin = OBJECTS.replace("n1", "admin");
    let (code, stderr) = fails(&mut apiserver(folder.path(), &admin));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("a node cannot be called \"admin\""), "{stderr}");
}
