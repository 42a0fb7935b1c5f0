//! Which intents are of pulls that are under way.
//!
//! A process has a shared lock on the intent of each pull it has in flight. The system takes it away when the process dies, so
//! that an intent without a lock is of pulls that nobody will finish. How many pulls share an intent, and whether there ever were
//! several, stands in its time, which means nothing to a kubelet: if one of them died, whoever ends the last one sees that it is
//! not the last.
//!
//! Every function wants the [`WriteLock`] to be held; only death does not ask for it.
//!
//! [`WriteLock`]: super::lock::WriteLock

use std::{
    collections::HashMap,
    fs::{File, TryLockError},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{RecordsError, folder::Folder, store::RecordMark, wire};

/// The intents of this process.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<HashMap<String, Claim>>);

#[derive(Clone, Debug)]
struct Claim {
    file: Arc<File>,
    /// Of this process.
    pulls: u64,
}

impl Claims {
    /// Whether this process has a pull of an image in flight.
    pub(super) fn has(&self, image: &str) -> bool {
        self.claims().contains_key(image)
    }

    /// One pull more: its intent is in the folder, with a lock of ours on it.
    pub(super) fn claim(&self, folder: &Folder, image: &str) -> Result<RecordMark, RecordsError> {
        let ours = self.claim_on(image);
        let file = match &ours {
            Some(Claim { file, .. }) if folder.has(image, file) => {
                add_pull(file).map_err(RecordsError::io("claim", folder.path_of(image)))?;
                file.clone()
            }
            // Or somebody deleted it who knows no locks.
            _ => shared(folder, image)?.into(),
        };
        let pulls = ours.map_or(0, |claim| claim.pulls) + 1;
        self.claims().insert(image.to_owned(), Claim { file, pulls });
        Ok(folder.mark(image))
    }

    /// One pull less. An intent goes with its last pull, unless another one died: then it stays for whoever looks what that
    /// brought. One that this process has no pull of goes if nobody has.
    pub(super) fn release(&self, folder: &Folder, image: &str) -> Result<(), RecordsError> {
        let failed = RecordsError::io("release", folder.path_of(image));
        let Some(Claim { file, pulls }) = self.claim_on(image) else {
            return match folder.open(image)? {
                Some(file) if is_free(&file).map_err(failed)? => folder.remove(image),
                _ => Ok(()),
            };
        };
        // One that somebody put in its place is theirs.
        let is_there = folder.has(image, &file);
        if pulls > 1 {
            self.claims().insert(image.to_owned(), Claim { file: file.clone(), pulls: pulls - 1 });
            return if is_there { end_pull(&file).map_err(failed) } else { Ok(()) };
        }
        self.claims().remove(image);
        let is_last = is_there && is_last(&file).map_err(failed)?;
        if is_last { folder.remove(image) } else { Ok(()) }
    }

    /// No lock is held while files are waited for: only who has the [`WriteLock`] changes a claim.
    ///
    /// [`WriteLock`]: super::lock::WriteLock
    fn claim_on(&self, image: &str) -> Option<Claim> {
        self.claims().get(image).cloned()
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<String, Claim>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holders {
    /// Somebody's pull is in flight.
    Alive,
    /// Nobody's is any more.
    Dead {
        /// Whether there may have been several: of one tag, they may have brought different images.
        were_several: bool,
        /// When a kubelet wrote the intent; nothing if it is one of ours.
        written_by_kubelet: Option<SystemTime>,
    },
}

pub(super) fn holders(folder: &Folder, image: &str) -> Result<Holders, RecordsError> {
    let failed = || RecordsError::io("look at", folder.path_of(image));
    match folder.open(image)? {
        Some(file) if !is_free(&file).map_err(failed())? => Ok(Holders::Alive),
        Some(file) => {
            let Pulls { in_flight, were_several } = Pulls::of(&file).map_err(failed())?;
            Ok(Holders::Dead {
                were_several: were_several || in_flight > 1,
                written_by_kubelet: Pulls::written_by_kubelet(&file).map_err(failed())?,
            })
        }
        None => Ok(Holders::Dead { were_several: false, written_by_kubelet: None }),
    }
}

/// An intent that another process has in flight is shared with it: to replace it would take away its lock. Any other is
/// replaced, so that whoever saw it before sees that it is another.
fn shared(folder: &Folder, image: &str) -> Result<File, RecordsError> {
    let failed = || RecordsError::io("claim", folder.path_of(image));
    match folder.open(image)? {
        Some(file) if !is_free(&file).map_err(failed())? => {
            let joined = add_pull(&file).and_then(|()| Ok(file.try_lock_shared()?));
            joined.map(|()| file).map_err(failed())
        }
        _ => folder.write(image, &wire::encode_intent(image), |file| {
            file.try_lock_shared()?;
            Pulls::ONE.note(file)
        }),
    }
}

/// Remembers that there is another intent for the same image.
pub(super) fn note_another(folder: &Folder, image: &str) -> Result<(), RecordsError> {
    let failed = RecordsError::io("claim", folder.path_of(image));
    match folder.open(image)? {
        Some(file) => Pulls::of(&file)
            .and_then(|pulls| Pulls { were_several: true, ..pulls }.note(&file))
            .map_err(failed),
        None => Ok(()),
    }
}

/// Whether the pull that ends is the last there was, and none of the others died.
fn is_last(file: &File) -> io::Result<bool> {
    if is_free(file)? {
        return Ok(Pulls::of(file)?.in_flight <= 1);
    }
    end_pull(file)?;
    Ok(false)
}

/// Whether nobody else has a lock; then this file has one that nobody can share.
fn is_free(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn add_pull(file: &File) -> io::Result<()> {
    let Pulls { in_flight, .. } = Pulls::of(file)?;
    Pulls { in_flight: in_flight + 1, were_several: true }.note(file)
}

fn end_pull(file: &File) -> io::Result<()> {
    let pulls = Pulls::of(file)?;
    Pulls { in_flight: pulls.in_flight.saturating_sub(1), ..pulls }.note(file)
}

/// The pulls of an intent, in all processes.
#[derive(Clone, Copy, Debug)]
struct Pulls {
    /// Those that have not ended, dead ones too.
    in_flight: u64,
    /// Whether there were several at a time: one may have taken the tag from the image of another.
    were_several: bool,
}

impl Pulls {
    const ONE: Self = Self { in_flight: 1, were_several: false };
    /// More than are ever in flight.
    const SEVERAL: u64 = 1 << 16;

    /// When the intent was written, if a kubelet wrote it: ours have other times.
    fn written_by_kubelet(file: &File) -> io::Result<Option<SystemTime>> {
        let modified = file.metadata()?.modified()?;
        let ours = UNIX_EPOCH + Duration::from_secs(2 * Self::SEVERAL);
        Ok((modified >= ours).then_some(modified))
    }

    /// A kubelet's intent has the time at which it was written, and counts for one.
    fn of(file: &File) -> io::Result<Self> {
        let modified = file.metadata()?.modified()?;
        let seconds = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok(match seconds / Self::SEVERAL {
            0 => Self { in_flight: seconds, were_several: false },
            1 => Self { in_flight: seconds - Self::SEVERAL, were_several: true },
            _ => Self::ONE,
        })
    }

    fn note(self, file: &File) -> io::Result<()> {
        let several = if self.were_several { Self::SEVERAL } else { 0 };
        file.set_modified(UNIX_EPOCH + Duration::from_secs(self.in_flight + several))?;
        file.sync_all()
    }
}
