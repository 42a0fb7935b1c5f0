//! When to ask again.

use std::time::Duration;

use http::HeaderMap;

/// How often to ask again, and how long to wait before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers fill it in, with `..Default::default()` for the rest"
)]
pub struct Patience {
    /// How many attempts there are in all.
    pub attempts: u32,
    /// Half of the longest wait after the first of them; each later one may be twice as long.
    pub first: Duration,
    /// The longest wait that nobody asked for.
    pub longest: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let (first, longest) = (Duration::from_millis(200), Duration::from_secs(8));
        Self { attempts: 5, first, longest }
    }
}

impl Patience {
    /// How long to wait after an attempt, the first of which has number 1, if the server asked for some time, or did
    /// not; `None` if that was the last.
    pub fn pause(&self, attempt: u32, asked_for: Option<Duration>) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        // All clients of a registry are told off at once: each takes another moment to come back.
        let ceiling = self.first.saturating_mul(1 << attempt.min(16)).min(self.longest);
        let jitter = ceiling.mul_f32(0.5 + fastrand::f32() / 2.0);
        Some(asked_for.map_or(jitter, |asked_for| asked_for.saturating_add(jitter / 4)))
    }
}

/// Whether a status says that the next attempt may end otherwise.
pub fn may_pass(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504)
}

/// For how long a server does not want to be asked again, if it says so in seconds.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_grows_and_ends() {
        let patience = Patience::default();
        for attempt in 1..patience.attempts {
            let ceiling = patience.first * (1 << attempt);
            let waited = patience.pause(attempt, None).unwrap();
            assert!((ceiling / 2..=ceiling).contains(&waited), "{attempt}: {waited:?}");
        }
        assert_eq!(patience.pause(patience.attempts, None), None);
    }

    #[test]
    fn a_server_is_given_the_time_it_asks_for_and_no_sum_overflows() {
        let patience = Patience { attempts: u32::MAX, ..Patience::default() };
        let minute = Duration::from_mins(1);
        let waited = patience.pause(1, Some(minute)).unwrap();
        assert!((minute..minute + patience.longest).contains(&waited), "{waited:?}");
        assert_eq!(patience.pause(1, Some(Duration::MAX)), Some(Duration::MAX));
        assert!(patience.pause(u32::MAX - 1, None).unwrap() <= patience.longest);
    }

    #[test]
    fn only_seconds_are_heard() {
        let headers = |value: &str| {
            [(http::header::RETRY_AFTER, value.parse().unwrap())].into_iter().collect::<HeaderMap>()
        };
        assert_eq!(retry_after(&headers(" 7 ")), Some(Duration::from_secs(7)));
        for other in ["-1", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT", ""] {
            assert_eq!(retry_after(&headers(other)), None, "{other}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
