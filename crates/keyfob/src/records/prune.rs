//! `keyfob records prune`.

use std::path::{Path, PathBuf};

use clap::Args;
use keyfob_api::Chain;
use keyfob_exec::{Clock as _, SystemClock};
use keyfob_images::PullRecords;
use keyfob_oci::{Layout, LayoutError};
use serde::Serialize;
use thiserror::Error;

use super::{
    PlaceArgs, complaints,
    image_ids::{self, IdsError},
};
use crate::{Outcome, Verdict, cli::Output, match_images::shown};

#[derive(Debug, Args)]
#[command(
    after_help = "An image without a record counts as one that was always there, and by default everybody may use it. So the \
                  images that are there must all be named: those of DEST are looked up; for those of a container runtime write\n\n\
                  \u{20} ctr -n k8s.io images list -q | grep ^sha256: | keyfob records prune --records-dir /var/lib/kubelet --present -\n\n\
                  A record that changed while this ran stays for the next time.\n\
                  JSON: {\"forgotten\":[…],\"kept\":[…],\"stayed\":[…],\"errors\":[…]}: image ids, where kept are those of \
                  images that are there, and stayed those that could not be forgotten yet.\n\
                  Exit codes: 0 done, 1 a file cannot be read, 2 wrong usage, a wrong list or a kubelet that runs, 3 there are no records, 4 the \
                  answer could not be written."
)]
pub(super) struct PruneArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// A file with the ids of all images that are there, one on each line; `-` is stdin.
    #[arg(long, value_name = "FILE")]
    present: Option<PathBuf>,
    /// The id of an image that is there. May be repeated.
    #[arg(long, value_name = "ID")]
    image_id: Vec<String>,
    /// Forget even if a kubelet runs on the directory. What it has in memory it does not forget by that.
    #[arg(long)]
    beside_running_kubelet: bool,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &PruneArgs) -> Outcome {
    let started = SystemClock.now();
    let records = match args.place.open(args.beside_running_kubelet) {
        Ok(records) => records,
        Err(error) => return error.into(),
    };
    let present = match args.present() {
        Ok(present) => present,
        Err(error) => {
            let stderr = format!("keyfob: {}\n", Chain(&error));
            return Outcome { stderr, verdict: Verdict::WrongInput, ..Outcome::default() };
        }
    };
    let before = ids(&records);
    records.prune(&spellings(&present), started);
    let (_, errors) = records.records();
    let pruned = Pruned::new(&before, &ids(&records), &present)
        .with_errors(errors.iter().map(|error| Chain(error).to_string()).collect());
    let verdict = if errors.is_empty() { Verdict::Yes } else { Verdict::No };
    match args.output {
        Output::Json => {
            let stdout = crate::page::json(&pruned);
            Outcome { stdout, verdict, ..Outcome::default() }
        }
        Output::Table => Outcome { stdout: pruned.text(), stderr: complaints(&errors), verdict },
    }
}

impl PruneArgs {
    /// Every image that is there, with its algorithm.
    fn present(&self) -> Result<Vec<String>, NoList> {
        let mut present = match &self.present {
            Some(path) => image_ids::read(path)?,
            None => Vec::new(),
        };
        for id in &self.image_id {
            present.push(image_ids::parse(id)?);
        }
        match self.place.layout() {
            Some(path) => present.extend(images_of(path)?),
            None if present.is_empty() => return Err(NoList::NotGiven),
            None => {}
        }
        Ok(present)
    }
}

fn images_of(path: &Path) -> Result<Vec<String>, LayoutError> {
    let images = Layout::open(path)?.images()?;
    Ok(images.into_iter().map(|image| image.id.to_string()).collect())
}

/// Some container runtimes leave the algorithm out, and so do their records.
fn spellings(ids: &[String]) -> Vec<String> {
    let bare = ids.iter().filter_map(|id| Some(id.strip_prefix("sha256:")?.to_owned()));
    ids.iter().cloned().chain(bare).collect()
}

fn ids(records: &PullRecords) -> Vec<String> {
    records.records().0.iter().map(|record| record.image_ref.clone()).collect()
}

/// The documented answer.
#[derive(Debug, Serialize)]
struct Pruned {
    forgotten: Vec<String>,
    kept: Vec<String>,
    stayed: Vec<String>,
    errors: Vec<String>,
}

impl Pruned {
    fn new(before: &[String], after: &[String], present: &[String]) -> Self {
        let present = spellings(present);
        let gone = before.iter().filter(|id| !after.contains(id));
        let (kept, stayed) = after.iter().cloned().partition(|id| present.contains(id));
        Self { forgotten: gone.cloned().collect(), kept, stayed, errors: Vec::new() }
    }

    fn with_errors(self, errors: Vec<String>) -> Self {
        Self { errors, ..self }
    }

    fn text(&self) -> String {
        let all = [("forgotten", &self.forgotten), ("kept", &self.kept), ("stayed", &self.stayed)];
        let lines = all.into_iter().flat_map(|(what, ids)| {
            ids.iter().map(move |id| format!("{what:<9}  {}\n", shown(id)))
        });
        lines.collect()
    }
}

/// Why nothing is forgotten.
#[derive(Debug, Error)]
enum NoList {
    #[error(
        "which images are there? Name the layout, or give --present FILE or --image-id; nothing was forgotten"
    )]
    NotGiven,
    #[error(transparent)]
    Ids(#[from] IdsError),
    #[error("the images that are there cannot be listed; nothing was forgotten")]
    Layout(#[from] LayoutError),
}
