//! Who may use the images that are on a node: intents and records of pulls (KEP-2535).
//!
//! - [`PullRecords`]: an intent before a pull, a record behind it, and what they decide.
//! - [`VerificationPolicy`], [`VerificationSettings`]: whose access is verified, and a kubelet's words for it.
//! - [`RecordStore`], [`RecordMemory`]: where intents and records are kept, and what is in memory of them.
//! - [`RecordsReader`]: the same for whoever only looks; [`RunningKubelet`]: whether a kubelet has the directory.
//!
//! # Why nobody is let in who did not prove access
//!
//! With the default policy an image without any trace of a pull is everybody's. So, from before an image can be here by a pull
//! until it is gone, there is an intent for its name or a record for its id, whoever dies when:
//!
//! - The intent is on disk before the pull begins, the record is on disk before the intent goes. A kill in between leaves the
//!   intent; so does a record that cannot be written. Files are renamed into place and synced, so that none is ever half there.
//! - Who decides looks for the record last. If it finds neither, the intent was gone before the record was looked for, and so
//!   the record was there before that; no lock is needed. What is in memory counts only while the file has not changed.
//! - A pull by tag also gives an image the name of its digest: its intent counts for that name as well.
//!
//! Several processes share a directory. Whoever writes has the lock of a file (`lock`), so that no record loses what another
//! process adds to it. Each pull in flight has a shared lock on its intent (`claims`), which ends with its process:
//!
//! - B ends a pull while A has the same in flight: B does not get the lock for itself alone, and the intent stays for A.
//! - B recovers while A is between image and record: A's intent is locked, and B leaves it alone.
//! - A dies. Its intent is nobody's, and stays until somebody looked whether the image came. The image is recorded then without
//!   anybody's access. The images must have been listed after the intent was seen to be nobody's: in an older list the name may
//!   mean an older image. An intent that was claimed in between is another file, and is left alone.
//! - B wants to pull what A left. The tag may have moved, and then A's image would have no name to be found by: B is refused
//!   until somebody looked.
//! - A dies while B has the same in flight. The intent counts its pulls, so B sees that one is missing, and leaves it. The tag may
//!   have moved between them; so whoever recovers what was ever shared also takes every image of the repository that has no tag
//!   for what they brought.
//! - Images are listed, one is pulled again, then records are pruned by the list. A record of that second stays; and if the pull
//!   had nothing to add to its record, the lock file tells that there was one, and nothing is pruned this time.
//!
//! Whoever has the images must do its part: an image has the tag that it is pulled by as soon as it has any name, and no pull goes
//! on when its process has died.
//!
//! A kubelet on the same directory knows none of these locks. It reads records when it starts, and does not see what is written
//! later: a directory whose kubelet runs is refused (`kubelet`). Whoever writes there all the same must start it again before
//! any pod may use the image.
//!
//! Upstream: `pkg/kubelet/images/pullmanager` (1.37).

mod access;
mod claims;
mod decide;
mod error;
mod files;
mod folder;
mod kubelet;
mod kubelet_config;
mod lock;
mod memory;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "records/metrics/disabled.rs"]
mod metrics;
mod names;
mod policy;
mod pull_records;
mod reader;
mod record;
mod recovery;
mod store;
mod stripes;
mod wire;

pub use access::{PodCredentials, PullAccess, SecretAccess};
pub use decide::{MustPull, Recorded};
pub use error::RecordsError;
pub use kubelet::RunningKubelet;
pub use kubelet_config::{
    InvalidVerificationSetting, VerificationSettings, VerificationSettingsError,
};
pub use memory::{MemorySizes, RecordMemory};
pub use names::{ImageNameError, recorded_name};
pub use policy::{Allowlist, AllowlistError, VerificationPolicy};
pub use pull_records::{PullRecords, RecordsOptions};
pub use reader::RecordsReader;
pub use record::PulledRecord;
pub use recovery::Abandoned;
pub use store::{Marked, RecordList, RecordMark, RecordStore};
pub use stripes::LockStripes;
pub use wire::DecodeError;
