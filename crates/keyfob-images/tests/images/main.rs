//! What an image manager does for pods: with a service, a ledger and credentials that do what they are told.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

mod attempts;
mod crowds;
mod ensuring;
mod giving_up;
#[cfg(feature = "host")]
mod hosts;
mod kit;
