//! `keyfob validate`.

mod agent_file;
mod answer;
mod report;

use std::path::Path;

use keyfob_api::KubernetesComponent;
use keyfob_config::{Config, ReadError, ReadProblem, kubelet_error_of_directory};

use crate::{
    Outcome, Verdict,
    cli::{Reader, ValidateArgs},
};
use report::{Report, Trouble};

pub(crate) fn run(args: &ValidateArgs) -> Outcome {
    let path = args.path.as_deref().or(args.host.config.as_deref()).unwrap_or(Path::new(""));
    if let Some(outcome) = agent_file::judged(path, args) {
        return outcome;
    }
    match Config::read(path) {
        Ok(config) if args.migrate => migrated(&config, path, args),
        Ok(config) => printed(judged(&config, args, args.reader), args),
        Err(error) => printed(unread(path, &error, args, args.reader), args),
    }
}

fn printed(report: Report, args: &ValidateArgs) -> Outcome {
    let verdict = report.verdict();
    let text = report.print(args.output);
    if args.migrate {
        return Outcome { stderr: text, verdict, ..Outcome::default() };
    }
    Outcome { stdout: text, verdict, ..Outcome::default() }
}

/// Prints today's form. The report is about the old configuration, the exit code about the new one: whoever migrates knows
/// that the old one is of no use to a kubelet.
fn migrated(config: &Config, path: &Path, args: &ValidateArgs) -> Outcome {
    let stdout = config.migrate();
    let (verdict, starts) = match Config::from_files([("migrated.yaml", &stdout)]) {
        Ok(migrated) => {
            let verdict = |reader| judged(&migrated, args, reader).verdict();
            (verdict(args.reader), verdict(Reader::Kubelet) == Verdict::Yes)
        }
        Err(_) => (Verdict::No, false),
    };
    let mut report = judged(config, args, Reader::Keyfob);
    if starts {
        report.migrated_from(path);
    }
    Outcome { stdout, stderr: report.print(args.output), verdict }
}

fn judged(config: &Config, args: &ValidateArgs, reader: Reader) -> Report {
    let gates = args.host.gates.parse(&[KubernetesComponent::Kubelet]);
    let mut report = Report::of_config(config, args.host.bin_dir.is_some());
    let plugins = args.host.bin_dir.as_deref();
    if let Err(invalid) = config.validate(gates.gates) {
        report.refuse(&invalid.to_string(), invalid.errors().iter().map(Trouble::from));
    } else if let Some(text) = plugins.and_then(|path| config.kubelet_error_of_plugins(path)) {
        report.kubelet_says(&text);
    }
    if let Some(text) = plugins.and_then(kubelet_error_of_directory) {
        report.kubelet_says(&text);
    }
    let lint = config.lint(plugins);
    let lint = lint.iter().map(Trouble::from);
    report.add(lint.map(|trouble| trouble.advising(!args.migrate)), reader);
    // Keyfob refuses removed gates as well, so they are errors whoever the configuration is for.
    report.add(gates.removed.iter().map(Trouble::removed_gate), Reader::Kubelet);
    report.add(gates.unread.iter().map(|gate| Trouble::unread_gate(gate)), reader);
    report.add(gates.unknown.iter().map(|gate| Trouble::unknown_gate(gate)), reader);
    report.add(gates.proposed.iter().map(|gate| Trouble::proposed_gate(gate)), reader);
    report
}

/// A plugin's answer is none of the kinds that a configuration can be.
fn unread(path: &Path, error: &ReadError, args: &ValidateArgs, reader: Reader) -> Report {
    let answer = (error.problem() == ReadProblem::Kind).then(|| answer::judged(path)).flatten();
    answer.unwrap_or_else(|| {
        let mut report = Report::unread(reader);
        report.refuse(&error.to_string(), error.errors().iter().map(Trouble::from));
        report.omit(error.omitted());
        if let Some(text) = args.host.bin_dir.as_deref().and_then(kubelet_error_of_directory) {
            report.kubelet_says(&text);
        }
        report
    })
}
