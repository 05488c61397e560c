//! Figures of the cheats and of honest kernels against the limits of an H200.

use super::super::record::Measurement;
use super::*;
use crate::archive::old_records::old_record;

/// Of an H200: 3201 MHz and 6144 bits.
const MEMORY: f64 = 4.9167e12;
const L2: u64 = 60 << 20;
/// Operations of 8192 cubed, and the rate of bf16 that was measured.
const PRODUCT: f64 = 2.0 * 8192.0 * 8192.0 * 8192.0;
const BF16: f64 = 750e12;

fn work(inputs: u64, outputs: u64) -> Work {
    Work { inputs, outputs, operations: None, operands: None, divisible: true }
}

fn product() -> Work {
    let bytes = 2 * 8192 * 8192;
    Work {
        operations: Some(PRODUCT),
        operands: Some(Dtype::Bf16),
        divisible: false,
        ..work(2 * bytes, bytes)
    }
}

fn limits() -> Limits {
    Limits { memory: Some(MEMORY), l2: Some(L2), operations: Some(BF16), headroom: None }
}

/// The summary of a kernel beside other contenders.
fn beside(
    regime: Regime,
    calls: u64,
    seconds: f64,
    others: &[(&str, f64)],
    work: Work,
    limits: Limits,
) -> Option<String> {
    let all = [&[(KERNEL, seconds)], others].concat();
    let samples = Samples {
        regime,
        samples: all.iter().map(|(name, seconds)| ((*name).to_owned(), vec![*seconds; 15])).collect(),
        calls: all.iter().map(|(name, _)| ((*name).to_owned(), calls)).collect(),
        skipped: vec![],
        crowded: None,
        spent: std::time::Duration::ZERO,
    };
    measured(&[samples], calls, &Bounds { work, limits })
}

fn alone(regime: Regime, seconds: f64, work: Work) -> Option<String> {
    beside(regime, 20, seconds, &[], work, limits())
}

#[test]
fn cheats_beyond_the_peak_are_refused_and_honest_kernels_near_it_pass() {
    let least = PRODUCT / BF16;
    for (part, refused) in
        [(8.36, true), (2.43, true), (1.10, true), (1.04, false), (1.01, false), (0.98, false)]
    {
        for regime in [Regime::Graph, Regime::Hot, Regime::Cold] {
            let found = alone(regime, least / part, product());
            assert_eq!(found.is_some(), refused, "{part} in {regime:?}: {found:?}");
        }
    }
    let told = alone(Regime::Graph, least / 8.36, product()).unwrap();
    assert!(
        told.starts_with("in `graph` a call took 175 us") && told.ends_with("836% of the limit"),
        "{told}"
    );
}

#[test]
fn the_peak_of_the_same_run_counts_where_nothing_is_stored() {
    let unknown = Limits::default();
    let beside_peak = |seconds, limits| {
        beside(Regime::Graph, 20, seconds, &[("peak", 1e-3), ("eager", 1.2e-3)], product(), limits)
    };
    assert!(beside_peak(1e-3 / 8.36, unknown).is_some() && beside_peak(1e-3 / 2.43, unknown).is_some());
    assert_eq!(beside_peak(1e-3 / 1.04, unknown), None);
    // The peak ran at 1500 MHz of 1980: a kernel that draws less power may run 1.32 times faster.
    let slowed = Limits { headroom: Some(1.32), ..unknown };
    assert_eq!(beside_peak(1e-3 / 1.3, slowed), None);
    assert!(beside_peak(1e-3 / 1.5, slowed).is_some());
    // The higher one of both ceilings is the limit.
    assert_eq!(beside_peak(PRODUCT / BF16, unknown), None);
    assert_eq!(beside_peak(1e-3, Limits { operations: Some(1e12), ..unknown }), None);
}

#[test]
fn wide_operands_are_held_against_the_highest_rate_alone() {
    let wide = Work { operands: Some(Dtype::F32), divisible: true, ..product() };
    let rates = BTreeMap::from([("bf16".to_owned(), 750.0), ("f8e4m3".to_owned(), 1500.0)]);
    assert_eq!(wide.rate(&rates), Some(1500e12));
    assert_eq!(product().rate(&rates), Some(750e12));
    let beside_peak = beside(Regime::Graph, 20, 1e-3, &[("peak", 3e-3)], wide, Limits::default());
    assert_eq!(beside_peak, None, "three products of tf32 are faster than one of f32");
}

#[test]
fn a_reduction_that_reads_faster_than_a_copy_passes() {
    let bytes = 1 << 30;
    let seconds = |rate: f64| bytes as f64 / rate;
    let of = |regime, rate| {
        beside(regime, 20, seconds(rate), &[("copy", seconds(4.3e12))], work(bytes, 4096), limits())
    };
    for regime in [Regime::Cold, Regime::Graph] {
        assert_eq!(of(regime, 4.6e12), None);
        assert_eq!(of(regime, 4.9e12), None);
        assert!(of(regime, 9.0e12).is_some());
    }
    assert_eq!(of(Regime::Hot, 9.0e12), None, "no bandwidth of the cache is measured");
    let unknown = Limits { memory: None, ..limits() };
    assert_eq!(beside(Regime::Cold, 20, 1e-9, &[], work(bytes, 0), unknown), None);
}

#[test]
fn operands_that_fit_into_the_cache_pass_in_graphs() {
    // 20 calls of 2 MB are less than the cache, and their outputs, too.
    assert_eq!(alone(Regime::Graph, 1e-7, work(2 << 20, 2 << 20)), None);
    // 20 calls of 64 MB are not: all but the last 60 MB come from memory.
    assert!(alone(Regime::Graph, 10e-6, work(64 << 20, 0)).is_some());
    // Cold inputs come from memory; outputs may stay.
    assert!(alone(Regime::Cold, 1e-6, work(32 << 20, 0)).is_some());
    assert_eq!(alone(Regime::Cold, 1e-6, work(0, 32 << 20)), None);
}

#[test]
fn sets_that_come_round_are_subtracted_once_a_pass() {
    let rotation = |calls, sets| Rotation { calls, sets };
    let of = |rotation| work(64 << 20, 0).moved_bytes(Regime::Graph, rotation, L2).unwrap();
    assert_eq!(of(rotation(20, 20)), f64::from((20 * 64 - 60) << 20) / 20.0);
    assert_eq!(of(rotation(20, 5)), f64::from((20 * 64 - 4 * 60) << 20) / 20.0);
}

#[test]
fn a_rival_that_passes_a_bound_shows_that_it_is_none() {
    // Half of a triangle is not read.
    let triangle = work(1 << 30, 0);
    let seconds = (1u64 << 30) as f64 / MEMORY / 2.0;
    assert_eq!(beside(Regime::Cold, 4, seconds, &[("eager", seconds)], triangle.clone(), limits()), None);
    assert!(beside(Regime::Cold, 4, seconds / 2.0, &[("eager", seconds)], triangle, limits()).is_some());
}

#[test]
fn screened_candidates_are_held_against_the_same_limits() {
    let bounds = Bounds { work: product(), limits: limits() };
    let least = PRODUCT / BF16;
    assert_eq!(screened(least / 1.04, 20, &bounds), None);
    assert_eq!(screened(least / 2.43, 20, &bounds).unwrap().code, "bench::impossible");
}

#[test]
fn no_kept_record_of_an_h200_is_refused() {
    let kept = [
        include_str!("../../../bench/results/2026-11-23-h200-rows.jsonl"),
        include_str!("../../../bench/results/2026-11-22-h200-templates.jsonl"),
        old_record("2026-11-22-h200-matmul-device.jsonl"),
        old_record("2026-11-21-h200-rms-norm.jsonl"),
    ];
    let mut held = 0;
    for line in kept.iter().flat_map(|text| text.lines()) {
        let record: Measurement = serde_json::from_str(line).unwrap();
        let regime = match record.regime.as_str() {
            "cold" => Regime::Cold,
            "graph" => Regime::Graph,
            _ => Regime::Hot,
        };
        let times: Vec<(&str, f64)> =
            record.contenders.iter().map(|one| (one.name.as_str(), one.median_seconds)).collect();
        let Some(kernel) = record.contender(KERNEL) else { continue };
        let rivals: Vec<(&str, f64)> = times.into_iter().filter(|(name, _)| *name != KERNEL).collect();
        // A record has the sum of both; no operation writes more than it reads here by far.
        let half = work(record.bytes / 2, record.bytes / 2);
        let headroom = record.clocks.as_ref().and_then(|clocks| clocks.headroom());
        let operations = record.roofline.and_then(|found| found.teraflops_per_second);
        let work = Work {
            operations: operations.map(|rate| rate * 1e12 * kernel.median_seconds),
            divisible: record.dtype != "bf16",
            ..half
        };
        let limits = Limits { operations: None, headroom, ..limits() };
        let said = beside(regime, kernel.calls, kernel.median_seconds, &rivals, work, limits);
        assert_eq!(said, None, "{} {} {}", record.op, record.workload, record.regime);
        held += 1;
    }
    assert!(held > 100, "{held}");
}
