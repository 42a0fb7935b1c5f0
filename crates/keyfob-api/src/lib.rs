//! The words of Kubernetes' two exec credential protocols.
//!
//! Everything here is a value or a pure function: no I/O, no clock, no logging, no global state.

mod glob;
mod go_quote;
mod go_url;
mod image;
mod pattern;
mod secret;

pub use image::{ImageError, ImageFault, ImageRef};
pub use pattern::{LabelPattern, MatchPattern, MatchTarget, Mismatch, NeverMatches, PatternError};
pub use secret::Secret;
