//! Runs the `console` blocks of pages, in the order of the page, and compares what is printed.
//!
//! - A line that begins with `$ ` is a command; one that ends with a backslash goes on in the next line. What follows is
//!   everything it prints, on stdout and stderr. `…` stands for any text, on a line of its own for any lines.
//! - A block with a second word behind its fence is a file of that name, written when the page gets there. One that
//!   begins with `#!` can be run.
//! - A page has a directory of its own, with `keyfob` on `PATH` and an empty home. `$?` is that of the command before.
//!
//! Pages are run at the same time, but no file is written while a process starts: until it has become its program, the
//! new process holds the file open too, and a file that is open for writing cannot be run.

use std::{
    fs::{self, DirBuilder, Permissions},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink},
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

use tempfile::TempDir;

use crate::{
    page::{self, Block},
    read,
};

/// Held while a file is written and while a process starts.
static WRITING_OR_STARTING: Mutex<()> = Mutex::new(());

#[test]
fn the_commands_for_plugin_authors_print_what_the_page_shows() {
    replay("docs/plugin-authors.md");
}

#[test]
fn the_commands_about_the_seeds_print_what_the_page_shows() {
    replay("docs/seeds.md");
}

#[test]
fn the_commands_about_upgrades_print_what_the_page_shows() {
    replay("docs/upgrade.md");
}

#[test]
fn the_commands_in_the_readme_of_the_binary_print_what_it_shows() {
    replay("crates/keyfob/README.md");
}

fn replay(name: &str) {
    let page = read(name);
    let mut session = Session::new();
    let mut differences = Vec::new();
    for block in page::blocks(&page) {
        match (block.language, block.file) {
            (_, Some(file)) => session.write(file, &block.lines),
            ("console", None) => differences.extend(session.replay(name, &block)),
            _ => {}
        }
    }
    assert!(session.commands > 0, "{name} shows no command");
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

#[test]
fn any_other_output_is_a_difference() {
    let shown = ["a …: c", "…", "the end"];
    for same in [&["a b: c", "the end"][..], &["a : c", "1", "2", "the end"]] {
        assert!(lines_match(&shown, same), "{same:?}");
    }
    for other in [
        &["a b: c"][..],
        &["the end"],
        &["a b: c", "the end", "and more"],
        &["a b: d", "the end"],
        &["ab: c", "the end"],
    ] {
        assert!(!lines_match(&shown, other), "{other:?}");
    }
}

struct Session {
    directory: TempDir,
    /// How many commands were run.
    commands: usize,
    /// The exit code of the last of them.
    code: i32,
}

impl Session {
    fn new() -> Self {
        let session = Self { directory: tempfile::tempdir().unwrap(), commands: 0, code: 0 };
        for folder in [".program", ".home"] {
            session.make(Path::new(folder));
        }
        symlink(env!("CARGO_BIN_EXE_keyfob"), session.directory.path().join(".program/keyfob"))
            .unwrap();
        session
    }

    /// Directories that only their owner may write, whatever the umask is: others would be worth a warning.
    fn make(&self, folder: &Path) {
        let path = self.directory.path().join(folder);
        DirBuilder::new().recursive(true).mode(0o755).create(path).unwrap();
    }

    fn write(&self, file: &str, lines: &[&str]) {
        self.make(Path::new(file).parent().unwrap());
        let path = self.directory.path().join(file);
        let guard = WRITING_OR_STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        fs::write(&path, lines.join("\n") + "\n").unwrap();
        drop(guard);
        let is_program = lines.first().is_some_and(|line| line.starts_with("#!"));
        fs::set_permissions(&path, Permissions::from_mode(if is_program { 0o755 } else { 0o644 }))
            .unwrap();
    }

    /// What is printed other than the block shows.
    fn replay(&mut self, page: &str, block: &Block<'_>) -> Vec<String> {
        let mut differences = Vec::new();
        let mut lines = block.lines.iter().zip(block.line..).peekable();
        while let Some((first, line)) = lines.next() {
            let Some(start) = first.strip_prefix("$ ") else {
                panic!("{page}:{line}: a console block begins with a command: {first}")
            };
            let mut command = start.to_owned();
            while command.ends_with('\\') {
                command = format!("{command}\n{}", lines.next().unwrap().0);
            }
            let mut shown = Vec::new();
            while let Some((output, _)) = lines.next_if(|(line, _)| !line.starts_with("$ ")) {
                shown.push(*output);
            }
            let printed = self.run(&command);
            if !lines_match(&shown, &printed.lines().collect::<Vec<_>>()) {
                let shown = shown.join("\n");
                differences.push(format!(
                    "{page}:{line}: $ {command}\nis said to print\n{shown}\nand prints\n{printed}"
                ));
            }
        }
        differences
    }

    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    fn run(&mut self, command: &str) -> String {
        let directory = self.directory.path();
        let path = format!("{}:/usr/bin:/bin", directory.join(".program").display());
        let guard = WRITING_OR_STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let shell = Command::new("/bin/sh")
            .args(["-c", &format!("exec 2>&1\n(exit {})\n{command}", self.code)])
            .current_dir(directory)
            .env_clear()
            .envs([("PATH", path.as_str()), ("LC_ALL", "C"), ("TZ", "UTC")])
            .env("HOME", directory.join(".home"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        drop(guard);
        let output = shell.wait_with_output().unwrap();
        self.commands += 1;
        self.code = output.status.code().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

fn lines_match(shown: &[&str], printed: &[&str]) -> bool {
    match (shown.split_first(), printed.split_first()) {
        (None, None) => true,
        (Some((&"…", rest)), None) => lines_match(rest, printed),
        (Some((&"…", rest)), Some((_, more))) => {
            lines_match(rest, printed) || lines_match(shown, more)
        }
        (Some((line, rest)), Some((first, more))) => {
            line_matches(line, first) && lines_match(rest, more)
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}

fn line_matches(shown: &str, printed: &str) -> bool {
    let Some((start, rest)) = shown.split_once('…') else { return shown == printed };
    let Some(mut left) = printed.strip_prefix(start) else { return false };
    let (middle, end) = rest.rsplit_once('…').map_or((None, rest), |(m, end)| (Some(m), end));
    for piece in middle.into_iter().flat_map(|middle| middle.split('…')) {
        let Some((_, behind)) = left.split_once(piece) else { return false };
        left = behind;
    }
    left.ends_with(end)
}
