//! What can be typed.

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::demo::Manner;

/// The exec credential-provider system of Kubernetes, stand-alone.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say whether, and why, images match a `matchImages` pattern.
    Match(MatchArgs),
    /// Show what Keyfob does, on this machine, with nothing to install.
    Demo,
    /// Print a completion script.
    Completions {
        /// For which shell.
        shell: clap_complete::Shell,
    },
    /// The plugin of the demo.
    #[command(hide = true)]
    DemoPlugin { manner: Manner },
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 every image matches, 1 one does not, 2 the pattern or an image is malformed, \
                  3 the answer could not be written."
)]
pub(crate) struct MatchArgs {
    /// A pattern as in a `CredentialProviderConfig`, or a key of a plugin's answer: `*.dkr.ecr.*.amazonaws.com`.
    pub(crate) pattern: String,
    /// Images as in a pod: `nginx`, `registry.example:5000/team/app:v1`.
    #[arg(required = true)]
    pub(crate) images: Vec<String>,
    /// Match images as they are written, without filling in `docker.io/library/` or cutting off tag and digest.
    #[arg(long)]
    pub(crate) raw: bool,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Table,
    /// For programs: `[{"pattern","image","repository","matches","reason"}]`.
    Json,
}
