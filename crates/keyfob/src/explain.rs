//! `keyfob explain`: why a pull gets the credentials it gets, or none.
//!
//! - `report`: what is told, in a stable shape; `gather` fills it from what was asked.
//! - `advice`: what to do about each problem; `nearest`: the pattern that almost matched.
//! - `identity`: as whom providers were asked, or why as nobody; `records`: who has proved access before.
//! - `command`: what is run, without its secrets; `verdict`: the answer in a sentence.
//! - `text`: the report for people.

mod advice;
pub(crate) mod command;
mod gather;
mod identity;
pub(crate) mod nearest;
mod records;
mod report;
mod text;
mod verdict;

use std::path::PathBuf;

use clap::Args;
use keyfob_api::{Chain, ImageError, ImageRef};
use keyfob_images::RecordsError;

use self::records::Recorded;
use crate::{Outcome, Verdict, cli::Output, host_args::SourceArgs};

#[derive(Debug, Args)]
#[command(
    after_help = "Every provider that matches is asked, once. No password and no value of a variable \
                  is printed; of arguments, what looks like a secret is hidden. Of a service account's token what it \
                  claims is told, unverified, and not the token.\n\n\
                  JSON: a provider that is asked as a service account has an \"identity\": \
                  {\"serviceAccount\",\"uid\",\"audience\",\"annotations\",\"claims\":{\"issuer\",\"subject\",\"audiences\",\"pod\",\"node\"},\
                  \"expires\",\"for\",\"grant\":{\"clause\",\"verb\",\"yaml\"}}, where grant is the role that is missing, and one that has \
                  tokenAttributes has \"globalAnswers\":{\"allowed\",\"reason\"}. Beside the \
                  providers stand \"tokenRequests\":[{\"audience\",\"user\",\"groups\",\"node\",\"nodeMay\",\"finding\"}]: as whom \
                  tokens are requested, and whether the pod's node may, which is null if that could not be checked; and with --records-dir \
                  \"records\":[{\"imageId\",\"for\"}]. If the agent was asked: \"agent\":{\"socket\",\"rule\",\"error\",\"help\"}, and \"rules\", \
                  what `keyfob agent explain -o json` prints.\n\n\
                  Exit codes: 0 there are credentials, 1 every provider that matches failed, or the agent denies, 2 the \
                  image or the configuration is wrong, or the agent cannot be reached, 3 there are no credentials, 4 the answer could not be written, 130 it was \
                  stopped by a signal."
)]
pub(crate) struct ExplainArgs {
    /// An image as in a pod: `nginx`, `registry.example:5000/team/app:v1`.
    image: String,
    /// How to print: for people (`table`), or the same facts as one JSON object (`json`).
    #[arg(short, long, value_enum, default_value_t, hide_possible_values = true)]
    output: Output,
    /// Also say who has proved access to the image, by the records in this directory: a layout of `keyfob pull`, or a
    /// kubelet's root directory. They are only read.
    #[arg(long, value_name = "DIR")]
    records_dir: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArgs,
}

pub(crate) fn run(args: &ExplainArgs) -> Outcome {
    let image = match ImageRef::parse(&args.image) {
        Ok(image) => image,
        Err(error) => return unnameable(&error),
    };
    let recorded = match args.records_dir.as_deref().map(Recorded::open).transpose() {
        Ok(recorded) => recorded,
        Err(error) => return unreadable(&error),
    };
    let sources = match args.sources.open() {
        Ok(sources) => sources,
        Err(error) => return error.into(),
    };
    let found = match sources.find(&image) {
        Ok(found) => found,
        Err(error) => return error.into(),
    };
    let mut report = gather::report(&args.image, &image, &sources, &found, recorded.as_ref());
    report.rules = match sources.explain_agent(&image) {
        Ok(rules) => rules,
        Err(error) => return error.into(),
    };
    let stdout = match args.output {
        Output::Table => text::print(&report),
        Output::Json => crate::page::json(&report),
    };
    Outcome { stdout, verdict: found.verdict(), ..Outcome::default() }
}

/// Records that cannot be looked at.
fn unreadable(error: &RecordsError) -> Outcome {
    let stderr = format!(
        "keyfob: the records cannot be read: {}\nkeyfob: correct --records-dir, or run this as their owner\n",
        Chain(error)
    );
    Outcome { stderr, verdict: Verdict::WrongInput, ..Outcome::default() }
}

/// A name that is none.
pub(crate) fn unnameable(error: &ImageError) -> Outcome {
    let mut outcome = Outcome::wrong_input(error);
    outcome.stderr += "keyfob: a kubelet would not even try to pull it (InvalidImageName): write REGISTRY/PATH:TAG, with \
                       the path in lower case\n";
    outcome
}
