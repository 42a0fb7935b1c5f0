//! A page for people: names and facts below each other.

use keyfob_exec::{Environment, on_one_line, printable_json};
use serde::Serialize;

use crate::match_images::shown;

/// Lines, of which each is one whatever others wrote into it.
#[derive(Debug, Default)]
pub(crate) struct Page(String);

impl Page {
    /// What others wrote is in most lines.
    pub(crate) fn line(&mut self, text: &str) {
        self.0 += &on_one_line(text);
        self.0.push('\n');
    }

    pub(crate) fn heading(&mut self, title: &str) {
        self.line("");
        self.line(title);
    }

    /// A name and what there is to say, on a line of its own.
    pub(crate) fn fact(&mut self, name: &str, text: &str) {
        self.line(format!("  {name:<12} {text}").trim_end());
    }

    /// A name, and what there is to say on lines below each other.
    pub(crate) fn facts<S: AsRef<str>>(&mut self, name: &str, texts: impl IntoIterator<Item = S>) {
        for (index, text) in texts.into_iter().enumerate() {
            self.fact(if index == 0 { name } else { "" }, text.as_ref());
        }
    }

    /// What is set for a plugin.
    pub(crate) fn environment(&mut self, variables: &[Variable]) {
        let described = variables.iter().map(|variable| {
            let replaces =
                if variable.replaces_the_hosts { ", in place of the host's" } else { "" };
            format!("{}=*** (set{replaces})", shown(&variable.name))
        });
        self.facts("environment", described);
    }

    /// What is wrong and what to do. Both may have several lines; what follows an empty line of the remedy is to be pasted, so
    /// it begins at the left margin.
    pub(crate) fn problems(&mut self, problems: &[Problem]) {
        for problem in problems {
            let (remedy, block) = match problem.remedy.split_once("\n\n") {
                Some((remedy, block)) => (remedy, block),
                None => (problem.remedy.as_str(), ""),
            };
            self.facts("problem", lines(&problem.problem));
            self.facts("  do", lines(remedy));
            if !block.is_empty() {
                self.line("");
                block.lines().for_each(|line| self.line(line));
            }
        }
    }

    /// The whole page.
    pub(crate) fn text(self) -> String {
        self.0
    }
}

/// The lines of a text that somebody else may have written. A tab would be spelled out, so it becomes spaces.
fn lines(text: &str) -> impl Iterator<Item = String> {
    text.trim_end().lines().map(|line| line.replace('\t', "    "))
}

/// A line of JSON in which nothing steers a terminal.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> String {
    printable_json(&serde_json::to_string(value).unwrap_or_default()) + "\n"
}

/// Something wrong, and what to do about it.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    pub(crate) problem: String,
    #[serde(rename = "do")]
    pub(crate) remedy: String,
}

impl Problem {
    pub(crate) fn new(problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { problem: problem.into(), remedy: remedy.into() }
    }
}

/// A variable; its value is never shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Variable {
    pub(crate) name: String,
    /// Whether the host has one of this name, which the plugin does not see.
    pub(crate) replaces_the_hosts: bool,
}

impl Variable {
    /// One that is set over the environment of the host.
    pub(crate) fn over(host: &dyn Environment, name: String) -> Self {
        Self { replaces_the_hosts: host.var(&name).is_some(), name }
    }
}
