//! Times, as people and programs read them.

use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use crate::access::rfc3339;

/// A time that is written in RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) SystemTime);

impl Moment {
    /// In RFC 3339.
    pub(crate) fn iso(self) -> String {
        rfc3339(self.0)
    }

    /// As [`relative_time`] has it.
    pub(crate) fn relative(self, now: SystemTime) -> String {
        relative_time(self.0, now)
    }
}

/// How far a time is from now, as the status page tells it: such as `12 s ago` or `in 4 min 5 s`, in one or two units.
#[must_use]
pub fn relative_time(time: SystemTime, now: SystemTime) -> String {
    // The script of the page writes it in the same way.
    let (distance, is_ahead) = match time.duration_since(now) {
        Ok(ahead) => (ahead, true),
        Err(behind) => (behind.duration(), false),
    };
    match (distance.as_secs(), is_ahead) {
        (0, _) => "now".to_owned(),
        (_, true) => format!("in {}", rounded(distance)),
        (_, false) => format!("{} ago", rounded(distance)),
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.iso())
    }
}

/// In one or two units, rounded down.
fn rounded(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, 1..10) => format!("{minutes} min {} s", seconds % 60),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_two_units_at_most() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let relative = |seconds: i64| {
            let away = Duration::from_secs(seconds.unsigned_abs());
            let time = if seconds < 0 { now - away } else { now + away };
            Moment(time).relative(now)
        };
        for (seconds, text) in [
            (0, "now"),
            (-1, "1 s ago"),
            (59, "in 59 s"),
            (125, "in 2 min 5 s"),
            (-3599, "59 min ago"),
            (3660, "in 1 h 1 min"),
            (-90_000, "1 d 1 h ago"),
        ] {
            assert_eq!(relative(seconds), text);
        }
    }
}
