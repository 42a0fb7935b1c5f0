//! Records of pulls: their files, what they decide, and what holds when several processes share them and die.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

mod deciding;
mod files;
mod model;
mod pruning;
mod sharing;
mod support;
