#![doc = include_str!("../README.md")]
//!
//! # Modules and main types
//!
//! - [`tls`]: trusts servers by certificates that somebody named.
//! - `Clients` (feature `client`): HTTP clients that load certificates and proxies when they are first needed.
//! - `ConnectionError`: why there is no answer, without any text that may hold a secret.
//! - `Patience`: when to send a request again.
//! - `json`: reads an answer without quoting it in an error.
//! - `api_server` (feature `kube`): requests to a Kubernetes API server, and what can be said of those that fail.
//! - `named`, `complaint`: what was asked, and what a server says is wrong.
//! - `server` (feature `server`): the HTTP server of every listening command, with its limits.

#[cfg(feature = "kube")]
pub mod api_server;
#[cfg(feature = "client")]
mod clients;
#[cfg(feature = "client")]
mod complaint;
#[cfg(feature = "client")]
mod error;
#[cfg(any(feature = "client", feature = "kube"))]
mod json;
#[cfg(feature = "client")]
mod naming;
#[cfg(feature = "client")]
mod patience;
#[cfg(feature = "client")]
mod proxy;
#[cfg(feature = "client")]
mod roots;
#[cfg(feature = "server")]
pub mod server;
pub mod tls;

#[cfg(feature = "client")]
pub use clients::{Clients, ClientsBuilder};
#[cfg(feature = "client")]
pub use complaint::complaint;
#[cfg(feature = "client")]
pub use error::{ConnectionError, RootsError};
#[cfg(any(feature = "client", feature = "kube"))]
pub use json::{NotTheJson, json};
#[cfg(feature = "client")]
pub use naming::named;
#[cfg(feature = "client")]
pub use patience::{Patience, may_pass, retry_after};
