//! The parts of a time in a text.

use super::{TimestampError, calendar::Date};

#[derive(Clone, Copy, Default)]
pub(super) struct Clock {
    pub(super) seconds: i64,
    pub(super) nanos: u32,
}

/// How many digits a month, day, minute or second must have.
#[derive(Clone, Copy)]
pub(super) enum Digits {
    Two,
    OneOrTwo,
}

pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl Cursor<'_> {
    pub(super) fn date(&mut self, digits: Digits) -> Result<Date, TimestampError> {
        let year = self.year()?;
        self.literal(b'-')?;
        let month = self.number(digits)?;
        if !(1..=12).contains(&month) {
            return Err(TimestampError::OutOfRange("month"));
        }
        self.literal(b'-')?;
        Ok(Date { year, month, day: self.number(digits)? })
    }

    pub(super) fn clock(&mut self, digits: Digits) -> Result<Clock, TimestampError> {
        let hour = self.below(24, "hour", Digits::OneOrTwo)?;
        self.literal(b':')?;
        let minute = self.below(60, "minute", digits)?;
        self.literal(b':')?;
        let second = self.below(60, "second", digits)?;
        let nanos = self.fraction();
        Ok(Clock { seconds: (hour * 60 + minute) * 60 + second, nanos })
    }

    /// Seconds east of Greenwich.
    pub(super) fn offset(&mut self) -> Result<i64, TimestampError> {
        let sign = match self.next()? {
            b'Z' => return Ok(0),
            b'+' => 1,
            b'-' => -1,
            _ => return Err(TimestampError::Malformed),
        };
        let hours = self.number(Digits::Two)?;
        self.literal(b':')?;
        let minutes = self.number(Digits::Two)?;
        // Go lets 24 hours and 60 minutes pass, "as some people do write" them.
        match (hours, minutes) {
            (25.., _) => Err(TimestampError::OutOfRange("time zone offset hour")),
            (_, 61..) => Err(TimestampError::OutOfRange("time zone offset minute")),
            _ => Ok(sign * (hours * 60 + minutes) * 60),
        }
    }

    fn year(&mut self) -> Result<i64, TimestampError> {
        (0..4).try_fold(0, |year, _| Ok(year * 10 + self.digit()?))
    }

    fn below(
        &mut self,
        end: i64,
        name: &'static str,
        digits: Digits,
    ) -> Result<i64, TimestampError> {
        let number = self.number(digits)?;
        if number < end { Ok(number) } else { Err(TimestampError::OutOfRange(name)) }
    }

    fn number(&mut self, digits: Digits) -> Result<i64, TimestampError> {
        let first = self.digit()?;
        match (self.digit(), digits) {
            (Ok(second), _) => Ok(first * 10 + second),
            (Err(_), Digits::OneOrTwo) => Ok(first),
            (Err(error), Digits::Two) => Err(error),
        }
    }

    /// A point or comma is only a fraction when a digit follows; nine digits count.
    fn fraction(&mut self) -> u32 {
        let [b'.' | b',', digits @ ..] = self.0 else {
            return 0;
        };
        let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length == 0 {
            return 0;
        }
        let (digits, rest) = digits.split_at(length);
        self.0 = rest;
        let padded = digits.iter().copied().chain(std::iter::repeat(b'0'));
        padded.take(9).fold(0, |nanos, digit| nanos * 10 + u32::from(digit - b'0'))
    }

    fn digit(&mut self) -> Result<i64, TimestampError> {
        match self.0 {
            [digit @ b'0'..=b'9', rest @ ..] => {
                self.0 = rest;
                Ok(i64::from(digit - b'0'))
            }
            _ => Err(TimestampError::Malformed),
        }
    }

    pub(super) fn literal(&mut self, wanted: u8) -> Result<(), TimestampError> {
        if self.next()? == wanted { Ok(()) } else { Err(TimestampError::Malformed) }
    }

    fn next(&mut self) -> Result<u8, TimestampError> {
        let [first, rest @ ..] = self.0 else {
            return Err(TimestampError::Malformed);
        };
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn end(&self) -> Result<(), TimestampError> {
        if self.0.is_empty() { Ok(()) } else { Err(TimestampError::Malformed) }
    }
}
