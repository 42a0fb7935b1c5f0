//! Plugins with one planted fault each, and the one check that must find it. Real processes, but where a fault depends on
//! how often it runs. Every report is searched for the secrets of the case.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

mod client;
mod provider;
mod support;
