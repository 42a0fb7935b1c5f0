//! `cargo bench -p keyfob-client --bench layer`: what the layer adds to a request when there is a credential, against the
//! same service without it. Times are medians of rounds in which the rows take turns, so that whatever else the machine does
//! hits all of them alike. Nothing here fails because of a time, and there is no budget: a request takes a network round trip.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark: it measures the system, and stops at the first surprise"
)]

mod subjects;

use std::time::Instant;

use subjects::{Subject, subjects};

/// Many short ones: a round that is interrupted does not count for much.
const ROUNDS: usize = 1_001;
const REQUESTS: u32 = 1_000;

fn main() {
    let mut subjects = subjects();
    let mut times: Vec<Vec<f64>> = subjects.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (subject, times) in subjects.iter_mut().zip(&mut times) {
            times.push(round(subject));
        }
    }
    println!("| one request | figure | more than without |");
    println!("|---|---:|---:|");
    let mut bare = 0.0;
    for (subject, times) in subjects.iter().zip(times) {
        let time = median(times);
        if let Some(what) = subject.what.strip_prefix("without") {
            bare = time;
            println!("| without the layer{what} | {time:.0} ns | |");
        } else {
            println!("| {} | {time:.0} ns | {:.0} ns |", subject.what, time - bare);
        }
    }
}

/// Nanoseconds for one request.
fn round(subject: &mut Subject) -> f64 {
    let started = Instant::now();
    for _ in 0..REQUESTS {
        (subject.request)();
    }
    started.elapsed().as_secs_f64() * 1e9 / f64::from(REQUESTS)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}
