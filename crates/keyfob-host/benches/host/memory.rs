//! What a kept answer costs: the growth of the process, because a counting allocator would need `unsafe`.

use crate::{
    hosts::{ECR, Plugins, pull, runtime, three_clouds},
    row,
};

const ENTRIES: usize = 100_000;

pub(crate) fn measure() {
    // A password's own bytes are the registry's choice.
    let plugins = Plugins::new();
    let host = plugins.host(three_clouds(), "Image", &[ECR], "");
    let runtime = runtime();
    let fill = |n: usize| {
        let pull = pull(&format!("{ECR}/team/app-{n:06}:v1"));
        drop(runtime.block_on(host.credentials(&pull)));
    };
    (0..100).for_each(fill);
    let before = resident_bytes();
    (100..100 + ENTRIES).for_each(fill);
    let grown = resident_bytes() - before;
    assert_eq!(host.cached().len(), 100 + ENTRIES, "not everything was kept");
    let (total, each) = (grown / 1_000_000, grown / ENTRIES);
    row(
        "heap per cached answer (ECR-like key, no password)",
        &format!("{each} B"),
        None,
        "≤ 500 B",
    );
    row("heap of 100,000 cached answers", &format!("{total} MB"), None, "");
}

/// What the process holds in memory that no file backs.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes * 1024
}
