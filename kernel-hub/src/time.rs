//! The time, and dates as text.
//!
//! Owns: RFC 3339 in UTC. Never: reads a time zone.

use jiff::Timestamp;

/// Seconds since 1970.
pub fn now() -> u64 {
    u64::try_from(Timestamp::now().as_second()).unwrap_or_default()
}

/// `2026-11-22T18:00:00.000Z`, as clients read dates; the last second of the calendar if the time is later.
pub fn rfc3339(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    format!("{:.3}", time.unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // `date -u -d @N`
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(1_798_761_599), "2026-12-31T23:59:59.000Z");
        assert_eq!(rfc3339(4_107_542_400), "2100-03-01T00:00:00.000Z");
    }
}
