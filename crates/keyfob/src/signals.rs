//! Signals that stop the process.
//!
//! Once a signal is listened for, the system no longer ends the process by itself. So a thread listens from then on until
//! the process ends, whatever the other threads wait for: a lock, a full pipe, a name server. Whoever works is told first,
//! to kill plugins and to report what was done. If that takes longer than its grace, if a second signal comes, if nobody
//! works any more, or if stdout or stderr is full and nobody reads it, the thread ends the process with the exit code of
//! the command. Before that it kills the plugins that still run and removes the command's temporary directory.

use std::{
    fs, io,
    os::fd::BorrowedFd,
    path::{Path, PathBuf},
    process,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU8, Ordering},
        mpsc,
    },
    task::Poll,
    thread,
    time::Duration,
};

use keyfob_exec::{NO_THREAD, kill_running_programs};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    stdio,
};
use tokio::{
    runtime::{self, Runtime},
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

use crate::Verdict;

/// How long whoever works may take after a signal. A second signal ends that.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// How long the requests of a server may go on after a signal: less than the grace, so that there is time for the rest.
pub(crate) const DRAIN: Duration = Duration::from_secs(1);

/// How long threads may take that are in the middle of something when a runtime ends: most of them write a small file.
const LAST_WORK: Duration = Duration::from_millis(200);

/// How long stdout or stderr may stay full and unread after a signal. A write to it blocks its thread until somebody reads,
/// so the work would not end within its grace either.
const UNREAD: Duration = Duration::from_millis(100);

/// A runtime that does not wait at its end for threads which wait for something themselves.
#[derive(Debug)]
pub(crate) struct Workers(Option<Runtime>);

impl Workers {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Some(runtime::Builder::new_current_thread().enable_all().build()?)))
    }

    /// Does some work on this thread; nothing only if the runtime has ended.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> io::Result<T> {
        let runtime = self.0.as_ref().ok_or_else(|| io::Error::other("the runtime has ended"))?;
        Ok(runtime.block_on(work))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_timeout(LAST_WORK);
        }
    }
}

/// There is one listener: of two, the one whose work is done would end the work of the other.
static LISTENS: AtomicBool = AtomicBool::new(false);

/// Listens for signals from now on, once in a process. Whoever has the value is told of the first, and should come to an end
/// within the grace; after that the process exits as the verdict says.
pub(crate) fn listen(verdict: Verdict, grace: Duration) -> io::Result<Stop> {
    let kinds = [
        SignalKind::hangup(),
        SignalKind::interrupt(),
        SignalKind::quit(),
        SignalKind::terminate(),
    ];
    listen_for(kinds.to_vec(), verdict, grace)
}

/// The same for a service, to which a hangup means something else.
pub(crate) fn listen_except_hangup(verdict: Verdict, grace: Duration) -> io::Result<Stop> {
    let kinds = [SignalKind::interrupt(), SignalKind::quit(), SignalKind::terminate()];
    listen_for(kinds.to_vec(), verdict, grace)
}

fn listen_for(kinds: Vec<SignalKind>, verdict: Verdict, grace: Duration) -> io::Result<Stop> {
    if LISTENS.swap(true, Ordering::Relaxed) {
        return Err(io::Error::other("signals are listened for already"));
    }
    let ending = Arc::new(Ending::new(verdict));
    let (tell, told) = watch::channel(None);
    let (report, reported) = mpsc::sync_channel(1);
    let its_ending = Arc::clone(&ending);
    // The runtime is the thread's own: dropped in the middle of other work it would panic.
    let watch = move || {
        let prepared = runtime::Builder::new_current_thread().enable_all().build();
        let prepared = prepared.and_then(|runtime| {
            let signals = {
                let _context = runtime.enter();
                Signals::listen(kinds)?
            };
            Ok((runtime, signals))
        });
        match prepared {
            Ok((runtime, signals)) => {
                let _file_too_large = file_size_signal(&runtime);
                report.send(Ok(())).unwrap_or_default();
                runtime.block_on(end_at_signal(signals, tell, grace, its_ending));
            }
            Err(error) => report.send(Err(error)).unwrap_or_default(),
        }
    };
    let thread = thread::Builder::new().name("keyfob-signals".into()).stack_size(128 << 10);
    thread.spawn(watch).map_err(|error| io::Error::new(error.kind(), NO_THREAD))?;
    reported.recv().map_err(io::Error::other)??;
    Ok(Stop { told, ending })
}

/// For whoever works: has a signal come?
#[derive(Debug)]
pub(crate) struct Stop {
    told: watch::Receiver<Option<SignalKind>>,
    ending: Arc<Ending>,
}

/// A signal came before the work was done.
#[derive(Debug)]
pub(crate) struct Stopped;

impl Stop {
    /// Works, until a signal comes.
    pub(crate) async fn unless<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Stopped> {
        tokio::select! {
            biased;
            _ = self.signal() => Err(Stopped),
            done = work => Ok(done),
        }
    }

    /// Waits for the first signal.
    pub(crate) async fn signal(&mut self) -> SignalKind {
        let told = self.told.wait_for(Option::is_some).await.map(|told| *told);
        match told {
            Ok(Some(kind)) => kind,
            // Nobody listens, so none will come.
            _ => std::future::pending().await,
        }
    }

    /// From now on a signal that ends the process makes it exit like this.
    pub(crate) fn exits_with(&self, verdict: Verdict) {
        self.ending.code.store(verdict as u8, Ordering::Relaxed);
    }

    /// A directory that must not be left behind, even if whoever made it has no time to remove it.
    pub(crate) fn removes(&self, directory: &Path) {
        let mut removed = self.ending.removed.lock().unwrap_or_else(PoisonError::into_inner);
        *removed = Some(directory.to_owned());
    }
}

/// What the listener does if it must end the process itself.
#[derive(Debug)]
struct Ending {
    code: AtomicU8,
    removed: Mutex<Option<PathBuf>>,
}

impl Ending {
    fn new(verdict: Verdict) -> Self {
        Self { code: AtomicU8::new(verdict as u8), removed: Mutex::default() }
    }

    /// Kills and removes what must not be left behind, and says what to exit with.
    fn clean_up(&self) -> i32 {
        kill_running_programs();
        let removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(directory) = removed {
            // It may be gone already.
            fs::remove_dir_all(directory).unwrap_or_default();
        }
        i32::from(self.code.load(Ordering::Relaxed))
    }
}

/// Listens for the signal about a file that grows beyond `ulimit -f`, which would end the process. While somebody listens, the
/// write fails instead, and that is reported.
fn file_size_signal(runtime: &Runtime) -> io::Result<Signal> {
    let _context = runtime.enter();
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))
}

#[expect(clippy::exit, reason = "the other threads may wait for something that never comes")]
async fn end_at_signal(
    mut signals: Signals,
    tell: watch::Sender<Option<SignalKind>>,
    grace: Duration,
    ending: Arc<Ending>,
) {
    let kind = signals.next().await;
    if tell.send(Some(kind)).is_ok() {
        tokio::select! {
            () = tokio::time::sleep(grace) => {}
            _ = signals.next() => {}
            () = output_is_unread(grace.saturating_sub(GRACE)) => {}
        }
    }
    process::exit(ending.clean_up());
}

/// Ends when stdout or stderr is full and nobody has read anything of it for [`UNREAD`]. A server that lingers does so first:
/// it need not be writing.
async fn output_is_unread(lingers: Duration) {
    tokio::time::sleep(lingers).await;
    let streams = [stdio::stdout(), stdio::stderr()];
    let mut looks = tokio::time::interval(UNREAD);
    let mut before = [None; 2];
    loop {
        looks.tick().await;
        let now = streams.map(|stream| is_full(stream).then(|| unread_bytes(stream)));
        if before.iter().zip(now).any(|(before, now)| now.is_some() && *before == now) {
            return;
        }
        before = now;
    }
}

/// How many bytes a pipe holds. Always the same for what is no pipe.
fn unread_bytes(stream: BorrowedFd<'_>) -> u64 {
    rustix::io::ioctl_fionread(stream).unwrap_or_default()
}

/// Whether a write would block now: the pipe is full, or the terminal is stopped. A stream that is closed, or whose reader has
/// gone away, is not full: a write to it fails at once.
fn is_full(stream: BorrowedFd<'_>) -> bool {
    let mut streams = [PollFd::from_borrowed_fd(stream, PollFlags::OUT)];
    poll(&mut streams, Some(&Timespec::default())) == Ok(0)
}

/// The signals that stop us. One that we were started to ignore, as by `nohup`, is not among them.
struct Signals(Vec<(SignalKind, Signal)>);

impl Signals {
    fn listen(kinds: Vec<SignalKind>) -> io::Result<Self> {
        let ignored = Ignored::read();
        kinds
            .into_iter()
            .filter(|kind| !ignored.has(*kind))
            .map(|kind| Ok((kind, signal(kind)?)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    async fn next(&mut self) -> SignalKind {
        std::future::poll_fn(|context| {
            // Each must be asked, so that each wakes us.
            let came = self.0.iter_mut().fold(None, |came, (kind, signal)| {
                signal.poll_recv(context).is_ready().then_some(*kind).or(came)
            });
            came.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// The signals that we were started to ignore, a bit for each.
struct Ignored(u64);

impl Ignored {
    fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        Self(mask.unwrap_or_default())
    }

    fn has(&self, kind: SignalKind) -> bool {
        let bit = u32::try_from(kind.as_raw_value() - 1).ok();
        let bit = bit.and_then(|bit| 1_u64.checked_shl(bit));
        bit.is_some_and(|bit| self.0 & bit != 0)
    }
}
