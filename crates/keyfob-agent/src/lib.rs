#![doc = include_str!("../README.md")]
//!
//! # The main types
//!
//! - [`AgentBuilder`], [`Agent`] and [`Sockets`]: an agent, and where it listens. Its file is an
//!   [`AgentConfig`](keyfob_agent_config::AgentConfig), and its callers are [`Caller`](keyfob_caller::Caller)s.
//! - [`AgentClient`]: asks an agent.
//! - [`ErrorCode`]: why a caller gets nothing.

mod access;
mod agent;
mod audit;
mod cached_logins;
mod client;
mod error;
mod metrics;
mod rate_limit;
mod repository;
mod server;
mod sockets;
mod spans;
mod status;
mod warm;
mod watch_files;

pub use agent::{Agent, AgentBuilder, AgentError};
pub use client::{AgentClient, AgentClientError, AgentCredential, AgentCredentials};
pub use error::ErrorCode;
pub use sockets::{HttpListener, InheritedSockets, SocketError, Sockets};
