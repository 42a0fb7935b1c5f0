//! How slow is too slow.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};

/// A minimum rate, with some patience for pauses: n bytes may take `patience` and n divided by the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a complete value that callers build")]
pub struct Pace {
    /// How long nothing may happen.
    pub patience: Duration,
    /// How many bytes give the client another second.
    pub bytes_per_second: u32,
}

/// Measures a client by a [`Pace`]. Only the time in which the server waits for the client counts.
#[derive(Debug)]
pub(super) struct Stopwatch {
    pace: Pace,
    /// How long the client may still keep the server waiting.
    left: Duration,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Stopwatch {
    pub(super) fn new(pace: Pace) -> Self {
        Self { pace, left: pace.patience, waiting: None }
    }

    /// Nothing came; ready when that went on for too long.
    pub(super) fn poll_waits(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let left = self.left;
        let (_, end) = self.waiting.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(left))));
        end.as_mut().poll(context)
    }

    /// Some bytes went through.
    pub(super) fn progress(&mut self, bytes: usize) {
        if let Some((since, _)) = self.waiting.take() {
            self.left = self.left.saturating_sub(since.elapsed());
        }
        let gained = Duration::from_secs(bytes as u64) / self.pace.bytes_per_second.max(1);
        self.left = self.left.saturating_add(gained).min(self.pace.patience);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::timeout;

    use super::*;

    const PACE: Pace = Pace { patience: Duration::from_secs(10), bytes_per_second: 100 };

    /// How long a client that sends so many bytes each second is borne.
    async fn endured(bytes: usize) -> Option<Duration> {
        let (mut stopwatch, start) = (Stopwatch::new(PACE), Instant::now());
        for _ in 0..1000 {
            let second = timeout(Duration::from_secs(1), poll_fn(|it| stopwatch.poll_waits(it)));
            if second.await.is_ok() {
                return Some(start.elapsed());
            }
            stopwatch.progress(bytes);
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickle_is_no_progress_and_the_minimum_rate_is() {
        let silent = endured(0).await.unwrap();
        assert!((10..=11).contains(&silent.as_secs()), "{silent:?}");
        let trickle = endured(1).await.unwrap();
        assert!((10..=11).contains(&trickle.as_secs()), "{trickle:?}");
        let half = endured(50).await.unwrap();
        assert!((18..=21).contains(&half.as_secs()), "{half:?}");
        assert_eq!(endured(101).await, None);
    }
}
