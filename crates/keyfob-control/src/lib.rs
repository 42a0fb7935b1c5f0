#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! - [`rule`]: the rule, without I/O; [`facts`]: where it gets the objects that it asks for.
//! - [`objects`]: the objects of a cluster in memory, read from YAML; [`rbac`] and [`node_authorizer`]: what they allow.
//! - [`grant`]: the role that would allow a request.
//! - `webhook` and `server` (feature `server`): the rule as a validating admission webhook, and its HTTPS server.

pub mod facts;
pub mod grant;
pub mod node_authorizer;
pub mod objects;
pub mod rbac;
pub mod rule;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod webhook;
