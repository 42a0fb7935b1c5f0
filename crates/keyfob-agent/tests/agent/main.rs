//! A whole agent in this process, asked over its sockets. The tests are its callers, so the agent attests this process for real.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

mod admin;
mod credentials;
mod crowds;
mod docker;
mod hostile;
mod http;
mod kubelet;
mod lifecycle;
mod metrics;
mod monitoring;

mod plugins;
mod reload;
mod rig;
mod rules;
mod status;
mod take_over;
mod tracing;
mod warm;
