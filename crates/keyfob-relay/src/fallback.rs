//! Becomes the plugin itself if the agent is down.
//!
//! This process is replaced (`exec`) instead of starting another one: stdout and exit code are then the plugin's own, and a
//! kubelet that ends the plugin after a minute ends the right process.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write as _},
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    process::Command,
    time::Duration,
};

use rustix::{
    fs::{OFlags, fcntl_setfl},
    io::{retry_on_intr, write},
    pipe::{PipeFlags, fcntl_setpipe_size, pipe_with},
};

use crate::{
    agent::Reason,
    outcome::Outcome,
    policy::{Decision, FallbackPolicy},
    text::on_one_line,
};

/// What a pipe holds by default.
const DEFAULT_PIPE_SIZE: usize = 64 * 1024;

/// The plugin, and when it runs.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) struct Fallback {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    /// How long the agent may be silent before it must say that it is alive, and how long it has for that.
    pub(crate) down_after: Duration,
    pub(crate) policy: FallbackPolicy,
}

impl Fallback {
    /// Returns only if the program is not asked or could not be started.
    pub(crate) fn run(&self, request: &[u8], reason: &Reason) -> Outcome {
        let name = on_one_line(&self.program.to_string_lossy());
        let reason = reason.one_line();
        // What is wrong with it may quote it, and it may have a token anywhere.
        let Ok(decision) = self.policy.decide(request) else {
            return Outcome::failure(format!(
                "keyfob-relay: {reason}; {name} is not asked: the request on stdin is not a CredentialProviderRequest\n"
            ));
        };
        let request = match decision {
            Decision::Run(request) => request,
            Decision::Skip { why, response } => {
                let why = on_one_line(&why);
                let stderr = format!("keyfob-relay: {reason}; {name} is not asked: {why}\n");
                return Outcome { stderr, ..Outcome::success(response) };
            }
        };
        let notice = format!("keyfob-relay: {reason}; running {name} instead\n");
        io::stderr().write_all(notice.as_bytes()).unwrap_or_default();

        let error = match filled_pipe(request.expose()) {
            Ok(stdin) => exec(&self.program, &self.args, stdin),
            Err(error) => error,
        };
        Outcome::failure(format!("keyfob-relay: cannot run {name}: {error}\n"))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where this program becomes another one"
)]
fn exec(program: &OsStr, args: &[OsString], stdin: OwnedFd) -> io::Error {
    Command::new(program).args(args).stdin(stdin).exec()
}

/// A pipe with the whole request in it, for reading. As with a kubelet, the plugin reads a pipe, which some check.
///
/// Nobody reads while this writes, so the pipe must hold everything. Writing does not block, so that a pipe which could not be
/// enlarged leads to an error and not to a deadlock.
fn filled_pipe(mut request: &[u8]) -> io::Result<OwnedFd> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    if request.len() > DEFAULT_PIPE_SIZE {
        fcntl_setpipe_size(&writer, request.len())?;
    }
    fcntl_setfl(&writer, OFlags::NONBLOCK)?;
    while !request.is_empty() {
        let written = retry_on_intr(|| write(&writer, request))?;
        request = request.get(written..).unwrap_or_default();
    }
    Ok(reader)
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Read as _};

    use super::*;
    use crate::stdin::MAX_REQUEST;

    #[test]
    fn a_pipe_holds_a_request_of_any_permitted_size() {
        for size in [0, 1, DEFAULT_PIPE_SIZE, DEFAULT_PIPE_SIZE + 1, MAX_REQUEST] {
            let request: Vec<u8> = (0..=255).cycle().take(size).collect();
            let mut read = Vec::new();
            File::from(filled_pipe(&request).unwrap()).read_to_end(&mut read).unwrap();
            assert!(read == request, "{size} bytes");
        }
    }
}
