//! `keyfob audience`: which audiences a node may ask for.

mod api_audiences;
mod check;
mod rbac;
mod remedy;
mod report;
mod serve;

use clap::{Args, Subcommand};

use crate::Outcome;

#[derive(Debug, Args)]
pub(crate) struct AudienceCommand {
    #[command(subcommand)]
    command: Audience,
}

#[derive(Debug, Subcommand)]
enum Audience {
    /// Say whether a node may get a token for an audience, and if not, what would allow it.
    Check(Box<check::CheckArgs>),
    /// Print the role that allows nodes an audience, for `kubectl apply -f -`.
    Rbac(rbac::RbacArgs),
    /// Enforce the rule: a validating admission webhook for clusters that do not have it built in.
    Serve(Box<serve::ServeArgs>),
}

pub(crate) fn run(command: &AudienceCommand) -> Outcome {
    match &command.command {
        Audience::Check(args) => check::run(args),
        Audience::Rbac(args) => rbac::run(args),
        Audience::Serve(args) => serve::run(args),
    }
}
