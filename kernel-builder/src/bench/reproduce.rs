//! Whether a measurement that was made again agrees with its record.
//!
//! Owns: the rule of agreement, and what differs between two runs. Never: measures.

use serde::Serialize;

use super::record::{Measurement, Ratio};

/// Two runs differ by more than either of them sees: addresses, clocks and the code that torch.compile chooses stay the
/// same within one. Of 84 ratios that an H200 gave twice on one day, the intervals of 57 overlapped, 69 agreed within
/// both half-widths, and 75 with this part of the ratio as the least room; the others were a workload of a few
/// microseconds, above all against torch.compile.
const LEAST_ROOM: f64 = 0.01;

/// A record beside what was measured now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The workload.
    pub workload: String,
    /// The dtype.
    pub dtype: String,
    /// The regime.
    pub regime: String,
    /// Each ratio of the record.
    pub ratios: Vec<Compared>,
    /// What is not as it was, a sentence fragment each.
    pub differences: Vec<String>,
}

/// One ratio of a record beside that of now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The baseline.
    pub versus: String,
    /// What the record has.
    pub recorded: Ratio,
    /// What was measured now; absent when the baseline could not be timed here.
    pub now: Option<Ratio>,
    /// Whether both agree; absent without one of them.
    pub agrees: Option<bool>,
}

impl Comparison {
    /// Whether every ratio that could be compared agrees, and there is one.
    pub fn agrees(&self) -> bool {
        let known: Vec<bool> = self.ratios.iter().filter_map(|ratio| ratio.agrees).collect();
        !known.is_empty() && known.into_iter().all(|agrees| agrees)
    }
}

/// Whether two intervals of one ratio agree: they overlap, or the new median lies within the old interval after that was
/// widened on each side by both half-widths, and by one part in a hundred at least.
pub fn agree(recorded: &Ratio, now: &Ratio) -> bool {
    let overlap = now.low <= recorded.high && recorded.low <= now.high;
    let half_widths = (recorded.high - recorded.low) / 2.0 + (now.high - now.low) / 2.0;
    let room = half_widths.max(LEAST_ROOM * recorded.ratio);
    overlap || (recorded.low - room <= now.ratio && now.ratio <= recorded.high + room)
}

/// A record beside what was measured now.
pub fn compare(record: &Measurement, now: &Measurement) -> Comparison {
    let ratios = record.ratios.iter().map(|recorded| {
        let found = now.versus(&recorded.versus).cloned();
        Compared {
            versus: recorded.versus.clone(),
            agrees: found.as_ref().map(|found| agree(recorded, found)),
            recorded: recorded.clone(),
            now: found,
        }
    });
    Comparison {
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
    let mut found = Vec::new();
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
            found.push(format!("the GPU held its clock down {when}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::record::Clocks;
    use super::super::record::tests::example;
    use super::*;
    use crate::base::digest::Digest;

    fn ratio(low: f64, ratio: f64, high: f64) -> Ratio {
        Ratio { versus: "eager".to_owned(), ratio, low, high }
    }

    #[test]
    fn the_rule_of_agreement() {
        let recorded = ratio(1.38, 1.40, 1.42);
        for (agrees, now) in [
            (true, ratio(1.39, 1.40, 1.41)),
            // They overlap at the edge alone.
            (true, ratio(1.42, 1.45, 1.48)),
            // Half-widths 0.02 and 0.005 reach to 1.445.
            (true, ratio(1.437, 1.442, 1.447)),
            (false, ratio(1.447, 1.452, 1.457)),
            (true, ratio(1.352, 1.357, 1.362)),
            (false, ratio(1.335, 1.340, 1.345)),
        ] {
            assert_eq!(agree(&recorded, &now), agrees, "{now:?}");
        }
        // Intervals without width have one part in a hundred.
        assert!(agree(&ratio(2.0, 2.0, 2.0), &ratio(2.019, 2.019, 2.019)));
        assert!(!agree(&ratio(2.0, 2.0, 2.0), &ratio(2.021, 2.021, 2.021)));
    }

    #[test]
    fn an_h200_agrees_with_itself_in_most_of_its_records() {
        let read = |text: &str| -> Vec<Measurement> {
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let first = read(include_str!("../../../bench/results/2026-11-21-h200-rms-norm.jsonl"));
        let again = read(include_str!("../../../bench/results/2026-11-21-h200-rms-norm-again.jsonl"));
        let compared: Vec<Compared> = first
            .iter()
            .filter_map(|record| {
                Some(compare(record, again.iter().find(|other| is_same_case(record, other))?))
            })
            .flat_map(|comparison| comparison.ratios)
            .collect();
        let agreed = compared.iter().filter(|ratio| ratio.agrees == Some(true)).count();
        assert_eq!((compared.len(), agreed), (84, 75));
        assert!(
            other_claim(&first[0], &again[0]).is_some_and(|why| why.starts_with("artifact cbbc1e04ef17"))
        );
    }

    #[test]
    fn what_differs_is_told() {
        let record = example();
        let mut now = example();
        assert_eq!(compare(&record, &now).differences, [""; 0]);
        assert!(compare(&record, &now).agrees() && other_claim(&record, &now).is_none());
        now.torch = "2.12.0".to_owned();
        now.artifact = Digest::of(b"another");
        now.clocks = Some(Clocks { sm_mhz: Some(1755.0), ..Clocks::default() });
        now.throttled = true;
        // Built anew from the same sources it is the same claim.
        assert_eq!(other_claim(&record, &now), None);
        let told = compare(&record, &now).differences;
        assert_eq!(told.len(), 4, "{told:?}");
        assert_eq!(told[0], "torch 2.12.0, recorded 2.11.0+cu130");
        assert_eq!(told[2], "clock 1755 MHz, recorded 1980 MHz");
        let mut changed = example();
        changed.candidate.as_mut().unwrap().source = Some(Digest::of(b"changed"));
        assert!(other_claim(&record, &changed).unwrap().starts_with("source "));
    }

    #[test]
    fn a_baseline_that_is_missing_here_is_neither() {
        let record = example();
        let mut now = example();
        now.ratios.remove(1);
        let compared = compare(&record, &now);
        assert_eq!(compared.ratios[1].agrees, None);
        assert!(compared.agrees());
        now.ratios.clear();
        assert!(!compare(&record, &now).agrees(), "nothing was compared");
    }
}
