#![doc = include_str!("../README.md")]
//!
//! # The main types
//!
//! - [`Caller`]: a process that asks, as far as the kernel vouches for it. The module documentation of `caller` says what is proved.
//! - [`NodePods`]: the pods of this node, by the uid that a process's cgroup names.
//!
//! Attacks on it, with real processes, are the `attestation` tests of `keyfob-agent`: they need an agent too.

mod caller;
mod pods;

pub use caller::{
    AttestError, Attestation, Caller, CallerPlace, ContainerEvidence, Executable, HostReference,
};
#[cfg(feature = "kube")]
pub use pods::KubernetesPods;
pub use pods::{NoPods, NodePod, NodePods, PodsUnavailable};
