//! Three clocks of one block, and when they cannot all be right.
//!
//! Owns: what disagreement is explained by overhead and noise, and what is not.
//! Never: reads a clock.
//!
//! The events of a device see one stream, the clock of a process can be replaced by what runs in it, and this program's
//! own clock sees everything, with the cost of a pipe. Noise makes the longer of two readings longer, and now and then:
//! so the reading with the least unexplained time speaks for all of an audit.

use super::contender::{Block, Regime};
use super::render;

/// Unexplained time, as a part of what the device claims, beyond which a claim is refused.
const PART: f64 = 0.5;
/// What an audit leaves unexplained, at most, by waking processes alone.
const SLACK: f64 = 500e-6;
/// The same for work beside a stream, which the process sees without a pipe.
const INSIDE_SLACK: f64 = 100e-6;

/// A claim can make a long block so many times longer than this program's clock says that it must be.
const TRUST: f64 = 50.0;

/// A block with the calls it had.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reading {
    pub(super) block: Block,
    /// Calls that are timed.
    pub(super) calls: u64,
}

impl Reading {
    /// Seconds of this program's clock that the claim leaves unexplained.
    fn outside_gap(&self) -> f64 {
        self.block.outside - self.block.device
    }

    fn inside_gap(&self) -> f64 {
        self.block.inside - self.block.device
    }
}

/// What the clocks say of a contender.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Disagreement {
    /// The device works where its events do not see it.
    Escape(String),
    /// The process says what cannot be.
    Clock(String),
}

/// Calls of a long block: as many as last so long by what a short one claims. A crowded machine makes a short block look
/// longer from outside than it is; a claim of no time at all asks for no blocks without end.
pub(super) fn long_calls(regime: Regime, short: &Block, size: u64, most: u64, seconds: f64) -> u64 {
    let of = |took: f64| seconds * size as f64 / took.max(1e-12);
    let wanted = of(short.device).min(TRUST * of(short.outside)).max(of(short.outside)).ceil();
    let wanted = wanted.min(most as f64) as u64;
    match regime {
        // Whole replays.
        Regime::Graph | Regime::Hot => wanted.div_ceil(size.max(1)).max(1) * size,
        Regime::Host | Regime::Cold => wanted.max(size.min(most)),
    }
}

/// Compares the clocks of long blocks, with empty ones beside them. Without readings there is nothing to say.
pub(super) fn audit(long: &[Reading], empty: &[Block]) -> Option<Disagreement> {
    if long.is_empty() {
        return None;
    }
    if let Some(impossible) = long.iter().find_map(|reading| impossible(&reading.block)) {
        return Some(impossible);
    }
    let cost = |of: fn(&Block) -> f64| empty.iter().map(of).fold(0.0, f64::max);
    let (inside, outside) = (cost(|block| block.inside), cost(|block| block.outside));
    let least = |gap: fn(&Reading) -> f64| long.iter().min_by(|one, other| gap(one).total_cmp(&gap(other)));
    let reading = least(Reading::inside_gap)?;
    let block = &reading.block;
    if reading.inside_gap() - inside > PART * block.device + INSIDE_SLACK {
        return Some(Disagreement::Escape(format!(
            "{} calls took {} on the stream, and the device was idle only after {}",
            reading.calls,
            render::time(block.device),
            render::time(block.inside - inside)
        )));
    }
    let reading = least(Reading::outside_gap)?;
    let block = &reading.block;
    (reading.outside_gap() - outside > PART * block.device + SLACK).then(|| {
        Disagreement::Clock(format!(
            "the process reports that {} calls took {}, but the judge's clock says {}",
            reading.calls,
            render::time(block.device),
            render::time(block.outside - outside)
        ))
    })
}

/// A claim of more time than went by.
pub(super) fn impossible(block: &Block) -> Option<Disagreement> {
    let claimed = block.device.max(block.inside);
    (claimed > block.outside + SLACK || !claimed.is_finite() || block.device < 0.0).then(|| {
        let (claimed, outside) = (render::time(claimed), render::time(block.outside));
        Disagreement::Clock(format!(
            "the process reports {claimed} for a block, but the judge's clock says {outside}"
        ))
    })
}

/// Compares the claims of ordinary blocks with this program's clock: a process can know an audit by its length.
///
/// One block proves nothing, as it lasts no longer than waking a process may. Of many, the quarter with the least
/// unexplained time is held against the quarter of the empty blocks with the most; both have the untimed calls. As both
/// are a few wakes long, only a claim of less than half is refused here; [`audit`] is sharper. On a GPU an empty block
/// lasts as long as one with calls, which its `device` says: a processor that waits longer may take longer to wake. (On a
/// virtual machine, blocks of 33 us seemed to last 190 us.) A process gains nothing by claiming less than no time.
pub(super) fn ordinary(blocks: &[Reading], empty: &[Block]) -> Option<Disagreement> {
    const FEWEST: usize = 5;
    const WAKING: f64 = 50e-6;
    const HALF: f64 = 1.0;
    if blocks.len() < FEWEST || empty.len() < FEWEST {
        return None;
    }
    let gap = quantile(blocks.iter().map(Reading::outside_gap).collect(), 0.25);
    let cost = quantile(empty.iter().map(|block| block.outside - block.device.max(0.0)).collect(), 0.75);
    let claimed = quantile(blocks.iter().map(|reading| reading.block.device).collect(), 0.5);
    (gap - cost > HALF * claimed + WAKING).then(|| {
        Disagreement::Clock(format!(
            "the process reports that blocks take {}, but the judge's clock says {}",
            render::time(claimed),
            render::time(claimed + gap - cost)
        ))
    })
}

fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part).round() as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e-3;

    fn block(device: f64, inside: f64, outside: f64) -> Block {
        Block { device, inside, outside, kept: None }
    }

    fn reading(device: f64, inside: f64, outside: f64) -> Reading {
        Reading { block: block(device, inside, outside), calls: 100 }
    }

    fn empty() -> Vec<Block> {
        vec![block(0.0, 0.01 * MS, 0.1 * MS), block(0.0, 0.02 * MS, 0.3 * MS)]
    }

    #[test]
    fn clocks_that_agree_are_believed() {
        let long = [reading(10.0 * MS, 10.0 * MS, 10.3 * MS), reading(11.0 * MS, 11.0 * MS, 11.9 * MS)];
        assert_eq!(audit(&long, &empty()), None);
    }

    #[test]
    fn a_crowded_machine_is_no_lie() {
        // All but one of the readings had to wait for a processor.
        let long = [
            reading(10.0 * MS, 10.0 * MS, 31.0 * MS),
            reading(10.0 * MS, 10.0 * MS, 10.4 * MS),
            reading(10.0 * MS, 10.0 * MS, 25.0 * MS),
        ];
        assert_eq!(audit(&long, &empty()), None);
    }

    #[test]
    fn a_patched_clock_is_seen_from_outside() {
        for factor in [2.0, 10.0, 1e6] {
            let claimed = 10.0 * MS / factor;
            let long = [reading(claimed, claimed, 10.2 * MS), reading(claimed, claimed, 10.3 * MS)];
            assert!(matches!(audit(&long, &empty()), Some(Disagreement::Clock(_))), "{factor}");
        }
    }

    #[test]
    fn work_beside_the_stream_is_an_escape() {
        let long = [reading(0.2 * MS, 5.0 * MS, 5.2 * MS), reading(0.2 * MS, 5.1 * MS, 5.3 * MS)];
        let Some(Disagreement::Escape(reason)) = audit(&long, &empty()) else { panic!("not seen") };
        assert!(reason.starts_with("100 calls took 200 us on the stream"), "{reason}");
    }

    #[test]
    fn more_time_than_went_by_is_impossible() {
        assert!(impossible(&block(9.0 * MS, 9.0 * MS, 2.0 * MS)).is_some());
        assert!(impossible(&block(f64::NAN, f64::NAN, 2.0 * MS)).is_some());
        assert!(impossible(&block(-MS, 0.1 * MS, 2.0 * MS)).is_some());
        assert_eq!(impossible(&block(1.9 * MS, 1.9 * MS, 2.0 * MS)), None);
        assert!(audit(&[reading(9.0 * MS, 9.0 * MS, 2.0 * MS)], &[]).is_some());
    }

    #[test]
    fn a_long_block_is_as_long_as_it_must_be() {
        let calls =
            |device, outside, regime| long_calls(regime, &block(device, device, outside), 20, 1 << 20, 0.02);
        assert_eq!(calls(0.2 * MS, 0.3 * MS, Regime::Host), 2000);
        assert_eq!(calls(0.2 * MS, 40.0 * MS, Regime::Host), 500);
        assert_eq!(calls(0.0, 0.3 * MS, Regime::Host), 66_667);
        assert_eq!(calls(0.21 * MS, 0.3 * MS, Regime::Graph) % 20, 0);
        assert_eq!(long_calls(Regime::Host, &block(0.2 * MS, 0.0, 0.3 * MS), 20, 100, 0.02), 100);
    }

    #[test]
    fn without_readings_there_is_nothing_to_say() {
        assert_eq!(audit(&[], &[]), None);
        assert_eq!(ordinary(&[reading(0.0, 0.0, 1.0)], &empty()), None);
    }

    fn blocks(claimed: f64, took: f64) -> Vec<Reading> {
        (0..20)
            .map(|step| {
                let waking = 0.08 * MS + 0.002 * MS * f64::from(step);
                Reading { block: block(claimed, claimed, took + waking), calls: 50 }
            })
            .collect()
    }

    #[test]
    fn many_short_blocks_show_what_one_does_not() {
        let empty: Vec<Block> =
            (0..10).map(|step| block(0.0, 0.0, MS * (0.08 + 0.005 * f64::from(step)))).collect();
        assert_eq!(ordinary(&blocks(0.2 * MS, 0.2 * MS), &empty), None);
        assert!(ordinary(&blocks(0.02 * MS, 0.2 * MS), &empty).is_some());
    }

    #[test]
    fn longer_waits_that_wake_later_are_no_lie() {
        let late: Vec<Reading> = blocks(0.03 * MS, 0.19 * MS);
        let waited = |lasted: f64, waking: f64| vec![block(lasted, lasted, lasted + waking); 10];
        assert!(ordinary(&late, &waited(0.0, 0.1 * MS)).is_some());
        assert_eq!(ordinary(&late, &waited(0.03 * MS, 0.25 * MS)), None);
        // An empty block cannot explain more than the time that went by.
        for claimed in [-MS, f64::NAN] {
            let empty = vec![Block { device: claimed, ..waited(0.0, 0.1 * MS)[0].clone() }; 10];
            assert!(ordinary(&late, &empty).is_some(), "{claimed}");
        }
    }
}
