//! Instants as Kubernetes reads and prints them: `2030-01-01T00:00:00Z`.
//!
//! Upstream: `metav1.Time` (`time.Parse` with `time.RFC3339` of Go 1.26), which is wider than RFC 3339: an hour of one
//! digit, a comma before the fraction, offsets up to 24:60.

mod calendar;
mod cursor;

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use thiserror::Error;

use calendar::{Date, days_in};
use cursor::{Clock, Cursor, Digits};

/// A point in time with nanoseconds.
///
/// ```
/// use keyfob_document::Timestamp;
///
/// let expiry = Timestamp::parse("2030-01-01T02:00:00.5+02:00").unwrap();
/// assert_eq!(expiry.to_string(), "2030-01-01T00:00:00Z");
/// assert_eq!(expiry.subsec_nanos(), 500_000_000);
/// assert!(Timestamp::parse("0001-01-01T05:00:00+05:00").unwrap().is_zero());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    seconds: i64,
    nanos: u32,
}

impl Timestamp {
    /// Reads an RFC 3339 time the way Go does; digits beyond the nanosecond are cut.
    pub fn parse(text: &str) -> Result<Self, TimestampError> {
        let mut rest = Cursor(text.as_bytes());
        let date = rest.date(Digits::Two)?;
        rest.literal(b'T')?;
        let clock = rest.clock(Digits::Two)?;
        let offset = rest.offset()?;
        rest.end()?;
        Self::new(date, clock, offset)
    }

    /// Seconds since the Unix epoch, rounded down.
    pub const fn unix_seconds(self) -> i64 {
        self.seconds
    }

    /// The nanoseconds after that second.
    pub const fn subsec_nanos(self) -> u32 {
        self.nanos
    }

    /// Whether this is Go's zero time, the first instant of year 1, which stands for "no time".
    pub fn is_zero(self) -> bool {
        self == Self { seconds: -62_135_596_800, nanos: 0 }
    }

    /// The same instant for the standard library; `None` where the platform cannot hold it.
    pub fn to_system_time(self) -> Option<SystemTime> {
        let whole = Duration::from_secs(self.seconds.unsigned_abs());
        let second = if self.seconds < 0 {
            UNIX_EPOCH.checked_sub(whole)
        } else {
            UNIX_EPOCH.checked_add(whole)
        };
        second?.checked_add(Duration::from_nanos(u64::from(self.nanos)))
    }

    fn new(date: Date, clock: Clock, offset: i64) -> Result<Self, TimestampError> {
        if date.day < 1 || date.day > days_in(date.year, date.month) {
            return Err(TimestampError::OutOfRange("day"));
        }
        let seconds = date.days_since_epoch() * 86_400 + clock.seconds - offset;
        Ok(Self { seconds, nanos: clock.nanos })
    }
}

/// Instants beyond what 64-bit seconds hold become the nearest that they do.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let (seconds, nanos) = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => (i128::from(after.as_secs()), after.subsec_nanos()),
            Err(before) => match (before.duration().as_secs(), before.duration().subsec_nanos()) {
                (seconds, 0) => (-i128::from(seconds), 0),
                (seconds, nanos) => (-i128::from(seconds) - 1, 1_000_000_000 - nanos),
            },
        };
        let seconds =
            i64::try_from(seconds).unwrap_or(if seconds < 0 { i64::MIN } else { i64::MAX });
        Self { seconds, nanos }
    }
}

/// In UTC, to the second: what `metav1.Time` writes.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Date { year, month, day } = Date::from_epoch_days(self.seconds.div_euclid(86_400));
        let second = self.seconds.rem_euclid(86_400);
        let sign = if year < 0 { "-" } else { "" };
        write!(f, "{sign}{:04}-{month:02}-{day:02}", year.unsigned_abs())?;
        write!(f, "T{:02}:{:02}:{:02}Z", second / 3_600, second / 60 % 60, second % 60)
    }
}

/// Why a text is not a time. It never quotes the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TimestampError {
    /// The text does not have the shape `2006-01-02T15:04:05Z07:00`.
    #[error("not an RFC 3339 time")]
    Malformed,
    /// A part has the right shape and an impossible value.
    #[error("{0} out of range")]
    OutOfRange(&'static str),
}

/// Whether Go's YAML reader takes the text for a `!!timestamp`: RFC 3339 with short fields, or a date alone.
pub(crate) fn is_yaml_timestamp(text: &str) -> bool {
    ["T", "t", " ", ""].iter().any(|separator| yaml_form(text, separator).is_ok())
}

fn yaml_form(text: &str, separator: &str) -> Result<Timestamp, TimestampError> {
    let mut rest = Cursor(text.as_bytes());
    let date = rest.date(Digits::OneOrTwo)?;
    let Some(separator) = separator.bytes().next() else {
        rest.end()?;
        return Timestamp::new(date, Clock::default(), 0);
    };
    rest.literal(separator)?;
    let clock = rest.clock(Digits::OneOrTwo)?;
    let offset = if separator == b' ' { 0 } else { rest.offset()? };
    rest.end()?;
    Timestamp::new(date, clock, offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(text: &str) -> String {
        Timestamp::parse(text).map_or_else(|error| error.to_string(), |time| time.to_string())
    }

    #[test]
    fn the_wide_rules_of_go_are_kept() {
        let cases = [
            ("2030-06-01T7:08:09Z", "2030-06-01T07:08:09Z"),
            ("2030-06-01T07:08:09,25Z", "2030-06-01T07:08:09Z"),
            ("2030-06-01T00:00:00+24:60", "2030-05-30T23:00:00Z"),
            ("2000-02-29T00:00:00Z", "2000-02-29T00:00:00Z"),
            ("1900-02-29T00:00:00Z", "day out of range"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
            ("9999-12-31T23:59:59-01:00", "10000-01-01T00:59:59Z"),
            ("0000-01-01T00:00:00+01:00", "-0001-12-31T23:00:00Z"),
            ("2030-06-01t07:08:09Z", "not an RFC 3339 time"),
            ("2030-06-01T07:08:09z", "not an RFC 3339 time"),
            ("2030-06-01T07:08:09.Z", "not an RFC 3339 time"),
            ("2030-06-01T07:08:60Z", "second out of range"),
            ("2030-06-01T07:08:09+25:00", "time zone offset hour out of range"),
        ];
        for (text, want) in cases {
            assert_eq!(utc(text), want, "{text}");
        }
    }

    #[test]
    fn a_fraction_is_cut_to_nanoseconds() {
        let time = Timestamp::parse("2030-01-01T00:00:00.1234567899Z").unwrap();
        assert_eq!(time.subsec_nanos(), 123_456_789);
    }

    #[test]
    fn only_the_very_first_instant_is_zero() {
        assert!(Timestamp::parse("0001-01-01T00:00:00.000Z").unwrap().is_zero());
        assert!(!Timestamp::parse("0001-01-01T00:00:00.000000001Z").unwrap().is_zero());
    }

    #[test]
    fn system_time_goes_both_ways() {
        for text in ["1969-12-31T23:59:58.75Z", "2030-01-01T00:00:00Z"] {
            let time = Timestamp::parse(text).unwrap();
            assert_eq!(Timestamp::from(time.to_system_time().unwrap()), time);
        }
    }

    #[test]
    fn yaml_takes_short_dates_too() {
        for text in ["2030-1-2", "2030-1-2t3:4:5Z", "2030-01-02 03:04:05.5"] {
            assert!(is_yaml_timestamp(text), "{text}");
        }
        assert!(!is_yaml_timestamp("2030-1-2 3:4:5Z"));
    }
}
