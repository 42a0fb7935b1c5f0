//! `cargo bench -p keyfob --bench start`: what a plugin costs before it does anything.
//!
//! Each plugin is started in turn with a bare Rust program that reads stdin and prints, and with the Go helper that Debian
//! packages, if it is installed: from `exec` to the first read of stdin, and the memory it has then. With `KEYFOB_MOTO`,
//! the path of `moto_server`, ours and the helper also log in to the same ECR, from `exec` to the answer.
//!
//! Budgets: 3 ms, 12 MB, a stripped binary of 30 MB, and an answer sooner than the helper's.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark: it measures the system, and stops at the first surprise"
)]

mod ecr;
#[path = "../../tests/support/moto.rs"]
mod moto;

use std::{
    fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::io::ioctl_fionread;

const REQUEST: &[u8] = br#"{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"123456789012.dkr.ecr.eu-west-1.amazonaws.com/app"}
"#;
const HELPER: &str = "docker-credential-ecr-login";
const ROUNDS: usize = 200;

fn main() {
    let directory = tempfile::tempdir().expect("a directory");
    let keyfob = Path::new(env!("CARGO_BIN_EXE_keyfob"));
    println!("stripped binary: {:.1} MB", stripped(keyfob, directory.path()) / 1e6);

    let mut programs = vec![bare(directory.path())];
    // The others want flags, and are the same binary.
    let names = ["ecr", "gcp", "acr", "echo"];
    for provider in names.into_iter().filter_map(keyfob_providers::named) {
        let link = directory.path().join(provider.program);
        symlink(keyfob, &link).expect("a link");
        programs.push(Program { name: provider.program, path: link, words: provider.args });
    }
    if let Some(path) = installed(HELPER) {
        programs.push(Program { name: HELPER, path, words: &["get"] });
    }
    starts(&programs);
    if let (Some(moto), Some(helper)) = (std::env::var_os("KEYFOB_MOTO"), installed(HELPER)) {
        ecr::compare(Path::new(&moto), keyfob, &helper);
    }
}

/// Something that reads stdin.
struct Program {
    name: &'static str,
    path: PathBuf,
    words: &'static [&'static str],
}

impl Program {
    fn start(&self) -> (Child, ChildStdin) {
        let mut command = Command::new(&self.path);
        command.args(self.words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        let stdin = child.stdin.take().expect("its stdin");
        (child, stdin)
    }

    /// From `exec` until what was written to its stdin is gone, and the memory it has then, in bytes.
    fn first_read(&self) -> (Duration, f64) {
        let begun = Instant::now();
        let (mut child, mut stdin) = self.start();
        stdin.write_all(REQUEST).expect("its stdin is open");
        while ioctl_fionread(&stdin).expect("a pipe") > 0 {
            let ended = child.try_wait().expect("its state");
            assert!(ended.is_none(), "{} did not read its request", self.name);
        }
        let took = begun.elapsed();
        let memory = resident(child.id());
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        (took, memory)
    }
}

fn starts(programs: &[Program]) {
    let mut times = vec![Vec::new(); programs.len()];
    let mut memory = vec![0.0_f64; programs.len()];
    for _ in 0..ROUNDS {
        for (at, program) in programs.iter().enumerate() {
            let (took, resident) = program.first_read();
            times[at].push(took);
            memory[at] = memory[at].max(resident);
        }
    }
    println!("{:<36}{:>14}{:>12}", "program", "until stdin", "memory");
    for (at, program) in programs.iter().enumerate() {
        let took = median(&mut times[at]).as_secs_f64() * 1e3;
        println!("{:<36}{took:>11.2} ms{:>9.1} MB", program.name, memory[at] / 1e6);
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// `VmRSS`, in bytes.
fn resident(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is alive");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    let kib = line.trim().trim_end_matches("kB").trim().parse::<f64>().expect("a number");
    kib * 1024.0
}

fn stripped(program: &Path, directory: &Path) -> f64 {
    let copy = directory.join("stripped");
    let ran = Command::new("strip").arg("-o").arg(&copy).arg(program).status();
    assert!(ran.expect("binutils are installed").success());
    #[expect(clippy::cast_precision_loss, reason = "megabytes are printed")]
    let size = fs::metadata(&copy).expect("a file").len() as f64;
    size
}

fn bare(directory: &Path) -> Program {
    let path = directory.join("bare");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/start/bare.rs");
    let built =
        Command::new("rustc").args(["--edition=2024", "-O", source, "-o"]).arg(&path).status();
    assert!(built.expect("a compiler").success());
    Program { name: "bare Rust program", path, words: &[] }
}

fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|path| path.exists())
}
