#![doc = include_str!("../README.md")]
//!
//! # The main types
//!
//! - [`ImageManager`]: ensures that an image is here for a pod, with an [`ImageService`] that has the images.
//! - [`PullRecords`]: who may use the images that are here (KEP-2535).
//! - [`PullCredentials`]: what to try for a pull; [`HostCredentials`] asks a host, [`Mirrors`] adds mirrors.

mod images;
mod records;

pub use images::{
    AbandonedPulls, Access, AccessCheck, Attempt, EnsureError, EnsureReason, Ensured, EventReason,
    FailedAttempt, HostCredentials, ImageEvent, ImageManager, ImageManagerBuilder, ImageOptions,
    ImageService, ImageServiceError, ImageSpec, LocalImage, MirrorError, Mirrors, OpenCheck,
    Parallelism, PlaceAnswer, PullCredentials, PullFailure, PullFailureKind, PullLedger,
    PullPolicy, PullRate, Pulled, Serving, UnknownPullPolicy, UsedLogin, Wanted,
};
pub use records::{
    Abandoned, Allowlist, AllowlistError, DecodeError, ImageNameError, InvalidVerificationSetting,
    LockStripes, Marked, MemorySizes, MustPull, PodCredentials, PullAccess, PullRecords,
    PulledRecord, RecordList, RecordMark, RecordMemory, RecordStore, Recorded, RecordsError,
    RecordsOptions, RecordsReader, RunningKubelet, SecretAccess, VerificationPolicy,
    VerificationSettings, VerificationSettingsError, recorded_name,
};
