//! What the pages of `docs` say holds: their commands print what the pages show, and their links lead somewhere.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

mod console;
mod links;
mod page;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The root of the workspace, where all paths in the pages and lists start.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a file of the workspace.
fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
