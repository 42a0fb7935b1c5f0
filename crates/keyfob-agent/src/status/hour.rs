//! Counts of the last hour, minute by minute.

use std::{
    collections::VecDeque,
    time::{Duration, SystemTime},
};

use serde::Serialize;

use super::time::Moment;
use crate::audit::Outcome;

/// How many minutes are remembered.
pub(crate) const MINUTES: u64 = 60;

/// What happened in one minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counts {
    /// Requests for credentials that have ended, whatever the answer was.
    pub(crate) responses: u64,
    /// Of these, how many were denied, made no sense or came from a caller that asks too often.
    pub(crate) refused: u64,
    /// Of these, how many no provider could answer.
    pub(crate) failed: u64,
    pub(crate) plugin_runs: u64,
    /// Runs that gave no answer, and attempts for which no plugin could be started.
    pub(crate) plugin_failures: u64,
}

/// A minute, and what happened in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Minute {
    pub(crate) start: Moment,
    #[serde(flatten)]
    pub(crate) counts: Counts,
}

/// The minutes of the last hour in which something happened, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Hour(VecDeque<(u64, Counts)>);

impl Hour {
    /// The counts of this minute, to be changed. After the clock was set back, the last minute that is known goes on.
    pub(crate) fn at(&mut self, now: SystemTime) -> Option<&mut Counts> {
        let minute = minute_of(now);
        if self.0.back().is_none_or(|(last, _)| *last < minute) {
            self.0.push_back((minute, Counts::default()));
        }
        // A clock that was set back by more than an hour begins anew.
        if self.0.back().is_some_and(|(last, _)| *last > minute + MINUTES) {
            self.0.clear();
            self.0.push_back((minute, Counts::default()));
        }
        while self.0.front().is_some_and(|(first, _)| first + MINUTES <= minute) {
            self.0.pop_front();
        }
        self.0.back_mut().map(|(_, counts)| counts)
    }

    /// All sixty minutes, the oldest first; the last one goes on.
    pub(crate) fn minutes(&self, now: SystemTime) -> Vec<Minute> {
        let last = minute_of(now);
        let known = |minute| self.0.iter().find(|(each, _)| *each == minute);
        let minutes = (0..MINUTES).rev().map(|ago| last.saturating_sub(ago));
        let minute = |minute| Minute {
            start: Moment(SystemTime::UNIX_EPOCH + Duration::from_secs(minute * 60)),
            counts: known(minute).map(|(_, counts)| *counts).unwrap_or_default(),
        };
        minutes.map(minute).collect()
    }
}

impl Counts {
    /// How many requests were neither refused nor failed.
    pub(crate) fn answered(&self) -> u64 {
        self.responses.saturating_sub(self.refused + self.failed)
    }

    pub(crate) fn count(&mut self, outcome: Outcome) {
        self.responses += 1;
        match outcome {
            Outcome::Denied | Outcome::BadRequest | Outcome::RateLimited => self.refused += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Allowed | Outcome::Empty | Outcome::Abandoned => {}
        }
    }
}

fn minute_of(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() / 60
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(600_000 + minutes * 60 + 7)
    }

    fn responses(hour: &Hour, now: SystemTime) -> Vec<u64> {
        hour.minutes(now).iter().map(|minute| minute.counts.responses).collect()
    }

    fn answer(hour: &mut Hour, now: SystemTime) {
        hour.at(now).unwrap().count(Outcome::Allowed);
    }

    #[test]
    fn an_hour_has_sixty_minutes_and_forgets_older_ones() {
        let mut hour = Hour::default();
        for minute in [0, 0, 3, 59] {
            answer(&mut hour, at(minute));
        }
        let counted = responses(&hour, at(59));
        assert_eq!((counted.len(), counted[0], counted[3], counted[59]), (60, 2, 1, 1));
        assert_eq!(responses(&hour, at(60))[2], 1, "the first minute is gone, the others move");
        answer(&mut hour, at(500));
        assert_eq!(hour.0.len(), 1, "what is not shown is not kept");
    }

    #[test]
    fn a_clock_that_is_set_back_loses_no_counts_and_keeps_no_future() {
        let mut hour = Hour::default();
        answer(&mut hour, at(100));
        answer(&mut hour, at(99));
        assert_eq!(responses(&hour, at(100))[59], 2);
        answer(&mut hour, at(0));
        assert_eq!(responses(&hour, at(0)).iter().sum::<u64>(), 1);
    }

    #[test]
    fn refusals_and_failures_are_counted_apart() {
        use Outcome::{Allowed, Denied, Empty, Failed, RateLimited};
        let mut counts = Counts::default();
        for outcome in [Allowed, Denied, Empty, Failed, RateLimited] {
            counts.count(outcome);
        }
        let Counts { responses, refused, failed, .. } = counts;
        assert_eq!((responses, counts.answered(), refused, failed), (5, 2, 2, 1));
    }
}
