//! Processor time of child processes.
//!
//! Owns: the reading of /proc/self/stat. Never: counts this process itself.

/// Clock ticks a second in /proc; Linux has had this value on every usual architecture.
const TICKS: f64 = 100.0;

/// Processor seconds of all children that have ended, with their own children.
pub(crate) fn of_children() -> f64 {
    std::fs::read_to_string("/proc/self/stat").ok().and_then(|text| parse(&text)).unwrap_or(0.0)
}

/// `cutime` and `cstime`, fields 16 and 17. The name in field 2 may contain blanks, so counting starts behind it.
fn parse(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(13);
    let mut next = || fields.next()?.parse::<u32>().ok();
    Some((f64::from(next()?) + f64::from(next()?)) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_behind_the_name() {
        let stat = "17 (a ) b) S 1 17 17 0 -1 4194560 5 6 7 8 11 12 250 50 20 0 1 0 100 1 2 3";
        assert_eq!(parse(stat), Some(3.0));
        assert_eq!(parse("17 (a) S"), None);
        assert!(of_children() >= 0.0);
    }
}
