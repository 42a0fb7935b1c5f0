//! What plugins, crowds and changes can do to a host, with real processes. Each case ends with the leak check: no
//! password of the case is in an error, a log, a metric or a `Debug`.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

mod changes;
mod crowds;
mod misbehaviour;
mod reloads;
mod rig;
