//! Bars on a terminal, one for each blob that is on its way.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use keyfob_oci::Digest;

const TEMPLATE: &str = "{msg:42} [{bar:30}] {bytes}/{total_bytes}  {bytes_per_sec}  {eta}";

/// The bars of one pull.
#[derive(Debug)]
pub(super) struct Bars {
    all: MultiProgress,
    by_blob: Mutex<HashMap<Digest, ProgressBar>>,
}

impl Bars {
    /// Nothing if stderr is no terminal.
    pub(super) fn on_stderr() -> Option<Self> {
        let all = MultiProgress::new();
        (!all.is_hidden()).then(|| Self { all, by_blob: Mutex::default() })
    }

    pub(super) fn say(&self, line: &str) {
        // There is nowhere else to say it.
        self.all.println(line).unwrap_or_default();
    }

    pub(super) fn start(&self, blob: &Digest, name: String, size: u64, here: u64) {
        let style = ProgressStyle::with_template(TEMPLATE);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ");
        let bar = ProgressBar::new(size).with_style(style).with_message(name).with_position(here);
        // How fast it is does not count what was here.
        bar.reset_eta();
        // Of an attempt that failed, a bar may be left.
        if let Some(old) = self.lock().insert(blob.clone(), self.all.add(bar)) {
            old.finish_and_clear();
        }
    }

    pub(super) fn advance(&self, blob: &Digest, bytes: u64) {
        if let Some(bar) = self.lock().get(blob) {
            bar.inc(bytes);
        }
    }

    pub(super) fn restart(&self, blob: &Digest) {
        if let Some(bar) = self.lock().get(blob) {
            bar.set_position(0);
        }
    }

    pub(super) fn finish(&self, blob: &Digest) {
        if let Some(bar) = self.lock().remove(blob) {
            bar.finish_and_clear();
        }
    }

    /// Leaves no bar behind.
    pub(super) fn close(&self) {
        for (_, bar) in self.lock().drain() {
            bar.finish_and_clear();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, ProgressBar>> {
        self.by_blob.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
