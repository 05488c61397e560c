//! Plots as SVG: ratios with intervals, parts of the ceiling, distributions of samples.
//!
//! Owns: places, axes, marks. Never: decides what a figure means.

use std::fmt::Write as _;

use super::super::record::{Contender, Measurement};
use super::super::render::{fraction, time};
use super::html::escape;
use super::name;

/// Width of every plot, in the plot's own units.
const WIDTH: f64 = 840.0;
/// Where rows have their labels end and their marks begin.
const LEFT: f64 = 290.0;
const RIGHT: f64 = 815.0;
const TOP: f64 = 44.0;
const ROW: f64 = 34.0;
/// Points of a distribution: more cannot be told apart at this width.
const POINTS: usize = 64;

/// The series of a contender: its colour and form are the same in every plot.
fn series_of(contender: &str) -> usize {
    match contender {
        "kernel" => 0,
        "eager" => 1,
        "fused" => 2,
        "compile" => 3,
        "copy" => 4,
        library if library.starts_with("cublas") => 6,
        _ => 5,
    }
}

/// A logarithmic axis between two positive numbers.
#[derive(Debug, Clone, Copy)]
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// An axis that holds every number, with room at both ends; what is no positive number is passed over.
    fn around(numbers: impl Iterator<Item = f64>) -> Self {
        let usable = numbers.filter(|number| number.is_finite() && *number > 0.0);
        let (low, high) =
            usable.fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), it| (low.min(it), high.max(it)));
        if low > high {
            return Self { low: 0.5, high: 2.0 };
        }
        let room = (high / low).powf(0.06).max(1.05);
        Self { low: low / room, high: high * room }
    }

    /// The place of a number, at an end for one that is beyond it or no number.
    fn place(self, number: f64) -> f64 {
        let inside = if number.is_nan() { self.low } else { number.clamp(self.low, self.high) };
        LEFT + (RIGHT - LEFT) * (inside / self.low).ln() / (self.high / self.low).ln()
    }

    /// Round numbers along the axis, eight at most: one, two and five times powers of ten, or finer where it is short.
    fn ticks(self) -> Vec<f64> {
        let fine = |step: f64| -> Vec<f64> {
            let first = (self.low / step).ceil() as i64;
            let last = (self.high / step).floor() as i64;
            (first..=last).take(64).map(|at| at as f64 * step).collect()
        };
        if self.high / self.low > 4.0 {
            // One is among them, however few are left.
            let decades = |digits: &[f64], stride: usize| -> Vec<f64> {
                let powers =
                    (-18..=18).filter(|power: &i32| (power.unsigned_abs() as usize).is_multiple_of(stride));
                let all = powers.flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)));
                all.filter(|tick| (self.low..=self.high).contains(tick)).collect()
            };
            let choices =
                [(&[1.0, 2.0, 5.0][..], 1), (&[1.0, 3.0], 1), (&[1.0], 1), (&[1.0], 2), (&[1.0], 3)];
            let ticks = choices.map(|(digits, stride)| decades(digits, stride));
            return ticks.into_iter().find(|ticks| ticks.len() <= 8).unwrap_or_default();
        }
        let magnitude = 10f64.powf((self.high - self.low).log10().floor() - 1.0);
        let steps = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0].map(|factor| fine(factor * magnitude));
        steps.into_iter().find(|ticks| (1..=8).contains(&ticks.len())).unwrap_or_default()
    }
}

/// A figure with its title and description for who cannot see it, and a legend of `(class, text)`.
fn figure(
    id: &str,
    title: &str,
    description: &str,
    height: f64,
    legend: &[(usize, String)],
    drawing: &str,
) -> String {
    let mut keys = String::new();
    let mut at = LEFT;
    for (class, text) in legend {
        let _infallible = writeln!(
            keys,
            "{}<text x=\"{:.0}\" y=\"18\">{}</text>",
            mark(*class, at, 14.0),
            at + 10.0,
            escape(text)
        );
        at += 28.0 + 7.0 * text.chars().count() as f64;
    }
    format!(
        "<figure>\n<figcaption>{title}</figcaption>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\">\n\
         <svg role=\"img\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" aria-labelledby=\"{id}-title {id}-desc\">\n\
         <title id=\"{id}-title\">{title}</title>\n<desc id=\"{id}-desc\">{}</desc>\n{keys}{drawing}</svg>\n</div>\n</figure>\n",
        escape(description),
        title = escape(title),
    )
}

/// A mark whose form tells the series as well as its colour does.
fn mark(series: usize, x: f64, y: f64) -> String {
    let class = format!("mark c{series}");
    match series {
        0 => format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"),
        1 => format!(
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"7\" height=\"7\"/>",
            x - 3.5,
            y - 3.5
        ),
        2 => path(&class, &[(x, y - 5.0), (x + 5.0, y), (x, y + 5.0), (x - 5.0, y)]),
        3 => path(&class, &[(x, y - 5.0), (x + 5.0, y + 4.0), (x - 5.0, y + 4.0)]),
        5 => path(&class, &[(x - 6.0, y - 2.0), (x + 6.0, y - 2.0), (x + 6.0, y + 2.0), (x - 6.0, y + 2.0)]),
        6 => path(&class, &[(x - 2.0, y - 6.0), (x + 2.0, y - 6.0), (x + 2.0, y + 6.0), (x - 2.0, y + 6.0)]),
        _ => path(&class, &[(x, y + 5.0), (x + 5.0, y - 4.0), (x - 5.0, y - 4.0)]),
    }
}

fn path(class: &str, corners: &[(f64, f64)]) -> String {
    let points: Vec<String> = corners.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    format!("<polygon class=\"{class}\" points=\"{}\"/>", points.join(" "))
}

fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> String {
    format!(
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>\n",
        from.0, from.1, to.0, to.1
    )
}

fn text(class: &str, anchor: &str, (x, y): (f64, f64), words: &str) -> String {
    format!(
        "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>\n",
        escape(words)
    )
}

/// The label of a row, shortened to its place; the whole name is in its title.
fn label(measurement: &Measurement, y: f64) -> String {
    let whole = format!("{} {} {}", measurement.op, measurement.workload, measurement.dtype);
    let short: String = match whole.chars().count() {
        fits if fits <= 42 => whole.clone(),
        _ => whole.chars().take(41).chain(['\u{2026}']).collect(),
    };
    format!(
        "<text text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}<title>{}</title></text>\n",
        LEFT - 12.0,
        y + 4.0,
        escape(&short),
        escape(&whole)
    )
}

/// A regime's reservation, for a title; nothing for most.
fn caution(regime: &str) -> &'static str {
    if regime == "hot" { " (for information: the inputs are the same in every call)" } else { "" }
}

/// Every ratio of a regime with its interval, on a logarithmic axis with a line at one.
pub(super) fn ratios(regime: &str, measurements: &[&Measurement]) -> String {
    let owned: Vec<Measurement> = measurements.iter().map(|measurement| (*measurement).clone()).collect();
    let baselines = baselines(&owned);
    let all = owned.iter().flat_map(|measurement| &measurement.ratios);
    let axis = Axis::around(all.flat_map(|ratio| [ratio.low, ratio.ratio, ratio.high]).chain([1.0]));
    let bottom = TOP + ROW * measurements.len() as f64;
    let mut drawing = String::new();
    for tick in axis.ticks() {
        let x = axis.place(tick);
        drawing += &line("grid", (x, TOP - 8.0), (x, bottom));
        drawing += &text("soft", "middle", (x, bottom + 16.0), &format!("{}x", short(tick)));
    }
    let one = axis.place(1.0);
    drawing += &line("one", (one, TOP - 8.0), (one, bottom));
    for (row, measurement) in measurements.iter().enumerate() {
        let middle = TOP + ROW * (row as f64 + 0.5);
        drawing += &label(measurement, middle);
        for (place, baseline) in baselines.iter().enumerate() {
            let series = series_of(baseline);
            let Some(ratio) = measurement.versus(baseline).filter(|ratio| ratio.ratio.is_finite()) else {
                continue;
            };
            let y = middle + 7.0 * (place as f64 - (baselines.len() as f64 - 1.0) / 2.0);
            let _infallible = writeln!(
                drawing,
                "<g><title>{}</title>{}{}</g>",
                escape(&format!(
                    "{} vs {baseline}: {}",
                    name(measurement),
                    super::super::render::ratio(ratio)
                )),
                line(&format!("mark c{series}"), (axis.place(ratio.low), y), (axis.place(ratio.high), y)),
                mark(series, axis.place(ratio.ratio), y),
            );
        }
    }
    drawing += &text("soft", "end", (one - 6.0, bottom + 34.0), "slower");
    drawing += &text("soft", "start", (one + 6.0, bottom + 34.0), "faster");
    let legend: Vec<_> = baselines.iter().map(|name| (series_of(name), format!("vs {name}"))).collect();
    let description = format!(
        "For each of {} workloads the median of the ratio and its 95% interval against {}. The same figures are in the table of results.",
        measurements.len(),
        baselines.join(", ")
    );
    let title = format!("How many times faster, {regime}{}", caution(regime));
    figure(&identifier("ratios", regime), &title, &description, bottom + 42.0, &legend, &drawing)
}

/// What part of the ceiling each kernel reaches, as bars with a line at the whole.
pub(super) fn ceilings(regime: &str, measurements: &[&Measurement]) -> String {
    let known: Vec<_> = measurements
        .iter()
        .filter_map(|it| Some((it, fraction(it).filter(|part| part.is_finite())?)))
        .collect();
    if known.is_empty() {
        return format!("<p>{}</p>\n", escape(&format!("No ceiling was measured for {regime}.")));
    }
    let most = known.iter().fold(1.0f64, |most, (_, part)| most.max(*part)) * 1.05;
    // Without a legend there is nothing above the bars.
    const ABOVE: f64 = 14.0;
    let place = |part: f64| LEFT + (RIGHT - LEFT - 40.0) * part.clamp(0.0, most) / most;
    let bottom = ABOVE + 24.0 * known.len() as f64;
    let mut drawing = String::new();
    for quarter in 0..=4 {
        let part = f64::from(quarter) * 0.25;
        let class = if quarter == 4 { "one" } else { "grid" };
        drawing += &line(class, (place(part), ABOVE - 8.0), (place(part), bottom));
        drawing += &text("soft", "middle", (place(part), bottom + 16.0), &format!("{:.0}%", 100.0 * part));
    }
    for (row, (measurement, part)) in known.iter().enumerate() {
        let middle = ABOVE + 24.0 * (row as f64 + 0.5);
        drawing += &label(measurement, middle);
        let rate = measurement.time().map_or(0.0, |seconds| measurement.bytes as f64 / seconds * 1e-9);
        let words = format!("{}: {:.0}% of the ceiling, {rate:.0} GB/s", name(measurement), 100.0 * part);
        let _infallible = writeln!(
            drawing,
            "<rect class=\"bar c0\" x=\"{LEFT:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\"><title>{}</title></rect>",
            middle - 7.0,
            place(*part) - LEFT,
            escape(&words),
        );
        drawing += &text("soft", "end", (RIGHT, middle + 4.0), &format!("{:.0}%", 100.0 * part));
    }
    let title = format!("Part of the ceiling, {regime}{}", caution(regime));
    let description = "The rate of each kernel as a part of the nearer of two ceilings: a copy of as many bytes, and the \
                       highest rate of matrix products where that was measured.";
    figure(&identifier("ceilings", regime), &title, description, bottom + 24.0, &[], &drawing)
}

/// The distribution of each contender's samples: the part at or below a time.
pub(super) fn distribution(at: usize, title: &str, contenders: &[Contender]) -> String {
    let sorted: Vec<(&Contender, Vec<f64>)> = contenders
        .iter()
        .map(|contender| {
            let usable = contender.samples.iter().copied().filter(|it| it.is_finite() && *it > 0.0);
            let mut samples: Vec<f64> = usable.collect();
            samples.sort_by(f64::total_cmp);
            (contender, samples)
        })
        .filter(|(_, samples)| !samples.is_empty())
        .collect();
    let axis = Axis::around(sorted.iter().flat_map(|(_, samples)| samples.iter().copied()));
    let (bottom, height) = (TOP + 170.0, 170.0);
    let mut drawing = String::new();
    for tick in axis.ticks() {
        let x = axis.place(tick);
        drawing += &line("grid", (x, TOP), (x, bottom));
        drawing += &text("soft", "middle", (x, bottom + 16.0), &time(tick));
    }
    for quarter in 0..=4 {
        let y = bottom - height * f64::from(quarter) * 0.25;
        drawing += &line("grid", (LEFT, y), (RIGHT, y));
        drawing += &text("soft", "end", (LEFT - 8.0, y + 4.0), &format!("{}%", 25 * quarter));
    }
    for (contender, samples) in &sorted {
        let points = samples.len().min(POINTS);
        let corners: Vec<String> = (0..points)
            .map(|point| {
                let rank = (point * samples.len() + samples.len() / 2) / points;
                let sample = samples[rank.min(samples.len() - 1)];
                let part = (rank as f64 + 0.5) / samples.len() as f64;
                format!("{:.1},{:.1}", axis.place(sample), bottom - height * part.min(1.0))
            })
            .collect();
        let _infallible = writeln!(
            drawing,
            "<polyline class=\"curve c{}\" points=\"{}\"><title>{}</title></polyline>",
            series_of(&contender.name),
            corners.join(" "),
            escape(&contender.name),
        );
    }
    let legend: Vec<_> =
        sorted.iter().map(|(contender, _)| (series_of(&contender.name), contender.name.clone())).collect();
    let description = "Curves further left are faster; a steep curve is a steady contender. The medians are in the table below.";
    figure(&format!("samples-{at}"), title, description, bottom + 26.0, &legend, &drawing)
}

/// A word that can be an id: letters and digits of a name.
fn identifier(kind: &str, name: &str) -> String {
    let word: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{kind}-{word}")
}

/// A tick without needless zeros.
fn short(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The baselines of all measurements, in the order of first sight.
pub(super) fn baselines<'a>(measurements: &'a [Measurement]) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    let versus = |measurement: &'a Measurement| {
        let unmeasured = measurement.unmeasured.iter().filter_map(|one| one.figure.strip_prefix("vs "));
        measurement.ratios.iter().map(|ratio| ratio.versus.as_str()).chain(unmeasured)
    };
    for name in measurements.iter().flat_map(versus) {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let ticks = |low, high| Axis { low, high }.ticks().into_iter().map(short).collect::<Vec<_>>();
        assert_eq!(ticks(0.8, 9.0), ["1", "2", "5"]);
        assert_eq!(ticks(0.94, 1.31), ["0.95", "1", "1.05", "1.1", "1.15", "1.2", "1.25", "1.3"]);
        for (low, high) in [(1e-7, 1e-2), (0.999, 1.001), (0.5, 2.0), (1e-9, 1e9)] {
            let count = Axis { low, high }.ticks().len();
            assert!((1..=9).contains(&count), "{low} to {high}: {count}");
        }
    }

    #[test]
    fn places_stay_on_the_paper() {
        let axis = Axis::around([0.5, 8.0, f64::NAN, 0.0, -1.0].into_iter());
        for number in [0.0, -3.0, 1.0, 1e9, f64::INFINITY, f64::NAN] {
            assert!((LEFT..=RIGHT).contains(&axis.place(number)), "{number}");
        }
        assert!(axis.place(1.0) < axis.place(2.0));
        let empty = Axis::around(std::iter::empty());
        assert!(empty.low < 1.0 && 1.0 < empty.high);
    }
}
