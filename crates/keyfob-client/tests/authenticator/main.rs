//! An authenticator and its layer, with plugins that are functions or real processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

mod concurrency;
mod environment;
mod layer;
mod metrics;
mod misbehaviour;
mod pauses;
mod sharing;
mod support;
mod using;
mod v1alpha1;
