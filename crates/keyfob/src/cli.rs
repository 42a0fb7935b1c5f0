//! What can be typed.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::{
    agent::AgentCommand,
    apiserver::ApiserverArgs,
    audience::AudienceCommand,
    conformance::ConformanceArgs,
    demo::DemoArgs,
    explain::ExplainArgs,
    gates_args::GatesArgs,
    get::GetArgs,
    kube::KubeCommand,
    provider::{self, ProviderCommand},
    pull::PullArgs,
    records::RecordsCommand,
    serve::ServeArgs,
};

/// The exec credential-provider system of Kubernetes, stand-alone.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Everything that can be typed, the names of the plugins too.
pub(crate) fn command() -> clap::Command {
    Cli::command().mut_subcommand("provider", provider::with_plugins)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say whether, and why, images match a `matchImages` pattern.
    Match(MatchArgs),
    /// Say everything that is wrong with a configuration of credential providers, and what to do about it.
    Validate(ValidateArgs),
    /// Find the credentials for an image, as a kubelet does.
    Get(Box<GetArgs>),
    /// Say why an image gets the credentials it gets, or none.
    Explain(Box<ExplainArgs>),
    /// Pull an image into an OCI image layout, with the credentials that a kubelet would use.
    Pull(Box<PullArgs>),
    /// Tell who may use the images that were pulled, and forget those that are gone.
    Records(RecordsCommand),
    /// Run the node agent: one warm credential host for every program on this node.
    Serve(Box<ServeArgs>),
    /// Ask the node agent how it is and what it decides, or let it read its files again.
    Agent(AgentCommand),
    /// Run one of our plugins, or install them.
    Provider(ProviderCommand),
    /// Say whether a plugin keeps the contract.
    Conformance(Box<ConformanceArgs>),
    /// Say, grant or enforce which audiences a node may ask tokens for.
    Audience(AudienceCommand),
    /// Use a kubeconfig whose user has an exec plugin: its token, who it is, requests, a proxy, a cache, and why it fails.
    Kube(KubeCommand),
    /// Run a small API server for trying and testing: service accounts, tokens, and the rule for nodes.
    Apiserver(Box<ApiserverArgs>),
    /// Show what Keyfob does, on this machine, with nothing to install.
    Demo(DemoArgs),
    /// Print a completion script.
    Completions {
        /// For which shell.
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "JSON: [{\"pattern\",\"image\",\"repository\",\"matches\",\"reason\"}]\n\
                  Exit codes: 0 every image matches, 1 one does not, 2 the pattern or an image is malformed, \
                  4 the answer could not be written.")]
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

#[derive(Debug, Args)]
#[command(
    after_help = "JSON: {\"valid\",\"hash\",\"aggregate\",\"errors\":[{\"path\",\"kind\",\"message\",\"help\",\"file\",\"line\",\"column\",\"kubeletRefuses\"}],\"warnings\":[…]}, with a hundred of each at most, and how many \"moreErrors\" and \"moreWarnings\" there are; \
                  kubeletRefuses is there, and true, for what Keyfob reads and a kubelet does not start with; aggregate is the kubelet's own error text, or Keyfob's for syntax and types, which quotes no file; it is empty for a proposal's dialect.\n\
                  An error is whatever keeps a kubelet from starting, a missing plugin too if --bin-dir is given; a warning is \
                  advice. A feature gate that Kubernetes has removed is an error. Of the others only those that concern credential providers \
                  are known; another is a warning, though a kubelet that does not know it would not start. With --migrate the exit code is about the configuration that is printed.\n\
                  A plugin's answer (a CredentialProviderResponse) is judged too.\n\
                  Exit codes: 0 valid, 1 not valid: a kubelet would not start with it (--for keyfob: keyfob cannot use it), 2 wrong usage, 4 the result could not \
                  be written."
)]
pub(crate) struct ValidateArgs {
    /// A configuration file, a directory of them, or a plugin's answer in a file.
    #[arg(conflicts_with = "config", required_unless_present = "config")]
    pub(crate) path: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    /// Whose rules decide. Keyfob also reads older dialects, and does without plugins that it does not need.
    #[arg(long = "for", value_enum, value_name = "WHOM", default_value_t)]
    pub(crate) reader: Reader,
    /// Print the whole configuration in today's form on stdout, and what there is to say about it on stderr.
    #[arg(long, conflicts_with = "output")]
    pub(crate) migrate: bool,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// Who is to use a configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reader {
    /// A kubelet 1.37: an error is what keeps it from starting.
    #[default]
    Kubelet,
    /// `keyfob get`, `explain` and `pull`.
    Keyfob,
}

/// Where the configuration and the plugins are, under our names, the kubelet's and the first KEP's.
#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    /// The configuration: a file, or a directory of .json, .yaml and .yml files.
    #[arg(long, visible_aliases = ["image-credential-provider-config", "registry-credential-config-path"], value_name = "PATH")]
    pub(crate) config: Option<PathBuf>,
    /// The directory of the plugins.
    #[arg(long, visible_alias = "image-credential-provider-bin-dir", value_name = "DIR")]
    pub(crate) bin_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) gates: GatesArgs,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}
