//! Plots as SVG: ratios with intervals, parts of the ceiling, distributions of samples.
//!
//! Owns: places, axes, marks; `resources/report/plots.html` draws them. Never: decides what a figure means.

use serde::{Serialize, Serializer};

use super::super::record::{Contender, Measurement};
use super::super::render::{fraction, ratio, time};
use super::name;

pub(super) mod phases;

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

/// A length in the plot's units, written with one decimal.
#[derive(Debug, Clone, Copy)]
struct Length(f64);

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.1}", self.0))
    }
}

/// A plot with its title, a description for screen readers, and a legend.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    id: String,
    title: String,
    description: String,
    width: String,
    height: String,
    legend: Vec<Key>,
    shapes: Vec<Shape>,
}

/// An entry of a legend.
#[derive(Debug, Serialize)]
struct Key {
    mark: Mark,
    x: String,
    text: String,
}

impl Figure {
    fn new(id: String, title: String, description: String, height: f64, shapes: Vec<Shape>) -> Self {
        let (width, height) = (format!("{WIDTH:.0}"), format!("{height:.0}"));
        Self { id, title, description, width, height, legend: Vec::new(), shapes }
    }

    /// With a legend of series and names.
    fn with_legend(mut self, entries: impl IntoIterator<Item = (usize, String)>) -> Self {
        let mut at = LEFT;
        for (series, text) in entries {
            let width = 28.0 + 7.0 * text.chars().count() as f64;
            self.legend.push(Key { mark: Mark::new(series, at, 14.0), x: format!("{:.0}", at + 10.0), text });
            at += width;
        }
        self
    }
}

/// A part of a drawing.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Shape {
    Line(Line),
    Text {
        class: &'static str,
        anchor: &'static str,
        x: Length,
        y: Length,
        text: String,
    },
    /// The name of a row, shortened to its place; the whole name is in its title.
    Label {
        x: Length,
        y: Length,
        short: String,
        whole: String,
    },
    /// A ratio and its interval.
    Interval {
        title: String,
        line: Line,
        mark: Mark,
    },
    Bar {
        x: Length,
        y: Length,
        width: Length,
        title: String,
    },
    Curve {
        series: usize,
        points: String,
        title: String,
    },
}

#[derive(Debug, Serialize)]
struct Line {
    class: String,
    x1: Length,
    y1: Length,
    x2: Length,
    y2: Length,
}

/// A mark; its form shows the series as well as its colour does.
#[derive(Debug, Serialize)]
struct Mark {
    series: usize,
    form: &'static str,
    x: Length,
    y: Length,
    /// The corners of a polygon.
    points: String,
}

impl Mark {
    fn new(series: usize, x: f64, y: f64) -> Self {
        let of = |form, x, y, corners: &[(f64, f64)]| Self {
            series,
            form,
            x: Length(x),
            y: Length(y),
            points: points(corners.iter().copied()),
        };
        let polygon = |corners: &[(f64, f64)]| of("polygon", x, y, corners);
        match series {
            0 => of("circle", x, y, &[]),
            1 => of("square", x - 3.5, y - 3.5, &[]),
            2 => polygon(&[(x, y - 5.0), (x + 5.0, y), (x, y + 5.0), (x - 5.0, y)]),
            3 => polygon(&[(x, y - 5.0), (x + 5.0, y + 4.0), (x - 5.0, y + 4.0)]),
            5 => polygon(&[(x - 6.0, y - 2.0), (x + 6.0, y - 2.0), (x + 6.0, y + 2.0), (x - 6.0, y + 2.0)]),
            6 => polygon(&[(x - 2.0, y - 6.0), (x + 2.0, y - 6.0), (x + 2.0, y + 6.0), (x - 2.0, y + 6.0)]),
            _ => polygon(&[(x, y + 5.0), (x + 5.0, y - 4.0), (x - 5.0, y - 4.0)]),
        }
    }
}

/// Points as SVG has them: `x,y x,y`.
fn points(points: impl Iterator<Item = (f64, f64)>) -> String {
    points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}

fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> Line {
    let (x1, y1, x2, y2) = (Length(from.0), Length(from.1), Length(to.0), Length(to.1));
    Line { class: class.to_owned(), x1, y1, x2, y2 }
}

fn text(class: &'static str, anchor: &'static str, (x, y): (f64, f64), text: String) -> Shape {
    Shape::Text { class, anchor, x: Length(x), y: Length(y), text }
}

fn label(measurement: &Measurement, y: f64) -> Shape {
    let whole = format!("{} {} {}", measurement.op, measurement.workload, measurement.dtype);
    let short: String = match whole.chars().count() {
        fits if fits <= 42 => whole.clone(),
        _ => whole.chars().take(41).chain(['\u{2026}']).collect(),
    };
    Shape::Label { x: Length(LEFT - 12.0), y: Length(y + 4.0), short, whole }
}

/// A regime's reservation, for a title; nothing for most.
fn caution(regime: &str) -> &'static str {
    if regime == "hot" { " (for information: the inputs are the same in every call)" } else { "" }
}

/// The lines of a logarithmic axis of ratios, with a stronger one at one.
fn grid(axis: Axis, bottom: f64) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for tick in axis.ticks() {
        let x = axis.place(tick);
        shapes.push(Shape::Line(line("grid", (x, TOP - 8.0), (x, bottom))));
        shapes.push(text("soft", "middle", (x, bottom + 16.0), format!("{}x", short(tick))));
    }
    let one = axis.place(1.0);
    shapes.push(Shape::Line(line("one", (one, TOP - 8.0), (one, bottom))));
    shapes.push(text("soft", "end", (one - 6.0, bottom + 34.0), "slower".to_owned()));
    shapes.push(text("soft", "start", (one + 6.0, bottom + 34.0), "faster".to_owned()));
    shapes
}

/// Every ratio of a regime with its interval, on a logarithmic axis with a line at one.
pub(super) fn ratios(regime: &str, measurements: &[&Measurement]) -> Figure {
    let owned: Vec<Measurement> = measurements.iter().map(|measurement| (*measurement).clone()).collect();
    let baselines = baselines(&owned);
    let all = owned.iter().flat_map(|measurement| &measurement.ratios);
    let axis = Axis::around(all.flat_map(|ratio| [ratio.low, ratio.ratio, ratio.high]).chain([1.0]));
    let bottom = TOP + ROW * measurements.len() as f64;
    let mut shapes = grid(axis, bottom);
    for (row, measurement) in measurements.iter().enumerate() {
        let middle = TOP + ROW * (row as f64 + 0.5);
        shapes.push(label(measurement, middle));
        for (place, baseline) in baselines.iter().enumerate() {
            let series = series_of(baseline);
            let Some(versus) = measurement.versus(baseline).filter(|versus| versus.ratio.is_finite()) else {
                continue;
            };
            let y = middle + 7.0 * (place as f64 - (baselines.len() as f64 - 1.0) / 2.0);
            let class = format!("mark c{series}");
            shapes.push(Shape::Interval {
                title: format!("{} vs {baseline}: {}", name(measurement), ratio(versus)),
                line: line(&class, (axis.place(versus.low), y), (axis.place(versus.high), y)),
                mark: Mark::new(series, axis.place(versus.ratio), y),
            });
        }
    }
    let description = format!(
        "For each of {} workloads the median of the ratio and its 95% interval against {}. The same figures are in the table of results.",
        measurements.len(),
        baselines.join(", ")
    );
    let title = format!("How many times faster, {regime}{}", caution(regime));
    Figure::new(identifier("ratios", regime), title, description, bottom + 42.0, shapes)
        .with_legend(baselines.iter().map(|name| (series_of(name), format!("vs {name}"))))
}

/// Each kernel's part of the ceiling, as bars with a line at the whole; `None` if no ceiling was measured.
pub(super) fn ceilings(regime: &str, measurements: &[&Measurement]) -> Option<Figure> {
    let known: Vec<_> = measurements
        .iter()
        .filter_map(|it| Some((it, fraction(it).filter(|part| part.is_finite())?)))
        .collect();
    if known.is_empty() {
        return None;
    }
    let most = known.iter().fold(1.0f64, |most, (_, part)| most.max(*part)) * 1.05;
    // Without a legend there is nothing above the bars.
    const ABOVE: f64 = 14.0;
    let place = |part: f64| LEFT + (RIGHT - LEFT - 40.0) * part.clamp(0.0, most) / most;
    let bottom = ABOVE + 24.0 * known.len() as f64;
    let mut shapes = Vec::new();
    for quarter in 0..=4 {
        let part = f64::from(quarter) * 0.25;
        let class = if quarter == 4 { "one" } else { "grid" };
        shapes.push(Shape::Line(line(class, (place(part), ABOVE - 8.0), (place(part), bottom))));
        shapes.push(text("soft", "middle", (place(part), bottom + 16.0), format!("{:.0}%", 100.0 * part)));
    }
    for (row, (measurement, part)) in known.iter().enumerate() {
        let middle = ABOVE + 24.0 * (row as f64 + 0.5);
        shapes.push(label(measurement, middle));
        let rate = measurement.time().map_or(0.0, |seconds| measurement.bytes as f64 / seconds * 1e-9);
        shapes.push(Shape::Bar {
            x: Length(LEFT),
            y: Length(middle - 7.0),
            width: Length(place(*part) - LEFT),
            title: format!("{}: {:.0}% of the ceiling, {rate:.0} GB/s", name(measurement), 100.0 * part),
        });
        shapes.push(text("soft", "end", (RIGHT, middle + 4.0), format!("{:.0}%", 100.0 * part)));
    }
    let title = format!("Part of the ceiling, {regime}{}", caution(regime));
    let description = "The rate of each kernel as a part of the nearer of two ceilings: a copy of as many bytes, and the \
                       highest rate of matrix products where that was measured.";
    let id = identifier("ceilings", regime);
    Some(Figure::new(id, title, description.to_owned(), bottom + 24.0, shapes))
}

/// The distribution of each contender's samples: the part at or below a time.
pub(super) fn distribution(at: usize, title: &str, contenders: &[Contender]) -> Figure {
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
    let mut shapes = Vec::new();
    for tick in axis.ticks() {
        let x = axis.place(tick);
        shapes.push(Shape::Line(line("grid", (x, TOP), (x, bottom))));
        shapes.push(text("soft", "middle", (x, bottom + 16.0), time(tick)));
    }
    for quarter in 0..=4 {
        let y = bottom - height * f64::from(quarter) * 0.25;
        shapes.push(Shape::Line(line("grid", (LEFT, y), (RIGHT, y))));
        shapes.push(text("soft", "end", (LEFT - 8.0, y + 4.0), format!("{}%", 25 * quarter)));
    }
    for (contender, samples) in &sorted {
        let count = samples.len().min(POINTS);
        let corners = (0..count).map(|point| {
            let rank = (point * samples.len() + samples.len() / 2) / count;
            let sample = samples[rank.min(samples.len() - 1)];
            let part = (rank as f64 + 0.5) / samples.len() as f64;
            (axis.place(sample), bottom - height * part.min(1.0))
        });
        let (series, title) = (series_of(&contender.name), contender.name.clone());
        shapes.push(Shape::Curve { series, points: points(corners), title });
    }
    let description = "Curves further left are faster; a steep curve is a steady contender. The medians are in the table below.";
    Figure::new(format!("samples-{at}"), title.to_owned(), description.to_owned(), bottom + 26.0, shapes)
        .with_legend(sorted.iter().map(|(one, _)| (series_of(&one.name), one.name.clone())))
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
