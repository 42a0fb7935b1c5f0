//! The process that answers with upstream's code.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use keyfob_testkit::scripted_plugin;
use serde_json::{Value, json};

/// Whoever knows upstream's answers.
pub trait Judge {
    /// What upstream's code says to a question, which is an object with one field: its topic.
    fn ask(&mut self, question: &Value) -> Value;

    /// A question of a topic.
    fn ask_about(&mut self, topic: &str, question: &impl serde::Serialize) -> Value {
        self.ask(&json!({ topic: question }))
    }
}

/// A running oracle. Dropping it ends it: its stdin is closed.
#[derive(Debug)]
pub struct Oracle {
    process: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts the program. It finds a plugin to run in `KEYFOB_SCRIPTED_PLUGIN`.
    #[expect(clippy::disallowed_methods, reason = "it is no plugin")]
    pub fn start(program: &Path) -> io::Result<Self> {
        let mut process = Command::new(program)
            .env("KEYFOB_SCRIPTED_PLUGIN", scripted_plugin())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let questions = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().expect("it is piped"));
        Ok(Self { process, questions, answers })
    }
}

impl Judge for Oracle {
    fn ask(&mut self, question: &Value) -> Value {
        let mut line = question.to_string();
        line.push('\n');
        let questions = self.questions.as_mut().expect("it is there until the oracle is dropped");
        questions.write_all(line.as_bytes()).expect("the oracle reads on");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the oracle prints text");
        serde_json::from_str(&answer)
            .unwrap_or_else(|error| panic!("{error}: the oracle answered {answer:?} to {question}"))
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        drop(self.questions.take());
        // It has nothing left to do.
        drop(self.process.wait());
    }
}
