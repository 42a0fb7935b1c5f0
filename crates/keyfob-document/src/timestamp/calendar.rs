//! Days and dates in the proleptic Gregorian calendar.

#[derive(Clone, Copy)]
pub(super) struct Date {
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
}

impl Date {
    /// Days since 1970-01-01 in the proleptic Gregorian calendar, counting years from March so that the leap day is last.
    pub(super) fn days_since_epoch(self) -> i64 {
        let year = if self.month < 3 { self.year - 1 } else { self.year };
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_year = (153 * ((self.month + 9) % 12) + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * 146_097 + day_of_era - 719_468
    }

    pub(super) fn from_epoch_days(days: i64) -> Self {
        let days = days + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = (march_month + 2) % 12 + 1;
        Self {
            year: era * 400 + year_of_era + i64::from(month < 3),
            month,
            day: day_of_year - (153 * march_month + 2) / 5 + 1,
        }
    }
}

pub(super) fn days_in(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
