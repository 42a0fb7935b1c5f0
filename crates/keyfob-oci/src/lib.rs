#![doc = include_str!("../README.md")]
//!
//! # The main types
//!
//! - [`Client`]: asks registries, by the rules of the distribution specification, and trusts nothing they say.
//! - [`Layout`]: a directory of images, which several processes may use and any of them may leave at any moment.
//! - [`Puller`]: pulls from the one into the other. With the feature `oci` of `keyfob-images` it is an image service.
//! - [`Progress`]: is told what a pull is doing.

mod client;
mod digest;
mod download;
mod error;
mod layout;
mod manifest;
mod platform;
mod progress;
mod puller;

pub use client::{Client, ClientBuilder};
pub use digest::{Digest, InvalidDigest};
pub use error::PullError;
pub use keyfob_net::Patience;
pub use layout::{Layout, LayoutError, StoredImage};
use manifest::Descriptor;
pub use manifest::ManifestError;
pub use platform::{InvalidPlatform, Platform};
pub use progress::{Blob, BlobKind, Progress, Silent};
pub use puller::{Puller, PullerBuilder};
