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
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a benchmark: it measures the system, and stops at the first surprise"
)]

mod heap;
#[path = "../../../../crates/keyfob-host/benches/host/hosts.rs"]
mod hosts;
mod page;
mod pairs;

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use keyfob_conformance::Oracle;
use page::{Page, Row};

/// Keyfob and upstream's own code, measured in one run.
#[derive(Parser)]
struct Args {
    /// The oracle, as built from conformance/oracle.
    oracle: PathBuf,
}

fn main() -> ExitCode {
    match compare(&Args::parse().oracle) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-compare: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(oracle: &Path) -> io::Result<()> {
    let page = Page::open()?;
    let judge = Oracle::start(oracle)?.built_from.clone();
    let mut rows: Vec<Row> = pairs::measure(oracle)?;
    rows.extend(heap::measure(oracle)?);
    let table = page::table(&rows, &judge);
    print!("{table}");
    page.write(&table)
}
