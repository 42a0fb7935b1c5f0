//! How Keyfob reaches other hosts over HTTP: the one place where a client is put together.
//!
//! - [`Clients`]: whom to trust, which way to go, and nothing loaded before it is needed.
//! - [`ConnectionError`]: why there is no answer, without a word that may be a secret.
//! - [`Patience`]: when to ask again.
//! - [`json`]: an answer that is read, and never quoted.
//! - `server` (feature `server`): the HTTP server that every listening command uses, with its limits.
//! - [`named`], [`complaint`]: what was asked, and what a server says is wrong.
//!
//! What is sent, and how answers are bounded, is up to the crates above: plugins ask for small documents inside a deadline,
//! a pull takes as long as its layers need.

mod clients;
mod complaint;
mod error;
mod json;
mod naming;
mod patience;
mod proxy;
mod roots;
#[cfg(feature = "server")]
pub mod server;

pub use clients::{Clients, ClientsBuilder};
pub use complaint::complaint;
pub use error::ConnectionError;
pub use json::{NotTheJson, json};
pub use naming::named;
pub use patience::{Patience, may_pass, retry_after};
