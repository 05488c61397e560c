//! The plots of a model: what kernels gain in each phase, which share of the time they replace, and the model's error.
//!
//! Owns: places and marks of those. Never: decides what a figure means.

use super::{
    Axis, BAR, BELOW, Figure, LEFT, LIMIT, LINE, NAME, RIGHT, Shape, bar, figure, grid, interval, label,
    legend, line, quarters, text,
};

/// The ratios of a phase of a model: what is compared, and the lower end, the median and the upper end of its ratio.
pub(in super::super) struct PhaseRatios {
    pub(in super::super) phase: String,
    pub(in super::super) ratios: Vec<(String, [f64; 3])>,
    /// The speedup of the phase if the replaced modules took no GPU time.
    pub(in super::super) at_most: Option<f64>,
}

/// The share of a phase's GPU time that is replaced, and the speedup if it took no time.
pub(in super::super) struct Share {
    pub(in super::super) phase: String,
    pub(in super::super) share: f64,
    pub(in super::super) at_most: Option<f64>,
}

/// The comparison that `at_most` limits.
const OVER_EAGER: &str = "kernels over eager";

/// The comparisons that the plot shows for each phase, and the series that gives each one its colour.
const COMPARED: [(&str, usize); 4] = [
    (OVER_EAGER, 0),
    ("compile + kernels over compile", 3),
    ("compile-max + kernels over compile-max", 5),
    ("graph + kernels over graph", 2),
];

/// Height of a bar with its name.
const ROW: f64 = NAME + BAR + 6.0;

/// The speedup from kernels in each phase of a model, with a line at the highest possible one.
pub(in super::super) fn ratios(rows: &[PhaseRatios]) -> Figure {
    let all = rows.iter().flat_map(|row| row.ratios.iter().flat_map(|(_, ratio)| *ratio));
    let limits: Vec<f64> = rows.iter().filter_map(|row| row.at_most).collect();
    let axis = Axis::around(all.chain(limits.iter().copied()).chain([1.0]));
    let has_limit = !limits.is_empty();
    let (legend, above) = if has_limit {
        legend([(LIMIT, "kernels over eager: at most, by GPU time".to_owned())])
    } else {
        (Vec::new(), 0.0)
    };
    let mut top = above;
    let mut drawn = Vec::new();
    for row in rows {
        drawn.push(text("name strong", "start", (LEFT, top + NAME - 5.0), row.phase.clone()));
        top += NAME;
        for (name, series) in COMPARED {
            let Some((_, values)) = row.ratios.iter().find(|(known, _)| known == name) else {
                continue;
            };
            let [low, ratio, high] = *values;
            let title = format!("{}, {name}: {ratio:.3}x [{low:.3}, {high:.3}]", row.phase);
            let y = top + NAME + BAR / 2.0;
            drawn.push(text("soft name", "start", (LEFT, top + NAME - 5.0), name.to_owned()));
            drawn.push(figure(top, format!("{ratio:.3}x")));
            let series_class = format!("tint c{series}");
            drawn.push(bar(&series_class, axis.place(1.0), axis.place(ratio), top, title.clone()));
            if let Some(most) = row.at_most.filter(|_| name == OVER_EAGER) {
                let x = axis.place(most);
                drawn.push(Shape::Line(line("most", (x, y - 9.0), (x, y + 9.0))));
            }
            drawn.push(interval(axis, series, y, *values, title));
            top += ROW;
        }
        top += 6.0;
    }
    let mut shapes = grid(axis, above, top);
    shapes.extend(drawn);
    let mut description = "The median of the ratio of each phase, on its 95% interval.".to_owned();
    if has_limit {
        description += " The upright line is the speedup over eager PyTorch if the replaced code took no GPU time. A phase \
                        that waits for the CPU can gain more.";
    }
    let title = "How many times faster the model is with kernels".to_owned();
    Figure::new("phases".to_owned(), title, description, top + BELOW, shapes).with_legend(legend)
}

/// The share of the time of a GPU that goes to what is replaced, in each phase of a model, as bars.
pub(in super::super) fn shares(rows: &[Share]) -> Figure {
    let place = |part: f64| LEFT + (RIGHT - LEFT) * part.clamp(0.0, 1.0);
    let bottom = ROW * rows.len() as f64;
    let mut shapes = quarters(RIGHT, bottom, "grid");
    for (number, Share { phase, share, at_most }) in rows.iter().enumerate() {
        let top = ROW * number as f64;
        let most = at_most.map_or_else(String::new, |most| format!(": at most {most:.2}x"));
        let title = format!("{phase}: {:.1}% of eager's time on the GPU{most}", 100.0 * share);
        shapes.push(label(phase.clone(), top));
        shapes.push(figure(top, format!("{:.1}%{most}", 100.0 * share)));
        shapes.push(bar("c0", LEFT, place(*share), top, title));
    }
    let title = "Share of the replaced code in eager's time on the GPU".to_owned();
    let description = "By PyTorch's profiler; the rest is other code. A phase whose GPU time is its whole time gains at \
                       most 1 / (1 - share), by Amdahl's law.";
    Figure::new("shares".to_owned(), title, description.to_owned(), bottom + LINE + 2.0, shapes)
}

/// The error of the model as it is and with kernels, as bars from zero.
pub(in super::super) fn errors(rows: &[(&str, f64)]) -> Figure {
    let most = rows.iter().fold(0.0f64, |most, (_, error)| most.max(*error));
    let bottom = ROW * rows.len() as f64;
    let mut shapes = Vec::new();
    for (number, (words, error)) in rows.iter().enumerate() {
        let top = ROW * number as f64;
        let to = if most > 0.0 { LEFT + (RIGHT - LEFT) * (error / most).clamp(0.0, 1.0) } else { LEFT };
        shapes.push(label((*words).to_owned(), top));
        shapes.push(figure(top, format!("{error:.5}")));
        shapes.push(bar("c0", LEFT, to, top, format!("{words}: {error:.5}")));
    }
    let title = "Error of the whole model".to_owned();
    let description = "The norm of the difference from the results of a copy in float32, divided by the norm of those \
                       results. Shorter is better.";
    Figure::new("errors".to_owned(), title, description.to_owned(), bottom + 4.0, shapes)
}
