//! A plugin as a process: its stdin, its stdout, its end.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    path::Path,
    process::ExitCode,
    sync::mpsc,
    thread,
    time::Duration,
};

use keyfob_api::Secret;
use keyfob_exec::{forbid_core_dumps, on_one_line, require_stdout, without_panics};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    stdio,
};
use tokio::time::Instant;

use crate::Failure;

/// No request is larger than this: a token and some annotations.
const LARGEST_REQUEST: usize = 16 << 20;

/// The exit code of a plugin whose answer could not be written.
const UNWRITTEN: u8 = 4;

/// What a plugin has to say, and how it went.
#[derive(Debug, Default)]
pub(crate) struct Spoken {
    pub(crate) stdout: Secret<Vec<u8>>,
    pub(crate) stderr: String,
    pub(crate) code: u8,
}

impl Spoken {
    pub(crate) fn answer(stdout: Secret<Vec<u8>>) -> Self {
        Self { stdout, ..Self::default() }
    }

    pub(crate) fn failure(stderr: String) -> Self {
        Self { stderr, code: 1, ..Self::default() }
    }
}

/// What this process was started as.
pub(crate) fn own_name() -> String {
    let program = std::env::args_os().next().unwrap_or_default();
    on_one_line(&Path::new(&program).file_name().unwrap_or_default().to_string_lossy())
}

/// Runs a conversation on a runtime of its own, and prints what comes of it.
pub(crate) fn converse(
    name: &str,
    deadline: Duration,
    conversation: impl AsyncFnOnce() -> Spoken,
) -> ExitCode {
    forbid_core_dumps();
    let end = guard(name, deadline);
    let whole = || match (take_stdout(), runtime()) {
        (Ok(stdout), Ok(runtime)) => print(name, stdout, runtime.block_on(conversation())),
        (Err(error), _) => unwritten(name, &error),
        (_, Err(error)) => Spoken::failure(format!("{name}: {error}\n")),
    };
    let spoken = without_panics(name, whole).unwrap_or_else(|| Spoken::failure(String::new()));
    // Whoever listened is gone; the exit code says the rest.
    io::stderr().write_all(spoken.stderr.as_bytes()).unwrap_or_default();
    drop(end);
    ExitCode::from(spoken.code)
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Everything on stdin, at the latest when the time is up.
pub(crate) fn read_stdin(deadline: Duration) -> Result<Secret<Vec<u8>>, Failure> {
    let end = Instant::now() + deadline;
    let mut stdin = io::stdin().lock();
    let mut read = Vec::new();
    loop {
        wait_for_stdin(end)?;
        let mut piece = [0; 8 << 10];
        let length = stdin.read(&mut piece)?;
        let Some(piece) = piece.get(..length).filter(|piece| !piece.is_empty()) else {
            return Ok(Secret::new(read));
        };
        read.extend_from_slice(piece);
        if read.len() > LARGEST_REQUEST {
            let most = LARGEST_REQUEST >> 20;
            return Err(Failure::new(format!("the request on stdin is larger than {most} MiB")));
        }
    }
}

fn wait_for_stdin(end: Instant) -> Result<(), Failure> {
    let stdin = stdio::stdin();
    let left = Timespec::try_from(end.saturating_duration_since(Instant::now())).ok();
    match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], left.as_ref()) {
        Ok(0) => Err(Failure::new(
            "nothing came on stdin: a plugin is run by a kubelet, which writes a request there and closes it",
        )),
        // What poll cannot wait for, read can.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The protocol's own way out. Whoever prints to stdout from here on prints to stderr.
fn take_stdout() -> io::Result<File> {
    require_stdout()?;
    let stdout = rustix::io::dup(stdio::stdout())?;
    stdio::dup2_stdout(stdio::stderr())?;
    Ok(File::from(stdout))
}

fn print(name: &str, mut stdout: File, spoken: Spoken) -> Spoken {
    match stdout.write_all(spoken.stdout.expose()).and_then(|()| stdout.flush()) {
        Ok(()) => spoken,
        Err(error) => unwritten(name, &error),
    }
}

fn unwritten(name: &str, error: &io::Error) -> Spoken {
    let stderr = format!("{name}: the answer could not be written: {error}\n");
    Spoken { stderr, code: UNWRITTEN, ..Spoken::default() }
}

/// Ends the process for a provider that blocks where it should wait.
fn guard(name: &str, deadline: Duration) -> mpsc::Sender<()> {
    const GRACE: Duration = Duration::from_secs(1);
    let (end, ended) = mpsc::channel::<()>();
    let line = format!("{name}: gave up after {:.1} s\n", deadline.as_secs_f32());
    let watch = move || {
        if ended.recv_timeout(deadline + GRACE) == Err(mpsc::RecvTimeoutError::Timeout) {
            io::stderr().write_all(line.as_bytes()).unwrap_or_default();
            #[expect(clippy::exit, reason = "the main thread does not listen any more")]
            std::process::exit(1);
        }
    };
    // Without a guard the kubelet's own deadline remains.
    drop(thread::Builder::new().stack_size(64 << 10).spawn(watch));
    end
}
