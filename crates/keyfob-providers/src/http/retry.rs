//! When to ask again.

use std::time::Duration;

use super::{Reply, error::Fault};

const ATTEMPTS: u32 = 5;
const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(8);

/// How long to wait before the next attempt; `None` if there shall be none.
pub(super) fn pause(outcome: &Result<Reply, Fault>, attempt: u32) -> Option<Duration> {
    let asked_for = match outcome {
        Ok(reply) if matches!(reply.status(), 408 | 429 | 500 | 502 | 503 | 504) => {
            retry_after(reply)
        }
        Err(Fault::Unreachable(_) | Fault::TooSlow(_)) => None,
        _ => return None,
    };
    if attempt >= ATTEMPTS {
        return None;
    }
    // All clients of a registry are told off at once: each takes another moment to come back.
    let ceiling = FIRST.saturating_mul(1 << attempt).min(LONGEST);
    let jitter = ceiling.mul_f32(0.5 + fastrand::f32() / 2.0);
    Some(asked_for.map_or(jitter, |asked_for| asked_for.saturating_add(jitter / 4)))
}

fn retry_after(reply: &Reply) -> Option<Duration> {
    let seconds = reply.headers().get("retry-after")?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_grows_and_ends() {
        let silence = Err(Fault::TooSlow(Duration::from_secs(1)));
        for attempt in 1..ATTEMPTS {
            let ceiling = FIRST * (1 << attempt);
            let waited = pause(&silence, attempt).unwrap();
            assert!((ceiling / 2..=ceiling).contains(&waited), "{attempt}: {waited:?}");
        }
        assert_eq!(pause(&silence, ATTEMPTS), None);
        assert_eq!(pause(&Err(Fault::NotAUrl), 1), None);
    }
}
