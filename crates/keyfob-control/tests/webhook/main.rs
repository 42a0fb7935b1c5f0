//! The webhook, its certificate, and the cluster that it asks.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

mod answers;
mod certificates;
mod cluster;
mod health;
mod pki;
mod reviews;
