//! Tests of the rule for results, on exact figures and on committed records.

use super::super::record::tests::example;
use super::super::record::{self, Measurement};
use super::super::{dispatch, render, starts};
use super::*;
use crate::archive::old_records::old_record;
use crate::base::digest::Digest;

/// The example, with other samples of one contender.
fn with(name: &str, samples: Vec<f64>) -> Measurement {
    let mut made = example();
    let contender = made.contenders.iter_mut().find(|one| one.name == name).unwrap();
    contender.median_seconds = stats::median(&samples).unwrap();
    contender.samples = samples;
    made.ratios = record::ratios(&made.contenders);
    made.copy_fraction = record::copy_fraction(&made.contenders);
    made
}

/// `count` samples with almost no information: two values, a hundred times apart.
fn wild(count: usize) -> Vec<f64> {
    (0..count).map(|at| if at % 2 == 0 { 9e-5 } else { 9e-3 }).collect()
}

fn figures(measurement: &Measurement) -> Vec<&str> {
    measurement.unmeasured.iter().map(|one| one.figure.as_str()).collect()
}

#[test]
fn an_interval_of_nine_to_672_is_no_result() {
    let raw = with("eager", wild(15));
    let ratio = raw.versus("eager").unwrap();
    assert!(ratio.low < 10.0 && ratio.high > 600.0, "{ratio:?}");
    let found = raw.clone().settled();
    assert_eq!((figures(&found), found.ratios.len()), (vec!["vs eager"], 1));
    assert!(found.versus("eager").is_none() && found.versus("fused").is_some() && found.has_results());
    let told = render::table(std::slice::from_ref(&found));
    assert!(told.contains("rms_norm llm-2048x4096 bf16 graph: vs eager not measured: known only to a factor of 10.00 after 15 blocks"));
    assert!(!told.contains("x [9") && !told.contains("900"), "{told}");
    // The samples stay, and a record of it reads back as it is.
    assert_eq!(found.contender("eager"), raw.contender("eager"));
    let line = serde_json::to_string(&found).unwrap();
    let read: Measurement = serde_json::from_str(&line).unwrap();
    assert_eq!(read.clone().settled(), read);
    assert_eq!(read, found);
}

#[test]
fn too_few_blocks_are_no_result_however_narrow() {
    let mut few = example();
    for contender in &mut few.contenders {
        contender.samples.truncate(14);
    }
    few.starts = vec![14];
    let found = few.settled();
    assert_eq!(figures(&found), ["vs eager", "vs fused", "time", "roofline"]);
    assert!(!found.has_results() && found.roofline.is_none() && found.copy_fraction.is_none());
    // 14 blocks took half a second.
    assert_eq!(found.unmeasured[0].reason(), "14 blocks, at least 15 required; try --budget 1");
    let refused = super::super::refuse_unmeasured(std::slice::from_ref(&found)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "nothing was measured precisely enough: vs eager, vs fused, time, roofline not measured: 14 blocks, at least 15 \
         required; try --budget 1"
    );
    assert!(super::super::refuse_unmeasured(&[found, example()]).is_ok());
    assert!(super::super::refuse_unmeasured(&[]).is_ok());
    // Of several starts, each has to have them.
    let mut uneven = example();
    uneven.starts = vec![1, 14];
    assert!(!uneven.settled().has_results());
}

#[test]
fn a_time_that_is_not_known_is_not_shown_though_its_ratios_may_be() {
    // The machine was a hundred times slower in every other block, for both.
    let mut raw = with("kernel", wild(15));
    let fused = raw.contenders.iter_mut().find(|one| one.name == "fused").unwrap();
    fused.samples = wild(15).iter().map(|seconds| seconds * 1.42).collect();
    raw.ratios = record::ratios(&raw.contenders);
    raw.roofline = record::roofline(&raw.contenders, raw.bytes, None, None);
    let found = raw.settled();
    assert_eq!(figures(&found), ["vs eager", "time", "roofline"]);
    assert_eq!((found.time(), found.roofline, found.copy_fraction), (None, None, None));
    assert!((found.versus("fused").unwrap().ratio - 1.42).abs() < 1e-9);
    assert_eq!(
        (render::time_of(&found), render::share(&found)),
        ("not measured".to_owned(), "not measured".to_owned())
    );
}

#[test]
fn a_roofline_above_the_ceiling_by_noise_is_none() {
    let found = with("copy", wild(15).iter().map(|seconds| seconds / 40.0).collect()).settled();
    assert_eq!(figures(&found), ["roofline"]);
    assert_eq!((found.copy_fraction, found.roofline.unwrap().of_copy), (None, None));
    assert!(found.roofline.unwrap().gigabytes_per_second > 0.0, "the kernel's own time is known");
    assert_eq!(render::fraction(&found), None);
}

#[test]
fn what_it_would_take_is_said() {
    let mut noisy = example();
    let factor = |at: usize| [1.0, 1.35, 1.8, 0.75, 0.55][at % 5];
    let samples: Vec<f64> = (0..15).map(|at| 64e-6 * factor(at)).collect();
    noisy.contenders.iter_mut().find(|one| one.name == "eager").unwrap().samples = samples;
    noisy.ratios = record::ratios(&noisy.contenders);
    let found = noisy.settled();
    let one = &found.unmeasured[0];
    // Half of the interval is 0.29 to 0.6 of a logarithm, where 0.22 would do: 2 to 8 times as many samples.
    assert!(one.budget.is_some_and(|budget| (1.0..=8.0).contains(&budget)), "{one:?}");
    assert!(one.needs.is_some_and(|needs| (20..=120).contains(&needs)), "{one:?}");
    assert!(one.reason().contains(", try --budget "), "{}", one.reason());
    // Of a record that does not say how long its blocks took, the blocks are told.
    let old = Unmeasured { budget: None, ..one.clone() };
    assert!(old.reason().ends_with(" blocks"), "{}", old.reason());
    // A hundred times as many are more than are ever taken.
    let hopeless = with("eager", wild(15)).settled();
    assert_eq!(
        hopeless.unmeasured[0].reason(),
        "known only to a factor of 10.00 after 15 blocks; needs an idle machine"
    );
}

#[test]
fn starts_that_differ_ask_for_more_starts() {
    let start = |fused: f64| with("fused", vec![fused; 15]);
    let found = starts::merged(&[start(14e-6), start(17e-6), start(14.5e-6)], 3).remove(0);
    let one = found.unmeasured_versus("fused").unwrap();
    assert_eq!((one.blocks, one.budget), (15, None));
    assert_eq!(one.starts, Some(4), "{one:?}");
    assert!(one.reason().ends_with(", because starts differ; try --starts 4"), "{}", one.reason());
    assert!(found.versus("eager").is_some());
}

#[test]
fn every_ratio_of_the_kept_records_is_a_result() {
    let kept = [
        old_record("2026-11-21-h200-rms-norm.jsonl"),
        include_str!("../../../bench/results/2026-11-22-h200-templates.jsonl"),
        old_record("2026-11-24-h100-rms-norm-protocol-5.jsonl"),
    ];
    let mut count = 0;
    for line in kept.iter().flat_map(|text| text.lines()) {
        let read: Measurement = serde_json::from_str(line).unwrap();
        let settled = read.clone().settled();
        let versus: Vec<_> = settled.unmeasured.iter().filter(|one| one.figure != "roofline").collect();
        assert!(versus.is_empty(), "{} {}: {versus:?}", read.workload, read.regime);
        count += settled.ratios.len();
    }
    assert_eq!(count, 84 + 220 + 52);
}

#[test]
fn a_case_with_a_baseline_that_is_not_known_is_in_no_dispatch_table() {
    let named = |measurement: &Measurement| {
        let digest = Digest::blake3(b"record");
        dispatch::Dispatch::from_measurements(&[(digest, measurement)], "cuda")
    };
    assert!(named(&example()).is_some_and(|table| table.points[0].kernel));
    let wild = with("fused", wild(15));
    let claimed = named(&wild).unwrap();
    assert!(claimed.points[0].low > 1.0, "as it is sampled, it would be the kernel's: {claimed:?}");
    assert_eq!(named(&wild.settled()), None);
}

#[test]
fn samples_without_blocks_are_held_to_the_same_width() {
    assert_eq!(of_samples(&[1e-5; 7]), Ok(()));
    assert_eq!(of_samples(&[1e-5; 5]), Err("5 samples, but a result needs 6".to_owned()));
    let said = of_samples(&wild(7)).unwrap_err();
    assert!(said.starts_with("7 samples say it only to a factor of 10"), "{said}");
    assert!(said.ends_with("; take more, on an idle machine"), "{said}");
    assert_eq!(of_samples(&[0.0; 7]), Err("no sample is a valid time".to_owned()));
}
