//! What is logged, and how. Logs go to stderr; results never do.

use std::io::{self, Write};

use clap::{ArgAction, Args, ValueEnum};
use keyfob_exec::{printable, spelled_out, steers};
use tracing::{Level, Metadata, subscriber::set_global_default};
use tracing_subscriber::fmt::writer::MakeWriterExt as _;

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
            .with_ansi(false);
        // `kube` calls every failed request an error; who asked for it says so already.
        let verbose = self.verbose > 1;
        let wanted = move |line: &Metadata<'_>| verbose || !line.target().starts_with("kube");
        // It fails only if somebody logs already.
        match self.log_format {
            LogFormat::Text => {
                let stderr = || Shown { to: io::stderr(), how: printable };
                set_global_default(lines.with_writer(stderr.with_filter(wanted)).finish())
            }
            LogFormat::Json => {
                let stderr = || Shown { to: io::stderr(), how: in_json };
                set_global_default(lines.json().with_writer(stderr.with_filter(wanted)).finish())
            }
        }
        .unwrap_or_default();
    }

    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose > 0
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

/// Writes text that cannot steer a terminal.
struct Shown<W> {
    to: W,
    how: fn(&str) -> String,
}

impl<W: Write> Write for Shown<W> {
    /// All or nothing, so that nobody writes the rest a second time.
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.to.write_all((self.how)(&String::from_utf8_lossy(text)).as_bytes())?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// What still steers a terminal stands in strings, where JSON spells it as a number.
fn in_json(lines: &str) -> String {
    let spell = |c: char| format!("\\u{:04x}", u32::from(c)).chars().collect::<Vec<_>>();
    spelled_out(lines, |c| steers(c) && c != '\n', spell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_cannot_steer_a_terminal() {
        let mut written = Vec::new();
        let mut shown = Shown { to: &mut written, how: printable };
        shown.write_all(b"provider=\x1b[31mred\n\ttwo\r\n").unwrap();
        assert_eq!(written, b"provider=\\u{1b}[31mred\n\ttwo\\r\n");
    }

    #[test]
    fn a_log_line_in_json_stays_json() {
        let line = "{\"a\":\"x\u{202e}\u{7f}\u{9b}\"}\n";
        let shown = in_json(line);
        assert_eq!(shown, "{\"a\":\"x\\u202e\\u007f\\u009b\"}\n");
        let same = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(same(&shown), same(line));
    }
}
