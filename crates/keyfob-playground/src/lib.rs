#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! - [`registry`]: the private registry.
//! - [`embedded`]: the API server.

pub mod embedded;
pub mod registry;
