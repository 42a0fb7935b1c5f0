//! What is logged, and how. Logs go to stderr; results never do.

use std::io;

use clap::{ArgAction, Args, ValueEnum};
use tracing::{Level, subscriber::set_global_default};

/// Flags of every command that runs plugins.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogArgs {
    /// Log to stderr what happens (-v), what is decided (-vv), everything (-vvv); never a secret.
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    /// How log lines look.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs: an object on each line.
    Json,
}

impl LogArgs {
    /// From here on everything that is logged is written.
    pub(crate) fn start(&self) {
        let lines = tracing_subscriber::fmt().with_max_level(self.level()).with_writer(io::stderr);
        // It fails only if somebody logs already.
        match self.log_format {
            LogFormat::Text => set_global_default(lines.with_ansi(false).finish()),
            LogFormat::Json => set_global_default(lines.json().finish()),
        }
        .unwrap_or_default();
    }

    /// What a plugin did wrong is part of every answer: without `-v` it is not said twice.
    fn level(&self) -> Level {
        match self.verbose {
            0 => Level::ERROR,
            1 => Level::INFO,
            2 => Level::DEBUG,
            _ => Level::TRACE,
        }
    }
}
