//! `bench-compare ORACLE`: Keyfob and upstream's own code, measured in one run.
//!
//! Both get the same configuration, the same images and the same plugin. They take turns in every round, so that whatever
//! else the machine does hits both alike; a figure is the median. The table goes to stdout and into
//! `docs/benchmarks.md`. Nothing here fails because of a time: targets stand beside the figures.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark: it measures the system, and stops at the first surprise"
)]

mod heap;
#[path = "../../../../crates/keyfob-host/benches/host/hosts.rs"]
mod hosts;
mod page;
mod pairs;

use std::{io, path::PathBuf};

use clap::Parser;
use page::Row;

/// Keyfob and upstream's own code, measured in one run.
#[derive(Parser)]
struct Args {
    /// The oracle, as built from conformance/oracle.
    oracle: PathBuf,
}

fn main() -> io::Result<()> {
    let Args { oracle } = Args::parse();
    let mut rows: Vec<Row> = pairs::measure(&oracle)?;
    rows.extend(heap::measure(&oracle)?);
    let table = page::table(&rows);
    print!("{table}");
    page::write(&table)
}
