//! `cargo bench -p keyfob-exec`: one plugin run against a bare `posix_spawn` + pipes + wait of the same static program,
//! interleaved, from a small parent and from one with 500 MB resident. The budget is a ratio of medians of 1.15.
//!
//! `cargo bench -p keyfob-exec -- soak`: 10,000 runs, then no descriptor and no child may be left.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark: it measures the system, and stops at the first surprise"
)]

use std::{
    ffi::CString,
    fs::File,
    io::{Read as _, Write as _},
    os::{fd::AsRawFd as _, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use keyfob_exec::{Invocation, ProcessRunner, Program, Runner as _, Stdin};
use keyfob_testkit::MapEnvironment;
use nix::{
    spawn::{PosixSpawnAttr, PosixSpawnFileActions, posix_spawn},
    sys::wait::waitpid,
};
use rustix::{
    pipe::{PipeFlags, pipe_with},
    process::{WaitOptions, wait},
};
use tokio::runtime::{Builder, Runtime};

const REQUEST: &[u8] = br#"{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"registry.example/team/app"}
"#;
const BUDGET: f64 = 1.15;

fn main() {
    let plugin = static_plugin();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    if std::env::args().any(|arg| arg == "soak") {
        return soak(&plugin, &runtime, 10_000);
    }
    println!("{:<24}{:>12}{:>12}{:>8}", "parent", "bare", "keyfob-exec", "ratio");
    compare("small", &plugin, &runtime);
    let ballast = vec![1_u8; 500 << 20];
    compare("500 MB resident", &plugin, &runtime);
    std::hint::black_box(ballast);
}

/// Runs both in turn, so that whatever else the machine does hits both alike.
fn compare(parent: &str, plugin: &Path, runtime: &Runtime) {
    let (mut bare_times, mut our_times) = (Vec::new(), Vec::new());
    let (invocation, runner) = ours(plugin);
    for _ in 0..1_000 {
        bare_times.push(timed(|| bare(plugin)));
        our_times.push(timed(|| {
            let ran = runtime.block_on(runner.run(&invocation)).expect("the plugin runs");
            assert!(ran.success().is_ok());
        }));
    }
    let (bare, ours) = (median(&mut bare_times), median(&mut our_times));
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    let verdict = if ratio <= BUDGET { "" } else { "  OVER BUDGET (1.15)" };
    println!("{parent:<24}{bare:>12.1?}{ours:>12.1?}{ratio:>8.3}{verdict}");
}

fn ours(plugin: &Path) -> (Invocation, ProcessRunner) {
    let program = Program::at(plugin).expect("an absolute path");
    let invocation =
        Invocation::new(program).stdin(Stdin::bytes(REQUEST)).deadline(Duration::from_mins(1));
    (invocation, ProcessRunner::new(MapEnvironment::default()))
}

/// The least that can be done: no deadline, no limits, no group, nothing kept safe.
fn bare(plugin: &Path) {
    let [stdin, stdout, stderr] = [(); 3].map(|()| pipe_with(PipeFlags::CLOEXEC).expect("a pipe"));
    let mut files = PosixSpawnFileActions::init().expect("memory");
    for (end, number) in [(&stdin.0, 0), (&stdout.1, 1), (&stderr.1, 2)] {
        files.add_dup2(end.as_raw_fd(), number).expect("memory");
    }
    let path = CString::new(plugin.as_os_str().as_bytes()).expect("no NUL");
    let attributes = PosixSpawnAttr::init().expect("memory");
    let pid =
        posix_spawn(plugin, &files, &attributes, &[path], &[] as &[CString]).expect("spawned");
    drop((stdin.0, stdout.1, stderr.1));
    File::from(stdin.1).write_all(REQUEST).expect("written");
    let (mut answer, mut messages) = (Vec::new(), Vec::new());
    File::from(stdout.0).read_to_end(&mut answer).expect("read");
    File::from(stderr.0).read_to_end(&mut messages).expect("read");
    waitpid(pid, None).expect("reaped");
    assert!(!answer.is_empty() && messages.is_empty());
}

fn soak(plugin: &Path, runtime: &Runtime, runs: usize) {
    let descriptors = || std::fs::read_dir("/proc/self/fd").expect("/proc").count();
    let (invocation, runner) = ours(plugin);
    let before = descriptors();
    for _ in 0..runs {
        runtime.block_on(runner.run(&invocation)).expect("the plugin runs");
    }
    let (left, child) = (descriptors(), wait(WaitOptions::NOHANG));
    println!("after {runs} runs: {left} descriptors open ({before} before), children: {child:?}");
    assert_eq!((left, child.is_err()), (before, true), "something was left behind");
}

fn timed(run: impl FnOnce()) -> Duration {
    let started = Instant::now();
    run();
    started.elapsed()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn static_plugin() -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/runner/static_plugin.rs");
    let plugin = Path::new(env!("CARGO_TARGET_TMPDIR")).join("static-plugin");
    let built = Command::new("rustc")
        .args([
            "--edition=2024",
            "-O",
            "-Cpanic=abort",
            "-Cstrip=symbols",
            "-Ctarget-feature=+crt-static",
        ])
        .args([source, "-o"])
        .arg(&plugin)
        .status();
    assert!(built.expect("rustc is there").success(), "the plugin does not build");
    plugin
}
