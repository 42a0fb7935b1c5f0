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
    compare_warm(&format!("{}/bench/eight:v1", registry.address));
}

/// What was measured: seconds, and the most memory in kilobytes.
type Runs = Vec<(f64, u64)>;

fn compare(image: &str) {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        let folder = tempfile::tempdir().unwrap();
        let (keyfob, skopeo) = (keyfob(image, folder.path()), skopeo(image, folder.path()));
        if turn % 2 == 0 {
            ours.push(measured(keyfob));
            theirs.push(measured(skopeo));
        } else {
            theirs.push(measured(skopeo));
            ours.push(measured(keyfob));
        }
    }
    println!("{image}: {} MB", SIZE * LAYERS / 1_000_000);
    let (our_time, their_time) = (shown("keyfob pull", ours), shown("skopeo copy", theirs));
    println!("  ratio {:.2} (median of {TURNS} each, in turns)", our_time / their_time);
}

/// The same image again, of which every blob is on disk.
fn compare_warm(image: &str) {
    let (mut first, mut remembered, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    let mut theirs = Vec::new();
    for _ in 0..TURNS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        measured(keyfob(image, path));
        measured(skopeo(image, path));
        // Files that changed a moment ago are not believed to be as they were.
        thread::sleep(Duration::from_millis(200));
        first.push(measured(keyfob(image, path)));
        remembered.push(measured(keyfob(image, path)));
        theirs.push(measured(skopeo(image, path)));
        // Under another key every credential is a new one.
        fs::remove_file(path.join("ours/.keyfob/proofs/key")).unwrap();
        unknown.push(measured(keyfob(image, path)));
    }
    println!("{image}, warm: {} MB on disk", SIZE * LAYERS / 1_000_000);
    shown("keyfob, first: the last blobs are hashed", first);
    let remembered = shown("keyfob, proofs remembered", remembered);
    let unknown = shown("keyfob, proofs unknown", unknown);
    let theirs = shown("skopeo copy", theirs);
    println!("  ratios {:.2} and {:.2}", remembered / theirs, unknown / theirs);
}

fn keyfob(image: &str, folder: &Path) -> Command {
    let mut keyfob = Command::new(env!("CARGO_BIN_EXE_keyfob"));
    keyfob.args(["pull", "--quiet", "--pull-policy", "Always", image]).arg(folder.join("ours"));
    keyfob
}

fn skopeo(image: &str, folder: &Path) -> Command {
    let mut skopeo = Command::new("skopeo");
    skopeo.args(["copy", "--quiet", "--src-tls-verify=false"]);
    skopeo.arg(format!("docker://{image}"));
    skopeo.arg(format!("oci:{}:x", folder.join("theirs").display()));
    skopeo
}

/// Prints a row, and gives the median of the times.
fn shown(what: &str, mut runs: Runs) -> f64 {
    runs.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (time, peak) = (runs[runs.len() / 2].0, runs.iter().map(|run| run.1).max().unwrap());
    println!("  {what:<42} {time:>7.3} s  peak {:>5.1} MB", peak as f64 / 1e3);
    time
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
