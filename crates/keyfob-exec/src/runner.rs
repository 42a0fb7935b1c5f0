//! Runs an invocation to its end.
//!
//! Upstream: `os/exec` of Go, as `pkg/credentialprovider/plugin` and client-go's `auth/exec` use it.
//! Differs: the deadline kills the whole group, not one process; something else that holds the plugin's pipes delays an
//! answer by the drain at most; stdout is bounded; of stderr only a redacted end is kept; any run may have a deadline.

use std::{
    ffi::OsString,
    fmt,
    fs::File,
    io,
    os::fd::OwnedFd,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::sleep;

use keyfob_api::Redactor;

use crate::{
    BoxFuture, Environment, Finished, Invocation, NotRunnable, RunError, Status, Stderr,
    StderrTail, Stdin, Stdout,
    environment::secret_of,
    overlay,
    pipes::{Answer, Feed, Forward, Messages, ReadError, Sink, broken, pipe, read},
    process::{Child, Standard, system_error},
};

/// Runs programs. The real one is [`ProcessRunner`]; tests bring their own.
pub trait Runner: Send + Sync + fmt::Debug {
    /// Runs a program to its end, its deadline or its limits. Dropping the future kills the process group and reaps it.
    fn run<'a>(&'a self, invocation: &'a Invocation) -> BoxFuture<'a, Result<Finished, RunError>>;
}

/// Runs real processes. Needs a tokio runtime with I/O and time, in a host that neither ignores `SIGCHLD` nor reaps
/// children it does not know.
///
/// A host that is itself killed leaves its plugins running, because they are in groups of their own: one that wants to
/// take them along on `SIGTERM` drops the future. What a killed plugin had started is reaped by the system's init, which
/// a container without one lacks.
#[derive(Debug, Clone)]
pub struct ProcessRunner {
    environment: Arc<dyn Environment>,
}

impl ProcessRunner {
    /// A runner whose plugins start from this environment, read anew for each run.
    pub fn new(environment: impl Environment + 'static) -> Self {
        Self { environment: Arc::new(environment) }
    }
}

impl Runner for ProcessRunner {
    fn run<'a>(&'a self, invocation: &'a Invocation) -> BoxFuture<'a, Result<Finished, RunError>> {
        Box::pin(async move {
            let ran = self.start_and_collect(invocation).await;
            match &ran {
                Ok(finished) => tracing::debug!(
                    program = %invocation.program().display(),
                    status = %finished.status,
                    elapsed = ?finished.elapsed,
                    "plugin ran"
                ),
                Err(error) => tracing::debug!(%error, "plugin did not run to its end"),
            }
            ran
        })
    }
}

impl ProcessRunner {
    #[expect(clippy::disallowed_methods, reason = "this is the boundary to the system")]
    async fn start_and_collect(&self, invocation: &Invocation) -> Result<Finished, RunError> {
        let started = Instant::now();
        let (process, redactor) = self.start(invocation).await?;
        let mut answer = Answer::new(invocation.limits.stdout);
        let mut messages = messages(invocation, &redactor);
        let end = process.collect(invocation, &mut answer, &mut messages).await;
        let stderr = stderr_tail(&messages, &answer, &redactor, invocation);
        let program = invocation.program().to_path_buf();
        match end.map_err(|source| system_error(&program, "listening to it", source))? {
            End::Exited(status) => Ok(Finished {
                program,
                status,
                stdout: answer.into_secret(),
                stderr,
                elapsed: started.elapsed(),
            }),
            End::TimedOut(after) => Err(RunError::TimedOut { program, after, stderr }),
            End::TooLarge => {
                let (limit, elapsed) = (invocation.limits.stdout, started.elapsed());
                Err(RunError::OutputTooLarge { program, limit, stderr, elapsed })
            }
        }
    }
}

impl ProcessRunner {
    /// A file that is just being written, for instance because a plugin is being installed, can be run in a moment.
    async fn start(&self, invocation: &Invocation) -> Result<(Process, Redactor), RunError> {
        for wait in [5, 20, 75] {
            match self.try_start(invocation) {
                Err(RunError::NotExecutable { why: NotRunnable::Busy, .. }) => {
                    sleep(Duration::from_millis(wait)).await;
                }
                started => return started,
            }
        }
        self.try_start(invocation)
    }

    fn try_start(&self, invocation: &Invocation) -> Result<(Process, Redactor), RunError> {
        let env = overlay(self.environment.vars(), invocation.env.iter().cloned());
        let named = env.iter().filter_map(|entry| secret_of(entry));
        let secrets: Vec<_> = named.chain(invocation.secrets.iter().cloned()).collect();
        let process = Process::start(invocation, env)?;
        Ok((process, Redactor::new(&secrets)))
    }
}

/// A started process and our ends of its pipes.
struct Process {
    child: Child,
    feed: Option<Feed>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
}

/// How it ended. Whichever way, it has been reaped.
enum End {
    Exited(Status),
    TimedOut(Duration),
    TooLarge,
}

impl Process {
    fn start(invocation: &Invocation, env: Vec<OsString>) -> Result<Self, RunError> {
        let system = |source| system_error(invocation.program(), "opening its pipes", source);
        let (stdin, feed) = open_stdin(&invocation.stdin).map_err(system)?;
        let (stdout, child_stdout) = match invocation.stdout {
            Stdout::Read => pipe().map(|(ours, theirs)| (Some(ours), theirs)),
            Stdout::Closed => broken().map(|theirs| (None, theirs)),
        }
        .map_err(system)?;
        let (stderr, child_stderr) = match &invocation.stderr {
            Stderr::Inherit => (None, None),
            Stderr::Tail | Stderr::Forward(_) => {
                pipe().map(|(ours, theirs)| (Some(ours), Some(theirs))).map_err(system)?
            }
        };
        let standard = Standard { stdin, stdout: child_stdout, stderr: child_stderr };
        let child = Child::spawn(invocation, env, standard)?;
        Ok(Self { child, feed, stdout, stderr })
    }

    /// Feeds and reads until the process has exited and its pipes are closed, or one of the limits is met.
    async fn collect(
        self,
        invocation: &Invocation,
        answer: &mut Answer,
        messages: &mut Messages<'_>,
    ) -> io::Result<End> {
        let Self { child, feed, stdout, stderr } = self;
        let mut output = pin!(read_both(stdout, answer, stderr, messages));
        let mut feed = pin!(feed_all(feed));
        let mut deadline = pin!(deadline(invocation.deadline));
        let (mut written, mut read_all) = (false, false);
        loop {
            tokio::select! {
                biased;
                // A busy host may come here late: an answer that was given in time is one.
                after = &mut deadline => {
                    if child.has_exited()? {
                        break;
                    }
                    return Ok(End::TimedOut(after));
                }
                done = &mut feed, if !written => { done?; written = true; }
                done = &mut output, if !read_all => match done {
                    Ok(()) => read_all = true,
                    Err(ReadError::TooLarge) => return Ok(End::TooLarge),
                    Err(ReadError::Io(error)) => return Err(error),
                },
                exited = child.exited() => { exited?; break; }
            }
        }
        if !read_all {
            tokio::select! {
                biased;
                done = &mut output => match done {
                    Ok(()) => {}
                    Err(ReadError::TooLarge) => return Ok(End::TooLarge),
                    Err(ReadError::Io(error)) => return Err(error),
                },
                // Something the plugin started holds its pipes. The plugin has said all it will ever say.
                () = sleep(invocation.limits.drain) => {
                    if let Some(watch) = &invocation.watch {
                        watch.held();
                    }
                    child.kill();
                }
            }
        }
        child.reap().map(End::Exited)
    }
}

/// The child's stdin, and what is still to be written to it.
fn open_stdin(stdin: &Stdin) -> io::Result<(Option<OwnedFd>, Option<Feed>)> {
    match stdin {
        Stdin::Null => Ok((Some(File::open("/dev/null")?.into()), None)),
        Stdin::Terminal => Ok((None, None)),
        Stdin::Bytes(bytes) => {
            let (theirs, ours) = pipe()?;
            Ok((Some(theirs), Feed::start(ours, bytes.expose())?))
        }
    }
}

async fn read_both(
    stdout: Option<OwnedFd>,
    answer: &mut Answer,
    stderr: Option<OwnedFd>,
    messages: &mut Messages<'_>,
) -> Result<(), ReadError> {
    tokio::try_join!(read_if_any(stdout, answer), read_if_any(stderr, messages)).map(|_| ())
}

async fn read_if_any(pipe: Option<OwnedFd>, sink: &mut impl Sink) -> Result<(), ReadError> {
    match pipe {
        Some(pipe) => read(pipe, sink).await,
        None => Ok(()),
    }
}

async fn feed_all(feed: Option<Feed>) -> io::Result<()> {
    match feed {
        Some(feed) => feed.run().await,
        None => Ok(()),
    }
}

async fn deadline(after: Option<Duration>) -> Duration {
    match after {
        Some(after) => {
            sleep(after).await;
            after
        }
        None => std::future::pending().await,
    }
}

fn messages<'a>(invocation: &Invocation, redactor: &'a Redactor) -> Messages<'a> {
    let forward = match &invocation.stderr {
        Stderr::Forward(to) => Some(Forward::new(Arc::clone(to), redactor)),
        Stderr::Tail | Stderr::Inherit => None,
    };
    let keep = invocation.limits.stderr.saturating_add(redactor.longest());
    Messages::new(keep, forward).watched_by(invocation.watch.clone())
}

/// What the error may show: without the secrets handed over, and without what the plugin printed on stdout.
fn stderr_tail(
    messages: &Messages<'_>,
    answer: &Answer,
    redactor: &Redactor,
    invocation: &Invocation,
) -> StderrTail {
    let (raw, beheaded) = messages.tail();
    if raw.is_empty() {
        return StderrTail::default();
    }
    StderrTail::new(raw, beheaded, invocation.limits.stderr, &redactor.knowing(answer.bytes()))
}
