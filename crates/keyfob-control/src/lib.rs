//! Which audiences a node may ask for, and who decides.
//!
//! - [`rule`]: the rule, pure; [`facts`]: where it learns what it must know.
//! - [`objects`]: a cluster's objects in memory, read from YAML; [`rbac`] and [`node_authorizer`] say what they allow.
//! - [`grant`]: the role that would allow it.
//! - `webhook` (feature `server`): the rule as a validating admission webhook; `server`: HTTPS with certificates that are reloaded.
//!
//! Whoever only wants a decision needs no feature. The feature `kube` adds `facts::Cluster`, which asks a live cluster.

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
