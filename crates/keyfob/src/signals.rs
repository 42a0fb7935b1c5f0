//! Signals that stop the process.
//!
//! Once a signal is listened for, the system no longer ends the process by itself. So a thread listens from then on until
//! the process ends, whatever the other threads wait for: a lock, a full pipe, a name server. Whoever works is told first,
//! to kill plugins and to report what was done.

use std::{io, process, task::Poll, thread, time::Duration};

use tokio::{
    runtime::{self, Runtime},
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};

use crate::Verdict;

/// How long whoever works may take after a signal. A second signal ends that.
const GRACE: Duration = Duration::from_secs(2);

/// How long threads may take that are in the middle of something when a runtime ends: most of them write a small file.
const LAST_WORK: Duration = Duration::from_millis(200);

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

/// Listens for signals from now on. Whoever has the receiver is told of the first, and should come to an end.
pub(crate) fn listen() -> io::Result<oneshot::Receiver<()>> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let signals = {
        let _context = runtime.enter();
        Signals::listen()?
    };
    let (tell, told) = oneshot::channel();
    let watch = move || runtime.block_on(end_at_signal(signals, tell));
    thread::Builder::new().name("keyfob-signals".into()).stack_size(128 << 10).spawn(watch)?;
    Ok(told)
}

#[expect(clippy::exit, reason = "the other threads may wait for something that never comes")]
async fn end_at_signal(mut signals: Signals, tell: oneshot::Sender<()>) {
    signals.next().await;
    // Nobody may be working any more.
    tell.send(()).unwrap_or_default();
    tokio::select! {
        () = tokio::time::sleep(GRACE) => {}
        () = signals.next() => {}
    }
    process::exit(i32::from(Verdict::Stopped as u8));
}

/// The signals that stop us. One that we were started to ignore, as by `nohup`, is not among them.
struct Signals(Vec<Signal>);

impl Signals {
    fn listen() -> io::Result<Self> {
        let kinds = [
            SignalKind::hangup(),
            SignalKind::interrupt(),
            SignalKind::quit(),
            SignalKind::terminate(),
        ];
        kinds
            .into_iter()
            .filter(|kind| !is_ignored(*kind))
            .map(signal)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    async fn next(&mut self) {
        std::future::poll_fn(|context| {
            let came = self.0.iter_mut().map(|signal| signal.poll_recv(context).is_ready());
            // Each must be asked, so that each wakes us.
            if came.fold(false, |any, each| any | each) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Waits for a signal; one that we were started to ignore never comes.
pub(crate) async fn received(kind: SignalKind) -> io::Result<()> {
    if is_ignored(kind) {
        return std::future::pending().await;
    }
    signal(kind)?.recv().await;
    Ok(())
}

fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    let bit = u32::try_from(kind.as_raw_value() - 1).ok().and_then(|bit| 1_u64.checked_shl(bit));
    bit.is_some_and(|bit| mask & bit != 0)
}
