//! The commands of the documentation, taken from its pages.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::{
    shell::{output, succeed},
    world::World,
};

/// A page of the documentation.
pub(crate) struct Page {
    name: &'static str,
    text: String,
}

impl Page {
    /// Reads a page, such as `docs/plugins.md`.
    pub(crate) fn read(name: &'static str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Self { name, text: fs::read_to_string(root.join(name)).unwrap() }
    }

    /// The only command of the page that contains all these texts, without its prompt; several lines if it has several.
    pub(crate) fn command(&self, texts: &[&str]) -> String {
        let commands = self.blocks("console").into_iter().flat_map(|block| commands(&block));
        self.only(commands.collect(), texts)
    }

    /// The only block in this language that contains all these texts.
    pub(crate) fn block(&self, language: &str, texts: &[&str]) -> String {
        self.only(self.blocks(language), texts)
    }

    fn only(&self, candidates: Vec<String>, texts: &[&str]) -> String {
        let matches = |candidate: &String| texts.iter().all(|text| candidate.contains(text));
        let mut found: Vec<_> = candidates.into_iter().filter(matches).collect();
        assert_eq!(found.len(), 1, "{} should have one place with {texts:?}: {found:?}", self.name);
        found.remove(0)
    }

    fn blocks(&self, language: &str) -> Vec<String> {
        let opening = format!("```{language}\n");
        let blocks = self.text.split(&opening).skip(1);
        blocks
            .filter_map(|rest| rest.split_once("\n```"))
            .map(|(block, _)| block.to_owned())
            .collect()
    }
}

/// A command begins with a prompt and goes on after a backslash.
fn commands(block: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in block.lines() {
        let start = line.strip_prefix("# ").or_else(|| line.strip_prefix("$ "));
        match (start, commands.last_mut()) {
            (_, Some(last)) if goes_on => last.extend(["\n", line]),
            (Some(command), _) => commands.push(command.to_owned()),
            // What the command prints.
            (None, _) => {}
        }
        goes_on = line.ends_with('\\') && !commands.is_empty();
    }
    commands
}

impl World {
    /// Runs a documented command, which must succeed, and returns what it prints.
    pub(crate) fn run_documented(&self, command: &str) -> String {
        String::from_utf8(succeed(&mut self.documented(command)).stdout).unwrap()
    }

    /// Runs a documented command, which may fail.
    pub(crate) fn try_documented(&self, command: &str) -> Output {
        output(&mut self.documented(command))
    }

    /// The directory in which documented commands are run.
    pub(crate) fn checkout(&self) -> PathBuf {
        self.files.join("checkout")
    }

    /// A shell of the administrator in a checkout, where `cargo build` has nothing to do: this keyfob is built.
    fn documented(&self, command: &str) -> Command {
        let checkout = self.checkout();
        let programs = checkout.join("programs");
        fs::create_dir_all(&programs).unwrap();
        let cargo = format!(
            "#!/bin/sh\n[ \"$*\" = 'build --profile dist' ] || exit 64\nmkdir -p target/dist\nln -sf '{}' target/dist/keyfob\n",
            env!("CARGO_BIN_EXE_keyfob"),
        );
        fs::write(programs.join("cargo"), cargo).unwrap();
        fs::set_permissions(programs.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
        let mut shell = Command::new("bash");
        shell.args(["-e", "-u", "-o", "pipefail", "-c", command]).current_dir(&checkout);
        shell.env_clear().env("HOME", "/root").env("KUBECONFIG", self.cluster.admin());
        shell.env("PATH", format!("{}:{}", programs.display(), self.parts.search_path()));
        shell
    }
}
