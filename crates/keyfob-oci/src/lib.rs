//! An image from a registry into an OCI image layout.
//!
//! - [`Client`]: asks registries, by the rules of the distribution specification, and trusts nothing they say.
//! - [`Layout`]: a directory of images, which several processes may use and any of them may leave at any moment.
//! - [`Puller`]: brings images from the one into the other. To an image manager of `keyfob-images` it is an `ImageService`, by
//!   that crate's feature `oci`.
//! - [`Progress`]: is told what a pull is at.
//!
//! A program that pulls one image (`examples/pull.rs`):
//!
//! ```no_run
#![doc = include_str!("../examples/pull.rs")]
//! ```
//!
//! What is pulled is verified: a digest is the hash of what came, a size is its size. What is broken off is taken up
//! again by the next attempt or by the next process. What is in the layout already is used only if the repository has it
//! too, for the same login. Layers that a manifest says are elsewhere (base layers of Windows) are left out, as skopeo leaves
//! them out.

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
