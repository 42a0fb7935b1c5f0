//! `keyfob-conformance ORACLE`: puts every case, and questions made up, to Keyfob and to upstream's own code.
#![expect(clippy::print_stderr, reason = "nobody else prints")]

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::Parser;
use keyfob_conformance::{AnyTopic, Case, Differences, Oracle, TOPICS};
use keyfob_exec::{Clock as _, SystemClock};

/// Upstream as the judge: the same questions, put to Keyfob and to Kubernetes' own code.
#[derive(Parser)]
struct Args {
    /// The oracle, as built from conformance/oracle.
    oracle: PathBuf,
    /// Only this topic; may be given more than once.
    #[arg(long, value_parser = topic)]
    topic: Vec<&'static AnyTopic>,
    /// Make up this many times the usual number of questions; with 0, only the cases are put.
    #[arg(long, default_value = "1", value_parser = factor)]
    times: f64,
    /// What the questions are drawn with; another each time, unless it is given.
    #[arg(long)]
    seed: Option<u64>,
}

fn topic(name: &str) -> Result<&'static AnyTopic, String> {
    let known = || TOPICS.iter().map(|topic| topic.name).collect::<Vec<_>>().join(", ");
    let found = TOPICS.iter().find(|topic| topic.name == name);
    found.ok_or_else(|| format!("the topics are {}", known()))
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor: &f64| (0.0..=1_000.0).contains(factor));
    factor.ok_or_else(|| "a number from 0 to 1000, such as 0.1".to_owned())
}

fn main() -> ExitCode {
    match judge(Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("keyfob-conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every difference is explained.
fn judge(Args { oracle, topic, times, seed }: Args) -> io::Result<bool> {
    let topics = if topic.is_empty() { TOPICS.iter().collect() } else { topic };
    let seed = seed.unwrap_or_else(from_clock);
    let mut oracle = Oracle::start(&oracle)?;
    let mut out = io::stdout().lock();
    writeln!(out, "the judge: {}", oracle.built_from)?;
    let mut clean = cases(&topics, &mut oracle, &mut out)?;
    writeln!(out, "questions made up with --seed {seed}")?;
    let differences = Differences::list();
    for topic in topics {
        let report = (topic.examine)(&mut oracle, seed, times)?;
        writeln!(out, "{report}")?;
        for row in report.explained().filter(|row| !differences.has(row)) {
            writeln!(out, "    DIFFERENCES.md has no row {row}")?;
            clean = false;
        }
        clean &= report.is_clean();
    }
    writeln!(
        out,
        "{}",
        if clean { "no unexplained difference" } else { "UNEXPLAINED DIFFERENCES" }
    )?;
    Ok(clean)
}

/// Puts the cases of these topics to both sides.
fn cases(topics: &[&AnyTopic], oracle: &mut Oracle, out: &mut impl io::Write) -> io::Result<bool> {
    let mut cases = Case::all();
    cases.retain(|case| topics.iter().any(|topic| topic.name == case.question().0.name));
    let mut failures = Vec::new();
    for case in &cases {
        failures.extend(case.check_ours().err());
        failures.extend(case.check_upstream(oracle)?.err());
    }
    writeln!(
        out,
        "cases: {} put to both sides, {} answers not as they stand in the file",
        cases.len(),
        failures.len()
    )?;
    for failure in &failures {
        writeln!(out, "  {failure}")?;
    }
    Ok(failures.is_empty())
}

fn from_clock() -> u64 {
    let since = SystemClock.now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::from(since.subsec_nanos()) ^ since.as_secs()
}
