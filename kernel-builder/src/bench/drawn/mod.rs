//! Cases that no workload names, drawn by a seed: `bench --drawn`.
//!
//! Owns: which lengths are drawn, the limits of a case, and its name. Pure: a seed gives the same cases on every machine.
//! Never: draws a seed, and never exceeds a bound or constraint of op.toml.

use std::collections::BTreeMap;

use kernel_plan::spec::expr::Bindings;
use kernel_plan::spec::op::{Axis, AxisKind, Case, Device, Purpose};
use kernel_plan::spec::tune::Tuning;
use kernel_plan::spec::{OpSpec, Spanned};
use kernel_plan::units::{Dtype, PythonName};
use sha2::{Digest as _, Sha256};

use super::error::BenchError;
use super::stats::SplitMix;
use crate::verify::is_callable;
use sizes::{Kind, MODELS};

mod sizes;
pub(crate) mod summary;

/// The first part of the name of every drawn case.
const PREFIX: &str = "drawn-";
/// What cases are drawn for. The same seed draws others for each.
const MEASURE: &str = "bench";
const SEARCH: &str = "fill";
/// The most rows.
const ROWS: u64 = 20_000;
/// Drafts for one case before it is given up.
const ATTEMPTS: usize = 4096;
/// Drafts after which axes may depend on each other or have a workload's length, for constraints that few lengths satisfy.
const INDEPENDENT: usize = 1024;

/// The `--drawn` and `--count` of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// Decides the lengths.
    pub seed: u64,
    /// Number of cases. More cases with the same seed begin with the same ones.
    pub count: usize,
}

/// The most bytes of all tensors of a case. A processor takes a hundred times as long for them as a GPU.
fn most_bytes(device: Device) -> u64 {
    match device {
        Device::Cuda => 1 << 30,
        Device::Cpu => 1 << 28,
    }
}

/// The most that the product of all lengths may be, which bounds the work of a reference in float64. No workload of the
/// device exceeds half of it.
fn most_work(op: &OpSpec, device: Device) -> u64 {
    let product = |case: Case| case.axes.values().fold(1, |all: u64, length| all.saturating_mul(*length));
    let largest = op.cases(Purpose::Bench, device).into_iter().map(product).max().unwrap_or(0);
    let least = match device {
        Device::Cuda => 1 << 42,
        Device::Cpu => 1 << 33,
    };
    largest.saturating_mul(2).max(least)
}

/// The drawn cases, with the dtypes of the device's workloads in turn. None if op.toml measures no workload on the device.
/// There are fewer than `count` if op.toml does not allow as many.
///
/// # Errors
/// No case can be drawn.
pub(super) fn cases(op: &OpSpec, device: Device, draw: Draw) -> Result<Vec<Case>, BenchError> {
    cases_for(MEASURE, op, device, draw)
}

/// Cases to search settings with, drawn like [`cases`]. They are others than those for the same seed, so that a search has
/// not seen what `bench --drawn` measures.
///
/// # Errors
/// As [`cases`].
pub(crate) fn cases_to_search(op: &OpSpec, device: Device, draw: Draw) -> Result<Vec<Case>, BenchError> {
    cases_for(SEARCH, op, device, draw)
}

fn cases_for(
    purpose: &'static str,
    op: &OpSpec,
    device: Device,
    draw: Draw,
) -> Result<Vec<Case>, BenchError> {
    let drafts = Drafts::new(purpose, op, device, draw.seed);
    if op.cases(Purpose::Bench, device).is_empty() {
        return Ok(Vec::new());
    }
    let mut found: Vec<Case> = Vec::new();
    let mut refusals = Refusals::default();
    for number in 0..draw.count {
        found.extend(drafts.case(number, &found, &mut refusals));
    }
    match found.is_empty() {
        true => Err(BenchError::NothingDrawn {
            op: op.name.value.to_string(),
            device,
            problem: refusals.most_frequent(device),
        }),
        false => Ok(found),
    }
}

/// The cases of a name that [`cases`] gave, for all dtypes that have them; none for another name.
pub(super) fn named(op: &OpSpec, device: Device, name: &str) -> Vec<Case> {
    let Some((seed, lengths)) = parts(name) else { return Vec::new() };
    let drafts = Drafts::new(MEASURE, op, device, seed);
    let axes = variable(op).map(|axis| axis.name.value.clone());
    let lengths: Vec<u64> = lengths.split('x').filter_map(|length| length.parse().ok()).collect();
    if lengths.len() != variable(op).count() {
        return Vec::new();
    }
    let lengths: Lengths = axes.zip(lengths).collect();
    let cases = drafts.dtypes.iter().filter_map(|dtypes| drafts.call(&lengths, dtypes).ok());
    // Only the spelling that `cases` gives, so that a case has one name.
    cases.filter(|case| case.workload.as_str() == name).collect()
}

/// The seed in the name of a drawn case.
pub(super) fn seed(case: &Case) -> Option<u64> {
    parts(case.workload.as_str()).filter(|_| case.drawn).map(|(seed, _)| seed)
}

/// The seed and the lengths of `drawn-SEED-3x4097`.
fn parts(name: &str) -> Option<(u64, &str)> {
    let (seed, lengths) = name.strip_prefix(PREFIX)?.split_once('-')?;
    Some((seed.parse().ok()?, lengths))
}

fn variable(op: &OpSpec) -> impl Iterator<Item = &Axis> {
    op.axes.iter().filter(|axis| matches!(axis.kind, AxisKind::Var { .. }))
}

/// Lengths by axis.
type Lengths = BTreeMap<PythonName, u64>;

/// Why drafts were refused.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Refusal {
    /// No axis has a length to draw.
    NoAxis,
    /// A constraint, as op.toml has it.
    Constraint(String),
    /// The host cannot start it.
    NotCallable,
    /// It needs too much memory or work.
    TooLarge,
    /// It was drawn before, or is a workload.
    Known,
}

/// How often drafts were refused, by reason.
#[derive(Default)]
struct Refusals(BTreeMap<Refusal, usize>);

impl Refusals {
    /// The most frequent reason.
    fn most_frequent(&self, device: Device) -> String {
        let most = self.0.iter().max_by_key(|(_, count)| **count).map(|(refusal, _)| refusal);
        match most {
            Some(Refusal::Constraint(text)) => format!("no draft satisfies the constraint {text}"),
            Some(Refusal::NotCallable) => "[launch] or [cpu] has no value for any draft".to_owned(),
            Some(Refusal::TooLarge) => {
                format!("every draft has more than {} MiB of tensors", most_bytes(device) >> 20)
            }
            Some(Refusal::NoAxis | Refusal::Known) | None => "no axis has a length that varies".to_owned(),
        }
    }
}

/// The drafts of one seed: what they are drawn from, and which cases are known.
struct Drafts<'a> {
    purpose: &'static str,
    op: &'a OpSpec,
    device: Device,
    seed: u64,
    /// Variable axes with their meanings, in file order.
    axes: Vec<(&'a Axis, Kind)>,
    /// Choices of dtypes, in the order of `[dtypes]`.
    dtypes: Vec<BTreeMap<PythonName, Dtype>>,
    /// Choices of optional inputs that are left out: none, then those of workloads.
    without: Vec<&'a [Spanned<PythonName>]>,
    /// The workloads of the device.
    listed: Vec<Case>,
    work: u64,
}

impl<'a> Drafts<'a> {
    fn new(purpose: &'static str, op: &'a OpSpec, device: Device, seed: u64) -> Self {
        let purposes = [Purpose::Bench, Purpose::Verify];
        let listed: Vec<Case> = purposes.iter().flat_map(|purpose| op.cases(*purpose, device)).collect();
        let mut dtypes: Vec<_> = listed.iter().map(|case| case.dtypes.clone()).collect();
        let order = |chosen: &BTreeMap<PythonName, Dtype>| -> Vec<Option<usize>> {
            let place = |name: &PythonName, all: &[Dtype]| {
                all.iter().position(|dtype| chosen.get(name).is_some_and(|chosen| chosen == dtype))
            };
            op.dtypes.iter().map(|variable| place(&variable.name.value, &variable.dtypes)).collect()
        };
        dtypes.sort_by_key(order);
        dtypes.dedup();
        let mut without: Vec<&[Spanned<PythonName>]> = vec![&[]];
        without.extend(op.workloads.iter().map(|workload| workload.without.as_slice()));
        let axes = op.axes.iter().zip(sizes::kinds(op));
        let axes = axes.filter(|(axis, _)| matches!(axis.kind, AxisKind::Var { .. })).collect();
        Self { purpose, op, device, seed, axes, dtypes, without, listed, work: most_work(op, device) }
    }

    /// The case of this number, which differs from all of `known` and from all workloads.
    fn case(&self, number: usize, known: &[Case], refusals: &mut Refusals) -> Option<Case> {
        let dtypes = &self.dtypes[number % self.dtypes.len()];
        let digest = Sha256::digest(format!("{}/{}/{number}", self.seed, self.purpose));
        let start = digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        let mut random = SplitMix(start);
        let attempts = if self.axes.is_empty() { 0 } else { ATTEMPTS };
        if attempts == 0 {
            refusals.0.insert(Refusal::NoAxis, 1);
        }
        (0..attempts).find_map(|attempt| {
            let lengths = self.lengths(attempt >= INDEPENDENT, &mut random);
            let case = self.call(&lengths, dtypes).and_then(|case| {
                let same = |other: &Case| (&other.axes, &other.dtypes) == (&case.axes, &case.dtypes);
                let is_new = !self.listed.iter().chain(known).any(same);
                if is_new { Ok(case) } else { Err(Refusal::Known) }
            });
            match case {
                Ok(case) => Some(case),
                Err(refusal) => {
                    *refusals.0.entry(refusal).or_default() += 1;
                    None
                }
            }
        })
    }

    /// The call with these lengths: with all optional inputs if the constraints allow that, else without those that the
    /// first suitable workload leaves out.
    fn call(&self, lengths: &Lengths, dtypes: &BTreeMap<PythonName, Dtype>) -> Result<Case, Refusal> {
        let (op, mut refusal) = (self.op, Refusal::NotCallable);
        let words: Vec<String> =
            variable(op).filter_map(|axis| lengths.get(&axis.name.value)).map(u64::to_string).collect();
        let name = format!("{PREFIX}{}-{}", self.seed, words.join("x"));
        for (place, without) in self.without.iter().enumerate() {
            let Some(case) = name.parse().ok().and_then(|name| op.call(name, lengths, dtypes, without))
            else {
                break;
            };
            if let Some(violated) = self.violated(&case) {
                // Report the constraint that the call with all inputs violates.
                if place == 0 {
                    refusal = Refusal::Constraint(violated);
                }
                continue;
            }
            let tensors = case.inputs.iter().chain(&case.outputs).filter(|tensor| !tensor.omitted);
            let bytes = tensors.fold(0, |sum: u64, tensor| sum.saturating_add(tensor.bytes()));
            let work = case.axes.values().fold(1, |all: u64, length| all.saturating_mul(*length));
            if bytes > most_bytes(self.device) || work > self.work {
                return Err(Refusal::TooLarge);
            }
            return if is_callable(op, self.device, &case) { Ok(case) } else { Err(Refusal::NotCallable) };
        }
        Err(refusal)
    }

    /// The first constraint that does not hold, as op.toml has it.
    fn violated(&self, case: &Case) -> Option<String> {
        let bindings = Bindings::new(case, &Tuning::new());
        let violated = self.op.constraints.iter().find(|one| one.evaluate(&bindings) != Ok(true))?;
        let text = self.op.file.text.get(violated.tree().span.clone()).unwrap_or_default();
        Some(format!("`{text}`"))
    }

    /// A length for each variable axis. With `related` an axis may be a multiple of an earlier one, or have a workload's length.
    fn lengths(&self, related: bool, random: &mut SplitMix) -> Lengths {
        // The sizes of one model fit each other: heads are a multiple of those of keys, for example.
        let model = &MODELS[random.below(MODELS.len())];
        let like = &self.listed[random.below(self.listed.len())];
        let bound = |axis: &Axis| {
            // Constraints of a definition are texts that nothing here understands.
            self.op.flashinfer.as_ref().is_some_and(|section| section.constrains(&axis.name.value))
        };
        let mut chosen: Vec<u64> = Vec::new();
        for (axis, kind) in &self.axes {
            let own = like.axes[&axis.name.value];
            let length = match if related { random.below(4) } else { 3 } {
                _ if bound(axis) => own,
                0 => own,
                1 if !chosen.is_empty() => {
                    let other = chosen[random.below(chosen.len())];
                    let factor = 1 << random.below(5);
                    if random.below(2) == 0 { other * factor } else { (other / factor).max(1) }
                }
                _ => length(axis, *kind, model, random),
            };
            chosen.push(length);
        }
        let names = self.axes.iter().map(|(axis, _)| axis.name.value.clone());
        names.zip(chosen).collect()
    }
}

/// A length of an axis.
fn length(axis: &Axis, kind: Kind, model: &sizes::Model, random: &mut SplitMix) -> u64 {
    let all = sizes::all_sizes(kind);
    let listed = |random: &mut SplitMix| all[random.below(all.len())];
    let largest = all.last().copied().unwrap_or(ROWS);
    let own = model.sizes(kind);
    let number = match (kind, random.below(8)) {
        (Kind::Rows, 0) => listed(random),
        (Kind::Rows, 1 | 2) => 1 << random.below(15),
        (Kind::Rows, 3 | 4) => between(1, ROWS, random),
        (Kind::Rows, _) => between(1, ROWS, random) | 1,
        (_, 0..=3) if !own.is_empty() => own[random.below(own.len())],
        (_, 0..=5) => listed(random),
        // Beside a usual size.
        (_, 6) => (listed(random) + 2 * random.below(2) as u64).saturating_sub(1) | 1,
        _ => between(all.first().copied().unwrap_or(1), largest, random) | 1,
    };
    allowed(axis, if kind == Kind::Rows { number.min(ROWS) } else { number }, random)
}

/// The next length from `number` on that the axis allows, or another one if it is out of bounds.
fn allowed(axis: &Axis, number: u64, random: &mut SplitMix) -> u64 {
    let AxisKind::Var { multiple_of, min, max } = axis.kind else { return number };
    let least = min.unwrap_or(0).max(1).div_ceil(multiple_of);
    let most = max.map_or(u64::MAX, |max| max) / multiple_of;
    let units = number.div_ceil(multiple_of);
    let units = match (least..=most).contains(&units) {
        true => units,
        false => between(least, most.min(least.saturating_mul(4).max(units)), random),
    };
    units.saturating_mul(multiple_of)
}

/// A number between inclusive bounds, at least one; each power of two has about the same share. In integers, since
/// logarithms differ between machines.
fn between(from: u64, to: u64, random: &mut SplitMix) -> u64 {
    let (from, to) = (from.max(1), to.max(from).max(1));
    let exponents = (to.ilog2() - from.ilog2() + 1) as usize;
    let power = from.ilog2() + random.below(exponents) as u32;
    let (low, high) = (from.max(1 << power), to.min((1 << power) | ((1 << power) - 1)));
    low + ((u128::from(random.next()) * u128::from(high - low + 1)) >> 64) as u64
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
