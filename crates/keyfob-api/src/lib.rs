//! The words of Kubernetes' two exec credential protocols.
//!
//! Everything here is a value or a pure function: no I/O, no clock, no logging, no global state.

mod secret;

pub use secret::Secret;
