//! 10,000 requests of 100 tasks through one client, while the token changes every 50 ms and the server refuses old ones.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a bench fails by panicking"
)]

#[expect(dead_code, reason = "tests use more of it")]
#[path = "../tests/support/plugin.rs"]
mod plugin;
#[path = "../tests/support/storm.rs"]
mod storm;

use std::time::Instant;

#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a bench tells the time")]
fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for round in 1..=5 {
        let start = Instant::now();
        let storm = runtime.block_on(storm::storm(100, 100));
        println!("{round}: {storm} in {:.2?}", start.elapsed());
        assert!(storm.runs <= storm.rotations + 1, "the plugin ran more than once per rotation");
        // Each was replaced before it arrived, though it had been the newest when it was sent.
        let newer = |tokens: &Vec<usize>| tokens.len() > 1 && tokens.is_sorted_by(|a, b| a < b);
        assert!(storm.refused.iter().all(newer), "{:?}", storm.refused);
    }
}
