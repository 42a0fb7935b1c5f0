//! `keyfob validate`.

mod answer;
mod report;

use std::path::Path;

use keyfob_host::{Config, ReadError, ReadProblem};

use crate::{Outcome, Verdict, cli::ValidateArgs};
use report::{Report, Trouble};

pub(crate) fn run(args: &ValidateArgs) -> Outcome {
    let path = args.path.as_deref().or(args.host.config.as_deref()).unwrap_or(Path::new(""));
    let (report, modern) = match Config::read(path) {
        Ok(config) => (judged(&config, args), Some(config.migrate())),
        Err(error) => (unread(path, &error), None),
    };
    let verdict = if report.valid { Verdict::Yes } else { Verdict::No };
    match modern.filter(|_| args.migrate) {
        Some(modern) => Outcome { stdout: modern, stderr: report.print(args.output), verdict },
        None if args.migrate => {
            Outcome { stderr: report.print(args.output), verdict, ..Outcome::default() }
        }
        None => Outcome { stdout: report.print(args.output), verdict, ..Outcome::default() },
    }
}

fn judged(config: &Config, args: &ValidateArgs) -> Report {
    let gates = args.host.feature_gates();
    let hash = config.hash.clone().unwrap_or_default();
    let what = match config.providers.len() {
        1 => "1 provider".to_owned(),
        many => format!("{many} providers"),
    };
    let mut report = Report::new(what, hash);
    if let Err(invalid) = config.validate(gates.gates) {
        report.refuse(invalid.to_string(), invalid.errors().iter().map(Trouble::from));
    }
    report.warnings = config.lint(args.host.bin_dir.as_deref()).iter().map(Trouble::from).collect();
    report.warnings.extend(gates.unknown.iter().map(|gate| Trouble::unknown_gate(gate)));
    report.warnings.extend(gates.proposed.iter().map(|gate| Trouble::proposed_gate(gate)));
    report
}

/// A plugin's answer is none of the kinds that a configuration can be.
fn unread(path: &Path, error: &ReadError) -> Report {
    let answer = (error.problem() == ReadProblem::Kind).then(|| answer::judged(path)).flatten();
    answer.unwrap_or_else(|| {
        let mut report = Report::new("a configuration".to_owned(), String::new());
        report.refuse(error.to_string(), error.errors().iter().map(Trouble::from));
        report
    })
}
