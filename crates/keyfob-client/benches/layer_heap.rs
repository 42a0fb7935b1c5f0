//! `cargo bench -p keyfob-client --bench layer_heap`: how many bytes a request asks of the allocator, with and without the
//! layer.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark: it measures the system, and stops at the first surprise"
)]

#[path = "layer/subjects.rs"]
mod subjects;

use std::alloc::System;

use cap::Cap;

use subjects::subjects;

/// Counts what is asked for; slower, so no time is measured here.
#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

const REQUESTS: usize = 1_000;

fn main() {
    println!("| one request | asked of the allocator | more than without | target |");
    println!("|---|---:|---:|---|");
    let mut bare = 0;
    for mut subject in subjects() {
        (subject.request)();
        let before = HEAP.total_allocated();
        for _ in 0..REQUESTS {
            (subject.request)();
        }
        let asked = (HEAP.total_allocated() - before) / REQUESTS;
        match subject.what.strip_prefix("without") {
            Some(what) => {
                bare = asked;
                println!("| without the layer{what} | {asked} B | | |");
            }
            None => println!("| {} | {asked} B | {} B | 0 B |", subject.what, asked - bare),
        }
    }
}
