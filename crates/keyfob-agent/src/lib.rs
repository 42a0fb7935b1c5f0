#![doc = include_str!("../README.md")]
//!
//! # The main types
//!
//! - [`AgentConfig`]: the agent's file, read and checked. [`AccessRule`], [`Subject`] and [`decide`]: who may request what.
//! - [`AgentBuilder`], [`Agent`] and [`Sockets`]: an agent, and where it listens.
//! - [`Caller`]: a process that asks, as far as the kernel vouches for it. [`NodePods`]: the pods of this node.
//! - [`AuditEvent`]: a line of the audit log. [`ApiError`]: what a caller is told when it gets nothing.

mod access;
mod agent;
mod audit;
mod cached_logins;
mod caller;
mod client;
mod config;
mod error;
mod metrics;
mod pods;
mod rate_limit;
mod repository;
mod rules;
mod server;
mod sockets;
mod spans;
mod status;
mod users;
mod warm;
mod watch_files;

pub use agent::{Agent, AgentBuilder, AgentError};
pub use audit::{AuditCaller, AuditCredential, AuditEvent, AuditLog, AuditPod, Outcome};
pub use caller::{
    AttestError, Attestation, Caller, CallerPlace, ContainerEvidence, Executable, HostReference,
};
pub use client::{AgentClient, AgentClientError, AgentCredential, AgentCredentials};
pub use config::{
    AGENT_API_VERSION, AGENT_KIND, AgentConfig, AgentConfigError, AgentConfigProblem, AgentLimits,
    AuditConfig, ClusterConfig, SocketConfig, StatusDetail, WarmConfig, agent_config_schema,
};
pub use error::{ApiError, ErrorCode};
#[cfg(feature = "kube")]
pub use pods::KubernetesPods;
pub use pods::{NoPods, NodePod, NodePods, PodsUnavailable};
pub use rules::{
    AccessRule, Action, CallerSelector, Group, HostSubject, Program, RuleMismatch,
    ServiceAccountName, Subject, User, decide,
};
pub use sockets::{HttpListener, InheritedSockets, SocketError, Sockets};
