//! Several starts of one case as one measurement.
//!
//! Owns: what a record says of figures that more than one start of the processes gave. Never: measures.
//!
//! Every start is a measurement of its own before: new processes, one case, one regime, its own interval. A contender counts
//! if every start timed it, so that the same index of samples is the same block for all.

use std::collections::BTreeSet;

use super::record::{Clocks, Contender, Cpu, Measurement, Ratio, Roofline, SkippedContender};
use super::samples::KERNEL;
use super::stats::{self, Interval};

/// One measurement for each regime of `parts`, which are those of one case, in the order of its `starts`. What is no result
/// is among the figures that are not measured.
pub(super) fn merged(parts: &[Measurement], starts: usize) -> Vec<Measurement> {
    let mut regimes: Vec<&str> = Vec::new();
    for part in parts {
        if !regimes.contains(&part.regime.as_str()) {
            regimes.push(&part.regime);
        }
    }
    let of = |regime: &&str| {
        let mine: Vec<&Measurement> = parts.iter().filter(|part| part.regime == **regime).collect();
        together(&mine, starts)
    };
    regimes.iter().filter_map(of).map(Measurement::settled).collect()
}

/// How many starts of a case are among these parts.
pub(super) fn count(parts: &[Measurement]) -> usize {
    let of = |regime: &str| parts.iter().filter(|part| part.regime == regime).count();
    parts.iter().map(|part| of(&part.regime)).max().unwrap_or(0)
}

/// The parts of one regime as one; `None` without parts.
fn together(parts: &[&Measurement], starts: usize) -> Option<Measurement> {
    let (first, last) = (parts.first()?, parts.last()?);
    let mut skipped: Vec<SkippedContender> = Vec::new();
    let mut skip = |name: &str, reason: String| {
        if skipped.iter().all(|one| one.name != name) {
            skipped.push(SkippedContender { name: name.to_owned(), reason });
        }
    };
    for one in parts.iter().flat_map(|part| &part.skipped) {
        skip(&one.name, one.reason.clone());
    }
    let mut contenders: Vec<Contender> = Vec::new();
    for name in names(parts) {
        let of: Vec<&Contender> = parts.iter().filter_map(|part| part.contender(name)).collect();
        match of.len() == starts {
            true => contenders.extend(contender(&of)),
            false => skip(name, format!("timed in {} of {starts} starts", of.len())),
        }
    }
    if contenders.iter().all(|one| one.name != KERNEL) {
        // Without the kernel the others say nothing.
        contenders.clear();
    }
    let timed = |name: &str| contenders.iter().any(|contender| contender.name == name);
    let ratios = match timed(KERNEL) {
        true => names(parts)
            .into_iter()
            .filter(|name| timed(name))
            .filter_map(|name| ratio(parts, name))
            .collect(),
        false => Vec::new(),
    };
    let copy_fraction = middle(parts, |part| part.copy_fraction).filter(|_| timed("copy") && timed(KERNEL));
    let seconds = contenders.iter().find(|one| one.name == KERNEL).map(|kernel| kernel.median_seconds);
    Some(Measurement {
        ratios,
        copy_fraction,
        roofline: seconds.and_then(|seconds| roofline(parts, seconds, copy_fraction)),
        contenders,
        skipped,
        notes: once(parts.iter().flat_map(|part| &part.notes)),
        clocks: clocks(parts),
        throttled: parts.iter().any(|part| part.throttled),
        cpu: Cpu { crowded: middle(parts, |part| part.cpu.crowded), ..last.cpu.clone() },
        sampled_seconds: sum(parts.iter().map(|part| part.sampled_seconds)),
        cupti: parts.iter().find_map(|part| part.cupti.clone()),
        starts: parts.iter().flat_map(|part| part.starts.iter().copied()).collect(),
        ..(*first).clone()
    })
}

/// The sum, if all are known.
fn sum(mut of: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    of.try_fold(0.0, |sum, one| Some(sum + one?))
}

/// The contenders of any part, in the order of the first.
fn names<'a>(parts: &[&'a Measurement]) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for contender in parts.iter().flat_map(|part| &part.contenders) {
        if !found.contains(&contender.name.as_str()) {
            found.push(&contender.name);
        }
    }
    found
}

fn contender(of: &[&Contender]) -> Option<Contender> {
    let first = of.first()?;
    let medians: Vec<f64> = of.iter().map(|one| one.median_seconds).collect();
    Some(Contender {
        name: first.name.clone(),
        median_seconds: stats::median(&medians)?,
        calls: first.calls,
        samples: of.iter().flat_map(|one| &one.samples).copied().collect(),
    })
}

fn ratio(parts: &[&Measurement], versus: &str) -> Option<Ratio> {
    let of: Vec<&Ratio> = parts.iter().filter_map(|part| part.versus(versus)).collect();
    let starts: Vec<Interval> =
        of.iter().map(|one| Interval { median: one.ratio, low: one.low, high: one.high }).collect();
    let Interval { median, low, high } = stats::over_starts(&starts)?;
    let starts = starts.iter().map(|start| start.median).collect();
    Some(Ratio { versus: versus.to_owned(), ratio: median, low, high, starts })
}

/// The middle of what the starts say, where any does.
fn middle(parts: &[&Measurement], said: impl Fn(&Measurement) -> Option<f64>) -> Option<f64> {
    stats::median(&parts.iter().filter_map(|part| said(part)).collect::<Vec<_>>())
}

fn roofline(parts: &[&Measurement], seconds: f64, of_copy: Option<f64>) -> Option<Roofline> {
    let of =
        |field: fn(&Roofline) -> Option<f64>| middle(parts, |part| part.roofline.as_ref().and_then(field));
    Some(Roofline {
        gigabytes_per_second: parts.first()?.bytes as f64 / seconds * 1e-9,
        of_copy,
        teraflops_per_second: of(|it| it.teraflops_per_second),
        of_matrix_peak: of(|it| it.of_matrix_peak),
    })
}

fn clocks(parts: &[&Measurement]) -> Option<Clocks> {
    let known: Vec<&Clocks> = parts.iter().filter_map(|part| part.clocks.as_ref()).collect();
    let last = known.last()?;
    let of = |field: fn(&Clocks) -> Option<f64>| {
        stats::median(&known.iter().filter_map(|one| field(one)).collect::<Vec<_>>())
    };
    Some(Clocks {
        sm_mhz: of(|it| it.sm_mhz),
        memory_mhz: of(|it| it.memory_mhz),
        celsius: of(|it| it.celsius),
        watts: of(|it| it.watts),
        sm_lowest_mhz: known.iter().filter_map(|one| one.sm_lowest_mhz).min_by(f64::total_cmp),
        sm_most_mhz: last.sm_most_mhz,
        throttle: once(known.iter().flat_map(|one| &one.throttle)),
        readings: known.iter().map(|one| one.readings).sum(),
    })
}

/// Each text once, in the order of first sight.
fn once<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    texts.filter(|text| seen.insert(*text)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::super::record;
    use super::super::record::tests::example;
    use super::*;

    /// A start of the example in which the fused operator takes so many microseconds.
    fn start(fused: f64) -> Measurement {
        let mut part = example();
        let contender = part.contenders.iter_mut().find(|one| one.name == "fused").unwrap();
        (contender.median_seconds, contender.samples) = (fused * 1e-6, vec![fused * 1e-6; 15]);
        part.ratios = record::ratios(&part.contenders);
        part
    }

    #[test]
    fn starts_are_one_record_with_the_spread_between_them() {
        let parts = [start(14.0), start(14.7), start(14.3)];
        assert_eq!(count(&parts), 3);
        let found = merged(&parts, 3);
        let [one] = &found[..] else { panic!("{} records", found.len()) };
        assert_eq!((one.starts(), &one.starts[..]), (3, &[15, 15, 15][..]));
        let ratio = one.versus("fused").unwrap();
        assert!((ratio.ratio - 1.43).abs() < 1e-9, "{ratio:?}");
        let starts: Vec<i64> = ratio.starts.iter().map(|it| (it * 1e4).round() as i64).collect();
        assert_eq!(starts, [14000, 14700, 14300]);
        assert!(ratio.low < 1.40 && ratio.high > 1.47, "{ratio:?}");
        let eager = one.versus("eager").unwrap();
        assert!((eager.high - eager.low).abs() < 1e-9, "starts that agree have no width: {eager:?}");
        let samples = |name: &str| one.contender(name).unwrap().samples.len();
        assert_eq!((samples("kernel"), samples("fused")), (45, 45));
        assert!((one.contender("fused").unwrap().median_seconds - 14.3e-6).abs() < 1e-12);
        let line = serde_json::to_string(one).unwrap();
        assert_eq!(&serde_json::from_str::<Measurement>(&line).unwrap(), one);
    }

    #[test]
    fn one_start_stays_as_it_is() {
        assert_eq!(merged(&[example()], 1), [example()]);
        assert_eq!((merged(&[], 3), count(&[])), (vec![], 0));
    }

    #[test]
    fn a_contender_that_one_start_lacks_has_no_figure() {
        let (whole, mut less) = (start(14.2), start(14.2));
        less.contenders.retain(|one| one.name != "fused");
        less.ratios.retain(|one| one.versus != "fused");
        let found = merged(&[whole.clone(), less.clone(), whole.clone()], 3).remove(0);
        assert!(found.contender("fused").is_none() && found.versus("fused").is_none());
        assert!(found.versus("eager").is_some());
        let reason = |found: &Measurement, name: &str| {
            found.skipped.iter().find(|one| one.name == name).map(|one| one.reason.clone())
        };
        assert_eq!(reason(&found, "fused").as_deref(), Some("timed in 2 of 3 starts"));
        // Without the kernel the others say nothing; its own reason is the one that counts.
        (less.contenders, less.ratios, less.roofline) = (vec![], vec![], None);
        less.skipped.push(SkippedContender { name: "kernel".into(), reason: "it does not fit".into() });
        let found = merged(&[whole.clone(), whole, less], 3).remove(0);
        assert!(found.contenders.is_empty() && found.ratios.is_empty() && found.roofline.is_none());
        assert_eq!(reason(&found, "kernel").as_deref(), Some("it does not fit"));
    }

    #[test]
    fn regimes_stay_apart_and_doubts_add_up() {
        let cold = Measurement { regime: "cold".into(), ..example() };
        let mut held = example();
        held.throttled = true;
        held.notes.push("slow".into());
        held.clocks = Some(Clocks { sm_mhz: Some(1700.0), readings: 4, ..Clocks::default() });
        let parts = [example(), cold.clone(), held.clone(), cold.clone(), held, cold];
        let found = merged(&parts, 3);
        assert_eq!(found.iter().map(|it| it.regime.as_str()).collect::<Vec<_>>(), ["graph", "cold"]);
        assert!(found[0].throttled && !found[1].throttled);
        assert_eq!(found[0].notes, ["tf32 is off for matrix products", "slow"]);
        let clocks = found[0].clocks.as_ref().unwrap();
        assert_eq!((clocks.sm_mhz, clocks.readings), (Some(1700.0), 8));
    }
}
