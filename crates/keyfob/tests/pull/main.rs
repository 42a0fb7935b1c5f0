//! `keyfob pull` as its users see it: real processes, a registry on loopback, real plugins.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and so do its helpers"
)]

#[path = "../support/node.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod node;
#[path = "../support/registry.rs"]
mod registry;
#[path = "../support/signals.rs"]
mod signals;

mod credentials;
mod echoing;
mod interrupted;
mod links;
mod machine;
mod mirrors;
mod plain;
mod pods;
mod policies;
mod records;
mod stolen;
mod wrong;
