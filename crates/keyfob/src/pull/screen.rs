//! What people see on stderr while an image is pulled.

use std::{
    collections::HashMap,
    io::{self, Write as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use indicatif::HumanBytes;
use keyfob_api::Quoted;
use keyfob_exec::{Clock as _, SystemClock, printable, shortened};
use keyfob_images::{Attempt, PullFailureKind, PullProgress};
use keyfob_oci::{Blob, BlobKind, Digest, Progress, PullError};

use super::bars::Bars;

/// Bars, lines or nothing. Clones are the same screen.
#[derive(Clone, Debug)]
pub(super) struct Screen(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    how: How,
    blobs: Mutex<HashMap<Digest, State>>,
}

#[derive(Debug)]
enum How {
    Quiet,
    Lines,
    Bars(Bars),
}

/// What a blob is at.
#[derive(Clone, Copy, Debug)]
enum State {
    /// It is on its way since then. So much has come, so much of it before it was last taken up again.
    Begun { at: SystemTime, come: u64, resumed: u64 },
    /// It is here, and that was said.
    Told,
}

impl Screen {
    /// Bars on a terminal, unless the log is written there too.
    pub(super) fn choose(is_quiet: bool, is_logged: bool) -> Self {
        let how = match Bars::on_stderr() {
            _ if is_quiet => How::Quiet,
            Some(bars) if !is_logged => How::Bars(bars),
            _ => How::Lines,
        };
        Self(Arc::new(Inner { how, blobs: Mutex::default() }))
    }

    /// Says something, above the bars if there are any. What strangers wrote cannot steer the terminal.
    pub(super) fn say(&self, line: &str) {
        match &self.0.how {
            How::Quiet => {}
            How::Lines => {
                let line = printable(&format!("{line}\n"));
                // There is nowhere else to say it.
                io::stderr().write_all(line.as_bytes()).unwrap_or_default();
            }
            How::Bars(bars) => bars.say(&printable(line)),
        }
    }

    /// Says which attempt is made, and how it failed.
    pub(super) fn show(&self, progress: PullProgress<'_>) {
        match progress {
            PullProgress::AccessNotProved => {
                self.say("it is here, and whoever pulls has not proved that it may be used");
            }
            PullProgress::AttemptBegins(attempt) => {
                self.say(&format!("pulling {}", described(attempt)));
            }
            PullProgress::AttemptFailed(failed) => {
                self.say(&format!("{}: {}", verb(failed.kind), failed.message));
            }
            _ => {}
        }
    }

    /// Nothing is drawn any more.
    pub(super) fn close(&self) {
        if let Some(bars) = self.bars() {
            bars.close();
        }
    }

    fn bars(&self) -> Option<&Bars> {
        match &self.0.how {
            How::Bars(bars) => Some(bars),
            How::Quiet | How::Lines => None,
        }
    }

    fn blobs(&self) -> MutexGuard<'_, HashMap<Digest, State>> {
        self.0.blobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Screen {
    fn resolved(&self, manifest: &Digest, blobs: &[Blob]) {
        let size = blobs.iter().fold(0, |sum: u64, blob| sum.saturating_add(blob.size));
        let (manifest, size) = (short(manifest), HumanBytes(size));
        self.say(&format!("manifest {manifest}: {} blobs, {size}", blobs.len()));
    }

    /// What one attempt brought, the next one finds here.
    fn skipped(&self, blob: &Blob) {
        let before = self.blobs().insert(blob.digest.clone(), State::Told);
        if !matches!(before, Some(State::Told)) {
            self.say(&format!("{}: already here", named(blob)));
        }
    }

    fn started(&self, blob: &Blob, here: u64) {
        let begun = State::Begun { at: SystemClock.now(), come: here, resumed: here };
        self.blobs().insert(blob.digest.clone(), begun);
        if let Some(bars) = self.bars() {
            bars.start(&blob.digest, named(blob), blob.size, here);
        }
    }

    fn advanced(&self, blob: &Blob, bytes: u64) {
        if let Some(State::Begun { come, .. }) = self.blobs().get_mut(&blob.digest) {
            *come = come.saturating_add(bytes);
        }
        if let Some(bars) = self.bars() {
            bars.advance(&blob.digest, bytes);
        }
    }

    fn retried(&self, blob: &Blob, error: &PullError, pause: Duration) {
        let mut so_far = 0;
        if let Some(State::Begun { come, resumed, .. }) = self.blobs().get_mut(&blob.digest) {
            (*resumed, so_far) = (*come, *come);
        }
        let pause = seconds(pause);
        let next = match so_far {
            0 => format!("again in {pause}"),
            so_far => format!("to be resumed at {} in {pause}", HumanBytes(so_far)),
        };
        self.say(&format!("{}: {error}; {next}", named(blob)));
    }

    fn restarted(&self, blob: &Blob) {
        if let Some(State::Begun { come, resumed, .. }) = self.blobs().get_mut(&blob.digest) {
            (*come, *resumed) = (0, 0);
        }
        if let Some(bars) = self.bars() {
            bars.restart(&blob.digest);
        }
    }

    fn finished(&self, blob: &Blob) {
        if let Some(bars) = self.bars() {
            bars.finish(&blob.digest);
        }
        let before = self.blobs().insert(blob.digest.clone(), State::Told);
        let Some(State::Begun { at, resumed, .. }) = before else { return };
        let took = seconds(SystemClock.now().duration_since(at).unwrap_or_default());
        let how = match resumed {
            0 => format!("fetched in {took}"),
            resumed => format!("resumed at {}, fetched in {took}", HumanBytes(resumed)),
        };
        self.say(&format!("{}: {how}", named(blob)));
    }
}

/// How an attempt failed, in a word.
pub(super) fn verb(kind: PullFailureKind) -> &'static str {
    match kind {
        PullFailureKind::Refused => "refused",
        PullFailureKind::RegistryUnavailable => "unavailable",
        _ => "failed",
    }
}

/// From where, and with what.
fn described(Attempt { from, credential }: &Attempt) -> String {
    match credential {
        None => format!("{from} without credentials"),
        Some(login) => {
            let (source, username) = (login.source(), shortened(login.username(), 64));
            format!("{from} with {source} as {}", Quoted(username))
        }
    }
}

fn named(Blob { kind, digest, size, .. }: &Blob) -> String {
    let kind = match kind {
        BlobKind::Config => "config",
        _ => "layer",
    };
    format!("{kind} {} {}", short(digest), HumanBytes(*size))
}

/// As much as people compare.
pub(super) fn short(digest: &Digest) -> String {
    let hex: String = digest.hex().chars().take(12).collect();
    format!("{}:{hex}", digest.algorithm())
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
