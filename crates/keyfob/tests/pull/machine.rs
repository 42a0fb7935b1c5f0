//! Somebody who pulls, and the directory they pull into.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use keyfob_testkit::LeakCheck;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    node::{Node, Said, program},
    registry::PASSWORD,
};

pub(crate) struct Machine {
    directory: TempDir,
    /// To be seen nowhere.
    secrets: Vec<String>,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let secrets = vec![PASSWORD.to_owned(), "hunter2".to_owned()];
        Self { directory: tempfile::tempdir().unwrap(), secrets }
    }

    /// The layout.
    pub(crate) fn dest(&self) -> PathBuf {
        self.directory.path().join("images")
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A docker configuration with one login.
    pub(crate) fn login(&self, name: &str, registry: &str, user: &str, password: &str) -> String {
        let login = json!({"username": user, "password": password});
        self.file(name, &json!({"auths": {registry: login}}).to_string())
    }

    /// The command, without a proxy that somebody may have set.
    pub(crate) fn command(&self, image: &str, args: &[&str]) -> Command {
        let mut command = program();
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            command.env_remove(name).env_remove(name.to_lowercase());
        }
        command.args(["pull", image]).arg(self.dest()).args(args);
        command
    }

    pub(crate) fn pull(&self, image: &str, args: &[&str]) -> Said {
        self.checked(self.command(image, args).output().unwrap().into())
    }

    /// What is said in JSON, which is all there is but progress.
    pub(crate) fn pull_json(&self, image: &str, args: &[&str]) -> (i32, Value) {
        let said = self.pull(image, &[args, &["-o", "json", "--quiet"]].concat());
        assert_eq!(said.stderr, "", "{}", said.stdout);
        (said.code, said.json())
    }

    /// The same with the providers of a node.
    pub(crate) fn pull_on(&self, node: &Node, image: &str, args: &[&str]) -> Said {
        let (config, plugins) = (node.config(), node.path("plugins"));
        let sources = ["--config", &config, "--bin-dir", plugins.to_str().unwrap()];
        self.pull(image, &[&sources, args].concat())
    }

    /// Starts a pull whose end nobody waits for yet.
    pub(crate) fn start(&self, image: &str, args: &[&str]) -> Child {
        let mut command = self.command(image, args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    pub(crate) fn end(&self, child: Child) -> Said {
        self.checked(child.wait_with_output().unwrap().into())
    }

    fn checked(&self, said: Said) -> Said {
        LeakCheck::new(&self.secrets).text("stdout", &said.stdout).text("stderr", &said.stderr);
        said
    }

    /// What has come of blobs that are not whole.
    pub(crate) fn partials(&self) -> Vec<(String, u64)> {
        let Ok(entries) = std::fs::read_dir(self.dest().join(".keyfob")) else { return Vec::new() };
        let entries = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            Some((name.strip_prefix("sha256-")?.to_owned(), entry.metadata().ok()?.len()))
        });
        entries.collect()
    }

    /// The names of the files about pulls that have not ended, or of records.
    pub(crate) fn files(&self, kind: &str) -> usize {
        let directory = self.dest().join("image_manager").join(kind);
        std::fs::read_dir(directory).map_or(0, Iterator::count)
    }
}
