//! Measurements as a table for people.
//!
//! Owns: columns, units, rounding. Never: wider than 110 columns with usual names.

use comfy_table::{CellAlignment, Table, presets};

use super::measurement::Measurement;

const BASELINES: [&str; 3] = ["eager", "fused", "compile"];

/// One row a measurement; ratios above 1 are in the kernel's favour.
pub fn table(measurements: &[Measurement]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["workload", "dtype", "regime", "time", "vs eager", "vs fused", "vs compile", "of copy"]);
    for measurement in measurements {
        let time = measurement.contenders.first().map_or(f64::NAN, |candidate| candidate.median_s);
        let mut row = vec![
            measurement.workload.clone(),
            measurement.dtype.clone(),
            measurement.regime.clone(),
            duration(time),
        ];
        row.extend(BASELINES.map(|baseline| ratio(measurement, baseline)));
        row.push(measurement.of_copy.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0)));
        table.add_row(row);
    }
    for place in 3..8 {
        if let Some(column) = table.column_mut(place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

fn ratio(measurement: &Measurement, baseline: &str) -> String {
    match measurement.ratios.iter().find(|ratio| ratio.versus == baseline) {
        Some(ratio) => {
            let interval = &ratio.interval;
            format!("{:.2}x [{:.2}, {:.2}]", interval.ratio, interval.low, interval.high)
        }
        None => "-".to_owned(),
    }
}

/// A time for one call: three or more digits, `12.34 us`.
fn duration(seconds: f64) -> String {
    match seconds {
        ..1e-3 => format!("{:.2} us", seconds * 1e6),
        1e-3..1.0 => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::measurement::{Contender, Machine, Ratio};
    use super::super::statistics::Interval;
    use super::*;
    use crate::base::digest::Digest;

    #[test]
    fn a_row_fits_and_says_what_it_lacks() {
        let interval = Interval { ratio: 1.424, low: 1.391, high: 1.456 };
        let candidate = Contender { name: "candidate".to_owned(), median_s: 12.345e-6, samples: vec![] };
        let measurement = Measurement {
            artifact: Digest::of(b"artifact"),
            variant: "torch-stable-abi211-cpu-x86_64-linux".to_owned(),
            workload: "cpu-prefill-2048x4096".to_owned(),
            dtype: "bf16".to_owned(),
            regime: "events".to_owned(),
            device: "cpu".to_owned(),
            machine: Machine::default(),
            torch: "2.11.0".to_owned(),
            when: 0,
            commit: None,
            protocol: super::super::PROTOCOL,
            contenders: vec![candidate],
            unavailable: vec![],
            ratios: ["eager", "fused"].map(|versus| Ratio { versus: versus.to_owned(), interval }).to_vec(),
            of_copy: Some(0.912),
            bytes: 1,
        };
        let text = table(&[measurement]);
        let row = text.lines().last().unwrap();
        assert!(text.lines().all(|line| line.len() <= 110), "{text}");
        for part in ["12.35 us", "1.42x [1.39, 1.46]", " - ", "91%"] {
            assert!(row.contains(part), "{part} in {row}");
        }
    }
}
