//! What the pages of `docs` say holds: their commands print what the pages show, their links lead somewhere, and
//! `docs/seeds.md` accounts for every item of the founding documents. Each crate has a README that fits its manifest.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

mod console;
mod crates;
mod examples;
mod links;
mod page;
mod readmes;
mod recipes;
mod seeds;

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
