//! The node agent as its users see it: `keyfob serve`, the commands that ask it, and the relay as the kubelet's plugin.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

#[path = "../support/node.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod node;
#[path = "../support/registry.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod registry;

mod commands;
mod faults;
mod files;
mod install;
mod lifecycle;
#[cfg(feature = "otlp")]
mod otlp;
mod pull;
mod running_agent;
mod take_over;
