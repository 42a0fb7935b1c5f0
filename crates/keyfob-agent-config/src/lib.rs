#![doc = include_str!("../README.md")]
//!
//! # The main types
//!
//! - [`AgentConfig`]: the agent's file, read and checked. [`AgentConfigError`] lists everything that is wrong with it.
//! - [`AccessRule`], [`Subject`] and [`decide`]: who may request what.

mod config;
mod rules;
mod users;

pub use config::{
    AGENT_API_VERSION, AGENT_KIND, AgentConfig, AgentConfigError, AgentConfigProblem, AgentLimits,
    AuditConfig, ClusterConfig, SocketConfig, StatusDetail, WarmConfig, agent_config_schema,
};
pub use rules::{
    AccessRule, Action, CallerSelector, Group, HostSubject, Precaution, Program, RuleMismatch,
    ServiceAccountName, Subject, User, decide, may_be_allowed, may_be_asked_as_node,
};
pub use users::{group_id, user_id};
