//! Pulling an image of 200 MB in 8 layers from a real registry on this machine, beside `skopeo copy` of the same image.
//!
//! `.ci/run bench-pull` installs `docker-registry` and `skopeo` and runs it. Compare only within one run: they take turns.
#![expect(
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark starts programs, looks at the clock, and prints"
)]

#[path = "../../tests/support/docker_registry.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod docker_registry;

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use docker_registry::Registry;
use serde_json::Value;

const LAYERS: usize = 8;
const SIZE: usize = 25_000_000;
const TURNS: usize = 7;

fn main() {
    if std::env::var_os("KEYFOB_BENCH_PULL").is_none() {
        println!("KEYFOB_BENCH_PULL is not set: nothing was pulled; use .ci/run bench-pull");
        return;
    }
    let registry = Registry::start_with(tempfile::tempdir().unwrap(), &Value::Null);
    registry.push("bench/eight:v1", None, &[SIZE; LAYERS]);
    registry.push("bench/one:v1", None, &[SIZE * LAYERS]);
    for image in ["bench/eight:v1", "bench/one:v1"] {
        compare(&format!("{}/{image}", registry.address));
    }
}

fn compare(image: &str) {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        let folder = tempfile::tempdir().unwrap();
        let mut keyfob = Command::new(env!("CARGO_BIN_EXE_keyfob"));
        keyfob.args(["pull", "--quiet", image]).arg(folder.path().join("ours"));
        let mut skopeo = Command::new("skopeo");
        skopeo.args(["copy", "--quiet", "--src-tls-verify=false"]);
        skopeo.arg(format!("docker://{image}"));
        skopeo.arg(format!("oci:{}:x", folder.path().join("theirs").display()));
        if turn % 2 == 0 {
            ours.push(measured(keyfob));
            theirs.push(measured(skopeo));
        } else {
            theirs.push(measured(skopeo));
            ours.push(measured(keyfob));
        }
    }
    let median = |runs: &mut Vec<(f64, u64)>| {
        runs.sort_by(|one, other| one.0.total_cmp(&other.0));
        runs[runs.len() / 2].0
    };
    let peak = |runs: &[(f64, u64)]| runs.iter().map(|run| run.1).max().unwrap() as f64 / 1e3;
    let (our_peak, their_peak) = (peak(&ours), peak(&theirs));
    let (our_time, their_time) = (median(&mut ours), median(&mut theirs));
    println!("{image}: {} MB", SIZE * LAYERS / 1_000_000);
    println!("  keyfob pull  {our_time:>6.2} s  peak {our_peak:>5.1} MB");
    println!("  skopeo copy  {their_time:>6.2} s  peak {their_peak:>5.1} MB");
    println!("  ratio {:.2} (median of {TURNS} each, in turns)", our_time / their_time);
}

/// How long it takes, and the most memory it had, in kilobytes.
fn measured(mut command: Command) -> (f64, u64) {
    let started = Instant::now();
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        peak = peak.max(high_water(Path::new(&status)));
        if let Some(ended) = child.try_wait().unwrap() {
            assert!(ended.success(), "{command:?}");
            return (started.elapsed().as_secs_f64(), peak);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn high_water(status: &Path) -> u64 {
    let status = fs::read_to_string(status).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse().unwrap_or_default()
}
