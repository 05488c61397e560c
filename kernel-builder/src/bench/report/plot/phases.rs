//! The plots of a model: what kernels gain in each phase, and which share of the time they replace.
//!
//! Owns: places and marks of those two. Never: decides what a figure means.

use super::{Axis, Figure, LEFT, Length, Mark, RIGHT, ROW, Shape, TOP, grid, line, text};

/// The ratios of a phase of a model: what is compared, and the lower end, the median and the upper end of its ratio.
pub(in super::super) struct PhaseRatios {
    pub(in super::super) phase: String,
    pub(in super::super) ratios: Vec<(String, [f64; 3])>,
    /// The speedup of the phase if the replaced modules took no GPU time.
    pub(in super::super) at_most: Option<f64>,
}

/// The comparisons that the plot shows for each phase, and the series that gives each one its colour.
const COMPARED: [(&str, usize); 4] = [
    ("kernels over eager", 0),
    ("compile + kernels over compile", 3),
    ("compile-max + kernels over compile-max", 5),
    ("graph + kernels over graph", 2),
];

/// The speedup from kernels in each phase of a model, with a line at the highest possible one.
pub(in super::super) fn ratios(rows: &[PhaseRatios]) -> Figure {
    let all = rows.iter().flat_map(|row| row.ratios.iter().flat_map(|(_, ratio)| *ratio));
    let axis = Axis::around(all.chain(rows.iter().filter_map(|row| row.at_most)).chain([1.0]));
    let bottom = TOP + ROW * rows.len() as f64;
    let mut shapes = grid(axis, bottom);
    let has = |name: &str| rows.iter().any(|row| row.ratios.iter().any(|(known, _)| known == name));
    let compared: Vec<(&str, usize)> = COMPARED.into_iter().filter(|(name, _)| has(name)).collect();
    for (number, row) in rows.iter().enumerate() {
        let middle = TOP + ROW * (number as f64 + 0.5);
        let whole = row.phase.clone();
        shapes.push(Shape::Label {
            x: Length(LEFT - 12.0),
            y: Length(middle + 4.0),
            short: whole.clone(),
            whole,
        });
        if let Some(most) = row.at_most {
            let x = axis.place(most);
            shapes.push(Shape::Line(line("most", (x, middle - 14.0), (x, middle + 14.0))));
        }
        for (place, (name, series)) in compared.iter().enumerate() {
            let Some((_, [low, ratio, high])) = row.ratios.iter().find(|(known, _)| known == name) else {
                continue;
            };
            let y = middle + 7.0 * (place as f64 - (compared.len() as f64 - 1.0) / 2.0);
            shapes.push(Shape::Interval {
                title: format!("{}, {name}: {ratio:.3}x [{low:.3}, {high:.3}]", row.phase),
                line: line(&format!("mark c{series}"), (axis.place(*low), y), (axis.place(*high), y)),
                mark: Mark::new(*series, axis.place(*ratio), y),
            });
        }
    }
    let description = "For each phase of the model the median of the ratio and its 95% interval. The upright line is the \
                       speedup over eager PyTorch if the replaced modules took no GPU time; a phase that waits for the \
                       host can gain more. The same figures are in the table of results.";
    let title = "How many times faster the model is with kernels".to_owned();
    Figure::new("phases".to_owned(), title, description.to_owned(), bottom + 42.0, shapes)
        .with_legend(compared.into_iter().map(|(name, series)| (series, name.to_owned())))
}

/// The share of the time of a GPU that goes to what is replaced, in each phase of a model, as bars.
pub(in super::super) fn shares(rows: &[(String, f64)]) -> Figure {
    const ABOVE: f64 = 14.0;
    let place = |part: f64| LEFT + (RIGHT - LEFT - 40.0) * part.clamp(0.0, 1.0);
    let bottom = ABOVE + 24.0 * rows.len() as f64;
    let mut shapes = Vec::new();
    for quarter in 0..=4 {
        let part = f64::from(quarter) * 0.25;
        shapes.push(Shape::Line(line("grid", (place(part), ABOVE - 8.0), (place(part), bottom))));
        shapes.push(text("soft", "middle", (place(part), bottom + 16.0), format!("{:.0}%", 100.0 * part)));
    }
    for (number, (phase, part)) in rows.iter().enumerate() {
        let middle = ABOVE + 24.0 * (number as f64 + 0.5);
        let (x, y) = (Length(LEFT - 12.0), Length(middle + 4.0));
        shapes.push(Shape::Label { x, y, short: phase.clone(), whole: phase.clone() });
        shapes.push(Shape::Bar {
            x: Length(LEFT),
            y: Length(middle - 7.0),
            width: Length(place(*part) - LEFT),
            title: format!("{phase}: {:.1}% of eager's time on the GPU", 100.0 * part),
        });
        shapes.push(text("soft", "end", (RIGHT, middle + 4.0), format!("{:.1}%", 100.0 * part)));
    }
    let title = "Share of the replaced modules in eager's time on the GPU".to_owned();
    let description =
        "For each phase of the model, by PyTorch's profiler. The rest of the time is that of other modules.";
    Figure::new("shares".to_owned(), title, description.to_owned(), bottom + 24.0, shapes)
}
