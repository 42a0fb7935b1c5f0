//! Runs the rows about docker's credential helpers against the relay, straight from their file, which lies outside the project.
//!
//! `.ci/run cases` sets `KEYFOB_CASES` to the directory of all rows. Without it nothing is read, and the test says so.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and starts the program under test"
)]

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{
        fs::symlink,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use serde_json::Value;
use tempfile::TempDir;

/// What the relay says instead of storing or erasing a login, which the agent issues itself.
const UNSUPPORTED: &str = "unsupported: keyfob-agent issues credentials itself; ";

#[test]
fn docker_helpers_behave_as_their_rows_say() {
    let Some(folder) = env::var_os("KEYFOB_CASES") else {
        println!("KEYFOB_CASES is not set: NO upstream row was run");
        return;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let text = fs::read(folder.join("providers/docker-credential-helper.json")).unwrap();
    let file: Value = serde_json::from_slice(&text).unwrap();
    let node = Node::new();
    let mut failures = Vec::new();
    let rows = file["cases"].as_array().unwrap();
    for row in rows {
        if let Err(how) = node.judge(row) {
            failures.push(format!("{how}\n    {row}"));
        }
    }
    println!("{} rows about docker's credential helpers were run", rows.len());
    assert!(!rows.is_empty());
    assert!(failures.is_empty(), "{} rows differ:\n{}", failures.len(), failures.join("\n"));
}

/// A directory with the helper and the socket of a fake agent that has logins of one registry.
struct Node(TempDir);

impl Node {
    fn new() -> Self {
        let node = Self(tempfile::tempdir().unwrap());
        symlink(env!("CARGO_BIN_EXE_keyfob-relay"), node.path("docker-credential-keyfob")).unwrap();
        let listener = UnixListener::bind(node.path("agent.sock")).unwrap();
        thread::spawn(move || {
            for connection in listener.incoming() {
                answer(connection.unwrap());
            }
        });
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn judge(&self, row: &Value) -> Result<(), String> {
        let argv = row["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        let mut helper = Command::new(self.path("docker-credential-keyfob"))
            .args(argv.clone())
            .env("KEYFOB_AGENT_SOCKET", self.path("agent.sock"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = match &row["stdin"] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            object => object.to_string(),
        };
        // Not every action reads its stdin.
        helper.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap_or_default();
        let output = helper.wait_with_output().unwrap();
        let (code, stdout) = (output.status.code(), String::from_utf8(output.stdout).unwrap());

        // The documented difference.
        if matches!(argv.clone().next(), Some("store" | "erase")) {
            let is_refused = code == Some(1) && stdout.starts_with(UNSUPPORTED);
            return is_refused.then_some(()).ok_or(format!("not unsupported: {code:?} {stdout:?}"));
        }
        let words: Vec<_> = stdout.split_whitespace().collect();
        let is_version = || matches!(words[..], [_, package, _] if package.starts_with('('));
        let json = || serde_json::from_str::<Value>(&stdout).unwrap_or_default();
        let facts = [
            ("the exit code", code.map(i64::from) == row["exit"].as_i64()),
            ("stdout", row["stdout"].as_str().is_none_or(|text| stdout.trim() == text)),
            (
                "a part of stdout",
                row["stdout_contains"].as_str().is_none_or(|part| stdout.contains(part)),
            ),
            ("name (package) version", row["stdout_regex"].is_null() || is_version()),
            (
                "the fields on stdout",
                row["stdout_json"]
                    .as_object()
                    .is_none_or(|fields| fields.keys().all(|field| json()[field].is_string())),
            ),
            ("something on stdout", row["exit"] != 1 || !stdout.trim().is_empty()),
        ];
        match facts.iter().find(|(_, holds)| !holds) {
            Some((what, _)) => Err(format!("{what}: {code:?} {stdout:?}")),
            None => Ok(()),
        }
    }
}

/// Answers one request as the agent does: with a login for `registry.example.com`, and with 404 for every other registry.
fn answer(mut connection: UnixStream) {
    let mut reader = BufReader::new(&connection);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    std::io::Read::read_exact(&mut reader, &mut body).unwrap();
    let (status, body) = if head.starts_with("GET /v1/docker/list ") {
        (200, r#"{"https://registry.example.com":"user"}"#)
    } else if body == b"registry.example.com" {
        (200, r#"{"ServerURL":"registry.example.com","Username":"<token>","Secret":"identity"}"#)
    } else {
        (404, r#"{"error":{"code":"not_found","message":"no provider matches"}}"#)
    };
    let head = format!("HTTP/1.1 {status} Reason\r\ncontent-length: {}\r\n\r\n", body.len());
    connection.write_all((head + body).as_bytes()).unwrap_or_default();
}
