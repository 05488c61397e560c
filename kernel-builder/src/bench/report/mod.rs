//! Measurements as one HTML page that needs nothing else: tables, plots, and all that they depend on.
//!
//! Owns: what the page says and in which order. Never: leaves out a loss, a refusal or a doubt; reads a file.
//!
//! What comes from a record is a stranger's text and is escaped, all of it. The page has no script and asks for no other
//! file. It is readable by ear: tables have headers, plots a title and a description, and no meaning hangs on a colour.

use std::collections::BTreeSet;

use serde::Serialize;

use super::record::{Measurement, Ratio};
use super::render::{self, NOT_MEASURED, name, share, time, time_of};

mod about;
mod html;
pub(crate) mod model;
mod plot;

use html::{Table, Term};
use plot::{Figure, baselines};

/// What a ratio means for the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RatioClass {
    Faster,
    Slower,
    Even,
}

impl RatioClass {
    /// Faster or slower only where the whole interval says so.
    fn new(ratio: &Ratio) -> Self {
        match ratio {
            Ratio { low, .. } if *low > 1.0 => Self::Faster,
            Ratio { high, .. } if *high < 1.0 => Self::Slower,
            _ => Self::Even,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Even => "even",
        }
    }
}

/// The data of `page.html`.
#[derive(Debug, Serialize)]
struct Page {
    title: String,
    summary: String,
    doubts: Vec<String>,
    /// `None` if nothing was measured.
    measured: Option<Measured>,
}

#[derive(Debug, Serialize)]
struct Measured {
    /// Definitions of the regimes in the records.
    regimes: Vec<Term>,
    ratios: Vec<OfRegime>,
    ceilings: Vec<OfRegime>,
    results: Table,
    samples: Vec<Sampled>,
    machine: about::Machine,
    candidate: about::Candidate,
    baselines: Vec<String>,
}

/// The plot of a regime; `None` if nothing of it was measured.
#[derive(Debug, Serialize)]
struct OfRegime {
    regime: String,
    plot: Option<Figure>,
}

/// The samples of a measurement.
#[derive(Debug, Serialize)]
struct Sampled {
    name: String,
    plot: Figure,
    table: Table,
}

/// The page. `told` are sentences on what was refused, skipped or not measured in the same run.
pub fn page(measurements: &[Measurement], told: &[String]) -> String {
    let mut operations: Vec<&str> = measurements.iter().map(|measurement| measurement.op.as_str()).collect();
    operations.dedup();
    let operation = if operations.is_empty() { "Nothing".to_owned() } else { operations.join(", ") };
    let devices: BTreeSet<&str> =
        measurements.iter().map(|measurement| measurement.device.as_str()).collect();
    let title = match devices.into_iter().collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => format!("{operation} measured"),
        devices => format!("{operation} on {devices}"),
    };
    html::document(
        "page.html",
        &Page {
            title,
            summary: summary(measurements),
            doubts: doubts(measurements, told),
            measured: (!measurements.is_empty()).then(|| Measured {
                regimes: render::regimes(measurements)
                    .into_iter()
                    .map(|(regime, words)| Term { term: regime.to_owned(), text: words.to_owned() })
                    .collect(),
                ratios: by_regime(measurements, plot::ratios),
                ceilings: by_regime(measurements, plot::ceilings),
                results: results(measurements),
                samples: samples(measurements),
                machine: about::machine(measurements),
                candidate: about::candidate(measurements),
                baselines: about::baselines(measurements),
            }),
        },
    )
}

/// How many ratios are wins, losses and neither, in words.
fn summary(measurements: &[Measurement]) -> String {
    if measurements.is_empty() {
        return "Nothing was measured.".to_owned();
    }
    let unmeasured: usize = measurements.iter().map(|measurement| measurement.unmeasured.len()).sum();
    let unmeasured = match unmeasured {
        0 => String::new(),
        1 => " 1 figure was not measured well enough to be shown.".to_owned(),
        count => format!(" {count} figures were not measured well enough to be shown."),
    };
    let standings: Vec<RatioClass> =
        measurements.iter().flat_map(|measurement| &measurement.ratios).map(RatioClass::new).collect();
    let count = |standing| standings.iter().filter(|one| **one == standing).count();
    let dates: BTreeSet<&str> = measurements.iter().map(|measurement| measurement.date.as_str()).collect();
    format!(
        "{} measurements of {}. Of {} ratios the kernel is faster in {}, slower in {}, and in {} the interval holds 1.{unmeasured}",
        measurements.len(),
        dates.into_iter().collect::<Vec<_>>().join(", "),
        standings.len(),
        count(RatioClass::Faster),
        count(RatioClass::Slower),
        count(RatioClass::Even),
    )
}

/// What a reader should know before believing a figure.
fn doubts(measurements: &[Measurement], told: &[String]) -> Vec<String> {
    let mut found: Vec<String> = told.to_vec();
    let named = |wanted: &dyn Fn(&Measurement) -> bool| {
        let names: BTreeSet<String> = measurements.iter().filter(|it| wanted(it)).map(name).collect();
        if names.len() > 3 && names.len() == measurements.len() {
            return "every measurement".to_owned();
        }
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let mut doubt = |text: &str, which: String| {
        if !which.is_empty() {
            found.push(format!("{text}: {which}"));
        }
    };
    doubt("The GPU lowered its clock in", named(&|it| it.throttled));
    doubt(
        "The processes were started only once, so the interval does not show how runs differ, in",
        named(&|it| it.starts() < 2),
    );
    doubt("Outputs of timed calls were not compared in", named(&|it| !it.checked));
    doubt(
        "Other processes used the CPU during the run, so figures are rough, in",
        named(&|it| it.cpu.crowded.is_some_and(|crowded| crowded > render::CROWDED)),
    );
    for measurement in measurements {
        let sentences = render::unmeasured(measurement);
        found.extend(sentences.into_iter().map(|sentence| format!("{}: {sentence}", name(measurement))));
    }
    let lints: BTreeSet<&String> = measurements.iter().filter_map(|it| it.lint.as_ref()).flatten().collect();
    found.extend(lints.into_iter().map(|code| format!("The task has a finding of the linter: {code}")));
    found
}

fn results(measurements: &[Measurement]) -> Table {
    let baselines = baselines(measurements);
    let mut headers: Vec<String> =
        ["kernel", "workload", "dtype", "regime", "time"].map(str::to_owned).to_vec();
    headers.extend(baselines.iter().map(|name| format!("vs {name}")));
    headers.extend(["GB/s".to_owned(), "of ceiling".into()]);
    let mut table = Table::new("One row per measurement", headers);
    for measurement in measurements {
        table.row(&measurement.op);
        table.cell("", &measurement.workload);
        table.cell("", &measurement.dtype);
        table.cell("", &measurement.regime);
        table.cell("number", &time_of(measurement));
        for baseline in &baselines {
            match measurement.versus(baseline) {
                Some(ratio) => {
                    let class = format!("number {}", RatioClass::new(ratio).class());
                    table.cell(&class, &render::ratio(ratio));
                }
                None if measurement.unmeasured_versus(baseline).is_some() => {
                    table.cell("number", NOT_MEASURED)
                }
                None => table.cell("number", "-"),
            }
        }
        let rate = measurement.time().map(|seconds| measurement.bytes as f64 / seconds * 1e-9);
        table.cell("number", &rate.map_or_else(|| "-".to_owned(), three_digits));
        table.cell("number", &share(measurement));
    }
    table
}

/// A number with three digits: `3.27`, `41.6`, `2892`.
fn three_digits(number: f64) -> String {
    let digits = render::digits_of(number);
    format!("{number:.digits$}")
}

/// One plot for each regime, since figures of several are not compared.
fn by_regime(
    measurements: &[Measurement],
    draw: impl Fn(&str, &[&Measurement]) -> Option<Figure>,
) -> Vec<OfRegime> {
    let mut regimes: Vec<&str> = Vec::new();
    for measurement in measurements {
        if !regimes.contains(&measurement.regime.as_str()) {
            regimes.push(&measurement.regime);
        }
    }
    let plots = regimes.into_iter().map(|regime| {
        let of: Vec<&Measurement> = measurements.iter().filter(|it| it.regime == regime).collect();
        OfRegime { regime: regime.to_owned(), plot: draw(regime, &of) }
    });
    plots.collect()
}

/// The samples of each contender.
fn samples(measurements: &[Measurement]) -> Vec<Sampled> {
    let headers = ["contender", "median", "samples", "calls in each"];
    let of = |(at, measurement): (usize, &Measurement)| {
        let mut table = Table::new("Samples", headers.map(str::to_owned).to_vec());
        for contender in &measurement.contenders {
            table.row(&contender.name);
            table.cell("number", &time(contender.median_seconds));
            table.cell("number", &contender.samples.len().to_string());
            table.cell("number", &contender.calls.to_string());
        }
        let name = name(measurement);
        Sampled { plot: plot::distribution(at, &name, &measurement.contenders), name, table }
    };
    measurements.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::example;
    use super::html::tests::part;
    use super::*;
    use crate::archive::old_records::old_record;

    /// The table of results.
    fn shown(measurements: &[Measurement]) -> String {
        part("parts.html", "table", &results(measurements))
    }

    fn kept() -> Vec<Measurement> {
        let text = old_record("2026-11-21-h200-rms-norm.jsonl");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Elements that a page opens and does not close, or the other way round.
    fn unbalanced(page: &str) -> Vec<String> {
        const VOID: [&str; 4] = ["meta", "!doctype", "br", "link"];
        let (mut open, mut wrong): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for tag in page.split('<').skip(1) {
            let tag = tag.split('>').next().unwrap();
            let name: String =
                tag.trim_start_matches('/').chars().take_while(|it| !it.is_whitespace()).collect();
            if tag.starts_with('/') {
                if open.pop().as_deref() != Some(name.as_str()) {
                    wrong.push(name);
                }
            } else if !tag.ends_with('/') && !VOID.contains(&name.as_str()) {
                open.push(name);
            }
        }
        wrong.extend(open);
        wrong
    }

    #[test]
    fn the_page_of_an_h200() {
        let page = page(&kept(), &["torch-x was not measured: no device".to_owned()]);
        assert_eq!(unbalanced(&page), [""; 0]);
        for word in ["<script", "http://", "https://", "@import", "url(", "<img", "<link"] {
            assert!(!page.contains(word), "{word}");
        }
        assert!(page.contains("<h1>rms_norm on NVIDIA H200</h1>"));
        assert!(page.contains("torch-x was not measured: no device"));
        let ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "an id twice");
        assert!(page.len() < 1_500_000, "{} bytes", page.len());
    }

    #[test]
    fn kernels_are_named_regimes_explained_and_plots_come_first() {
        let other = Measurement { op: "softmax".to_owned(), regime: "hot".to_owned(), ..example() };
        let page = page(&[example(), other], &[]);
        for op in ["rms_norm", "softmax"] {
            assert!(page.contains(&format!("<th scope=\"row\">{op}</th><td>llm-2048x4096</td>")), "{op}");
            assert!(page.contains(&format!(">{op} llm-2048x4096 bf16<title>")), "a row of a plot names {op}");
        }
        let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
        assert!(
            place("id=\"ratios\"") < place("id=\"ceiling\"")
                && place("id=\"ceiling\"") < place("id=\"results\"")
        );
        assert!(place("<dt>graph</dt>") < place("<svg"));
        assert!(page.contains("<dt>hot</dt><dd>calls in a CUDA graph on the same inputs"));
    }

    #[test]
    fn figures_that_are_no_results_are_told_and_not_shown() {
        let mut wild = example();
        let samples = (0..15).map(|at| if at % 2 == 0 { 9e-5 } else { 9e-3 }).collect();
        wild.contenders.iter_mut().find(|one| one.name == "eager").unwrap().samples = samples;
        wild.ratios = super::super::record::ratios(&wild.contenders);
        assert!(shown(&[wild.clone()]).contains("x [9"), "as it was sampled");
        let settled = wild.settled();
        let text = shown(std::slice::from_ref(&settled));
        assert!(text.contains("<td class=\"number\">not measured</td>") && !text.contains("x [9"), "{text}");
        let page = page(&[settled], &[]);
        assert!(page.contains("vs eager not measured: known only to a factor of 10.00 after 15 blocks"));
        assert!(page.contains("1 figure was not measured well enough to be shown"));
    }

    #[test]
    fn the_results_of_one_measurement() {
        insta::assert_snapshot!(shown(&[example()]));
        let machine = part("parts.html", "machine", &about::machine(&[example()]));
        let candidate = part("parts.html", "candidate", &about::candidate(&[example()]));
        insta::assert_snapshot!("about_one_measurement", machine + &candidate);
    }

    #[test]
    fn the_text_of_others_is_text() {
        const EVIL: &str = "<script>alert('\"&')</script>";
        let mut measurement = example();
        measurement.workload = EVIL.to_owned();
        measurement.op = EVIL.to_owned();
        measurement.device = EVIL.to_owned();
        measurement.dtype = EVIL.to_owned();
        measurement.notes = vec![EVIL.to_owned()];
        measurement.lint = Some(vec![EVIL.to_owned()]);
        measurement.skipped[0].name = EVIL.to_owned();
        measurement.skipped[0].reason = EVIL.to_owned();
        measurement.ratios[0].versus = EVIL.to_owned();
        measurement.contenders[1].name = EVIL.to_owned();
        measurement.cpu.model = EVIL.to_owned();
        measurement.driver = Some(EVIL.to_owned());
        measurement.candidate.as_mut().unwrap().code[0].kernels[0].kernel = EVIL.to_owned();
        measurement.candidate.as_mut().unwrap().flags = vec![EVIL.to_owned()];
        let mut clocks = measurement.clocks.take().unwrap();
        clocks.throttle = vec![EVIL.to_owned()];
        measurement.clocks = Some(clocks);
        let page = page(&[measurement], &[EVIL.to_owned()]);
        assert!(!page.contains("<script") && !page.contains("alert('"), "not escaped");
        assert_eq!(unbalanced(&page), [""; 0]);
    }

    #[test]
    fn odd_figures_draw() {
        let mut measurement = example();
        measurement.throttled = true;
        measurement.ratios[0].low = 0.0;
        measurement.ratios[1].ratio = f64::NAN;
        measurement.contenders[0].samples = vec![0.0, f64::INFINITY];
        let page = page(&[measurement], &[]);
        assert!(!page.contains("NaN\"") && !page.contains("inf\""), "a place that is no number");
        assert!(page.contains("lowered its clock"));
        assert_eq!(unbalanced(&super::page(&[], &[])), [""; 0]);
    }

    #[test]
    fn a_win_is_a_whole_interval_above_one() {
        let ratio = |low, high| Ratio { versus: "eager".to_owned(), ratio: 1.0, low, high, starts: vec![] };
        assert_eq!(RatioClass::new(&ratio(1.001, 1.2)), RatioClass::Faster);
        assert_eq!(RatioClass::new(&ratio(0.99, 1.2)), RatioClass::Even);
        assert_eq!(RatioClass::new(&ratio(0.9, 0.999)), RatioClass::Slower);
    }
}
