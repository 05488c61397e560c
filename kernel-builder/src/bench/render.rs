//! Measurements as a table for people.
//!
//! Owns: the columns, and how times and ratios are written.
//! Never: leaves out a loss: a ratio below one is shown like every other.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use super::record::{Measurement, Ratio};
use super::unmeasured::ROOFLINE;

/// Processors taken by others from which on figures of a processor are called rough.
pub(super) const CROWDED: f64 = 0.15;

/// The reservation about figures of a single start.
pub(super) const ONE_START: &str =
    "one start: the interval does not show how runs differ; use --starts 3 for that";

/// Baselines that have a column; more do not fit a terminal.
const COLUMNS: [&str; 3] = ["eager", "fused", "compile"];

/// One row a measurement, and below it why contenders are missing; at most 110 columns wide for one kernel. Its name is above
/// the rows; of several kernels, each row has its own.
pub fn table(measurements: &[Measurement]) -> String {
    let Some(first) = measurements.first() else { return "nothing was measured\n".to_owned() };
    let is_one = measurements.iter().all(|measurement| measurement.op == first.op);
    let own_name = |name: &str| (!is_one).then(|| name.to_owned());
    let mut table = Table::new();
    table.load_style(NOTHING);
    let headers = ["workload", "dtype", "regime", "time", "vs eager", "vs fused", "vs compile", "roofline"]
        .map(str::to_owned);
    table.set_header(own_name("kernel").into_iter().chain(headers));
    for measurement in measurements {
        let cells = [
            measurement.workload.clone(),
            measurement.dtype.clone(),
            measurement.regime.clone(),
            time_of(measurement),
            cell(measurement, "eager"),
            cell(measurement, "fused"),
            cell(measurement, "compile"),
            share(measurement),
        ];
        table.add_row(own_name(&measurement.op).into_iter().chain(cells));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for column in [3, 7].map(|column| column + usize::from(!is_one)) {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let title = if is_one { format!("{}\n", first.op) } else { String::new() };
    let rows: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    format!("{title}{rows}{}{}", others(measurements), footer(measurements))
}

/// In place of a figure that was sampled and is no result.
pub(super) const NOT_MEASURED: &str = "not measured";

/// The kernel's time, or why there is none in a word.
pub(super) fn time_of(measurement: &Measurement) -> String {
    match (measurement.time(), measurement.contender("kernel")) {
        (Some(seconds), _) => time(seconds),
        (None, Some(_)) => NOT_MEASURED.to_owned(),
        (None, None) => "-".to_owned(),
    }
}

/// The ratio against a baseline, or why there is none in a word.
fn cell(measurement: &Measurement, name: &str) -> String {
    match measurement.versus(name) {
        Some(found) => ratio(found),
        None if measurement.unmeasured_versus(name).is_some() => NOT_MEASURED.to_owned(),
        None => "-".to_owned(),
    }
}

/// Figures that were not measured, grouped by reason, with the effort that a result would take.
pub(super) fn unmeasured(measurement: &Measurement) -> Vec<String> {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for one in &measurement.unmeasured {
        let reason = one.reason();
        match found.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, figures)) => figures.push(&one.figure),
            None => found.push((reason, vec![&one.figure])),
        }
    }
    found
        .into_iter()
        .map(|(reason, figures)| format!("{} {NOT_MEASURED}: {reason}", figures.join(", ")))
        .collect()
}

/// A line for each ratio against a baseline that has no column.
fn others(measurements: &[Measurement]) -> String {
    let mut text = String::new();
    for measurement in measurements {
        let others = measurement.ratios.iter().filter(|it| !COLUMNS.contains(&it.versus.as_str()));
        for other in others {
            text += &format!("{} vs {}: {}\n", name(measurement), other.versus, ratio(other));
        }
    }
    text
}

/// The regimes of these measurements, in order of first sight, each with what it is.
pub(super) fn regimes(measurements: &[Measurement]) -> Vec<(&str, &'static str)> {
    let mut found: Vec<(&str, &'static str)> = Vec::new();
    for regime in measurements.iter().map(|measurement| measurement.regime.as_str()) {
        let words = match regime {
            "cold" => "one call on the GPU after its L2 cache was flushed",
            "graph" => "calls in a CUDA graph, on inputs that together do not fit the L2 cache",
            "hot" => {
                "calls in a CUDA graph on the same inputs, from the cache; for information, not a result"
            }
            "host" => "wall-clock time of calls on the CPU",
            _ => continue,
        };
        if !found.contains(&(regime, words)) {
            found.push((regime, words));
        }
    }
    found
}

/// `rms_norm llm-2048x4096 bf16 graph`.
pub(super) fn name(measurement: &Measurement) -> String {
    let Measurement { op, workload, dtype, regime, .. } = measurement;
    format!("{op} {workload} {dtype} {regime}")
}

/// The share of the nearer ceiling, or a word for its absence.
pub(super) fn share(measurement: &Measurement) -> String {
    let absent = if is_unmeasured(measurement, ROOFLINE) { NOT_MEASURED } else { "-" };
    fraction(measurement).map_or_else(|| absent.to_owned(), |part| format!("{:.0}%", 100.0 * part))
}

fn is_unmeasured(measurement: &Measurement, figure: &str) -> bool {
    measurement.unmeasured.iter().any(|one| one.figure == figure)
}

/// The part of the nearer ceiling; lines of protocol 1 have that of the copy alone. If either ceiling is not known, it is
/// not known which one is nearer.
pub(super) fn fraction(measurement: &Measurement) -> Option<f64> {
    if is_unmeasured(measurement, ROOFLINE) {
        return None;
    }
    measurement.roofline.and_then(|roofline| roofline.fraction()).or(measurement.copy_fraction)
}

/// A ratio with its interval: `1.42x [1.39, 1.46]`.
pub(super) fn ratio(ratio: &Ratio) -> String {
    let digits = digits_of(ratio.ratio);
    format!("{:.digits$}x [{:.digits$}, {:.digits$}]", ratio.ratio, ratio.low, ratio.high)
}

/// Seconds with three digits and their unit: `12.4 us`, `1.25 ms`.
pub fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        below if below < 999.5e-9 => (seconds * 1e9, "ns"),
        below if below < 999.5e-6 => (seconds * 1e6, "us"),
        below if below < 999.5e-3 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    let digits = digits_of(value);
    format!("{value:.digits$} {unit}")
}

/// Decimals that leave three digits in all.
pub(super) fn digits_of(value: f64) -> usize {
    match value {
        small if small < 9.995 => 2,
        middle if middle < 99.95 => 1,
        _ => 0,
    }
}

/// The devices, what the brackets mean, and each reason for a missing contender once.
pub(super) fn footer(measurements: &[Measurement]) -> String {
    let mut devices: Vec<String> = Vec::new();
    let mut reasons: Vec<String> = Vec::new();
    let once = |list: &mut Vec<String>, text: String| {
        if !list.contains(&text) {
            list.push(text);
        }
    };
    for measurement in measurements {
        let threads = measurement.cpu.threads;
        let device = match measurement.regime.as_str() {
            "host" => format!("{}, {}", measurement.device, counted(threads, "thread")),
            _ => measurement.device.clone(),
        };
        once(&mut devices, format!("{device}, torch {}", measurement.torch));
        for skipped in &measurement.skipped {
            once(&mut reasons, format!("no {}: {}", skipped.name, skipped.reason));
        }
    }
    let mut text = format!(
        "on {}; above 1x the kernel is faster; [95% interval{}]\n",
        devices.join("; "),
        match measurements.iter().map(Measurement::starts).min() {
            Some(least) if least > 1 => format!(" over {least} starts"),
            _ => String::new(),
        }
    );
    if let Some(doubt) = single_starts(measurements) {
        text += &format!("{doubt}\n");
    }
    for measurement in measurements {
        for sentence in unmeasured(measurement) {
            text += &format!("{}: {sentence}\n", name(measurement));
        }
    }
    for (regime, words) in regimes(measurements) {
        text += &format!("{regime}: {words}\n");
    }
    let crowded = measurements.iter().filter_map(|measurement| measurement.cpu.crowded).fold(0.0, f64::max);
    if crowded > CROWDED {
        text += &format!(
            "other processes used up to {crowded:.1} CPU cores during the run: rerun on an idle machine\n"
        );
    }
    let held: Vec<&str> =
        measurements.iter().filter(|it| it.throttled).map(|it| it.workload.as_str()).collect();
    if let Some(first) = held.first() {
        text += &format!(
            "the GPU lowered its clock in {} (first {first})\n",
            counted(held.len() as u64, "measurement")
        );
    }
    let mut lints: Vec<&String> = measurements.iter().filter_map(|it| it.lint.as_ref()).flatten().collect();
    lints.sort();
    lints.dedup();
    for code in lints {
        text += &format!("the task has a finding of the linter: {code}\n");
    }
    for reason in reasons {
        let line: String = reason.chars().take(110).collect();
        text += &format!("{line}\n");
    }
    text
}

/// The doubt about measurements of a single start, if there are any.
fn single_starts(measurements: &[Measurement]) -> Option<String> {
    let single = measurements.iter().filter(|it| it.starts() < 2).count();
    match single {
        0 => None,
        all if all == measurements.len() => Some(ONE_START.to_owned()),
        some => Some(format!("{}: {ONE_START}", counted(some as u64, "measurement"))),
    }
}

/// `1 kernel`, `2 kernels`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("{count} {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::example;
    use super::*;

    #[test]
    fn the_table_of_one_measurement() {
        insta::assert_snapshot!(table(&[example()]), @r"
        rms_norm
        workload       dtype  regime     time  vs eager            vs fused            vs compile  roofline
        llm-2048x4096  bf16   graph   10.0 us  6.40x [6.40, 6.40]  1.42x [1.42, 1.42]  -                95%
        on NVIDIA H200, torch 2.11.0+cu130; above 1x the kernel is faster; [95% interval]
        one start: the interval does not show how runs differ; use --starts 3 for that
        graph: calls in a CUDA graph, on inputs that together do not fit the L2 cache
        no compile: no compiler
        ");
    }

    #[test]
    fn wide_figures_stay_in_110_columns() {
        let mut measurement = example();
        measurement.workload = "cpu-prefill-2048x4096".to_owned();
        for ratio in &mut measurement.ratios {
            (ratio.ratio, ratio.low, ratio.high) = (112.34, 101.25, 120.75);
        }
        measurement.ratios.push(Ratio { versus: "compile".to_owned(), ..measurement.ratios[0].clone() });
        measurement.skipped.clear();
        let text = table(&[measurement]);
        assert_eq!(text.lines().count(), 6);
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    }

    #[test]
    fn the_starts_are_told() {
        let several = Measurement { starts: vec![15, 20, 15], ..example() };
        let text = table(std::slice::from_ref(&several));
        assert!(text.contains("; [95% interval over 3 starts]\n") && !text.contains("one start"), "{text}");
        let text = table(&[several, example()]);
        assert!(text.contains("; [95% interval]\n1 measurement: one start: the interval"), "{text}");
    }

    #[test]
    fn rows_of_several_kernels_name_them_and_regimes_are_explained() {
        let other = Measurement { op: "softmax".to_owned(), regime: "cold".to_owned(), ..example() };
        let hot = Measurement { regime: "hot".to_owned(), ..other.clone() };
        let text = table(&[example(), other, hot]);
        let rows: Vec<&str> =
            text.lines().take(4).map(|line| line.split_whitespace().next().unwrap()).collect();
        assert_eq!(rows, ["kernel", "rms_norm", "softmax", "softmax"]);
        for line in [
            "graph: calls in a CUDA graph",
            "cold: one call on the GPU",
            "hot: calls in a CUDA graph on the same",
        ] {
            assert_eq!(text.matches(line).count(), 1, "{text}");
        }
    }

    #[test]
    fn a_crowded_machine_is_told() {
        let mut measurement = example();
        measurement.cpu.crowded = Some(1.37);
        let text = table(&[measurement]);
        assert!(text.contains("other processes used up to 1.4 CPU cores during the run"), "{text}");
    }

    #[test]
    fn more_baselines_doubts_and_lints_have_lines() {
        let mut measurement = example();
        measurement.ratios.push(Ratio {
            versus: "cublaslt".to_owned(),
            ratio: 0.98,
            low: 0.97,
            high: 0.99,
            starts: vec![],
        });
        measurement.throttled = true;
        measurement.lint = Some(vec!["lint::constant".to_owned()]);
        let text = table(&[measurement.clone(), measurement]);
        assert!(
            text.contains("rms_norm llm-2048x4096 bf16 graph vs cublaslt: 0.98x [0.97, 0.99]\n"),
            "{text}"
        );
        assert!(
            text.contains("the GPU lowered its clock in 2 measurements (first llm-2048x4096)\n"),
            "{text}"
        );
        assert_eq!(text.matches("lint::constant").count(), 1, "{text}");
    }

    #[test]
    fn times_have_three_digits() {
        let cases =
            [(9.712e-6, "9.71 us"), (124.26e-6, "124 us"), (0.99996e-3, "1.00 ms"), (62.3e-3, "62.3 ms")];
        for (seconds, text) in cases {
            assert_eq!(time(seconds), text);
        }
    }
}
