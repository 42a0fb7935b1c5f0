//! Durations as Go writes them: `1h30m`, `1.5s`, `0`.
//!
//! Upstream: `time.ParseDuration` and `Duration.String` of Go 1.26, through `metav1.Duration`.

use std::{fmt, str::FromStr, time::Duration};

use thiserror::Error;

use crate::Secret;

/// A signed span of nanoseconds, read and printed exactly as Go does.
///
/// ```
/// use keyfob_document::GoDuration;
///
/// let kept_for = GoDuration::parse("90m").unwrap();
/// assert_eq!(kept_for.to_string(), "1h30m0s");
/// assert_eq!(kept_for.to_std(), Some(std::time::Duration::from_secs(5400)));
/// assert_eq!(
///     GoDuration::parse("1d").unwrap_err().to_string(),
///     r#"time: unknown unit "d" in duration "1d""#
/// );
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

impl GoDuration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of so many nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Reads `[+-]` and then numbers with units, such as `2h45m30.5s`; a bare `0` needs no unit.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let (negative, digits) = match text.as_bytes().first() {
            Some(b'-') => (true, text.get(1..).unwrap_or_default()),
            Some(b'+') => (false, text.get(1..).unwrap_or_default()),
            _ => (false, text),
        };
        if digits == "0" {
            return Ok(Self::ZERO);
        }
        signed(magnitude(digits, text)?, negative).ok_or_else(|| DurationError::invalid(text))
    }

    /// The span in nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// The same span for the standard library, which knows no negative ones.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }

    /// Whether this is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether this lies in the past of any instant it is added to.
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        Self::parse(text)
    }
}

/// Spans longer than 292 years become the longest span there is.
impl From<Duration> for GoDuration {
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_negative() {
            f.write_str("-")?;
        }
        let nanos = self.0.unsigned_abs();
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => write_decimal(f, nanos, 1_000, "µs"),
            1_000_000..1_000_000_000 => write_decimal(f, nanos, 1_000_000, "ms"),
            _ => write_clock(f, nanos),
        }
    }
}

/// Why a text is not a duration. The words are Go's, and quote the text; `Debug` does not, for it may be a secret that
/// was put in the wrong place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DurationError {
    /// Not a duration at all, or one that does not fit.
    #[error("time: invalid duration {}", quoted(.0.expose()))]
    Invalid(Secret<String>),
    /// A number is not followed by a unit.
    #[error("time: missing unit in duration {}", quoted(.0.expose()))]
    MissingUnit(Secret<String>),
    /// A number is followed by a word that is no unit.
    #[error("time: unknown unit {} in duration {}", quoted(unit.expose()), quoted(duration.expose()))]
    UnknownUnit {
        /// The word.
        unit: Secret<String>,
        /// The whole text.
        duration: Secret<String>,
    },
}

impl DurationError {
    fn invalid(text: &str) -> Self {
        Self::Invalid(text.into())
    }
}

/// Go's largest magnitude: only the negative side can hold it.
const LIMIT: u64 = 1 << 63;

fn signed(magnitude: u64, negative: bool) -> Option<GoDuration> {
    let nanos = if negative {
        0_i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    };
    nanos.map(GoDuration)
}

fn magnitude(digits: &str, whole: &str) -> Result<u64, DurationError> {
    let invalid = || DurationError::invalid(whole);
    let mut rest = digits;
    let mut sum = 0_u64;
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let (number, after) = Number::read(rest).ok_or_else(invalid)?;
        let length = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(length);
        let nanos = number.times(unit_nanos(unit, whole)?).ok_or_else(invalid)?;
        // Go's sum wraps around: two halves of its range make nothing, and that is accepted.
        sum = Some(sum.wrapping_add(nanos)).filter(|sum| *sum <= LIMIT).ok_or_else(invalid)?;
        rest = after;
    }
    Ok(sum)
}

fn unit_nanos(unit: &str, whole: &str) -> Result<u64, DurationError> {
    Ok(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "" => return Err(DurationError::MissingUnit(whole.into())),
        _ => {
            return Err(DurationError::UnknownUnit { unit: unit.into(), duration: whole.into() });
        }
    })
}

/// A decimal number: its whole part, and its fraction as `fraction / scale`.
struct Number {
    whole: u64,
    fraction: u64,
    scale: f64,
}

impl Number {
    /// The number at the start of `text`, and what follows it.
    fn read(text: &str) -> Option<(Self, &str)> {
        let (whole_digits, rest) = split_digits(text);
        let (fraction_digits, rest) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        if whole_digits.is_empty() && fraction_digits.is_empty() {
            return None;
        }
        let whole = whole_digits.bytes().try_fold(0, push_digit)?;
        let (fraction, scale) = read_fraction(fraction_digits);
        Some((Self { whole, fraction, scale }, rest))
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "Go scales fractions in floating point, and its rounding is part of the format"
    )]
    fn times(&self, unit: u64) -> Option<u64> {
        let whole = self.whole.checked_mul(unit)?;
        let part = self.fraction as f64 * (unit as f64 / self.scale);
        whole.checked_add(part as u64).filter(|sum| *sum <= LIMIT)
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn push_digit(number: u64, digit: u8) -> Option<u64> {
    let number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    (number <= LIMIT).then_some(number)
}

/// Digits that no longer fit are dropped, not refused.
fn read_fraction(digits: &str) -> (u64, f64) {
    let (mut fraction, mut scale) = (0_u64, 1_f64);
    for digit in digits.bytes() {
        let Some(longer) = push_digit(fraction, digit) else {
            break;
        };
        fraction = longer;
        scale *= 10.0;
    }
    (fraction, scale)
}

fn write_clock(f: &mut fmt::Formatter<'_>, nanos: u64) -> fmt::Result {
    const MINUTE: u64 = 60_000_000_000;
    let minutes = nanos / MINUTE;
    if minutes >= 60 {
        write!(f, "{}h", minutes / 60)?;
    }
    if minutes > 0 {
        write!(f, "{}m", minutes % 60)?;
    }
    write_decimal(f, nanos % MINUTE, 1_000_000_000, "s")
}

fn write_decimal(f: &mut fmt::Formatter<'_>, value: u64, one: u64, unit: &str) -> fmt::Result {
    write!(f, "{}", value / one)?;
    if !value.is_multiple_of(one) {
        let width = one.ilog10() as usize;
        let fraction = format!("{:0width$}", value % one);
        write!(f, ".{}", fraction.trim_end_matches('0'))?;
    }
    f.write_str(unit)
}

/// Go's quoting in package `time`: ASCII as it is, every other byte in hexadecimal.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='\x7f' => out.push(c),
            _ => {
                let mut buffer = [0; 4];
                let bytes = c.encode_utf8(&mut buffer).bytes();
                out.extend(bytes.map(|byte| format!("\\x{byte:02x}")));
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_sign_and_fraction_is_read() {
        let cases = [
            ("0", 0),
            ("-0", 0),
            ("+5s", 5_000_000_000),
            ("1h2m3s4ms5us6ns", 3_723_004_005_006),
            ("1µs1μs", 2_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("0.100000000000000000000h", 360_000_000_000),
            ("0.830103483285477580700h", 2_988_372_539_827),
            ("-9223372036854775808ns", i64::MIN),
            ("2562047h47m16.854775807s", i64::MAX),
        ];
        for (text, nanos) in cases {
            assert_eq!(GoDuration::parse(text), Ok(GoDuration(nanos)), "{text}");
        }
    }

    #[test]
    fn refusals_speak_as_go_does() {
        let cases = [
            ("", r#"time: invalid duration """#),
            ("-", r#"time: invalid duration "-""#),
            (".s", r#"time: invalid duration ".s""#),
            ("5", r#"time: missing unit in duration "5""#),
            ("1d", r#"time: unknown unit "d" in duration "1d""#),
            ("1m2", r#"time: missing unit in duration "1m2""#),
            ("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#),
            ("1\u{e9}\"\n", r#"time: unknown unit "\xc3\xa9\"\x0a" in duration "1\xc3\xa9\"\x0a""#),
        ];
        for (text, message) in cases {
            assert_eq!(GoDuration::parse(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn printing_uses_the_largest_fitting_units() {
        let cases = [
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (245_000_000_000, "4m5s"),
            (3_600_000_000_000, "1h0m0s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(GoDuration(nanos).to_string(), text);
        }
    }

    #[test]
    fn a_negative_span_has_no_std_form() {
        assert_eq!(GoDuration(-1).to_std(), None);
        assert_eq!(GoDuration::from(Duration::MAX), GoDuration(i64::MAX));
    }
}
