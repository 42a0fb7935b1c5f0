//! What happens to a wanted image, for whoever watches: a cluster's events, or lines on a terminal.

use std::fmt;

use super::{Attempt, FailedAttempt, Wanted};

/// Something that happened, in a kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageEvent {
    /// What kind of thing.
    pub reason: EventReason,
    /// What exactly. No secret is in it.
    pub message: String,
}

/// Why there is an event. Upstream: `pkg/kubelet/events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventReason {
    /// A pull begins; it may have to wait for others.
    Pulling,
    /// The image is here for the pod to use, pulled or not.
    Pulled,
    /// A pull failed.
    Failed,
    /// Nobody can say whether the image is here, or its name is none.
    InspectFailed,
    /// The image is not here, and may not be pulled.
    ErrImageNeverPull,
    /// A pull failed a while ago and is not tried yet.
    BackOff,
}

impl EventReason {
    /// The name that Kubernetes has for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pulling => "Pulling",
            Self::Pulled => "Pulled",
            Self::Failed => "Failed",
            Self::InspectFailed => "InspectFailed",
            Self::ErrImageNeverPull => "ErrImageNeverPull",
            Self::BackOff => "BackOff",
        }
    }

    /// Whether Kubernetes shows it as a warning.
    pub const fn is_warning(self) -> bool {
        matches!(self, Self::Failed | Self::InspectFailed | Self::ErrImageNeverPull)
    }
}

impl fmt::Display for EventReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a pull is at, for whoever watches it more closely than by its events.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum PullProgress<'a> {
    /// The image is here, but the pod has not proved that it may use it, so it is pulled. Attempts follow.
    AccessNotProved,
    /// An attempt begins.
    AttemptBegins(&'a Attempt),
    /// It failed. Another attempt may follow.
    AttemptFailed(&'a FailedAttempt),
}

/// Who is told.
pub(super) type EventSink = dyn Fn(&Wanted, &ImageEvent) + Send + Sync;

/// Who is told what a pull is at.
pub(super) type ProgressSink = dyn Fn(&Wanted, PullProgress<'_>) + Send + Sync;

/// Where events go if nobody asked for them, as upstream.
pub(super) fn log(wanted: &Wanted, ImageEvent { reason, message }: &ImageEvent) {
    let (image, pod_uid) = (&wanted.image, &wanted.pod_uid);
    if reason.is_warning() {
        tracing::warn!(image, pod_uid, %reason, event = message, "the image cannot be used");
    } else {
        tracing::info!(image, pod_uid, %reason, event = message, "the image's state changed");
    }
}
