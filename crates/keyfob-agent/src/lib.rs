#![doc = include_str!("../README.md")]
//!
//! # The main types
//!
//! - `AgentBuilder`, `Agent` and `Sockets` (feature `agent`): an agent, and where it listens. Its file is an `AgentConfig` of
//!   `keyfob-agent-config`, and its callers are `Caller`s of `keyfob-caller`.
//! - `AgentClient` (feature `client`): asks an agent.
//! - `ErrorCode` (feature `agent`): why a caller gets nothing.

#[cfg(feature = "agent")]
mod access;
#[cfg(feature = "agent")]
mod agent;
#[cfg(feature = "agent")]
mod audit;
#[cfg(feature = "agent")]
mod cached_logins;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "agent")]
mod error;
#[cfg(feature = "agent")]
mod metrics;
#[cfg(feature = "agent")]
mod rate_limit;
#[cfg(feature = "agent")]
mod repository;
#[cfg(feature = "agent")]
mod server;
#[cfg(feature = "agent")]
mod sockets;
#[cfg(feature = "agent")]
mod spans;
#[cfg(feature = "agent")]
mod status;
#[cfg(feature = "agent")]
mod warm;
#[cfg(feature = "agent")]
mod watch_files;

#[cfg(feature = "agent")]
pub use agent::{Agent, AgentBuilder, AgentError};
#[cfg(feature = "client")]
pub use client::{AgentClient, AgentClientError, AgentCredential, AgentCredentials};
#[cfg(feature = "agent")]
pub use error::ErrorCode;
#[cfg(feature = "agent")]
pub use sockets::{HttpListener, InheritedSockets, SocketError, Sockets};
#[cfg(feature = "agent")]
pub use status::relative_time;
