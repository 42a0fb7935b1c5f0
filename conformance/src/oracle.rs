//! The process that answers with upstream's code.

use std::{
    fmt,
    io::{self, BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use keyfob_testkit::scripted_plugin;
use serde_json::{Value, json};

/// Whoever knows upstream's answers.
pub trait Judge {
    /// What upstream's code says to a question, which is an object with one field: its topic.
    fn ask(&mut self, question: &Value) -> io::Result<Value>;

    /// A question of a topic.
    fn ask_about(&mut self, topic: &str, question: &impl serde::Serialize) -> io::Result<Value> {
        self.ask(&json!({ topic: question }))
    }
}

/// A running oracle. Dropping it ends it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Oracle {
    /// What it was built from, by its own account.
    pub built_from: String,
    process: Child,
    questions: ChildStdin,
    answers: Receiver<io::Result<String>>,
}

/// No question takes nearly as long.
const DEADLINE: Duration = Duration::from_mins(5);

impl Oracle {
    /// Starts the program. It finds a plugin to run in `KEYFOB_SCRIPTED_PLUGIN`.
    #[expect(clippy::disallowed_methods, reason = "it is no plugin")]
    pub fn start(program: &Path) -> io::Result<Self> {
        let started = Command::new(program)
            .env("KEYFOB_SCRIPTED_PLUGIN", scripted_plugin())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = started.map_err(|error| {
            let place = program.display();
            io::Error::new(
                error.kind(),
                format!("cannot start the oracle {place}: {error}; `.ci/run oracle` builds one"),
            )
        })?;
        let questions = process.stdin.take().expect("it is piped");
        let answers = lines_of(process.stdout.take().expect("it is piped"));
        let mut oracle = Self { built_from: String::new(), process, questions, answers };
        let modules = oracle.ask_about("built_from", &json!({}))?;
        let modules = modules.get("modules").and_then(Value::as_array);
        let modules = modules.ok_or_else(|| {
            io::Error::other(format!(
                "{} is no oracle: `.ci/run oracle` builds one",
                program.display()
            ))
        })?;
        let names: Vec<&str> = modules.iter().filter_map(Value::as_str).collect();
        oracle.built_from = names.join(", ");
        Ok(oracle)
    }
}

impl Judge for Oracle {
    fn ask(&mut self, question: &Value) -> io::Result<Value> {
        let mut line = question.to_string();
        line.push('\n');
        self.questions.write_all(line.as_bytes()).map_err(|error| no_answer(question, &error))?;
        let answer = match self.answers.recv_timeout(DEADLINE) {
            Ok(line) => line.map_err(|error| no_answer(question, &error))?,
            Err(RecvTimeoutError::Timeout) => {
                return Err(no_answer(question, &"it takes too long"));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(no_answer(question, &"it ended")),
        };
        serde_json::from_str(&answer).map_err(|_| no_answer(question, &answer))
    }
}

/// Read by a thread of its own, so that nobody waits for ever. It ends with the process.
fn lines_of(stdout: ChildStdout) -> Receiver<io::Result<String>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let lines = BufReader::new(stdout).lines();
        lines.map_while(|line| sender.send(line).ok()).for_each(drop);
    });
    receiver
}

fn no_answer(question: &Value, why: &dyn fmt::Display) -> io::Error {
    io::Error::other(format!("the oracle gave no answer to {question}: {why}"))
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // It has nothing left to do; if it was no oracle, it may not know.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
