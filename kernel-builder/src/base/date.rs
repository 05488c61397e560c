//! Dates of the calendar, in UTC.
//!
//! Owns: today's date, and dates as text. Never: reads a time zone.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// Today's date as `YYYY-MM-DD`.
pub(crate) fn today() -> String {
    date_at(Timestamp::now()).to_string()
}

/// The current year.
pub(crate) fn this_year() -> i64 {
    date_at(Timestamp::now()).year().into()
}

/// The date at a time in seconds since 1970, as `YYYY-MM-DD`; the last day of the calendar if the time is later.
pub(crate) fn date_of(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    date_at(time.unwrap_or(Timestamp::MAX)).to_string()
}

fn date_at(time: Timestamp) -> Date {
    TimeZone::UTC.to_datetime(time).date()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_767_225_599, "2025-12-31"),
            (1_767_225_600, "2026-01-01"),
            (1_795_226_400, "2026-11-21"),
            (4_107_542_400, "2100-03-01"),
            (u64::MAX, "9999-12-30"),
        ] {
            assert_eq!(date_of(seconds), date);
        }
    }

    #[test]
    fn the_year_is_that_of_today() {
        assert!(today().starts_with(&format!("{}-", this_year())));
    }
}
