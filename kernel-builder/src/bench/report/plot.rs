//! Plots as SVG: ratios with intervals, parts of the ceiling, distributions of samples.
//!
//! Owns: places, axes, marks; `resources/report/plots.html` draws them. Never: decides what a figure means.

use serde::{Serialize, Serializer};

use super::super::record::{Contender, Measurement};
use super::super::render::{counted, fraction, ratio, time};
use super::name;

mod axis;
pub(super) mod phases;

use axis::{Axis, LEFT, RIGHT, short};

/// Width of every plot, in the plot's own units.
const WIDTH: f64 = 640.0;
/// Width of a letter and height of a line on a narrow screen, where `resources/report/style.css` has its largest text.
const LETTER: f64 = 11.5;
const LINE: f64 = 22.0;
/// Height of the name above the marks of a row.
const NAME: f64 = 20.0;
/// Height of a bar.
const BAR: f64 = 12.0;
/// Points of a distribution: more cannot be told apart at this width.
const POINTS: usize = 64;

/// The series of a highest possible ratio, which no contender has.
const LIMIT: usize = 7;

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

/// A length in the plot's units, written with one decimal.
#[derive(Debug, Clone, Copy)]
struct Length(f64);

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.1}", self.0))
    }
}

/// A plot with its title, a description and a legend.
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
    x: Length,
    y: Length,
    text: String,
}

impl Figure {
    fn new(id: String, title: String, description: String, height: f64, shapes: Vec<Shape>) -> Self {
        let (width, height) = (format!("{WIDTH:.0}"), format!("{height:.0}"));
        Self { id, title, description, width, height, legend: Vec::new(), shapes }
    }

    fn with_legend(mut self, legend: Vec<Key>) -> Self {
        self.legend = legend;
        self
    }
}

/// A legend of series and names, in as many lines as it needs, and where it ends.
fn legend(entries: impl IntoIterator<Item = (usize, String)>) -> (Vec<Key>, f64) {
    let (mut keys, mut x, mut y) = (Vec::new(), LEFT, LINE / 2.0);
    for (series, text) in entries {
        let width = 38.0 + wide(&text);
        if x > LEFT && x + width > WIDTH {
            (x, y) = (LEFT, y + LINE);
        }
        keys.push(Key { mark: Mark::new(series, x, y), x: Length(x + 12.0), y: Length(y + 5.0), text });
        x += width;
    }
    (keys, y + LINE)
}

/// The width of a text where letters are widest, and half a letter more for a percent sign.
fn wide(text: &str) -> f64 {
    LETTER * (text.chars().count() as f64 + 0.5)
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
        class: String,
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
            LIMIT => {
                polygon(&[(x - 0.5, y - 8.0), (x + 0.5, y - 8.0), (x + 0.5, y + 8.0), (x - 0.5, y + 8.0)])
            }
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

/// The name of a row, above its marks.
fn label(whole: String, top: f64) -> Shape {
    const MOST: usize = 48;
    let short: String = match whole.chars().count() {
        fits if fits <= MOST => whole.clone(),
        _ => whole.chars().take(MOST - 1).chain(['\u{2026}']).collect(),
    };
    Shape::Label { x: Length(LEFT), y: Length(top + NAME - 5.0), short, whole }
}

fn label_of(measurement: &Measurement) -> String {
    format!("{} {} {}", measurement.op, measurement.workload, measurement.dtype)
}

/// A figure at the end of the line that has the name of a row.
fn figure(top: f64, words: String) -> Shape {
    text("soft name", "end", (RIGHT, top + NAME - 5.0), words)
}

/// A bar below the name of a row.
fn bar(series: &str, from: f64, to: f64, top: f64, title: String) -> Shape {
    let (x, width) = (Length(from.min(to)), Length((to - from).abs()));
    Shape::Bar { class: format!("bar {series}"), x, y: Length(top + NAME), width, title }
}

/// A regime's reservation, for a title; nothing for most.
fn caution(regime: &str) -> &'static str {
    if regime == "hot" { " (for information: the inputs are the same in every call)" } else { "" }
}

/// Upright lines at the ticks of an axis, with the words that fit below them.
fn upright(axis: Axis, (top, bottom): (f64, f64), words: impl Fn(f64) -> String) -> Vec<Shape> {
    let (mut shapes, mut free) = (Vec::new(), 0.0);
    for tick in axis.ticks() {
        let (x, words) = (axis.place(tick), words(tick));
        let half = wide(&words) / 2.0;
        shapes.push(Shape::Line(line("grid", (x, top), (x, bottom))));
        if x - half >= free && x + half <= WIDTH {
            shapes.push(text("soft", "middle", (x, bottom + LINE - 4.0), words));
            free = x + half;
        }
    }
    shapes
}

/// The lines of a logarithmic axis of ratios, with a stronger one at one.
fn grid(axis: Axis, top: f64, bottom: f64) -> Vec<Shape> {
    let mut shapes = upright(axis, (top, bottom), |tick| format!("{}x", short(tick)));
    let one = axis.place(1.0);
    shapes.push(Shape::Line(line("one", (one, top), (one, bottom))));
    let room = 6.0 + wide("slower");
    let below = bottom + 2.0 * LINE - 4.0;
    if one > room {
        shapes.push(text("soft", "end", (one - 6.0, below), "slower".to_owned()));
    }
    if one + room < WIDTH {
        shapes.push(text("soft", "start", (one + 6.0, below), "faster".to_owned()));
    }
    shapes
}

/// Height of the words below a plot of ratios.
const BELOW: f64 = 2.0 * LINE + 2.0;

/// Lines at quarters of a whole, which is at `end`; the last one is stronger if bars can be longer.
fn quarters(end: f64, bottom: f64, last: &'static str) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for quarter in 0..=4 {
        let part = f64::from(quarter) * 0.25;
        let (x, words) = (LEFT + (end - LEFT) * part, format!("{:.0}%", 100.0 * part));
        let half = wide(&words) / 2.0;
        let class = if quarter == 4 { last } else { "grid" };
        shapes.push(Shape::Line(line(class, (x, 0.0), (x, bottom))));
        let middle = x.clamp(half, WIDTH - half);
        shapes.push(text("soft", "middle", (middle, bottom + LINE - 4.0), words));
    }
    shapes
}

/// Every ratio of a regime with its interval, on a logarithmic axis with a line at one; `None` without ratios.
pub(super) fn ratios(regime: &str, measurements: &[&Measurement]) -> Option<Figure> {
    let is_drawn = |it: &&&Measurement| it.ratios.iter().any(|ratio| ratio.ratio.is_finite());
    let owned: Vec<Measurement> =
        measurements.iter().filter(is_drawn).map(|measurement| (*measurement).clone()).collect();
    let baselines: Vec<&str> = baselines(&owned);
    let baselines: Vec<&str> =
        baselines.into_iter().filter(|name| owned.iter().any(|it| it.versus(name).is_some())).collect();
    if owned.is_empty() {
        return None;
    }
    let all = owned.iter().flat_map(|measurement| &measurement.ratios);
    let axis = Axis::around(all.flat_map(|ratio| [ratio.low, ratio.ratio, ratio.high]).chain([1.0]));
    let (legend, top) = legend(baselines.iter().map(|name| (series_of(name), format!("vs {name}"))));
    let height = NAME + STEP * baselines.len() as f64 + 6.0;
    let bottom = top + height * owned.len() as f64;
    let mut shapes = grid(axis, top, bottom);
    for (row, measurement) in owned.iter().enumerate() {
        let above = top + height * row as f64;
        shapes.push(label(label_of(measurement), above));
        for (place, baseline) in baselines.iter().enumerate() {
            let series = series_of(baseline);
            let Some(versus) = measurement.versus(baseline).filter(|versus| versus.ratio.is_finite()) else {
                continue;
            };
            let y = above + NAME + STEP * (place as f64 + 0.5);
            let title = format!("{} vs {baseline}: {}", name(measurement), ratio(versus));
            shapes.push(interval(axis, series, y, [versus.low, versus.ratio, versus.high], title));
        }
    }
    let description = format!(
        "For each of {} the median of the ratio and its 95% interval against {}. The table of results has the same figures.",
        counted(owned.len() as u64, "workload"),
        baselines.join(", ")
    );
    let title = format!("How many times faster, {regime}{}", caution(regime));
    let figure = Figure::new(identifier("ratios", regime), title, description, bottom + BELOW, shapes);
    Some(figure.with_legend(legend))
}

/// Distance of two marks of a row.
const STEP: f64 = 9.0;

/// A mark at a ratio, on a line from the lower to the upper end of its interval.
fn interval(axis: Axis, series: usize, y: f64, [low, ratio, high]: [f64; 3], title: String) -> Shape {
    Shape::Interval {
        title,
        line: line(&format!("mark c{series}"), (axis.place(low), y), (axis.place(high), y)),
        mark: Mark::new(series, axis.place(ratio), y),
    }
}

/// Each kernel's part of the ceiling, as bars with a line at the whole; `None` if no ceiling was measured.
pub(super) fn ceilings(regime: &str, measurements: &[&Measurement]) -> Option<Figure> {
    const ROW: f64 = NAME + BAR + 4.0;
    let known: Vec<_> = measurements
        .iter()
        .filter_map(|it| Some((it, fraction(it).filter(|part| part.is_finite())?)))
        .collect();
    if known.is_empty() {
        return None;
    }
    let most = known.iter().fold(1.0f64, |most, (_, part)| most.max(*part));
    let place = |part: f64| LEFT + (RIGHT - LEFT) * part.clamp(0.0, most) / most;
    let bottom = ROW * known.len() as f64;
    let mut shapes = quarters(place(1.0), bottom, "one");
    for (row, (measurement, part)) in known.iter().enumerate() {
        let top = ROW * row as f64;
        shapes.push(label(label_of(measurement), top));
        shapes.push(figure(top, format!("{:.0}%", 100.0 * part)));
        let rate = measurement.time().map_or(0.0, |seconds| measurement.bytes as f64 / seconds * 1e-9);
        let title = format!("{}: {:.0}% of the ceiling, {rate:.0} GB/s", name(measurement), 100.0 * part);
        shapes.push(bar("c0", LEFT, place(*part), top, title));
    }
    let title = format!("Part of the ceiling, {regime}{}", caution(regime));
    let description = "The rate of each kernel as a part of the nearer of two ceilings: a copy of as many bytes, and the \
                       highest rate of matrix products where that was measured.";
    let id = identifier("ceilings", regime);
    Some(Figure::new(id, title, description.to_owned(), bottom + LINE + 2.0, shapes))
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
    // Beside the percentages.
    let axis = Axis::around(sorted.iter().flat_map(|(_, samples)| samples.iter().copied())).from(LEFT + 48.0);
    let (legend, top) = legend(sorted.iter().map(|(one, _)| (series_of(&one.name), one.name.clone())));
    let (bottom, height) = (top + 170.0, 170.0);
    let mut shapes = upright(axis, (top, bottom), time);
    for quarter in 0..=4 {
        let y = bottom - height * f64::from(quarter) * 0.25;
        shapes.push(Shape::Line(line("grid", (axis.left, y), (RIGHT, y))));
        // The lowest one stays above the words below the plot.
        let beside = (axis.left - 8.0, (y + 4.0).min(bottom - 2.0));
        shapes.push(text("soft", "end", beside, format!("{}%", 25 * quarter)));
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
    let (id, title) = (format!("samples-{at}"), title.to_owned());
    Figure::new(id, title, description.to_owned(), bottom + LINE + 2.0, shapes).with_legend(legend)
}

/// A word that can be an id: letters and digits of a name.
fn identifier(kind: &str, name: &str) -> String {
    let word: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{kind}-{word}")
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
