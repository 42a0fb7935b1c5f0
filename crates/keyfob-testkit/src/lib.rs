#![doc = include_str!("../README.md")]
//!
//! # The main types
//!
//! - [`ManualClock`], [`MapEnvironment`], [`FakeRunner`]: a clock, an environment and a runner that tests control.
//! - [`Script`] and [`scripted_plugin`]: a real process that does what it is told, however bad.
//! - `Internet`: every other host, with certificates; `TlsServer`: one that asks its clients for theirs.
//! - `HostileClient`: idle, slow and silent connections from any loopback address, to try to lock others out of a server.
//! - [`LogCapture`] and [`LeakCheck`]: show that no secret of a test got out, in any encoding.
//! - [`echoes`]: a secret as a hostile server or program may repeat it; `EchoAt`: a server that does.
#![expect(clippy::exhaustive_structs, reason = "never published")]

#[cfg(feature = "internet")]
mod authority;
mod clock;
mod echoes;
mod environment;
#[cfg(feature = "internet")]
mod hostile;
#[cfg(feature = "hostile-clients")]
mod hostile_clients;
#[cfg(feature = "internet")]
mod internet;
mod leaks;
mod logs;
mod plugin;
mod runner;
mod script;
#[cfg(feature = "tls-server")]
mod tls_server;

pub use clock::ManualClock;
pub use echoes::echoes;
pub use environment::MapEnvironment;
#[cfg(feature = "internet")]
pub use hostile::EchoAt;
#[cfg(feature = "hostile-clients")]
pub use hostile_clients::{HostileClient, Stream, closed, raise_file_limit, request_again};
#[cfg(feature = "internet")]
pub use internet::{Internet, Request, Response};
pub use leaks::LeakCheck;
pub use logs::LogCapture;
pub use plugin::{example, scripted_plugin};
pub use runner::FakeRunner;
pub use script::{Script, Step, Witness};
#[cfg(feature = "tls-server")]
pub use tls_server::{ClientCertificates, Reply, TlsServer, Trusts, Visit, self_signed};

/// The README's programs are compiled, and run where they can be.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// So is the program of the guide to identities.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/identity.md")]
struct Identity;

/// So is the client of the page about the agent's API.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/agent-api.md")]
struct AgentApi;
