//! `keyfob provider`: our plugins, each under its own name too.

mod config;
mod config_file;
mod fallback;
mod install;
mod links;
mod merge;
mod relay;

use std::{env, path::Path, process::ExitCode};

use clap::{Args, Subcommand};
use keyfob_providers::Provider;
use serde::Serialize;

use self::install::InstallArgs;
use crate::{Outcome, Verdict, cli::Output, get::aligned};

#[derive(Debug, Args)]
#[command(
    after_help = "`keyfob provider NAME` runs a plugin: a request on stdin, the answer on stdout. \
                  `keyfob provider NAME --help` tells of its flags. Started under a plugin's usual name, or as \
                  docker-credential-NAME, keyfob is that plugin."
)]
pub(crate) struct ProviderCommand {
    #[command(subcommand)]
    command: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Put plugins into a directory, and print the configuration that makes a kubelet use them.
    Install(Box<InstallArgs>),
    /// List the plugins of this build.
    List {
        /// How to print.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
}

/// The plugin, run, if this process was started as one: by a link of its name, or as `keyfob provider NAME`.
pub(crate) fn asked_for() -> Option<ExitCode> {
    let mut arguments = env::args_os();
    let program = arguments.next()?;
    let program = Path::new(&program).file_name()?.to_str()?;
    if let Some(provider) = started_as(program) {
        return Some(run_plugin(provider, arguments));
    }
    if let Some(name) = program.strip_prefix("docker-credential-") {
        return Some(no_helper(name));
    }
    let name = arguments.next().filter(|word| word == "provider").and_then(|_| arguments.next())?;
    Some(run_plugin(keyfob_providers::named(name.to_str()?)?, arguments))
}

fn run_plugin(provider: &'static Provider, arguments: env::ArgsOs) -> ExitCode {
    // Google's library takes the cryptography of the program. Nobody else has installed any: this is the first thing that runs.
    rustls::crypto::aws_lc_rs::default_provider().install_default().unwrap_or_default();
    provider.main(arguments)
}

/// A docker client reads on stdout what is wrong.
fn no_helper(name: &str) -> ExitCode {
    let known: Vec<_> = keyfob_providers::ALL.iter().map(|known| known.name).collect();
    let name = keyfob_exec::on_one_line(name);
    let stdout = format!("keyfob has no plugin named {name}: it has {}\n", known.join(", "));
    Outcome { stdout, verdict: Verdict::No, ..Outcome::default() }.print()
}

/// By the program's usual name, or by the one under which docker looks for its helpers.
fn started_as(program: &str) -> Option<&'static Provider> {
    let usual = keyfob_providers::ALL.iter().find(|known| known.program == program);
    usual.or_else(|| keyfob_providers::named(program.strip_prefix("docker-credential-")?))
}

/// Shows the plugins in help and completions. They are run before any of this is read.
pub(crate) fn with_plugins(command: clap::Command) -> clap::Command {
    let plugin = |known: &Provider| {
        clap::Command::new(known.name).about(format!("{}: {}", known.program, known.about))
    };
    command.subcommands(keyfob_providers::ALL.iter().map(plugin))
}

pub(crate) fn run(command: &ProviderCommand) -> Outcome {
    match &command.command {
        What::Install(args) => install::run(args),
        What::List { output } => list(*output),
    }
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    program: &'static str,
    about: &'static str,
}

fn list(output: Output) -> Outcome {
    let all = keyfob_providers::ALL.iter();
    let stdout = match output {
        Output::Table => {
            let row =
                |known: &Provider| [known.name, known.program, known.about].map(str::to_owned);
            let titles = ["NAME", "PROGRAM", "WHAT FOR"].map(str::to_owned);
            aligned(&std::iter::once(titles).chain(all.map(row)).collect::<Vec<_>>())
        }
        Output::Json => {
            let listed = |known: &Provider| Listed {
                name: known.name,
                program: known.program,
                about: known.about,
            };
            crate::page::json(&all.map(listed).collect::<Vec<_>>())
        }
    };
    Outcome { stdout, ..Outcome::default() }
}
