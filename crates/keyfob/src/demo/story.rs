//! What is told, as it happens, and whether every step did what it should.

use std::{
    io,
    time::{Duration, SystemTime},
};

use keyfob_exec::{Clock as _, SystemClock, printable, write_stdout};

use crate::{Outcome, Verdict, get::aligned};

/// What a step has to tell: what happened, or what did instead.
pub(super) type Told = Result<String, String>;

#[derive(Debug, Default)]
pub(super) struct Story {
    acts: Vec<Act>,
    /// Of steps that belong to no act, too.
    went_wrong: bool,
    unwritten: Option<io::Error>,
}

#[derive(Debug)]
struct Act {
    title: &'static str,
    began: SystemTime,
    took: Duration,
    steps: usize,
    wrong: usize,
}

impl Story {
    /// What follows belongs together, and matters for this reason.
    pub(super) fn act(&mut self, title: &'static str, why: &str) {
        let gap = if self.acts.is_empty() { "" } else { "\n" };
        self.say(&format!("{gap}{}. {title}\n   {why}\n", self.acts.len()));
        let began = SystemClock.now();
        self.acts.push(Act { title, began, took: Duration::ZERO, steps: 0, wrong: 0 });
    }

    /// One thing, and what came of it.
    pub(super) fn step(&mut self, what: &str, told: Told) {
        let mark = if told.is_ok() { '✓' } else { '✗' };
        let wrong = usize::from(told.is_err());
        self.went_wrong |= told.is_err();
        let told = told.unwrap_or_else(|told| told);
        let lines: String = told.lines().map(|line| ["    ", line, "\n"].concat()).collect();
        self.say(&format!("  {mark} {what}\n{lines}"));
        if let Some(act) = self.acts.last_mut() {
            act.took = since(act.began);
            act.steps += 1;
            act.wrong += wrong;
        }
    }

    /// All acts, and where to go from here.
    pub(super) fn summary(&mut self) {
        let titles = ["ACT", "WHAT WAS SHOWN", "RESULT", "TIME"].map(str::to_owned);
        let row = |(number, act): (usize, &Act)| {
            let mark = if act.wrong == 0 { '✓' } else { '✗' };
            let result = format!("{mark} {} of {}", act.steps - act.wrong, act.steps);
            [number.to_string(), act.title.to_owned(), result, milliseconds(act.took)]
        };
        let rows = std::iter::once(titles).chain(self.acts.iter().enumerate().map(row));
        let table = aligned(&rows.collect::<Vec<_>>());
        self.say(&format!("\n{table}{NEXT}"));
    }

    /// Writes at once. What goes wrong is told at the end.
    pub(super) fn say(&mut self, text: &str) {
        if let Err(error) = write_stdout(printable(text).as_bytes()) {
            self.unwritten.get_or_insert(error);
        }
    }

    pub(super) fn outcome(self) -> Outcome {
        let unwritten = |error| format!("keyfob: the story could not be written: {error}\n");
        let verdict = self.verdict();
        let stderr = self.unwritten.map(unwritten).unwrap_or_default();
        Outcome { stderr, verdict, ..Outcome::default() }
    }

    /// Whether every step did what it should, and could be told.
    pub(super) fn verdict(&self) -> Verdict {
        match (&self.unwritten, self.went_wrong) {
            (Some(_), _) => Verdict::Unwritten,
            (None, true) => Verdict::No,
            (None, false) => Verdict::Yes,
        }
    }
}

/// What happened, as it should or not.
pub(super) fn checked(is_right: bool, told: String) -> Told {
    if is_right { Ok(told) } else { Err(told) }
}

const NEXT: &str = "
Next:  keyfob demo --keep       leaves all of this running, with commands to play with
       keyfob explain --help    why does an image get its credentials, or none?
       keyfob pull --help       an image into an OCI layout, with the right credentials
       keyfob serve --help      the agent: one warm cache for docker, builds and the kubelet
       keyfob kube --help       a kubeconfig's exec user: tokens, a proxy, a cache across commands
       docs/identity.md         pulling as the pod; docs/audiences.md, docs/plugins.md, docs/kubeconfig.md
";

pub(super) fn since(began: SystemTime) -> Duration {
    SystemClock.now().duration_since(began).unwrap_or_default()
}

pub(super) fn milliseconds(time: Duration) -> String {
    let time = time.as_secs_f64() * 1e3;
    if time < 10.0 { format!("{time:.1} ms") } else { format!("{time:.0} ms") }
}
