//! Keeps the cache below its limit: what was not used for longest goes first.
//!
//! The size is an estimate that every run adds to, so that a run that makes nothing does nothing here; it is counted
//! anew when it says that the limit is passed, and once a day. A file that another run is about to read may go: that run
//! makes it again.
//!
//! Owns: `size.json` and `lock` of the cache, `KERNELWRIGHT_CACHE_LIMIT`. Never: waits for another run.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::entry;
use crate::base::env;
use crate::base::files::{self, CachedFile, FileError};
use crate::base::report::{self, Report};

/// What the cache may hold, bytes.
const LIMIT: u64 = 10_000_000_000;

/// Cleaning leaves this share of the limit, so that it is not needed again soon.
const LEAVES: f64 = 0.8;

/// Cleaning ends after this time, and goes on after the next build.
const AT_MOST: Duration = Duration::from_secs(5);

/// A count is trusted for this long.
const COUNT_HOLDS: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Size {
    bytes: u64,
    /// Seconds since 1970.
    counted: u64,
}

/// Counts what a run has written, and cleans where the limit is passed.
pub(super) fn after(root: &Path, written: u64, report: &Report) -> Result<(), FileError> {
    if written == 0 {
        return Ok(());
    }
    let limit = match env::text(env::CACHE_LIMIT) {
        None => LIMIT,
        Some(text) => parse(&text).unwrap_or_else(|| {
            report.warn(format!(
                "{}=`{text}` is not a valid size, e.g. `10G` or `500M`; the compile cache is limited to {}",
                env::CACHE_LIMIT,
                report::bytes(LIMIT)
            ));
            LIMIT
        }),
    };
    clean(root, written, limit, AT_MOST)
}

fn clean(root: &Path, written: u64, limit: u64, at_most: Duration) -> Result<(), FileError> {
    // Whoever holds it counts or cleans; what this run wrote is counted with the next day's count.
    let Some(_lock) = files::try_lock(&root.join("lock"))? else { return Ok(()) };
    let place = root.join("size.json");
    let now = files::now();
    let known: Option<Size> = entry::read(&place);
    let mut size = known.unwrap_or_default();
    size.bytes += written;
    if now.saturating_sub(size.counted) >= COUNT_HOLDS.as_secs() || (limit > 0 && size.bytes > limit) {
        let end = Instant::now() + at_most;
        let mut found: Vec<CachedFile> = Vec::new();
        for part in ["objects", "steps", "units"] {
            found.extend(files::aged(&root.join(part), end));
        }
        size = Size { bytes: found.iter().map(|file| file.size).sum(), counted: now };
        if limit > 0 && size.bytes > limit {
            found.sort_by(|one, other| one.used.cmp(&other.used).then_with(|| one.path.cmp(&other.path)));
            for file in found {
                if (size.bytes as f64) <= limit as f64 * LEAVES || Instant::now() > end {
                    break;
                }
                files::remove_file(&file.path)?;
                size.bytes -= file.size;
            }
        }
    }
    entry::write(&place, &size)?;
    Ok(())
}

/// `10G`, `500M`, `64k` (decimal, as [`report::bytes`] writes them) or bytes; 0 is no limit.
fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic() || letter == ' ');
    let factor: u64 = match text[digits.len()..].trim().to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KB" => 1_000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "T" | "TB" => 1_000_000_000_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse("10G"), Some(10_000_000_000));
        assert_eq!(parse(" 500 mb"), Some(500_000_000));
        assert_eq!(parse("0"), Some(0));
        for wrong in ["", "G", "ten", "-1", "1.5G", "99999999999T", "5X"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_was_not_used_for_longest_goes() {
        let root = files::scratch().unwrap();
        for (name, hours) in [("a", 9), ("b", 3), ("c", 6), ("d", 1)] {
            let place = root.path().join("objects/00").join(name);
            files::write(&place, [0; 100]).unwrap();
            files::backdate(&place, Duration::from_secs(3600 * hours));
        }
        clean(root.path(), 400, 300, AT_MOST).unwrap();
        let left = files::walk(&root.path().join("objects"), |_| true).unwrap();
        assert_eq!(
            left,
            ["00/b", "00/d"].map(std::path::PathBuf::from),
            "80 per cent of 300 bytes are two files"
        );
        let size: Size = entry::read(&root.path().join("size.json")).unwrap();
        assert_eq!(size.bytes, 200);
    }

    #[test]
    fn a_small_cache_is_counted_once_and_nothing_goes() {
        let root = files::scratch().unwrap();
        files::write(&root.path().join("objects/00/a"), [0; 100]).unwrap();
        for (written, expected) in [(1, 100), (7, 107)] {
            clean(root.path(), written, 1000, AT_MOST).unwrap();
            let size: Size = entry::read(&root.path().join("size.json")).unwrap();
            assert_eq!(size.bytes, expected);
        }
        assert!(files::exists(&root.path().join("objects/00/a")));
    }

    #[test]
    fn a_run_that_finds_another_cleaning_leaves_it_alone() {
        let root = files::scratch().unwrap();
        let place = root.path().join("objects/00/a");
        files::write(&place, [0; 100]).unwrap();
        let held = files::try_lock(&root.path().join("lock")).unwrap();
        assert!(held.is_some());
        clean(root.path(), 100, 10, AT_MOST).unwrap();
        assert!(files::exists(&place));
        drop(held);
        clean(root.path(), 100, 10, AT_MOST).unwrap();
        assert!(!files::exists(&place));
    }
}
