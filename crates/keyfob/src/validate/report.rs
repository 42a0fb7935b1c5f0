//! What there is to say about a configuration, for people and for programs.

use std::{fmt::Write as _, path::Path};

use keyfob_api::{RemovedGate, document::Position};
use keyfob_config::{Config, ConfigError, Place, Warning};
use keyfob_exec::printable;
use serde::{Serialize, Serializer};

use crate::{
    Verdict,
    cli::{Output, Reader},
};

/// Everything about one configuration or answer.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) valid: bool,
    hash: String,
    /// The kubelet's own text, or Keyfob's for syntax and types; empty if a kubelet has nothing to say, and for a proposal's
    /// dialect, which Keyfob reads.
    aggregate: String,
    errors: Troubles,
    #[serde(skip_serializing_if = "is_zero")]
    more_errors: usize,
    pub(super) warnings: Troubles,
    #[serde(skip_serializing_if = "is_zero")]
    more_warnings: usize,
    /// What was judged.
    #[serde(skip)]
    subject: Subject,
    /// The file whose form of today a kubelet starts with.
    #[serde(skip)]
    migrated_from: Option<String>,
}

#[derive(Debug, Default)]
enum Subject {
    /// A configuration that could not be read.
    #[default]
    Unread,
    /// The same, where only Keyfob was to read it.
    UnreadByKeyfob,
    /// A configuration of so many providers.
    Config { providers: usize, are_plugins_checked: bool },
    /// A plugin's answer.
    Answer,
}

/// Errors or warnings: the first hundred, and how many there are.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    first: Vec<Trouble>,
    all: usize,
    /// Whether one of all of them keeps a kubelet from starting.
    kubelet_refuses: bool,
}

impl Troubles {
    const MOST: usize = 100;

    fn more(&self) -> usize {
        self.all - self.first.len()
    }
}

impl Serialize for Troubles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.first.serialize(serializer)
    }
}

impl Extend<Trouble> for Troubles {
    fn extend<I: IntoIterator<Item = Trouble>>(&mut self, troubles: I) {
        for trouble in troubles {
            self.all += 1;
            self.kubelet_refuses |= trouble.kubelet_refuses;
            if self.first.len() < Self::MOST {
                self.first.push(trouble);
            }
        }
    }
}

/// An error or a warning.
#[derive(Debug, Default, Serialize)]
pub(super) struct Trouble {
    path: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    kind: String,
    message: String,
    help: String,
    file: String,
    line: Option<usize>,
    column: Option<usize>,
    /// Whether a kubelet would not start with this although Keyfob reads it.
    #[serde(rename = "kubeletRefuses", skip_serializing_if = "std::ops::Not::not")]
    kubelet_refuses: bool,
}

impl Report {
    /// About a configuration that could be read.
    pub(super) fn of_config(config: &Config, are_plugins_checked: bool) -> Self {
        let subject = Subject::Config { providers: config.providers.len(), are_plugins_checked };
        Self { hash: config.hash.clone().unwrap_or_default(), ..Self::about(subject) }
    }

    /// About a configuration that could not be read.
    pub(super) fn unread(reader: Reader) -> Self {
        Self::about(match reader {
            Reader::Kubelet => Subject::Unread,
            Reader::Keyfob => Subject::UnreadByKeyfob,
        })
    }

    /// Says that today's form of this file, which is printed, is for a kubelet.
    pub(super) fn migrated_from(&mut self, file: &Path) {
        self.migrated_from = Some(file.display().to_string());
    }

    /// About a plugin's answer.
    pub(super) fn of_answer() -> Self {
        Self::about(Subject::Answer)
    }

    fn about(subject: Subject) -> Self {
        Self { valid: true, subject, ..Self::default() }
    }

    pub(super) fn verdict(&self) -> Verdict {
        if self.valid { Verdict::Yes } else { Verdict::No }
    }

    /// Adds what lints found. What keeps a kubelet from starting is an error of a configuration that is for a kubelet.
    pub(super) fn add(&mut self, troubles: impl Iterator<Item = Trouble>, reader: Reader) {
        for trouble in troubles {
            if trouble.kubelet_refuses && reader == Reader::Kubelet {
                self.valid = false;
                self.errors.extend([trouble]);
            } else {
                self.warnings.extend([trouble]);
            }
        }
    }

    /// Says what is wrong. What could be read keeps its hash, as upstream, where reading comes before judging.
    pub(super) fn refuse(&mut self, aggregate: &str, errors: impl Iterator<Item = Trouble>) {
        self.valid = false;
        self.kubelet_says(aggregate);
        self.errors.extend(errors);
    }

    /// Sets the kubelet's own text. Each of the steps of its start has one, and the first that fails counts.
    pub(super) fn kubelet_says(&mut self, text: &str) {
        self.aggregate = shortened(text);
    }

    /// Counts errors that are not listed.
    pub(super) fn omit(&mut self, errors: usize) {
        self.errors.all += errors;
    }

    pub(super) fn print(mut self, output: Output) -> String {
        self.more_errors = self.errors.more();
        self.more_warnings = self.warnings.more();
        match output {
            Output::Json => crate::page::json(&self),
            Output::Table => self.table(),
        }
    }

    fn table(&self) -> String {
        let mut errors: Vec<&Trouble> = self.errors.first.iter().collect();
        errors.sort_by_key(|error| (error.line, error.column));
        errors.sort_by_key(|error| &error.file);
        let errors = errors.into_iter().map(|error| error.lines("error"));
        let warnings = self.warnings.first.iter().map(|warning| warning.lines("warning"));
        let more = [(self.errors.more(), "errors"), (self.warnings.more(), "warnings")];
        let more = more.into_iter().filter(|(many, _)| *many > 0);
        let more = more.map(|(many, what)| format!("and {many} more {what}\n"));
        let text: String = errors.chain(warnings).chain(more).collect();
        let warnings = match self.warnings.all {
            0 => String::new(),
            many => format!(", {}", count(many, "warning")),
        };
        format!("{text}{}{warnings}{}\n", self.summary(), self.details())
    }

    fn summary(&self) -> String {
        if let Some(file) = &self.migrated_from
            && self.valid
            && self.warnings.kubelet_refuses
        {
            let file = shown(file);
            return format!(
                "printed a configuration that a kubelet starts with; {file} itself is not one"
            );
        }
        let verdict = match (self.valid, &self.subject) {
            (false, Subject::Answer) => "not valid",
            (false, Subject::UnreadByKeyfob) => "not valid, keyfob cannot read it",
            (false, _) => "not valid, a kubelet would not start with it",
            (true, _) if self.warnings.kubelet_refuses => {
                "valid for keyfob, but a kubelet would not start with it"
            }
            (true, _) => "valid",
        };
        let what = match (self.valid, &self.subject) {
            (false, _) => count(self.errors.all, "error"),
            (true, Subject::Config { providers, .. }) => count(*providers, "provider"),
            (true, Subject::Answer) => "a plugin's answer".to_owned(),
            (true, Subject::Unread | Subject::UnreadByKeyfob) => "a configuration".to_owned(),
        };
        format!("{verdict}: {what}")
    }

    /// The hash, and what nobody looked at. A configuration that is not valid needs neither.
    fn details(&self) -> String {
        match self.subject {
            // What was printed has another hash.
            _ if self.migrated_from.is_some() && self.warnings.kubelet_refuses => String::new(),
            Subject::Config { are_plugins_checked: true, .. } if self.valid => {
                format!(", {}", self.hash)
            }
            Subject::Config { .. } if self.valid => {
                format!(", {} (plugins not checked: no --bin-dir)", self.hash)
            }
            _ => String::new(),
        }
    }
}

fn count(many: usize, what: &str) -> String {
    let plural = if many == 1 { "" } else { "s" };
    format!("{many} {what}{plural}")
}

impl Trouble {
    pub(super) fn new(file: &str, kind: &str, message: String, help: &str) -> Self {
        let (file, kind, help) = (file.to_owned(), kind.to_owned(), help.to_owned());
        Self { kind, message, help, file, ..Self::default() }
    }

    pub(super) fn unknown_gate(gate: &str) -> Self {
        let message = format!("the feature gate {gate} decides nothing here");
        Self::new(
            "",
            "",
            message,
            "nothing, unless its name is misspelt: a kubelet does not start with a gate that it does not know",
        )
    }

    pub(super) fn removed_gate(gate: &RemovedGate) -> Self {
        Self { kubelet_refuses: true, ..Self::new("", "", gate.to_string(), &gate.help()) }
    }

    pub(super) fn unread_gate(gate: &str) -> Self {
        let message = format!("the feature gate {gate} decides nothing in a kubelet");
        Self::new("", "", message, "set it on the kube-apiserver, which reads it")
    }

    pub(super) fn proposed_gate(gate: &str) -> Self {
        let message = format!("{gate} is KEP-4412's name for the feature gate");
        let help = "write KubeletServiceAccountTokenForCredentialProviders";
        Self { kubelet_refuses: true, ..Self::new("", "", message, help) }
    }

    /// Without the advice to migrate, for those who do.
    pub(super) fn advising(self, to_migrate: bool) -> Self {
        if !to_migrate && self.help.contains("--migrate") {
            return Self { help: String::new(), ..self };
        }
        self
    }

    fn at(self, place: Option<&Place>) -> Self {
        let file = place.map(|place| place.file.to_string()).unwrap_or_default();
        Self { file, ..self }.on(place.and_then(|place| place.at))
    }

    /// At this position of its file.
    pub(super) fn on(self, at: Option<Position>) -> Self {
        Self { line: at.map(|at| at.line), column: at.map(|at| at.column), ..self }
    }

    /// `FILE:LINE:COLUMN: error: what`, and below it what to do.
    fn lines(&self, sort: &str) -> String {
        let mut place = self.file.clone();
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(place, ":{line}:{column}").unwrap_or_default();
        }
        let place = if place.is_empty() { place } else { place + ": " };
        let mut text = format!("{}{sort}: {}\n", shown(&place), shown(&self.message));
        if self.kubelet_refuses && sort == "warning" {
            text += "    a kubelet would not start with this\n";
        }
        if !self.help.is_empty() && !self.message.contains(&self.help) {
            writeln!(text, "    help: {}", shown(&self.help)).unwrap_or_default();
        }
        text
    }
}

impl From<&ConfigError> for Trouble {
    fn from(error: &ConfigError) -> Self {
        let help = error.help.as_deref().unwrap_or_default();
        let trouble = Self::new("", &error.kind.to_string(), error.message.clone(), help);
        Self { path: error.path.clone(), ..trouble }.at(error.place.as_ref())
    }
}

impl From<&Warning> for Trouble {
    fn from(warning: &Warning) -> Self {
        let path = match warning.path.as_str() {
            "" => String::new(),
            path => format!("providers.{path}"),
        };
        let trouble = Self::new("", "", warning.message.clone(), &warning.help);
        let trouble = Self { path, kubelet_refuses: warning.kubelet_refuses, ..trouble };
        trouble.at(warning.place.as_ref())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A kubelet's own text lists everything, however much that is.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 64 << 10;
    let end = text.floor_char_boundary(LONGEST);
    match text.split_at(end) {
        (_, "") => text.to_owned(),
        (start, rest) => format!("{start}… and {} bytes more", rest.len()),
    }
}

/// A text of a file could steer the terminal or forge lines.
fn shown(text: &str) -> String {
    printable(text).replace('\n', "\n    ")
}
