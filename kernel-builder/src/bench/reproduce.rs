//! Whether a measurement that was made again agrees with its record.
//!
//! Owns: the rule of agreement, and what differs between two runs. Never: measures.

use serde::Serialize;

use super::record::{Measurement, Ratio};
use super::stats;
use super::unmeasured::Unmeasured;

/// The part of a ratio by which intervals of two machines may miss each other. The intervals hold how starts on one machine
/// differ; this is for what differs between machines and days, such as clocks. Of 84 ratios that an H200 gave twice on one
/// day in single starts, 79 agree with this room and 67 without it; most of the others are of a workload of a few
/// microseconds, against torch.compile.
const LEAST_ROOM: f64 = 0.01;

/// A record beside what was measured now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The operation.
    pub op: String,
    /// The workload.
    pub workload: String,
    /// The dtype.
    pub dtype: String,
    /// The regime.
    pub regime: String,
    /// Each ratio of the record.
    pub ratios: Vec<RatioComparison>,
    /// What is not as it was, a sentence fragment each.
    pub differences: Vec<String>,
}

/// One ratio of a record beside that of now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RatioComparison {
    /// The baseline.
    pub versus: String,
    /// What the record has.
    pub recorded: Ratio,
    /// What was measured now; absent when the baseline could not be timed here.
    pub now: Option<Ratio>,
    /// Whether both agree; absent without one of them.
    pub agrees: Option<bool>,
    /// Why it is not a result here, if it was sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<String>,
}

impl Comparison {
    /// Whether every ratio that could be compared agrees; `None` if none could be compared.
    pub fn agrees(&self) -> Option<bool> {
        self.ratios.iter().filter_map(|ratio| ratio.agrees).reduce(|one, other| one && other)
    }
}

/// Whether two measurements of one ratio agree: their intervals overlap, or the gap between them is at most one part in a
/// hundred.
///
/// A ratio of a single start has no interval for how starts differ. If the other side has several starts, its interval is
/// the one that holds one more start. If neither has, the intervals of both runs are compared as they are, and an agreement
/// of two runs that differ is luck.
pub fn agree(recorded: &Ratio, now: &Ratio) -> bool {
    let (one, other) = (reach(recorded, now), reach(now, recorded));
    let gap = (one.0 / other.1).max(other.0 / one.1);
    gap <= 1.0 + LEAST_ROOM
}

/// The interval of a ratio, as it is compared with that of another measurement.
fn reach(ratio: &Ratio, other: &Ratio) -> (f64, f64) {
    let own = (ratio.low, ratio.high);
    match stats::one_more(&ratio.starts).filter(|_| other.starts.len() < 2) {
        Some((low, high)) => (own.0.min(low), own.1.max(high)),
        None => own,
    }
}

/// A record beside what was measured now.
pub fn compare(record: &Measurement, now: &Measurement) -> Comparison {
    let ratios = record.ratios.iter().map(|recorded| {
        let found = now.versus(&recorded.versus).cloned();
        RatioComparison {
            versus: recorded.versus.clone(),
            agrees: found.as_ref().map(|found| agree(recorded, found)),
            recorded: recorded.clone(),
            not_measured: now.unmeasured_versus(&recorded.versus).map(Unmeasured::reason),
            now: found,
        }
    });
    Comparison {
        op: record.op.clone(),
        workload: record.workload.clone(),
        dtype: record.dtype.clone(),
        regime: record.regime.clone(),
        ratios: ratios.collect(),
        differences: differences(record, now),
    }
}

/// Whether a measurement is of what a record is about.
pub fn is_same_case(record: &Measurement, other: &Measurement) -> bool {
    (&record.workload, &record.dtype, &record.regime) == (&other.workload, &other.dtype, &other.regime)
}

/// Why a candidate is another than the recorded one; `None`: it is the same. Sources are compared where the record has
/// their digest, else the built artifacts.
pub fn other_claim(record: &Measurement, now: &Measurement) -> Option<String> {
    let source = |it: &Measurement| it.candidate.as_ref().and_then(|candidate| candidate.source);
    let (what, recorded, found) = match (source(record), source(now)) {
        (Some(recorded), Some(found)) => ("source", recorded, found),
        _ => ("artifact", record.artifact, now.artifact),
    };
    (recorded != found).then(|| format!("{what} {} instead of {}", found.short(12), recorded.short(12)))
}

/// What differs between two runs and may explain a difference of figures.
fn differences(record: &Measurement, now: &Measurement) -> Vec<String> {
    let unknown = record.unmeasured.iter().filter(|one| one.figure.starts_with("vs "));
    let mut found: Vec<String> =
        unknown.map(|one| format!("recorded {} is not a result: {}", one.figure, one.reason())).collect();
    let mut differs = |what: &str, recorded: String, here: String| {
        if recorded != here {
            found.push(format!("{what} {here}, recorded {recorded}"));
        }
    };
    let optional = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    differs("device", record.device.clone(), now.device.clone());
    differs("driver", optional(&record.driver), optional(&now.driver));
    differs("torch", record.torch.clone(), now.torch.clone());
    differs("python", record.python.clone(), now.python.clone());
    differs("processor", record.cpu.model.clone(), now.cpu.model.clone());
    differs("threads", record.cpu.threads.to_string(), now.cpu.threads.to_string());
    differs("protocol", record.protocol.to_string(), now.protocol.to_string());
    differs("starts", record.starts().to_string(), now.starts().to_string());
    differs("artifact", record.artifact.short(12), now.artifact.short(12));
    let clock = |it: &Measurement| it.clocks.as_ref().and_then(|clocks| clocks.sm_mhz);
    if let (Some(recorded), Some(here)) = (clock(record), clock(now)) {
        // Clocks move in small steps; two percent is more than the interval of a ratio.
        if (recorded - here).abs() > 0.02 * recorded {
            differs("clock", format!("{recorded:.0} MHz"), format!("{here:.0} MHz"));
        }
    }
    for (when, throttled) in [("now", now.throttled), ("when it was recorded", record.throttled)] {
        if throttled {
            found.push(format!("the GPU lowered its clock {when}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::record::Clocks;
    use super::super::record::tests::example;
    use super::*;
    use crate::archive::old_records::old_record;
    use crate::base::digest::Digest;

    fn ratio(low: f64, ratio: f64, high: f64) -> Ratio {
        Ratio { versus: "eager".to_owned(), ratio, low, high, starts: vec![] }
    }

    /// The ratio of these starts, each known to a thousandth.
    fn of_starts(starts: &[f64]) -> Ratio {
        let tight = |ratio: &f64| stats::Interval { median: *ratio, low: ratio * 0.999, high: ratio * 1.001 };
        let found = stats::over_starts(&starts.iter().map(tight).collect::<Vec<_>>()).unwrap();
        Ratio { starts: starts.to_vec(), ..ratio(found.low, found.median, found.high) }
    }

    #[test]
    fn the_rule_of_agreement() {
        let recorded = ratio(1.38, 1.40, 1.42);
        for (agrees, now) in [
            (true, ratio(1.39, 1.40, 1.41)),
            // They overlap at the edge alone.
            (true, ratio(1.42, 1.45, 1.48)),
            // One part in a hundred more than 1.42 is 1.4342.
            (true, ratio(1.434, 1.45, 1.48)),
            (false, ratio(1.435, 1.45, 1.48)),
            (true, ratio(1.34, 1.35, 1.367)),
            (false, ratio(1.34, 1.35, 1.366)),
        ] {
            assert_eq!(agree(&recorded, &now), agrees, "{now:?}");
            assert_eq!(agree(&now, &recorded), agrees, "the same the other way round: {now:?}");
        }
    }

    #[test]
    fn machines_that_differ_by_as_much_as_starts_agree() {
        // Made up: starts that differ by 1 to 9% on both machines, each known to a thousandth.
        for (here, there) in [
            ([1.400, 1.407, 1.414], [1.421, 1.428, 1.414]),
            ([1.40, 1.44, 1.47], [1.45, 1.49, 1.52]),
            ([2.00, 2.10, 2.18], [1.93, 2.01, 1.87]),
        ] {
            assert!(agree(&of_starts(&here), &of_starts(&there)), "{here:?} {there:?}");
            // The same runs in one start each: what is known of either run does not hold the other.
            let (one, other) = (ratio(here[2] * 0.999, here[2], here[2] * 1.001), there[2]);
            let other = ratio(other * 0.999, other, other * 1.001);
            assert_eq!(agree(&one, &other), here[2] == there[2], "{here:?} {there:?}");
        }
        // Starts that agree leave no room for 5%.
        assert!(!agree(&of_starts(&[1.400, 1.401, 1.402]), &of_starts(&[1.470, 1.471, 1.472])));
        assert!(!agree(&of_starts(&[1.40, 1.42, 1.41]), &of_starts(&[1.70, 1.72, 1.71])));
    }

    #[test]
    fn a_single_start_is_held_against_how_starts_differ() {
        let now = of_starts(&[1.40, 1.42, 1.41]);
        // The mean is known to 1.8%, one more start to 3.5%: 1.362 to 1.459, and one part in a hundred.
        let single = |at: f64| ratio(at * 0.999, at, at * 1.001);
        assert!(agree(&single(1.46), &now) && agree(&now, &single(1.46)));
        assert!(!agree(&single(1.48), &now) && !agree(&now, &single(1.48)));
        // A record of protocol 6 with one start, and one of an earlier protocol, are the same.
        let recorded = Ratio { starts: vec![1.46], ..single(1.46) };
        assert!(agree(&recorded, &now));
        // Another machine's three starts have an interval of their own.
        assert!(!agree(&of_starts(&[1.470, 1.471, 1.472]), &now));
    }

    #[test]
    fn equal_machines_agree_in_95_percent_of_ratios_and_others_do_not() {
        let mut random = stats::SplitMix(3);
        let mut uniform = || (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        let mut normal =
            || (-2.0 * (1.0 - uniform()).ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        let mut agreed = |deviation: f64, apart: f64| {
            let mut machine = |truth: f64| of_starts(&[(); 3].map(|()| truth * (deviation * normal()).exp()));
            let agreed = (0..1000).filter(|_| agree(&machine(1.4), &machine(1.4 * apart))).count();
            agreed as f64 / 1000.0
        };
        for deviation in [0.001, 0.01, 0.03, 0.05] {
            let part = agreed(deviation, 1.0);
            assert!(part >= 0.95, "{part} at {deviation}");
        }
        // Starts that differ by half a percent tell 10% apart.
        let part = agreed(0.005, 1.1);
        assert!(part <= 0.05, "{part}");
    }

    #[test]
    fn an_h200_agrees_with_itself_in_most_of_its_records() {
        let read = |text: &str| -> Vec<Measurement> {
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let first = read(old_record("2026-11-21-h200-rms-norm.jsonl"));
        let again = read(old_record("2026-11-21-h200-rms-norm-again.jsonl"));
        let compared: Vec<RatioComparison> = first
            .iter()
            .filter_map(|record| {
                Some(compare(record, again.iter().find(|other| is_same_case(record, other))?))
            })
            .flat_map(|comparison| comparison.ratios)
            .collect();
        let agreed = compared.iter().filter(|ratio| ratio.agrees == Some(true)).count();
        assert_eq!((compared.len(), agreed), (84, 79));
        assert!(
            other_claim(&first[0], &again[0]).is_some_and(|why| why.starts_with("artifact cbbc1e04ef17"))
        );
    }

    #[test]
    fn what_differs_is_told() {
        let record = example();
        let mut now = example();
        assert_eq!(compare(&record, &now).differences, [""; 0]);
        assert!(compare(&record, &now).agrees() == Some(true) && other_claim(&record, &now).is_none());
        now.torch = "2.12.0".to_owned();
        now.artifact = Digest::blake3(b"another");
        now.clocks = Some(Clocks { sm_mhz: Some(1755.0), ..Clocks::default() });
        now.throttled = true;
        // Built anew from the same sources it is the same claim.
        assert_eq!(other_claim(&record, &now), None);
        let told = compare(&record, &now).differences;
        assert_eq!(told.len(), 4, "{told:?}");
        assert_eq!(told[0], "torch 2.12.0, recorded 2.11.0+cu130");
        assert_eq!(told[2], "clock 1755 MHz, recorded 1980 MHz");
        let mut changed = example();
        changed.candidate.as_mut().unwrap().source = Some(Digest::blake3(b"changed"));
        assert!(other_claim(&record, &changed).unwrap().starts_with("source "));
    }

    #[test]
    fn a_ratio_that_is_no_result_neither_agrees_nor_differs() {
        let wild = |mut of: Measurement| {
            let samples = (0..15).map(|at| if at % 2 == 0 { 9e-5 } else { 9e-3 }).collect();
            of.contenders.iter_mut().find(|one| one.name == "eager").unwrap().samples = samples;
            of.ratios = super::super::record::ratios(&of.contenders);
            of.settled()
        };
        let found = compare(&example(), &wild(example()));
        let eager = &found.ratios[0];
        assert_eq!((eager.versus.as_str(), eager.agrees, eager.now.as_ref()), ("eager", None, None));
        assert!(
            eager.not_measured.as_ref().is_some_and(|why| why.starts_with("known only to a factor of 10"))
        );
        assert_eq!(found.agrees(), Some(true), "the other ratio agrees");
        // The other way round, the record has no such ratio, and that is told.
        let found = compare(&wild(example()), &example());
        assert_eq!(found.ratios.len(), 1);
        assert!(found.differences[0].starts_with("recorded vs eager is not a result: "), "{found:?}");
    }

    #[test]
    fn a_baseline_that_is_missing_here_is_neither() {
        let record = example();
        let mut now = example();
        now.ratios.remove(1);
        let compared = compare(&record, &now);
        assert_eq!(compared.ratios[1].agrees, None);
        assert_eq!(compared.agrees(), Some(true));
        now.ratios.clear();
        assert_eq!(compare(&record, &now).agrees(), None, "nothing was compared");
    }
}
