#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! - [`registry`]: the private registry.
//! - [`embedded`]: the API server.
#![expect(
    clippy::exhaustive_structs,
    reason = "servers for demos and tests, whose options callers fill in"
)]

pub mod embedded;
pub mod registry;
