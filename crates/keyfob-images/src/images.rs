//! Whether an image is here for a pod to use, and pulling it if it is not.
//!
//! - [`ImageManager`]: sees to it. [`Wanted`] says what is wanted, [`Ensured`] and [`EnsureError`] how it ended.
//! - [`ImageService`]: whoever has the images: a container runtime, or a directory.
//! - [`PullCredentials`]: what may be tried, asked for only when it is needed.
//! - [`PullLedger`]: what is remembered of pulls.
//! - [`PullProgress`]: what a pull is at, for whoever watches.
//! - [`Mirrors`]: where else the same images are.
//!
//! Upstream: `pkg/kubelet/images` (1.37).

mod access;
mod backoff;
mod events;
#[cfg(feature = "host")]
mod host_credentials;
mod intent;
mod ledger;
mod limits;
mod lookup;
mod manager;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "images/metrics/disabled.rs"]
mod metrics;
mod mirrors;
#[cfg(feature = "oci")]
mod oci;
mod outcome;
mod service;
mod wanted;

pub use events::{EventReason, ImageEvent, PullProgress};
#[cfg(feature = "host")]
pub use host_credentials::{HostCredentials, PlaceAnswer};
pub use ledger::PullLedger;
pub use limits::{ImageOptions, Parallelism, PullRate};
pub use manager::{ImageManager, ImageManagerBuilder};
pub use mirrors::{MirrorError, Mirrors};
pub use outcome::{EnsureError, EnsureReason, Ensured, FailedAttempt, Pulled, UsedLogin};
pub use service::{
    Attempt, CredentialLookupError, ImageService, ImageServiceError, ImageSpec, LocalImage,
    PullCredentials, PullFailure, PullFailureKind,
};
pub use wanted::{PullPolicy, UnknownPullPolicy, Wanted};
