//! What NVIDIA's tracer saw of calls, beside what events say of them.
//!
//! Owns: when the two cannot both be right. Never: asks for a trace.

use super::clock::Disagreement;
use super::cupti::Cupti;
use super::render;
use super::samples::Samples;
use super::stats;

/// Times that it is longer than events say, beyond which a claim is refused: a traced GPU may have a lower clock.
const PART: f64 = 1.5;
/// Seconds a call that are never held against it.
const SLACK: f64 = 5e-6;

/// Compares what was seen with the figures of all regimes: the slowest of them, since what is seen is seen in one.
pub(super) fn compare(seen: &Cupti, regimes: &[Samples], kernel: &str) -> Option<Disagreement> {
    let medians = regimes.iter().filter_map(|regime| stats::median(regime.samples.get(kernel)?));
    let claimed = medians.max_by(f64::total_cmp)?;
    let each = seen.busy / seen.calls.max(1) as f64;
    (seen.reason.is_none() && each > PART * claimed + SLACK).then(|| {
        Disagreement::Escape(format!(
            "CUPTI saw the device at work for {} in each of {} calls, but events say {}",
            render::time(each),
            seen.calls,
            render::time(claimed)
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::contender::Regime;
    use super::*;

    fn claimed(regime: Regime, seconds: f64) -> Samples {
        let samples = BTreeMap::from([("kernel".to_owned(), vec![seconds; 5])]);
        let spent = std::time::Duration::ZERO;
        Samples { regime, samples, calls: BTreeMap::new(), skipped: vec![], crowded: None, spent }
    }

    fn seen(busy: f64) -> Cupti {
        Cupti { calls: 20, busy, streams: 2, ..Cupti::default() }
    }

    #[test]
    fn work_that_events_do_not_see_is_an_escape() {
        let regimes = [claimed(Regime::Cold, 3e-6), claimed(Regime::Graph, 20e-6)];
        assert_eq!(compare(&seen(20.0 * 21e-6), &regimes, "kernel"), None);
        let Some(Disagreement::Escape(reason)) = compare(&seen(20.0 * 90e-6), &regimes, "kernel") else {
            panic!("not seen");
        };
        assert_eq!(
            reason,
            "CUPTI saw the device at work for 90.0 us in each of 20 calls, but events say 20.0 us"
        );
    }

    #[test]
    fn nothing_is_held_against_a_kernel_without_a_tracer_or_without_figures() {
        let failed = Cupti { reason: Some("no permission".to_owned()), ..seen(1.0) };
        assert_eq!(compare(&failed, &[claimed(Regime::Cold, 3e-6)], "kernel"), None);
        assert_eq!(compare(&seen(1.0), &[], "kernel"), None);
    }
}
