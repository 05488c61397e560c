//! Durations and sizes for people.
//!
//! Owns: units and rounding. Never: prints.

use std::time::Duration;

/// A duration for people: `84 ms`, `3.2 s`, `2 min 05 s`.
pub fn duration(took: Duration) -> String {
    let seconds = took.as_secs_f64();
    match seconds {
        ..1.0 => format!("{:.0} ms", seconds * 1e3),
        1.0..60.0 => format!("{seconds:.1} s"),
        _ => format!("{} min {:02.0} s", (seconds / 60.0) as u64, seconds % 60.0),
    }
}

/// A size for people, in decimal units as package indexes print them: `11.7 MB`.
pub fn bytes(count: u64) -> String {
    match count as f64 {
        size @ ..1e3 => format!("{size:.0} B"),
        size @ ..1e6 => format!("{:.1} kB", size / 1e3),
        size @ ..1e9 => format!("{:.1} MB", size / 1e6),
        size => format!("{:.2} GB", size / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_read_well() {
        assert_eq!(bytes(11_700_000), "11.7 MB");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(duration(Duration::from_millis(84)), "84 ms");
        assert_eq!(duration(Duration::from_secs(125)), "2 min 05 s");
    }
}
