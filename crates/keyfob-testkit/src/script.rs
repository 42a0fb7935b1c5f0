use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a scripted plugin does, step by step. In JSON: `[{"say": "hello"}, {"sleepMs": 50}, "closeStdout"]`.
///
/// A plugin is given its script as an argument or, so that it does not show in a configuration, as the absolute path of
/// a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Script(pub Vec<Step>);

/// One step of a [`Script`]. A script that ends without [`Step::Exit`] exits with code 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Step {
    /// Reads stdin to its end and prints this JSON document: what a good plugin does.
    Answer(Value),
    /// The same, with the request's service account token wherever `$TOKEN` stands; nothing if it has none.
    AnswerWithToken(Value),
    /// Prints this on stdout as it is, for instance half an answer.
    Print(String),
    /// Prints this on stderr.
    Say(String),
    /// Reads stdin to its end. A script without it, or [`Step::Answer`], ignores stdin.
    ReadStdin,
    /// Reads stdin to its end and writes it to this file.
    RecordStdin(PathBuf),
    /// Prints on stdout what it reads from stdin.
    Echo,
    /// Sleeps.
    SleepMs(u64),
    /// Prints this many bytes on stdout.
    FloodStdout(usize),
    /// Prints this many bytes on stderr.
    FloodStderr(usize),
    /// Closes stdout, and goes on.
    CloseStdout,
    /// Closes stdin, and goes on.
    CloseStdin,
    /// Starts a child with a script of its own, which holds all three pipes, and does not wait for it.
    Fork(Script),
    /// Waits until this file exists, for instance because a forked child has recorded itself.
    Await(PathBuf),
    /// Is deaf to SIGTERM from now on.
    IgnoreSigterm,
    /// Joins the process group of whoever started it, out of reach of a signal to its own.
    LeaveGroup,
    /// Exits with this code.
    Exit(i32),
    /// Dies by this signal.
    Signal(i32),
    /// Writes a [`Witness`] of itself to this file.
    Record(PathBuf),
    /// Adds one byte to this file, whose length is then the number of runs.
    Count(PathBuf),
    /// Adds what it reads from stdin to this file, which has a line for each run then, and follows the script whose turn
    /// it is; after the last comes the first again.
    TakeTurns(PathBuf, Vec<Script>),
    /// Reads stdin to its end and follows the script of the first text that stands in it; if none does, this one goes on.
    Heed(Vec<(String, Script)>),
    /// The same with what stands in a variable.
    HeedVariable(String, Vec<(String, Script)>),
}

/// What a scripted plugin saw of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// Its process id.
    pub pid: i32,
    /// Its process group.
    pub group: i32,
    /// `argv`, the program's name first.
    pub args: Vec<String>,
    /// The environment as `NAME=value`, in the order it was given.
    pub env: Vec<String>,
    /// The open descriptors.
    pub descriptors: Vec<i32>,
    /// The signals it blocks, as a bit set: signal 1 is bit 0.
    pub blocked: u64,
}

impl Script {
    /// A script of these steps.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self(steps.into_iter().collect())
    }

    /// The script as the plugin's one argument.
    pub fn to_arg(&self) -> String {
        serde_json::json!(self).to_string()
    }
}
