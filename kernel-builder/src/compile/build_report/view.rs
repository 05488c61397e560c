//! Where everything stands on the page.
//!
//! Owns: positions, colours' names, texts of the report. Never: the style; the page has it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::kind::Kind;
use super::super::timeline::{Ended, Sample, Step, UnitOutcome};
use super::path;
use super::record::{End, Record};
use crate::base::report::bytes;

/// The drawing's width; it scales with the window.
const WIDTH: f64 = 1000.0;
/// For the names of lanes.
const LEFT: f64 = 62.0;
const LANE: f64 = 26.0;
const BAR: f64 = 22.0;
const MEMORY: f64 = 110.0;
/// The axis of memory ends here, in what the processes held at most, where the machine had more: a small share of a large
/// machine could not be seen otherwise.
const HEADROOM: u64 = 3;
/// Width of a letter in a bar, and what stays free beside the text.
const LETTER: f64 = 5.8;
const MARGIN: f64 = 6.0;
/// Rows of the table of slow steps.
const SLOWEST: usize = 20;
/// Commands are cut after so many letters; the logs have them whole.
const COMMAND: usize = 600;

/// All that the page shows; lengths are in units of the drawing.
#[derive(Debug, Serialize)]
pub(super) struct View {
    project: String,
    program: &'static str,
    end: &'static str,
    good: bool,
    cards: Vec<Card>,
    width: f64,
    height: f64,
    left: f64,
    memory_height: f64,
    lanes: Vec<Mark>,
    ticks: Vec<Mark>,
    bars: Vec<Bar>,
    held: String,
    available: String,
    memory_top: String,
    memory_all: String,
    kinds: Vec<KindRow>,
    slow: Vec<Row>,
    chain: Vec<Row>,
    chain_ran: String,
    chain_waited: String,
    pool_was_full: bool,
    shared: Vec<Shared>,
    missing: Vec<String>,
    failed: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Card {
    label: &'static str,
    value: String,
    note: String,
}

#[derive(Debug, Serialize)]
struct Mark {
    at: f64,
    text: String,
}

#[derive(Debug, Serialize)]
struct Bar {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    kind: &'static str,
    bad: bool,
    label: String,
    title: String,
}

#[derive(Debug, Serialize)]
struct KindRow {
    kind: &'static str,
    means: &'static str,
    count: usize,
    seconds: String,
    percent: f64,
    peak: String,
}

#[derive(Debug, Serialize)]
struct Row {
    kind: &'static str,
    unit: String,
    step: String,
    variant: String,
    seconds: String,
    waited: String,
    peak: String,
    command: String,
}

#[derive(Debug, Serialize)]
struct Shared {
    unit: String,
    compiled: usize,
    shared: usize,
    cached: usize,
}

impl View {
    /// The page of a record.
    pub(super) fn new(record: &Record) -> Self {
        let scale = Scale { end: record.seconds.max(0.001) };
        let lanes = record.steps.iter().map(|step| step.lane + 1).max().unwrap_or(1);
        let mut slow: Vec<&Step> = record.steps.iter().collect();
        slow.sort_by(|one, two| two.seconds().total_cmp(&one.seconds()));
        let failed = |step: &&Step| matches!(step.ended_how, Ended::Failed | Ended::Starved);
        let all = record.memory.iter().map(|sample| sample.held.max(1) + sample.available).max().unwrap_or(1);
        let held = record.memory.iter().map(|sample| sample.held).max().unwrap_or(0);
        let top = all.min(held.max(1).saturating_mul(HEADROOM));
        let chain = path::critical(&record.steps);
        let ran: f64 = chain.iter().map(|step| step.seconds()).sum();
        let waited: f64 = chain.iter().map(|step| step.started - step.queued).sum();
        let end = match record.end {
            End::Complete => "every variant was built",
            End::Failed => "some variants could not be built",
            End::Interrupted => "it was interrupted; the next build continues from here",
        };
        Self {
            project: record.project.clone(),
            program: record.program,
            end,
            good: record.end == End::Complete,
            cards: cards(record),
            width: WIDTH,
            height: lanes as f64 * LANE,
            left: LEFT,
            memory_height: MEMORY,
            lanes: (0..lanes)
                .map(|lane| Mark { at: lane as f64 * LANE + LANE / 2.0, text: format!("{}", lane + 1) })
                .collect(),
            ticks: scale.ticks(),
            bars: record.steps.iter().map(|step| bar(step, &scale)).collect(),
            held: scale.line(record, top, |sample| sample.held),
            available: scale.line(record, top, |sample| sample.held + sample.available),
            memory_top: bytes(top),
            memory_all: bytes(all),
            kinds: kinds(&record.steps),
            slow: slow.iter().take(SLOWEST).map(|step| row(step)).collect(),
            chain: chain.into_iter().map(row).collect(),
            chain_ran: seconds(ran),
            chain_waited: seconds(waited),
            pool_was_full: waited > ran,
            shared: shared(record),
            missing: record
                .variants
                .iter()
                .filter(|variant| !variant.built)
                .map(|it| it.variant.clone())
                .collect(),
            failed: record.steps.iter().filter(failed).map(row).collect(),
        }
    }
}

/// From seconds to the drawing.
struct Scale {
    end: f64,
}

impl Scale {
    fn x(&self, seconds: f64) -> f64 {
        tenths(LEFT + seconds / self.end * (WIDTH - LEFT))
    }

    /// Marks at round numbers of seconds, about eight of them.
    fn ticks(&self) -> Vec<Mark> {
        const ROUND: &[f64] =
            &[0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0];
        let step = ROUND.iter().copied().find(|step| self.end / step <= 9.0).unwrap_or(3600.0);
        let text = |at: f64| {
            if at >= 60.0 {
                format!("{}:{:02}", (at / 60.0) as u64, (at % 60.0) as u64)
            } else {
                format!("{} s", (at * 100.0).round() / 100.0)
            }
        };
        let count = (self.end / step) as usize;
        (0..=count).map(|tick| tick as f64 * step).map(|at| Mark { at: self.x(at), text: text(at) }).collect()
    }

    /// Points of a line of memory, from the lower left corner to the lower right one.
    fn line(&self, record: &Record, top: u64, of: impl Fn(&Sample) -> u64) -> String {
        let y = |held: u64| tenths(MEMORY - held.min(top) as f64 / top as f64 * MEMORY);
        let (Some(first), Some(last)) = (record.memory.first(), record.memory.last()) else {
            return String::new();
        };
        let mut points = vec![format!("{},{MEMORY}", self.x(first.at))];
        points.extend(record.memory.iter().map(|sample| format!("{},{}", self.x(sample.at), y(of(sample)))));
        points.push(format!("{},{MEMORY}", self.x(last.at)));
        points.join(" ")
    }
}

fn tenths(length: f64) -> f64 {
    (length * 10.0).round() / 10.0
}

fn seconds(count: f64) -> String {
    match count {
        ..10.0 => format!("{count:.2} s"),
        10.0..60.0 => format!("{count:.1} s"),
        _ => format!("{} min {:02} s", (count / 60.0) as u64, (count % 60.0) as u64),
    }
}

fn cards(record: &Record) -> Vec<Card> {
    let built = record.variants.iter().filter(|variant| variant.built).count();
    let busy: f64 = record.steps.iter().map(Step::seconds).sum();
    let lanes = record.seconds * record.jobs as f64;
    let used = if lanes > 0.0 { busy / lanes * 100.0 } else { 0.0 };
    let peak = record.memory.iter().map(|sample| sample.held).max().unwrap_or(0);
    let least = record.memory.iter().map(|sample| sample.available).min().unwrap_or(0);
    let reused = record.count(UnitOutcome::Cached) + record.count(UnitOutcome::Shared);
    vec![
        Card {
            label: "variants",
            value: format!("{built} of {}", record.variants.len()),
            note: format!("{} units", record.units.len()),
        },
        Card {
            label: "time",
            value: seconds(record.seconds),
            note: format!("{} of all processes together, {used:.0}% of {} lanes", seconds(busy), record.jobs),
        },
        Card {
            label: "compiled",
            value: record.count(UnitOutcome::Compiled).to_string(),
            note: format!("sources, in {} processes", record.steps.len()),
        },
        Card {
            label: "not compiled",
            value: reused.to_string(),
            note: format!(
                "{} from earlier runs, {} from another variant",
                record.count(UnitOutcome::Cached),
                record.count(UnitOutcome::Shared)
            ),
        },
        Card {
            label: "failed",
            value: record.count(UnitOutcome::Failed).to_string(),
            note: format!("{} not started", record.count(UnitOutcome::Skipped)),
        },
        Card { label: "memory", value: bytes(peak), note: format!("at least {} free", bytes(least)) },
    ]
}

fn bar(step: &Step, scale: &Scale) -> Bar {
    let x = scale.x(step.started);
    let width = tenths((scale.x(step.ended) - x).max(1.0));
    let whole = format!("{} {}", short(&step.unit), step.step);
    // What is done says more than the name of a source that all bars around have.
    let last = step.step.rsplit(' ').next().unwrap_or_default();
    let names = if step.step == step.unit {
        vec![step.unit.as_str()]
    } else {
        vec![whole.as_str(), step.step.as_str(), last]
    };
    let fits = |name: &&str| MARGIN + name.chars().count() as f64 * LETTER <= width;
    Bar {
        x,
        y: tenths(step.lane as f64 * LANE + (LANE - BAR) / 2.0),
        width,
        height: BAR,
        kind: step.kind.name(),
        bad: step.ended_how != Ended::Well,
        label: names.into_iter().find(fits).unwrap_or_default().to_owned(),
        title: title(step),
    }
}

fn title(step: &Step) -> String {
    let how = match step.ended_how {
        Ended::Well => "",
        Ended::Failed => ", failed",
        Ended::Starved => ", killed: out of memory",
        Ended::Interrupted => ", interrupted",
    };
    let alone = if step.alone { ", alone" } else { "" };
    format!(
        "{}: {}{how}{alone}\n{}\n{}, {} at its peak ({} expected), waited {}\n{}",
        step.unit,
        step.step,
        step.variant,
        seconds(step.seconds()),
        bytes(step.peak_memory),
        bytes(step.expected_memory),
        seconds(step.started - step.queued),
        cut(&step.command)
    )
}

fn row(step: &Step) -> Row {
    Row {
        kind: step.kind.name(),
        unit: step.unit.clone(),
        step: step.step.clone(),
        variant: step.variant.clone(),
        seconds: seconds(step.seconds()),
        waited: seconds(step.started - step.queued),
        peak: bytes(step.peak_memory),
        command: cut(&step.command),
    }
}

fn cut(command: &str) -> String {
    match command.char_indices().nth(COMMAND) {
        Some((end, _)) => format!("{} ...", &command[..end]),
        None => command.to_owned(),
    }
}

fn short(unit: &str) -> &str {
    unit.rsplit('/').next().unwrap_or(unit)
}

fn kinds(steps: &[Step]) -> Vec<KindRow> {
    let mut sums: BTreeMap<Kind, (usize, f64, u64)> = BTreeMap::new();
    for step in steps {
        let sum = sums.entry(step.kind).or_default();
        *sum = (sum.0 + 1, sum.1 + step.seconds(), sum.2.max(step.peak_memory));
    }
    let all: f64 = sums.values().map(|sum| sum.1).sum();
    let row = |(kind, (count, took, peak)): (Kind, (usize, f64, u64))| KindRow {
        kind: kind.name(),
        means: kind.means(),
        count,
        seconds: seconds(took),
        percent: tenths(took / all.max(0.001) * 100.0),
        peak: bytes(peak),
    };
    sums.into_iter().map(row).collect()
}

/// Sources and where their objects came from.
fn shared(record: &Record) -> Vec<Shared> {
    let mut units: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for unit in &record.units {
        let counts = units.entry(&unit.unit).or_default();
        match unit.fate {
            UnitOutcome::Compiled => counts[0] += 1,
            UnitOutcome::Shared => counts[1] += 1,
            UnitOutcome::Cached => counts[2] += 1,
            UnitOutcome::Failed | UnitOutcome::Skipped => {}
        }
    }
    let shared_row = |(unit, [compiled, shared, cached]): (&str, [usize; 3])| Shared {
        unit: unit.to_owned(),
        compiled,
        shared,
        cached,
    };
    units.into_iter().map(shared_row).collect()
}
