//! `cargo bench -p keyfob-relay`: a whole run of the relay, with a fake agent in this process that answers at once, compared
//! with a static C program that does nothing. Both are started in turn in the same way: with a request on stdin, until
//! stdout has ended and the process is gone.
//!
//! `KEYFOB_RELAY` names the program to measure, for example one built for musl; otherwise it is the one that cargo just built.
//!
//! Budget: no more time than the C program, and a stripped binary of at most 1 MB.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark: it measures the system, and stops at the first surprise"
)]

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const ROUNDS: usize = 1_000;
const REQUEST: &[u8] = br#"{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"registry.example.com/team/app"}"#;
const RESPONSE: &str = r#"{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","cacheDuration":"0s","auth":{"registry.example.com":{"username":"node","password":"not-a-secret"}}}"#;

fn main() {
    let directory = tempfile::tempdir().expect("a directory");
    let relay = std::env::var_os("KEYFOB_RELAY")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_keyfob-relay")), PathBuf::from);
    let socket = directory.path().join("agent.sock");
    serve(&socket);

    println!(
        "{}, stripped: {:.0} kB",
        relay.display(),
        stripped_kilobytes(&relay, directory.path())
    );
    let socket = socket.to_str().expect("a path in UTF-8");
    let nothing = Program { path: compile_nothing(directory.path()), args: Vec::new(), stdout: "" };
    for args in [vec!["provider", "--socket", socket], vec!["docker", "--socket", socket, "get"]] {
        compare(&nothing, &Program { path: relay.clone(), args, stdout: RESPONSE });
    }
}

/// One after the other, so that both find the caches as another program left them.
fn compare(nothing: &Program<'_>, relay: &Program<'_>) {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        theirs.push(nothing.run());
        ours.push(relay.run());
    }
    let (ours, theirs) = (Quantiles::of(&mut ours), Quantiles::of(&mut theirs));
    println!(
        "{:<10}median {:.0} µs, p90 {:.0} µs; static C program that does nothing: {:.0} µs, {:.0} µs; ratio of medians {:.2}",
        relay.args[0],
        ours.median * 1e6,
        ours.p90 * 1e6,
        theirs.median * 1e6,
        theirs.p90 * 1e6,
        ours.median / theirs.median
    );
}

struct Program<'a> {
    path: PathBuf,
    args: Vec<&'a str>,
    stdout: &'static str,
}

impl Program<'_> {
    fn run(&self) -> Duration {
        let begun = Instant::now();
        let mut child = Command::new(&self.path)
            .args(&self.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        // The C program does not read it.
        child.stdin.take().expect("its stdin").write_all(REQUEST).unwrap_or_default();
        let output = child.wait_with_output().expect("it ends");
        let took = begun.elapsed();
        assert!(output.status.success(), "{}: {}", self.path.display(), output.status);
        assert_eq!(output.stdout, self.stdout.as_bytes(), "{}", self.path.display());
        took
    }
}

/// In seconds.
struct Quantiles {
    median: f64,
    p90: f64,
}

impl Quantiles {
    fn of(times: &mut [Duration]) -> Self {
        times.sort_unstable();
        let at = |part: usize| times[times.len() * part / 100].as_secs_f64();
        Self { median: at(50), p90: at(90) }
    }
}

/// Answers every request with the same response, on one thread.
fn serve(socket: &Path) {
    let listener = UnixListener::bind(socket).expect("a socket");
    thread::spawn(move || {
        for connection in listener.incoming() {
            answer(connection.expect("a connection"));
        }
    });
}

fn answer(mut connection: UnixStream) {
    // The relay sends head and body in one write, and this request is small.
    let mut request = [0; 4096];
    let count = connection.read(&mut request).expect("a request");
    assert!(request[..count].ends_with(REQUEST));
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", RESPONSE.len());
    connection.write_all((head + RESPONSE).as_bytes()).expect("the relay reads it");
}

fn compile_nothing(directory: &Path) -> PathBuf {
    let (source, program) = (directory.join("nothing.c"), directory.join("nothing"));
    fs::write(&source, "int main(void) { return 0; }\n").expect("a file");
    let compiled =
        Command::new("cc").args(["-O2", "-static", "-o"]).arg(&program).arg(&source).status();
    assert!(compiled.expect("a C compiler is installed").success());
    program
}

fn stripped_kilobytes(program: &Path, directory: &Path) -> f64 {
    let copy = directory.join("stripped");
    let stripped = Command::new("strip").arg("-o").arg(&copy).arg(program).status();
    assert!(stripped.expect("binutils are installed").success());
    #[expect(clippy::cast_precision_loss, reason = "kilobytes are printed")]
    let bytes = fs::metadata(&copy).expect("a file").len() as f64;
    bytes / 1e3
}
