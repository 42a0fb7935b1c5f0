//! What is logged, and how. Logs go to stderr; results never do.

use std::io::{self, Write};

use clap::{ArgAction, Args, ValueEnum};
use keyfob_exec::{printable, printable_json};
use keyfob_host::FAILURES_LOG_TARGET;
use tracing::{Level, Metadata, subscriber::set_global_default};
use tracing_subscriber::fmt::writer::MakeWriterExt as _;

/// Flags of every command that runs plugins.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogArgs {
    /// Log to stderr what happens (-v), what is decided (-vv), each request to a registry (-vvv); never a secret.
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

/// What a service logs and traces. When it is dropped, the last spans are sent.
#[derive(Debug, Default)]
#[must_use = "the last spans are sent when it is dropped"]
pub(crate) struct ServiceLog {
    #[cfg(feature = "otlp")]
    _exporter: Option<crate::otlp::Exporter>,
}

impl LogArgs {
    /// The same for a command that runs as a service: what happens is logged without `-v` too. Keep the value until the end of the command.
    pub(crate) fn start_service(&self) -> ServiceLog {
        let service = Self { verbose: self.verbose.saturating_add(1), log_format: self.log_format };
        #[cfg(feature = "otlp")]
        match crate::otlp::OtlpLayer::from_environment(&keyfob_exec::SystemEnvironment) {
            Ok(None) => {}
            Ok(Some((spans, exporter))) => {
                service.start_with(spans);
                return ServiceLog { _exporter: Some(exporter) };
            }
            Err(error) => {
                service.start();
                tracing::warn!(error = %keyfob_api::Chain(&error), "no spans are sent to the collector");
                return ServiceLog::default();
            }
        }
        service.start();
        ServiceLog::default()
    }

    /// The same lines as without, and spans, whatever the level of the lines is.
    #[cfg(feature = "otlp")]
    fn start_with(&self, spans: crate::otlp::OtlpLayer) {
        use tracing_subscriber::{
            Layer as _,
            filter::{LevelFilter, filter_fn},
            layer::SubscriberExt as _,
        };
        let is_quiet = self.verbose == 0;
        let wanted = move |line: &Metadata<'_>| is_wanted(line.target(), is_quiet);
        let level = LevelFilter::from_level(self.level());
        let lines = tracing_subscriber::fmt::layer().log_internal_errors(false).with_ansi(false);
        let how = match self.log_format {
            LogFormat::Text => printable,
            LogFormat::Json => printable_json,
        };
        let stderr = (move || Shown { to: io::stderr(), how }).with_filter(wanted);
        let lines = lines.with_writer(stderr);
        let lines = match self.log_format {
            LogFormat::Text => lines.with_filter(level).boxed(),
            LogFormat::Json => lines.json().with_filter(level).boxed(),
        };
        let spans = spans.with_filter(filter_fn(crate::otlp::OtlpLayer::is_wanted));
        let subscriber = tracing_subscriber::registry().with(lines).with(spans);
        set_global_default(subscriber).unwrap_or_default();
    }

    /// From here on everything that is logged is written.
    pub(crate) fn start(&self) {
        // A line that cannot be written is lost, and nothing else: nobody is left to tell.
        let lines = tracing_subscriber::fmt()
            .log_internal_errors(false)
            .with_max_level(self.level())
            .with_ansi(false);
        let is_quiet = self.verbose == 0;
        let wanted = move |line: &Metadata<'_>| is_wanted(line.target(), is_quiet);
        // It fails only if somebody logs already.
        match self.log_format {
            LogFormat::Text => {
                let stderr = || Shown { to: io::stderr(), how: printable };
                set_global_default(lines.with_writer(stderr.with_filter(wanted)).finish())
            }
            LogFormat::Json => {
                let stderr = || Shown { to: io::stderr(), how: printable_json };
                set_global_default(lines.json().with_writer(stderr.with_filter(wanted)).finish())
            }
        }
        .unwrap_or_default();
    }

    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose > 0
    }

    fn level(&self) -> Level {
        match self.verbose {
            0 => Level::ERROR,
            1 => Level::INFO,
            2 => Level::DEBUG,
            _ => Level::TRACE,
        }
    }
}

/// What a plugin did wrong is part of every answer: without `-v` it is not said twice.
fn is_wanted(target: &str, is_quiet: bool) -> bool {
    is_ours(target) && !(is_quiet && target == FAILURES_LOG_TARGET)
}

/// Whether a line is Keyfob's own. Libraries log what servers say (`kube` a `Status`, `hyper` the host of a redirect), and
/// do not know which part of it is a secret.
fn is_ours(target: &str) -> bool {
    target.starts_with("keyfob")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_that_may_log_what_servers_say_are_not_heard() {
        for (target, ours) in [
            ("keyfob::pull", true),
            ("keyfob_oci::client::exchange", true),
            ("kube_client::client", false),
            ("hyper_util::client::legacy::connect::http", false),
            ("reqwest::connect", false),
        ] {
            assert_eq!(is_ours(target), ours, "{target}");
        }
    }

    #[test]
    fn a_log_line_cannot_steer_a_terminal() {
        let mut written = Vec::new();
        let mut shown = Shown { to: &mut written, how: printable };
        shown.write_all(b"provider=\x1b[31mred\n\ttwo\r\n").unwrap();
        assert_eq!(written, b"provider=\\u{1b}[31mred\n\ttwo\\r\n");
    }
}
