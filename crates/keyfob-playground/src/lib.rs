//! Two small servers on loopback, for demos and tests: a registry and an API server.
//!
//! - [`registry`]: a private registry that pushes, pulls, refuses and breaks on demand.
//! - [`embedded`]: an API server that enforces which tokens a node may request.
//!
//! No library of the product depends on this crate.

pub mod embedded;
pub mod registry;
