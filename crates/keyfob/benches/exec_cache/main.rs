//! `cargo bench -p keyfob --bench exec_cache`: what `keyfob kube exec-cache` adds to a kubectl, and what it saves.
//!
//! kubectl asks the embedded API server with a static token, with a plugin, and with the same plugin behind the cache, in
//! turn; a figure is the median. Then fifty kubectls at once, with a plugin that takes a second. It needs kubectl.
//!
//! Budget: a warm answer adds 3 ms to the static token.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark: it measures the system, and stops at the first surprise"
)]

#[path = "../../tests/support/exec_kubectl.rs"]
mod exec_kubectl;
#[path = "../../tests/support/keyfob_apiserver.rs"]
#[expect(dead_code, reason = "tests need more of it")]
mod keyfob_apiserver;

use std::{
    fs,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use exec_kubectl::{Kubectl, exec_user};
use serde_json::json;

const ROUNDS: usize = 100;
const AT_ONCE: usize = 50;

fn main() {
    if Command::new("kubectl").arg("version").arg("--client").output().is_err() {
        println!("no kubectl: NOT MEASURED; Debian has it as kubernetes-client");
        return;
    }
    let kubectl = Kubectl::start();
    let Some(version) = kubectl.versions().first().copied() else { return };
    let fixed = kubectl.kubeconfig("static.kubeconfig", &json!({"token": kubectl.token}));
    let plugin = kubectl.plugin(version, "");
    let direct = kubectl.kubeconfig("direct.kubeconfig", &exec_user(version, &plugin));
    let cached = exec_user(version, &kubectl.cached(&plugin));
    let cached = kubectl.kubeconfig("cached.kubeconfig", &cached);

    let rows =
        [("a static token", &fixed), ("a shell script", &direct), ("exec-cache, warm", &cached)];
    one_after_the_other(&kubectl, &rows);
    kubectl.plugin(version, "sleep 1");
    println!(
        "\n{AT_ONCE} at once, the plugin takes a second{:>19}{:>14}",
        "all are done", "plugin runs"
    );
    for (name, kubeconfig) in
        [("a static token", &fixed), ("the plugin", &direct), ("exec-cache, cold", &cached)]
    {
        at_once(&kubectl, name, kubeconfig);
    }
}

fn one_after_the_other(kubectl: &Kubectl, rows: &[(&str, &String); 3]) {
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for ((_, kubeconfig), times) in rows.iter().zip(&mut times) {
            let begun = Instant::now();
            let output = kubectl.command(kubeconfig).output().unwrap();
            times.push(begun.elapsed());
            assert!(output.status.success());
        }
    }
    let medians = times.each_mut().map(|times| median(times));
    println!("{:<40}{:>17}{:>14}", "one kubectl with", "median", "added");
    for ((name, _), median) in rows.iter().zip(medians) {
        let added = median.as_secs_f64() - medians[0].as_secs_f64();
        println!("{name:<40}{:>14.1} ms{:>11.1} ms", median.as_secs_f64() * 1e3, added * 1e3);
    }
}

fn at_once(kubectl: &Kubectl, name: &str, kubeconfig: &str) {
    fs::remove_file(kubectl.path("runs")).unwrap_or_default();
    fs::remove_dir_all(kubectl.path("cache")).unwrap_or_default();
    let begun = Instant::now();
    let spawn = |_| kubectl.command(kubeconfig).stdout(Stdio::null()).spawn().unwrap();
    let children: Vec<_> = (0..AT_ONCE).map(spawn).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let took = begun.elapsed().as_secs_f64();
    println!("{name:<40}{took:>15.2} s{:>14}", kubectl.runs());
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
