//! `keyfob kube explain`: what a kubeconfig comes to, and why its plugin fails.
//!
//! - `report`: what is told, in a stable shape; `gather` fills it, step by step, as far as it gets.
//! - `plugin`: the command, as it would be run.
//! - `text`: the report for people.

mod gather;
mod plugin;
mod report;
mod text;

use clap::Args;

use self::gather::Gathering;
use super::cluster_args::ClusterArgs;
use crate::{Outcome, cli::Output, lookup::unless_stopped, signals::Workers};

#[derive(Debug, Args)]
#[command(
    after_help = "The plugin is run once, as kubectl would run it; what it says on stderr is part of the report. No token, key, \
                  argument or value of a variable is printed.\n\
                  JSON: {\"verdict\",\"files\":[{\"path\",\"state\",\"ignored\",\"problem\"}],\"context\":{\"name\",\"file\"},\
                  \"cluster\":{\"name\",\"file\"},\"user\":{\"name\",\"file\"},\"server\",\"namespace\",\"ownCredentials\",\
                  \"plugin\":{\"command\",\"resolved\",\"program\",\"notFound\",\"apiVersion\",\"arguments\",\"environment\":[{\"name\",\"replacesTheHosts\"}],\
                  \"info\":{\"bytes\",\"cluster\":{\"server\",\"certificateAuthorityBytes\",\"proxy\",\"config\"}},\"extension\":{\"name\",\"isSent\",\"notes\"},\
                  \"interactiveMode\",\"interactive\",\"whyInteractive\",\"policy\":{\"type\",\"file\",\"allowed\",\"reason\",\"warnings\"},\
                  \"deadline\",\"wraps\":{\"command\",\"program\",\"notFound\"},\"isUsed\",\"whyNotUsed\"},\
                  \"run\":{\"tookMs\",\"error\",\"stderr\"},\"credential\",\"problems\":[{\"problem\",\"do\"}]}, with the credential as \
                  whoami tells it; what there is not is null.\n\
                  Exit codes: 0 the user has a credential, or would be asked for one, 1 it has none, 2 a flag, the kubeconfig or the \
                  kuberc is wrong, 4 the answer could not be written, 130 it was stopped by a signal."
)]
pub(super) struct ExplainArgs {
    /// Say what would be run, and do not run it.
    #[arg(long)]
    no_run: bool,
    /// How to print: for people (`table`), or the same facts as one JSON object (`json`).
    #[arg(short, long, value_enum, default_value_t, hide_possible_values = true)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) fn run(args: &ExplainArgs) -> Outcome {
    args.cluster.logging.start();
    let gathered = async { Gathering::default().all(&args.cluster, args.no_run).await };
    let gathered = Workers::new().and_then(|runtime| runtime.block_on(unless_stopped(gathered)));
    let (report, verdict) = match gathered {
        Ok(Ok(gathered)) => gathered,
        Ok(Err(stopped)) => return stopped.into(),
        Err(error) => return Outcome::wrong_input(&error),
    };
    let stdout = match args.output {
        Output::Table => text::print(&report),
        Output::Json => crate::page::json(&report),
    };
    Outcome { stdout, verdict, ..Outcome::default() }
}
