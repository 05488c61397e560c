//! State left behind: whether a baseline is as fast after a candidate as it was before it.
//!
//! Owns: from which size on a difference is told or refused. Never: times anything.

use super::stats;

/// Slower than this is told.
const TOLD: f64 = 1.10;
/// Slower than this is refused, where ending the candidate's process makes it good.
const REFUSED: f64 = 1.30;
/// On a processor, which others use, too, slower than this is told, and nothing is refused for it.
const TOLD_ON_HOST: f64 = 1.4;
/// Processors that an idle process may use: the system counts in hundredths of a second.
const BUSY: f64 = 0.3;

/// What the samples of one baseline say.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    /// As before.
    Clean,
    /// It is slower: ask again without the candidate.
    Slower(f64),
}

/// Compares samples from before a candidate ran with those from after. It is slower when its median is, and no sample
/// after is as fast as the slowest quarter before.
pub(super) fn compare(before: &[f64], after: &[f64], on_host: bool) -> State {
    let told = if on_host { TOLD_ON_HOST } else { TOLD };
    let (Some(early), Some(late)) = (stats::median(before), stats::median(after)) else {
        return State::Clean;
    };
    let mut ordered = before.to_vec();
    ordered.sort_by(f64::total_cmp);
    let slow = ordered[(ordered.len() - 1) * 3 / 4];
    let apart = after.iter().all(|sample| *sample > slow);
    let factor = late / early;
    if factor > told && apart { State::Slower(factor) } else { State::Clean }
}

/// What to say of a baseline that was slower after the candidate.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SlowdownFinding {
    /// The candidate did it: refuse it.
    Refused(String),
    /// Tell it.
    Told(String),
}

/// Decides with samples from after the candidate's process was ended.
pub(super) fn blame(
    name: &str,
    factor: f64,
    before: &[f64],
    alone: &[f64],
    on_host: bool,
) -> SlowdownFinding {
    let refused = if on_host { f64::INFINITY } else { REFUSED };
    match compare(before, alone, on_host) {
        State::Slower(still) => SlowdownFinding::Told(format!(
            "`{name}` was {factor:.2} times slower after the kernel than before it, and {still:.2} times without its \
             process: the machine changed, or what the kernel left outlives its process"
        )),
        State::Clean if factor > refused => SlowdownFinding::Refused(format!(
            "`{name}` was {factor:.2} times slower after the kernel, and as fast as before once its process had ended"
        )),
        State::Clean => SlowdownFinding::Told(format!(
            "`{name}` was {factor:.2} times slower while the kernel's process lived"
        )),
    }
}

/// The note about a baseline that was slower only for a while: it recovered while the candidate's process was alive.
pub(super) fn passed(name: &str, factor: f64) -> String {
    format!(
        "`{name}` was {factor:.2} times slower right after the kernel's rounds, and as fast as before a moment later: the \
         machine was busy with something else"
    )
}

/// What is wrong with a process that takes so many processors while nothing is asked of it, if anything.
pub(super) fn busy(processors: f64) -> Option<String> {
    (processors > BUSY).then(|| {
        format!("its process used {processors:.1} CPU cores while it was idle and others were timed")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: [f64; 7] = [1.0, 1.02, 0.99, 1.01, 1.0, 1.03, 0.98];

    fn times(factor: f64) -> Vec<f64> {
        BEFORE.iter().map(|sample| sample * factor).collect()
    }

    #[test]
    fn the_same_speed_is_clean() {
        assert_eq!(compare(&BEFORE, &times(1.02), false), State::Clean);
        assert_eq!(compare(&BEFORE, &times(0.5), false), State::Clean);
        assert_eq!(compare(&BEFORE, &[], false), State::Clean);
    }

    #[test]
    fn one_sample_as_fast_as_before_clears_a_kernel() {
        let mut after = times(2.0);
        after[3] = 1.0;
        assert_eq!(compare(&BEFORE, &after, false), State::Clean);
    }

    #[test]
    fn a_processor_has_more_room() {
        assert!(matches!(compare(&BEFORE, &times(1.2), false), State::Slower(_)));
        assert_eq!(compare(&BEFORE, &times(1.2), true), State::Clean);
        // Barriers of a crowded machine made a baseline 120 times slower for a while.
        assert!(matches!(blame("eager", 120.0, &BEFORE, &BEFORE, true), SlowdownFinding::Told(_)));
    }

    #[test]
    fn an_idle_process_uses_no_processor() {
        assert_eq!(busy(0.02), None);
        assert!(busy(0.97).is_some());
    }

    #[test]
    fn who_is_to_blame() {
        // The access-policy window of a kernel that others measured: 13.4 us became 20.5.
        let factor = 20.5 / 13.4;
        assert!(matches!(blame("eager", factor, &BEFORE, &BEFORE, false), SlowdownFinding::Refused(_)));
        assert!(matches!(blame("eager", factor, &BEFORE, &times(factor), false), SlowdownFinding::Told(_)));
        assert!(matches!(blame("eager", 1.15, &BEFORE, &BEFORE, false), SlowdownFinding::Told(_)));
    }
}
