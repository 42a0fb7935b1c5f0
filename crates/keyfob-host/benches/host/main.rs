//! `cargo bench -p keyfob-host`: what a lookup costs when the answer is at hand, and what a run costs beyond its
//! process. Prints a table; times are medians of rounds in which the rows take turns, so that whatever
//! else the machine does hits all of them alike. Nothing here fails because of a time: targets stand beside the figures.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark: it measures the system, and stops at the first surprise"
)]

mod cold;
mod hosts;
mod threads;
mod warm;

use std::time::Instant;

fn main() {
    println!("| what | figure | ratio | target |");
    println!("|---|---:|---:|---|");
    warm::measure();
    threads::measure();
    cold::measure();
}

/// A row of the table.
fn row(what: &str, figure: &str, ratio: Option<f64>, target: &str) {
    let ratio = ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
    println!("| {what} | {figure} | {ratio} | {target} |");
}

/// How many seconds something takes.
fn seconds(run: impl FnOnce()) -> f64 {
    let started = Instant::now();
    run();
    started.elapsed().as_secs_f64()
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}
