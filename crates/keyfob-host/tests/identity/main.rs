//! Pulls with the pod's own service account: order, keys, tokens and faults, with service accounts by hand.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "helpers of tests")]

mod asking;
mod cluster;
mod faults;
mod given;
mod sharing;
mod tokens;
