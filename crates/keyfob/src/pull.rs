//! `keyfob pull`: an image into an OCI image layout, as a kubelet would have it pulled.
//!
//! - `registry_args`, `records_args`: the flags about registries, and about who may use what is pulled.
//! - `order`: everything that is opened for a pull, and the pull itself.
//! - `screen`: bars or lines, while it is done; `bars` are the bars.
//! - `report`: the answer, in its documented shape; `failure`: why there is none, and what to do.
//! - `access`: who may use an image, in words.

pub(crate) mod access;
mod bars;
mod failure;
mod order;
mod records_args;
mod registry_args;
mod report;
mod screen;

use std::path::PathBuf;

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use keyfob_api::{Chain, ImageRef};
use keyfob_images::{PullPolicy, RunningKubelet};

use self::{
    failure::Failure,
    order::{NoOrder, Order},
    records_args::RecordsArgs,
    registry_args::RegistryArgs,
    report::Report,
};
use crate::{Outcome, Verdict, cli::Output, explain, host_args::SourceArgs};

/// Where images are put unless told.
pub(crate) const DEST: &str = "./oci";

#[derive(Debug, Args)]
#[command(
    after_help = "Credentials are looked for as by \"keyfob get\", and tried in that order; without any of these flags and \
                  without an agent the pull is anonymous, as it is if an agent that was not named gives nothing. What is here is used only if whoever pulls may use it, as a kubelet has it: who proved \
                  access is recorded below DEST, or in --records-dir. What was broken off is taken up again by the next pull.\n\n\
                  stderr shows what is done: bars on a terminal, else a line for each blob and each attempt. stdout has the \
                  result only. No password is printed.\n\n\
                  JSON: {\"image\",\"name\",\"policy\",\"layout\",\"records\",\"result\":\"pulled\"|\"present\"|\"failed\",\"imageId\",\"digest\",\
                  \"manifest\",\"platform\",\"size\",\"from\",\"source\",\"username\",\"tookMs\",\"note\",\
                  \"attempts\":[{\"from\",\"source\",\"username\",\"result\":\"pulled\"|\"refused\"|\"unavailable\"|\"failed\",\"message\"}],\
                  \"providers\":[{\"provider\",\"repository\",\"result\":\"ran\"|\"cached\"|\"skipped\"|\"failed\",\"message\"}],\
                  \"agent\":{\"socket\",\"rule\",\"error\",\"help\"},\"error\":{\"reason\",\"message\",\"why\",\"advice\"}}, where digest is what the name stood for, manifest the one that \
                  was chosen from it, source where the credential came from, and reason a kubelet's word, or RecordNotWritten for an \
                  image that was pulled and not recorded. Of an error, message is what a pod's owner may see; why and advice \
                  are for whoever runs the node. What there is nothing to say about is null; agent is only there if it was asked.\n\n\
                  Exit codes: 0 the image is here and may be used, 1 the pull failed, 2 the image, a flag or a file is wrong, \
                  3 it is not here and may not be pulled, or there is no such image, 4 the image or its record could not be written, \
                  130 it was stopped by a signal; what has come is kept."
)]
pub(crate) struct PullArgs {
    /// An image as in a pod: `nginx`, `registry.example:5000/team/app:v1`.
    image: String,
    /// The OCI image layout to pull into, a directory that is made if it is not there.
    #[arg(default_value = DEST)]
    dest: PathBuf,
    /// When to pull. Without it as a kubelet does: `Always` for the tag `latest` or none, else `IfNotPresent`.
    #[arg(long, value_name = "POLICY", value_parser = PossibleValuesParser::new(["Always", "IfNotPresent", "Never"]).try_map(|text| text.parse::<PullPolicy>()))]
    pull_policy: Option<PullPolicy>,
    /// Say nothing on stderr but what is wrong.
    #[arg(short, long)]
    quiet: bool,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    records: RecordsArgs,
    #[command(flatten, next_help_heading = "Credentials")]
    sources: SourceArgs,
}

pub(crate) fn run(args: &PullArgs) -> Outcome {
    let image = match ImageRef::parse(&args.image) {
        Ok(image) => image,
        Err(error) => return explain::unnameable(&error),
    };
    let sources = match args.sources.open_any(args.registry.host_options()) {
        Ok(sources) => sources,
        Err(error) => return error.into(),
    };
    let mut outcome = match order::carry_out(args, &sources, image) {
        Ok((order, done)) => {
            let mut outcome = args.print(&order, &done);
            outcome.stderr += &warn_of_kubelet(&order).unwrap_or_default();
            outcome
        }
        Err(error) => error.into(),
    };
    outcome.stderr += &sources.warnings();
    outcome
}

impl PullArgs {
    /// A kubelet's own choice, unless told.
    fn policy(&self, image: &ImageRef) -> PullPolicy {
        let default = match image.tag() {
            Some("latest") => PullPolicy::Always,
            _ => PullPolicy::IfNotPresent,
        };
        self.pull_policy.unwrap_or(default)
    }

    fn print(&self, order: &Order, done: &order::Done) -> Outcome {
        let failure = match &done.ensured {
            Ok(ensured) => Failure::of_record(order, ensured),
            Err(error) => Some(Failure::of(order, done, error)),
        };
        let report = Report::new(order, done, failure.as_ref());
        let verdict = failure.as_ref().map_or(Verdict::Yes, |failure| failure.verdict);
        match self.output {
            Output::Json => Outcome { stdout: report.json(), verdict, ..Outcome::default() },
            Output::Table => {
                let stderr = failure.as_ref().map(Failure::told).unwrap_or_default();
                Outcome { stdout: report.table(), stderr, verdict }
            }
        }
    }
}

/// A kubelet that runs does not see a record that was written beside it.
fn warn_of_kubelet(order: &Order) -> Option<String> {
    let root = &order.records.as_ref()?.root;
    RunningKubelet::find(root)?;
    Some(format!(
        "keyfob: the kubelet of {} has not read this record: restart it before any pod uses the image\n",
        root.display()
    ))
}

impl From<NoOrder> for Outcome {
    fn from(error: NoOrder) -> Self {
        let mut stderr = format!("keyfob: {}\n", Chain(&error));
        let verdict = match error {
            NoOrder::KubeletRuns(_) => {
                stderr += "keyfob: nothing was pulled: stop the kubelet, pull, import the image into its container runtime, then \
                           start the kubelet; --beside-running-kubelet pulls all the same\n";
                Verdict::WrongInput
            }
            NoOrder::Lookup(failure) => return failure.into(),
            NoOrder::Agent(agent) => {
                return Self { stderr: agent.lines(), verdict: agent.verdict(), ..Self::default() };
            }
            NoOrder::Stopped { .. } => Verdict::Stopped,
            NoOrder::Unwritable { .. } | NoOrder::RecordsUnwritable(_) => Verdict::Unwritten,
            NoOrder::Layout(_) | NoOrder::Mirrors(_) | NoOrder::Records(_) => Verdict::WrongInput,
        };
        Self { stderr, verdict, ..Self::default() }
    }
}
