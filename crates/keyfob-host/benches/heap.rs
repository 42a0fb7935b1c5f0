//! `cargo bench -p keyfob-host --bench heap`: what a kept answer costs, in bytes asked of the allocator and in memory that
//! the process holds, which is more by what the allocator rounds up and cannot use again.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark: it measures the system, and stops at the first surprise"
)]

#[path = "host/hosts.rs"]
#[expect(dead_code, reason = "the other benchmark uses the rest")]
mod hosts;

use std::alloc::System;

use cap::Cap;

use hosts::{ECR, Plugins, pull, runtime, three_clouds};

/// Counts what is asked for; slower, so no time is measured here.
#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

const ENTRIES: usize = 100_000;

fn main() {
    // A password's own bytes are the registry's choice.
    let plugins = Plugins::new();
    let host = plugins.host(three_clouds(), "Image", &[ECR], "");
    let runtime = runtime();
    let fill = |n: usize| {
        let pull = pull(&format!("{ECR}/team/app-{n:06}:v1"));
        drop(runtime.block_on(host.credentials(&pull)));
    };
    (0..100).for_each(fill);
    let (allocated, resident) = (HEAP.allocated(), resident_bytes());
    (100..100 + ENTRIES).for_each(fill);
    let (allocated, resident) = (HEAP.allocated() - allocated, resident_bytes() - resident);
    assert_eq!(host.cached().len(), 100 + ENTRIES, "not everything was kept");
    println!("| one of 100,000 cached answers | figure | target |");
    println!("|---|---:|---|");
    println!("| heap, ECR-like key, without the password | {} B | ≤ 500 B |", allocated / ENTRIES);
    println!("| the process grows by | {} B | ≤ 1000 B |", resident / ENTRIES);
}

/// What the process holds in memory that no file backs.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes * 1024
}
