//! `keyfob records`: who may use the images that are here.
//!
//! - `list` tells it; `prune` forgets the images that are gone.
//! - `image_ids`: the images that are there, as container runtimes list them.

mod image_ids;
mod list;
mod prune;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::{Args, Subcommand};
use keyfob_api::Chain;
use keyfob_exec::SystemClock;
use keyfob_images::{PullRecords, RecordsError, RecordsOptions, RecordsReader};
use thiserror::Error;

pub(crate) use self::list::short_id;
use crate::{Outcome, Verdict, match_images::shown, pull};

#[derive(Debug, Args)]
pub(crate) struct RecordsCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Tell who may use which image, and which pulls have not ended.
    List(list::ListArgs),
    /// Forget who may use images that are gone.
    Prune(prune::PruneArgs),
}

pub(crate) fn run(command: &RecordsCommand) -> Outcome {
    match &command.command {
        Command::List(args) => list::run(args),
        Command::Prune(args) => prune::run(args),
    }
}

/// Where records are.
#[derive(Debug, Args)]
struct PlaceArgs {
    /// The OCI image layout that was pulled into [default: ./oci].
    dest: Option<PathBuf>,
    /// A kubelet's root directory, such as /var/lib/kubelet, or whatever --records-dir was at the pull.
    #[arg(long, value_name = "DIR")]
    records_dir: Option<PathBuf>,
}

impl PlaceArgs {
    /// The layout; nothing if none is given and the records are elsewhere.
    fn layout(&self) -> Option<&Path> {
        let default = self.records_dir.is_none().then_some(Path::new(pull::DEST));
        self.dest.as_deref().or(default)
    }

    fn root(&self) -> &Path {
        let given = self.records_dir.as_deref().or(self.dest.as_deref());
        given.unwrap_or(Path::new(pull::DEST))
    }

    /// The records that are there, to look at them.
    fn read(&self) -> Result<RecordsReader, NoRecords> {
        let root = self.root();
        RecordsReader::open(root)?.ok_or_else(|| NoRecords::None(root.to_owned()))
    }

    /// The records that are there, to change them: none are made.
    fn open(&self, beside_running_kubelet: bool) -> Result<PullRecords, NoRecords> {
        self.read()?;
        let mut options = RecordsOptions::default();
        (options.memory, options.beside_running_kubelet) = (None, beside_running_kubelet);
        Ok(PullRecords::open(self.root(), options, Arc::new(SystemClock))?)
    }
}

/// Why there is nothing to tell.
#[derive(Debug, Error)]
enum NoRecords {
    #[error(
        "no records in {}: nothing was pulled there, or with --no-records; a kubelet has them in its root directory",
        shown(&.0.to_string_lossy())
    )]
    None(PathBuf),
    #[error(transparent)]
    KubeletRuns(RecordsError),
    #[error("the records cannot be used")]
    Unusable(#[source] RecordsError),
}

impl From<RecordsError> for NoRecords {
    fn from(error: RecordsError) -> Self {
        match error {
            RecordsError::KubeletRuns { .. } => Self::KubeletRuns(error),
            error => Self::Unusable(error),
        }
    }
}

impl From<NoRecords> for Outcome {
    fn from(error: NoRecords) -> Self {
        let mut stderr = format!("keyfob: {}\n", Chain(&error));
        let verdict = match error {
            NoRecords::None(_) => Verdict::Nothing,
            NoRecords::KubeletRuns(_) => {
                stderr += "keyfob: nothing was forgotten: stop the kubelet first, or give --beside-running-kubelet\n";
                Verdict::WrongInput
            }
            NoRecords::Unusable(_) => Verdict::No,
        };
        Self { stderr, verdict, ..Self::default() }
    }
}

/// What a kubelet and we pass over, line by line.
fn complaints(errors: &[RecordsError]) -> String {
    let line = |error: &RecordsError| format!("keyfob: {}\n", Chain(error));
    errors.iter().map(line).collect()
}
