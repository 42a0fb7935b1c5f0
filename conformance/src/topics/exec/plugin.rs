//! A real process that does what the question says, one run after another.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use keyfob_exec::{BoxFuture, Finished, Invocation, ProcessRunner, RunError, Runner};
use keyfob_testkit::{MapEnvironment, Script, Step, Witness, scripted_plugin};
use serde_json::{Value, json};

/// The scripted plugin, as `bin/plugin` of a folder. It is told what to do just before it is run.
#[derive(Debug)]
pub(super) struct Plugin {
    folder: PathBuf,
    /// The steps of each run, as JSON; the last are good for all later runs.
    runs: Vec<String>,
    processes: ProcessRunner,
}

impl Plugin {
    pub(super) fn install(folder: &Path, runs: Vec<String>, environment: MapEnvironment) -> Self {
        fs::create_dir(folder.join("bin")).expect("a new folder");
        symlink(scripted_plugin(), folder.join("bin/plugin")).expect("a new link");
        Self { folder: folder.to_owned(), runs, processes: ProcessRunner::new(environment) }
    }

    /// What it got, run by run.
    pub(super) fn witnesses(&self, in_words: impl Fn(&str) -> String) -> Vec<Value> {
        (0..self.count()).map(|run| self.witness(run, &in_words)).collect()
    }

    fn witness(&self, run: usize, in_words: &impl Fn(&str) -> String) -> Value {
        let read = |name| fs::read_to_string(self.file(name, run)).expect("it was recorded");
        let seen: Witness = serde_json::from_str(&read("witness")).expect("a witness");
        let (mut env, mut info) = (Vec::new(), Vec::new());
        for entry in seen.env {
            match entry.strip_prefix("KUBERNETES_EXEC_INFO=") {
                Some(text) => info.push(in_words(text)),
                None => env.push(in_words(&entry)),
            }
        }
        let args: Vec<_> = seen.args.iter().map(|arg| in_words(arg)).collect();
        json!({"args": args, "env": env, "info": info, "stdin": read("stdin")})
    }

    /// Writes what it does when it is run next.
    fn prepare(&self) {
        let run = self.count();
        let mut script = Script::new([
            Step::Record(self.file("witness", run)),
            Step::RecordStdin(self.file("stdin", run)),
            Step::Count(self.folder.join("runs")),
        ]);
        if let Some(steps) = self.runs.get(run).or(self.runs.last()) {
            script.0.extend(serde_json::from_str::<Script>(steps).expect("a script").0);
        }
        fs::write(self.folder.join("script"), script.to_arg()).expect("a file of ours");
    }

    /// How often it was run.
    fn count(&self) -> usize {
        fs::read(self.folder.join("runs")).map_or(0, |counted| counted.len())
    }

    fn file(&self, name: &str, run: usize) -> PathBuf {
        self.folder.join(format!("{name}-{run}"))
    }
}

impl Runner for Plugin {
    fn run<'a>(&'a self, invocation: &'a Invocation) -> BoxFuture<'a, Result<Finished, RunError>> {
        self.prepare();
        self.processes.run(invocation)
    }
}
