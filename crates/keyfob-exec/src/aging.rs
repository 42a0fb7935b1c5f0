//! What everything that is kept for a while needs: room, and a clock that may be set back.

use std::{
    cmp::Ordering,
    collections::HashMap,
    hash::{BuildHasher, Hash},
    time::{Duration, SystemTime},
};

/// Whether the clock was set back since something was kept: then nobody knows how old that is.
///
/// Not at once: whoever asks may have looked at the clock just before it was kept.
pub fn was_set_back(now: SystemTime, kept: SystemTime) -> bool {
    const SLACK: Duration = Duration::from_mins(1);
    now < kept && kept.duration_since(now).is_ok_and(|ahead| ahead > SLACK)
}

/// Makes room for one more: if there is none, the eighth that comes first goes, so that this is seldom.
pub fn make_room<K: Eq + Hash, V, S: BuildHasher>(
    kept: &mut HashMap<K, V, S>,
    limit: usize,
    time: impl Fn(&V) -> SystemTime,
) {
    let Some(too_many) = (kept.len() + 1).checked_sub(limit).filter(|more| *more > 0) else {
        return;
    };
    let leaving = too_many.max(limit / 8).min(kept.len());
    let mut times: Vec<SystemTime> = kept.values().map(&time).collect();
    let Some(at) = leaving.checked_sub(1) else { return };
    let (before, last, _) = times.select_nth_unstable(at);
    let last = *last;
    let mut of_last = leaving - before.iter().filter(|time| **time < last).count();
    kept.retain(|_, value| match time(value).cmp(&last) {
        Ordering::Less => false,
        Ordering::Equal if of_last > 0 => {
            of_last -= 1;
            false
        }
        Ordering::Equal | Ordering::Greater => true,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn an_eighth_goes_when_there_is_no_room_and_nothing_before() {
        let mut kept: HashMap<u64, SystemTime> = (0..16).map(|n| (n, at(n))).collect();
        make_room(&mut kept, 17, |time| *time);
        assert_eq!(kept.len(), 16);

        make_room(&mut kept, 16, |time| *time);

        let mut left: Vec<u64> = kept.into_keys().collect();
        left.sort_unstable();
        assert_eq!(left, (2..16).collect::<Vec<_>>());
    }

    #[test]
    fn of_equal_times_only_as_many_go_as_must() {
        let mut kept: HashMap<u64, SystemTime> = (0..16).map(|n| (n, at(n.min(1)))).collect();
        make_room(&mut kept, 16, |time| *time);
        assert_eq!((kept.len(), kept.contains_key(&0)), (14, false));
    }

    #[test]
    fn room_for_one_is_made_even_if_only_one_may_stay() {
        let mut kept = HashMap::from([(1, at(1))]);
        make_room(&mut kept, 1, |time| *time);
        assert!(kept.is_empty());
        make_room(&mut kept, 1, |time| *time);
    }

    #[test]
    fn a_clock_is_set_back_if_it_is_by_far() {
        assert!(!was_set_back(at(100), at(50)));
        assert!(!was_set_back(at(100), at(160)));
        assert!(was_set_back(at(100), at(161)));
    }
}
