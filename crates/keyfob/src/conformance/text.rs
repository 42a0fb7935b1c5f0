//! The report for people, and the help about it.

use std::fmt::Write as _;

use keyfob_contract::{Finding, Grade, checks, client_checks};
use keyfob_exec::on_one_line;

use super::{Counts, Told};

/// A line for each finding, what to do below it, and the sum at the end.
pub(super) fn print(told: &Told<'_>) -> String {
    let findings = told.report.findings.iter();
    let width = findings.clone().map(|finding| finding.check.len()).max().unwrap_or_default();
    let findings = findings.map(|finding| lines(finding, width));
    findings.collect::<String>() + &summary(told)
}

fn lines(finding: &Finding, width: usize) -> String {
    let Finding { check, reason, advice, .. } = finding;
    let grade = match finding.grade {
        Grade::Pass => "pass",
        Grade::Warn => "warn",
        Grade::Fail => "FAIL",
        Grade::NotChecked => "-",
    };
    let image = finding.image.as_ref().map(|image| format!("{image}: ")).unwrap_or_default();
    let not = if finding.grade == Grade::NotChecked { "not checked: " } else { "" };
    let mut text =
        format!("{grade:<4}  {check:<width$}  {}\n", on_one_line(&format!("{image}{not}{reason}")));
    if !advice.is_empty() {
        writeln!(text, "{:<4}  {:<width$}  do: {}", "", "", on_one_line(advice))
            .unwrap_or_default();
    }
    text
}

fn summary(told: &Told<'_>) -> String {
    let Counts { passed, warnings, failed, not_checked } = told.summary;
    let verdict = if told.conforms { "conforms" } else { "does not conform" };
    let plugin = on_one_line(told.plugin);
    let plural = if warnings == 1 { "" } else { "s" };
    format!(
        "{plugin} {verdict}: {failed} failed, {warnings} warning{plural}, {passed} passed, {not_checked} not checked\n"
    )
}

/// What is checked, the shape of the JSON and the exit codes.
pub(super) fn help() -> String {
    let all = checks().chain(client_checks());
    let width = all.map(|(name, _)| name.len()).max().unwrap_or_default();
    let mut text = "The plugin is run some twenty times, as a kubelet runs it, or with --client as a client of a kubeconfig \
                    does, and as none should. No password, no token, no key and no value of a variable is printed.\n\n\
                    Checks:\n"
        .to_owned();
    for (name, about) in checks() {
        writeln!(text, "  {name:<width$}  {about}").unwrap_or_default();
    }
    text += "\nChecks with --client:\n";
    for (name, about) in client_checks() {
        writeln!(text, "  {name:<width$}  {about}").unwrap_or_default();
    }
    text += "\nJSON: {\"plugin\",\"conforms\",\"summary\":{\"passed\",\"warnings\",\"failed\",\"notChecked\"},\
             \"findings\":[{\"check\",\"grade\",\"image\",\"reason\",\"advice\"}]}, where grade is pass, warn, fail or \
             notChecked, image is there when there are several, and advice when there is something to do.\n\
             Exit codes: 0 it conforms, perhaps with warnings, 1 something failed (with --strict: or was warned about), 2 the \
             plugin is not there or the input is wrong, 4 the report could not be written, 130 it was stopped by a signal.";
    text
}
