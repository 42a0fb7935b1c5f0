//! What is logged, and how. Logs go to stderr; results never do.

use std::io::{self, Write};

use clap::{ArgAction, Args, ValueEnum};
use keyfob_exec::printable;
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
        // A line that cannot be written is lost, and nothing else: nobody is left to tell.
        let lines = tracing_subscriber::fmt()
            .log_internal_errors(false)
            .with_max_level(self.level())
            .with_writer(|| Printable(io::stderr()));
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

/// Writes text that cannot steer a terminal: control characters are spelled out, but for the ends of lines.
struct Printable<W>(W);

impl<W: Write> Write for Printable<W> {
    /// All or nothing, so that nobody writes the rest a second time.
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let shown = printable(&String::from_utf8_lossy(text));
        self.0.write_all(shown.as_bytes())?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_cannot_steer_a_terminal() {
        let mut written = Vec::new();
        Printable(&mut written).write_all(b"provider=\x1b[31mred\n\ttwo\r\n").unwrap();
        assert_eq!(written, b"provider=\\u{1b}[31mred\n\ttwo\\r\n");
    }
}
