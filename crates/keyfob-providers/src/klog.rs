//! The flags of Kubernetes' loggers, which configurations in the wild pass. There is nothing to log here: they are taken and
//! not used.

use clap::{Arg, ArgAction, ArgMatches, Command};

const WITH_A_VALUE: [&str; 14] = [
    "log_backtrace_at",
    "log-backtrace-at",
    "log_dir",
    "log-dir",
    "log_file",
    "log-file",
    "log_file_max_size",
    "log-file-max-size",
    "log-flush-frequency",
    "log-json-info-buffer-size",
    "log-text-info-buffer-size",
    "logging-format",
    "stderrthreshold",
    "vmodule",
];

const SWITCHES: [&str; 12] = [
    "add_dir_header",
    "add-dir-header",
    "alsologtostderr",
    "log-json-split-stream",
    "log-text-split-stream",
    "logtostderr",
    "one_output",
    "one-output",
    "skip_headers",
    "skip-headers",
    "skip_log_headers",
    "skip-log-headers",
];

#[derive(Debug)]
pub(crate) struct Klog;

impl clap::Args for Klog {
    fn augment_args(command: Command) -> Command {
        let command = command.arg(flag("v").short('v').num_args(1));
        let command = WITH_A_VALUE
            .into_iter()
            .fold(command, |command, name| command.arg(flag(name).num_args(1)));
        SWITCHES.into_iter().fold(command, |command, name| {
            command.arg(flag(name).num_args(0..=1).require_equals(true))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Klog {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self)
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}

fn flag(name: &'static str) -> Arg {
    Arg::new(name).long(name).hide(true).action(ArgAction::Append)
}
