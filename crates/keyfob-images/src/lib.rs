#![doc = include_str!("../README.md")]
//!
//! # The main types
//!
//! - [`ImageManager`]: ensures that an image is here for a pod, with an [`ImageService`] that has the images.
//! - [`PullRecords`]: who may use the images that are here (KEP-2535).
//! - [`PullCredentials`]: what to try for a pull; `HostCredentials` (feature `host`) asks a host, [`Mirrors`] adds mirrors.
//! - With the feature `oci`, the puller of `keyfob-oci` is an [`ImageService`], whose images are in an OCI image layout.

mod images;
mod records;

pub use images::{
    Attempt, CredentialLookupError, EnsureError, EnsureReason, Ensured, EventReason, FailedAttempt,
    ImageEvent, ImageManager, ImageManagerBuilder, ImageOptions, ImageService, ImageServiceError,
    ImageSpec, LocalImage, MirrorError, Mirrors, Parallelism, PullCredentials, PullFailure,
    PullFailureKind, PullLedger, PullPolicy, PullProgress, PullRate, Pulled, UnknownPullPolicy,
    UsedLogin, Wanted,
};
#[cfg(feature = "host")]
pub use images::{HostCredentials, PlaceAnswer};
pub use records::{
    Abandoned, Allowlist, AllowlistError, DecodeError, ImageNameError, InvalidVerificationSetting,
    LockStripes, Marked, MemorySizes, MustPull, PodCredentials, PullAccess, PullRecords,
    PulledRecord, RecordList, RecordMark, RecordMemory, RecordStore, Recorded, RecordsError,
    RecordsOptions, RecordsReader, RunningKubelet, SecretAccess, VerificationPolicy,
    VerificationSettings, VerificationSettingsError, recorded_name,
};
