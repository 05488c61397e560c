//! Figures of drawn cases together: losses, and how much faster the kernel is on average.
//!
//! Owns: what a loss is, means over cases with their intervals, the table. Never: leaves out a loss.

use std::collections::BTreeMap;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::super::record::{Measurement, Ratio};
use super::super::{render, stats};

/// The name of the fastest peer of each case among peers.
const BEST: &str = "best";
/// Cases from which on resamples say something about others.
const FEWEST_CASES: usize = 6;

/// The results of one build on drawn cases.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    /// The seed of the cases.
    pub seed: u64,
    /// The build's variant; `device` for device code.
    pub variant: String,
    /// The operation.
    pub op: String,
    /// The processor or GPU.
    pub device: String,
    /// Number of drawn cases.
    pub count: usize,
    /// One for each case and regime, the greatest loss first.
    pub cases: Vec<Row>,
    /// By regime: over the best peer of each case, then over each peer.
    pub means: Vec<Mean>,
}

/// One case in one regime, beside its best peer.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// The name that `--workload` takes.
    pub workload: String,
    /// The lengths of the axes that vary.
    pub axes: BTreeMap<String, u64>,
    /// The dtype, as in a record.
    pub dtype: String,
    /// The regime.
    pub regime: String,
    /// Seconds a call of the kernel; absent if they are not a result.
    pub seconds: Option<f64>,
    /// The fastest peer with its ratio; absent if it is not known.
    pub best: Option<Ratio>,
    /// Whether that ratio is below one.
    pub loss: bool,
}

/// The geometric mean of ratios over cases.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Mean {
    /// The regime.
    pub regime: String,
    /// A peer, or `best`.
    pub versus: String,
    /// Number of cases that have the ratio.
    pub cases: usize,
    /// Number of those whose ratio is below one.
    pub losses: usize,
    /// The mean: above one, the kernel is faster.
    pub ratio: f64,
    /// The lower end of its 95% interval, by resamples of the cases; absent for too few cases.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

/// A summary for each build and seed, in the order of measurement. Measurements of workloads have none.
pub(crate) fn summaries(measured: &[Measurement]) -> Vec<Summary> {
    let mut found: Vec<(u64, Vec<&Measurement>)> = Vec::new();
    for one in measured {
        let Some(seed) = one.drawn else { continue };
        let same = |(other, mine): &&mut (u64, Vec<&Measurement>)| {
            let first = mine[0];
            *other == seed && (first.artifact, &first.device) == (one.artifact, &one.device)
        };
        match found.iter_mut().find(same) {
            Some((_, mine)) => mine.push(one),
            None => found.push((seed, vec![one])),
        }
    }
    found.iter().map(|(seed, mine)| summary(*seed, mine)).collect()
}

fn summary(seed: u64, measured: &[&Measurement]) -> Summary {
    let mut names: Vec<_> = measured.iter().map(|one| (&one.workload, &one.dtype)).collect();
    names.sort();
    names.dedup();
    // Measurements in `hot` are not results.
    let results: Vec<&Measurement> = measured.iter().copied().filter(|one| one.is_result()).collect();
    let mut cases: Vec<Row> = results.iter().map(|one| row(one)).collect();
    let ratio = |row: &Row| row.best.as_ref().map_or(f64::INFINITY, |best| best.ratio);
    cases.sort_by(|one, other| ratio(one).total_cmp(&ratio(other)));
    let first = measured[0];
    Summary {
        seed,
        variant: first.variant.clone(),
        op: first.op.clone(),
        device: first.device.clone(),
        count: names.len(),
        cases,
        means: means(&results),
    }
}

/// The ratio over the fastest peer. If one of the peers was not measured precisely enough, it may be the fastest, so only a
/// loss against another one is known.
fn best(measurement: &Measurement) -> Option<&Ratio> {
    let least = measurement.ratios.iter().min_by(|one, other| one.ratio.total_cmp(&other.ratio))?;
    let all_known = measurement.unmeasured.iter().all(|one| !one.figure.starts_with("vs "));
    (all_known || least.ratio < 1.0).then_some(least)
}

fn row(measurement: &Measurement) -> Row {
    let best = best(measurement).cloned();
    Row {
        workload: measurement.workload.clone(),
        axes: measurement.axes.clone(),
        dtype: measurement.dtype.clone(),
        regime: measurement.regime.clone(),
        seconds: measurement.time(),
        loss: best.as_ref().is_some_and(|best| best.ratio < 1.0),
        best,
    }
}

fn means(results: &[&Measurement]) -> Vec<Mean> {
    let mut regimes: Vec<&str> = Vec::new();
    let mut peers: Vec<&str> = Vec::new();
    for one in results {
        if !regimes.contains(&one.regime.as_str()) {
            regimes.push(&one.regime);
        }
        for ratio in &one.ratios {
            if !peers.contains(&ratio.versus.as_str()) {
                peers.push(&ratio.versus);
            }
        }
    }
    let mut found = Vec::new();
    for regime in regimes {
        let mine: Vec<&Measurement> = results.iter().copied().filter(|one| one.regime == regime).collect();
        let over_best: Vec<f64> = mine.iter().filter_map(|one| Some(best(one)?.ratio)).collect();
        found.extend(mean(regime, BEST, &over_best));
        for peer in &peers {
            let over: Vec<f64> = mine.iter().filter_map(|one| Some(one.versus(peer)?.ratio)).collect();
            found.extend(mean(regime, peer, &over));
        }
    }
    found
}

fn mean(regime: &str, versus: &str, ratios: &[f64]) -> Option<Mean> {
    let ratio = stats::geometric_mean(ratios)?;
    let interval = if ratios.len() < FEWEST_CASES { None } else { stats::over_cases(ratios) };
    Some(Mean {
        regime: regime.to_owned(),
        versus: versus.to_owned(),
        cases: ratios.len(),
        losses: ratios.iter().filter(|ratio| **ratio < 1.0).count(),
        ratio,
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
    })
}

/// The summaries as tables, and the remarks on all measurements.
pub(crate) fn table(summaries: &[Summary], measured: &[Measurement]) -> String {
    if summaries.is_empty() {
        return render::table(measured);
    }
    let parts: Vec<String> = summaries.iter().map(summary_table).collect();
    format!("{}{}", parts.join("\n"), render::footer(measured))
}

fn summary_table(summary: &Summary) -> String {
    let losses = summary.cases.iter().filter(|row| row.loss).count();
    let known = summary.cases.iter().filter(|row| row.best.is_some()).count();
    let title = format!(
        "{} {}, {} of seed {}\nthe best peer is faster in {losses} of {}\n",
        summary.op,
        summary.variant,
        render::counted(summary.count as u64, "drawn case"),
        summary.seed,
        render::counted(known as u64, "measurement"),
    );
    let mut rows = Table::new();
    rows.load_style(NOTHING);
    let axes: Vec<String> =
        summary.cases.first().map(|row| row.axes.keys().cloned().collect()).unwrap_or_default();
    let headers = ["dtype", "regime", "time", "best peer", "vs best peer"].map(str::to_owned);
    rows.set_header(axes.iter().cloned().chain(headers));
    for row in &summary.cases {
        let missing = || render::NOT_MEASURED.to_owned();
        let cells = [
            row.dtype.clone(),
            row.regime.clone(),
            row.seconds.map_or_else(missing, render::time),
            row.best.as_ref().map_or_else(|| "-".to_owned(), |best| best.versus.clone()),
            row.best.as_ref().map_or_else(missing, render::ratio),
        ];
        rows.add_row(axes.iter().map(|axis| row.axes[axis].to_string()).chain(cells));
    }
    let mut means = Table::new();
    means.load_style(NOTHING);
    means.set_header(["regime", "peer", "cases", "losses", "geometric mean"]);
    for mean in &summary.means {
        means.add_row([
            mean.regime.clone(),
            mean.versus.clone(),
            mean.cases.to_string(),
            mean.losses.to_string(),
            mean_text(mean),
        ]);
    }
    let right = (0..axes.len()).chain([axes.len() + 2]).collect::<Vec<_>>();
    format!(
        "{title}{}\n{}[95% interval of a mean by resamples of the cases, from {FEWEST_CASES} cases on]\n",
        lines(rows, &right),
        lines(means, &[2, 3])
    )
}

fn mean_text(mean: &Mean) -> String {
    let digits = render::digits_of(mean.ratio);
    match (mean.low, mean.high) {
        (Some(low), Some(high)) => {
            format!("{:.digits$}x [{low:.digits$}, {high:.digits$}]", mean.ratio)
        }
        _ => format!("{:.digits$}x", mean.ratio),
    }
}

fn lines(mut table: Table, right: &[usize]) -> String {
    for (place, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::record::tests::example;
    use super::super::super::unmeasured::Unmeasured;
    use super::*;

    /// The kernel's example on one more case, with these ratios against eager and the fused operator.
    fn drawn(rows: u64, regime: &str, eager: f64, fused: f64) -> Measurement {
        let mut one = example();
        one.drawn = Some(7);
        one.workload = format!("drawn-7-{rows}x4096");
        one.regime = regime.to_owned();
        one.axes.insert("rows".to_owned(), rows);
        for (ratio, value) in one.ratios.iter_mut().zip([eager, fused]) {
            (ratio.ratio, ratio.low, ratio.high) = (value, value - 0.01, value + 0.01);
        }
        one
    }

    #[test]
    fn losses_come_first_and_hot_figures_do_not_count() {
        let measured = [
            drawn(1, "cold", 2.0, 1.5),
            drawn(1, "hot", 0.1, 0.1),
            drawn(301, "cold", 0.8, 1.2),
            drawn(8, "cold", 3.0, 0.95),
        ];
        let found = summaries(&measured);
        insta::assert_snapshot!(table(&found, &measured), @r"
        rms_norm torch-stable-abi211-cu130-x86_64-linux, 3 drawn cases of seed 7
        the best peer is faster in 2 of 3 measurements
        hidden  rows  dtype  regime     time  best peer  vs best peer
          4096   301  bf16   cold    10.0 us  eager      0.80x [0.79, 0.81]
          4096     8  bf16   cold    10.0 us  fused      0.95x [0.94, 0.96]
          4096     1  bf16   cold    10.0 us  fused      1.50x [1.49, 1.51]

        regime  peer   cases  losses  geometric mean
        cold    best       3       2  1.04x
        cold    eager      3       1  1.69x
        cold    fused      3       1  1.20x
        [95% interval of a mean by resamples of the cases, from 6 cases on]
        on NVIDIA H200, torch 2.11.0+cu130; above 1x the kernel is faster; [95% interval]
        one start: the interval does not show how runs differ; use --starts 3 for that
        cold: one call on the GPU after its L2 cache was flushed
        hot: calls in a CUDA graph on the same inputs, from the cache; for information, not a result
        no compile: no compiler
        ");
    }

    #[test]
    fn means_are_geometric_with_an_interval_over_cases() {
        let measured: Vec<Measurement> =
            (1..=8).map(|rows| drawn(rows, "cold", 4.0, if rows % 2 == 0 { 0.5 } else { 2.0 })).collect();
        let found = summaries(&measured).remove(0);
        assert_eq!((found.seed, found.count, found.cases.len()), (7, 8, 8));
        assert!(found.cases[3].loss && !found.cases[4].loss);
        let by = |versus: &str| found.means.iter().find(|mean| mean.versus == versus).unwrap();
        assert_eq!(
            found.means.iter().map(|mean| mean.versus.as_str()).collect::<Vec<_>>(),
            [BEST, "eager", "fused"]
        );
        assert_eq!(by(BEST), &Mean { versus: BEST.to_owned(), ..by("fused").clone() });
        assert!((by(BEST).ratio - 1.0).abs() < 1e-12 && by(BEST).losses == 4, "{:?}", by(BEST));
        let (low, high) = (by(BEST).low.unwrap(), by(BEST).high.unwrap());
        assert!(0.5 < low && low < 0.75 && 1.4 < high && high < 2.0, "{low} {high}");
        let eager = by("eager");
        assert!((eager.ratio - 4.0).abs() < 1e-12 && (eager.low.unwrap() - 4.0).abs() < 1e-12, "{eager:?}");
    }

    #[test]
    fn cases_without_a_ratio_are_last_and_few_cases_have_no_interval() {
        let mut unknown = drawn(5, "cold", 1.0, 1.0);
        unknown.ratios.clear();
        let found = summaries(&[unknown, drawn(6, "cold", 2.0, 3.0)]).remove(0);
        assert_eq!(found.cases.iter().map(|row| row.axes["rows"]).collect::<Vec<_>>(), [6, 5]);
        assert!(found.cases[1].best.is_none() && !found.cases[1].loss);
        assert!(found.means.iter().all(|mean| mean.cases == 1 && mean.low.is_none()));
    }

    #[test]
    fn a_peer_that_was_not_measured_may_be_the_best_one() {
        let without_fused = |eager| {
            let mut one = drawn(5, "cold", eager, 1.0);
            one.ratios.pop();
            let figure = "vs fused".to_owned();
            one.unmeasured = vec![Unmeasured {
                figure,
                blocks: 15,
                factor: None,
                needs: None,
                budget: None,
                starts: None,
            }];
            summaries(&[one]).remove(0)
        };
        let (win, loss) = (without_fused(2.0), without_fused(0.8));
        assert!(win.cases[0].best.is_none() && loss.cases[0].loss);
        assert_eq!(win.means.iter().map(|mean| mean.versus.as_str()).collect::<Vec<_>>(), ["eager"]);
        assert_eq!(loss.means.iter().map(|mean| mean.versus.as_str()).collect::<Vec<_>>(), [BEST, "eager"]);
    }

    #[test]
    fn builds_and_workloads_are_apart() {
        let other = Measurement {
            artifact: crate::base::digest::Digest::blake3(b"other"),
            variant: "other".to_owned(),
            ..drawn(1, "cold", 2.0, 2.0)
        };
        let found = summaries(&[drawn(1, "cold", 2.0, 2.0), other, example()]);
        assert_eq!(found.len(), 2);
        assert_eq!(table(&[], &[example()]), render::table(&[example()]));
    }
}
