//! Cases with lengths that no workload has, for one run alone.
//!
//! Owns: which lengths are tried beside those of op.toml. Pure: the same seed gives the same cases.
//! Never: draws a seed, and never exceeds a bound or constraint of op.toml.

use std::collections::{BTreeMap, BTreeSet};

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::expr::Bindings;
use kernel_plan::spec::op::{Axis, AxisKind, Case, Device};
use kernel_plan::spec::tune::Tuning;
use kernel_plan::units::PythonName;
use sha2::{Digest as _, Sha256};

use super::THOROUGH;
use crate::base::random::SplitMix;

/// Bytes of inputs and outputs of a drawn case, where its least lengths allow that.
const BYTES: u64 = THOROUGH;
/// Bytes beyond which nothing is drawn, whatever the least lengths are.
const MOST_BYTES: u64 = 64 << 20;
/// The least limit for the product of all lengths, which bounds what a reference computes.
const WORK: u64 = 1 << 20;
/// Draws for one case before it is given up.
const ATTEMPTS: usize = 96;
/// Draws after which axes may keep a workload's length, or a multiple of it, for constraints that few lengths satisfy.
const STRICT: usize = 32;
/// Draws for one length.
const TRIES: usize = 24;
/// The least length that is drawn: 1 and 0 are for workloads.
const LEAST: u64 = 2;
/// Primes, so that a multiple of a workload's length is seldom another workload's.
const MULTIPLES: &[u64] = &[2, 3, 5, 7, 11];

/// Kinds of lengths that kernels treat differently. Each is in terms of the axis's `multiple-of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Any,
    Odd,
    Prime,
    /// One past a power of two.
    PastPower,
    /// Divisible by 8 and not by 64.
    Eights,
    /// Divisible by 64.
    Round,
}

const CLASSES: [Class; 6] =
    [Class::Any, Class::Odd, Class::Prime, Class::PastPower, Class::Eights, Class::Round];

/// The length that a case is about.
#[derive(Debug, Clone, Copy)]
enum Focus {
    /// Between the least and the largest of the workloads.
    Within(&'static [Class]),
    /// Of the innermost axis, somewhat beyond the largest of the workloads.
    BeyondInner,
    /// Of the outermost axis.
    BeyondOuter,
}

/// The cases of each choice of dtypes.
const PLAN: &[Focus] = &[
    Focus::Within(&[Class::Odd, Class::Prime]),
    Focus::Within(&[Class::PastPower]),
    Focus::Within(&[Class::Eights]),
    Focus::Within(&[Class::Round]),
    Focus::BeyondInner,
    Focus::BeyondOuter,
];

/// Cases beside `listed`, which are those of op.toml to verify on `device`: some for each choice of dtypes.
pub(crate) fn drawn(op: &OpSpec, device: Device, listed: &[Case], seed: u64) -> Vec<Case> {
    let lengths = Lengths::new(op, listed);
    let mut found: Vec<Case> = Vec::new();
    let mut seen: Vec<&BTreeMap<_, _>> = Vec::new();
    for case in listed {
        if seen.contains(&&case.dtypes) {
            continue;
        }
        seen.push(&case.dtypes);
        let like: Vec<&Case> = listed.iter().filter(|other| other.dtypes == case.dtypes).collect();
        for (number, focus) in PLAN.iter().enumerate() {
            // A hash, so that what a candidate sees of lengths does not give the seed away.
            let text = format!("{seed}/lengths/{:?}/{number}", case.dtypes);
            let digest = Sha256::digest(text.as_bytes());
            let start = digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
            let draw = Draw { op, device, lengths: &lengths, focus: *focus };
            let is_new = |case: &Case| listed.iter().chain(&found).all(|known| known.id != case.id);
            found.extend(draw.case(&like, &mut SplitMix(start), is_new));
        }
    }
    found
}

/// What op.toml says of lengths.
struct Lengths<'a> {
    /// Variable axes whose lengths are free, outermost first.
    free: Vec<&'a Axis>,
    /// The place of the outermost one of the first input.
    outer: usize,
    /// The lengths in workloads, by axis.
    listed: BTreeMap<&'a PythonName, BTreeSet<u64>>,
    /// The largest one that is verified here, by axis.
    largest: BTreeMap<&'a PythonName, u64>,
    /// The largest product of all lengths of a drawn case.
    work: u64,
}

impl<'a> Lengths<'a> {
    fn new(op: &'a OpSpec, listed: &[Case]) -> Self {
        // Constraints of a definition are texts that nothing here understands.
        let bound =
            |axis: &Axis| op.flashinfer.as_ref().is_some_and(|section| section.constrains(&axis.name.value));
        let is_free = |axis: &&Axis| matches!(axis.kind, AxisKind::Var { .. }) && !bound(axis);
        let mut free: Vec<&Axis> = op.axes.iter().filter(is_free).collect();
        // In the order of the first tensor that has them: the last one lies side by side in memory.
        let depth = |axis: &&Axis| {
            let shapes = op.inputs.iter().map(|input| &input.tensor.shape);
            shapes.enumerate().find_map(|(place, shape)| {
                let depth = shape.iter().position(|name| name.value == axis.name.value)?;
                // Axes of later tensors do not decide what lies side by side in the first one.
                Some(if place == 0 { (1, depth) } else { (0, depth) })
            })
        };
        free.sort_by_key(depth);
        let outer = free.iter().position(|axis| depth(axis).is_some_and(|(first, _)| first == 1));
        let of_workloads = |name: &PythonName| {
            op.workloads.iter().filter_map(|workload| workload.axes.get(name).copied()).collect()
        };
        let largest = |name: &PythonName| {
            listed.iter().filter_map(|case| case.axes.get(name).copied()).max().unwrap_or(LEAST)
        };
        let product = |case: &Case| case.axes.values().fold(1, |all: u64, one| all.saturating_mul(*one));
        Self {
            listed: free.iter().map(|axis| (&axis.name.value, of_workloads(&axis.name.value))).collect(),
            largest: free.iter().map(|axis| (&axis.name.value, largest(&axis.name.value))).collect(),
            outer: outer.unwrap_or(0),
            work: listed.iter().map(product).max().unwrap_or(0).saturating_mul(2).max(WORK),
            free,
        }
    }

    fn is_listed(&self, name: &PythonName, length: u64) -> bool {
        self.listed.get(name).is_some_and(|lengths| lengths.contains(&length))
    }
}

/// Lengths by axis.
type DrawnLengths = BTreeMap<PythonName, u64>;

/// One case to be drawn.
struct Draw<'a> {
    op: &'a OpSpec,
    device: Device,
    lengths: &'a Lengths<'a>,
    focus: Focus,
}

impl Draw<'_> {
    fn case(&self, like: &[&Case], random: &mut SplitMix, is_new: impl Fn(&Case) -> bool) -> Option<Case> {
        let few = self.lengths.free.len() < 2;
        if self.lengths.free.is_empty() || (few && matches!(self.focus, Focus::BeyondOuter)) {
            return None;
        }
        (0..ATTEMPTS).find_map(|attempt| {
            let base = like[random.below(like.len())];
            let chosen = self.chosen(base, attempt >= STRICT, random);
            let other = |axis: &&Axis| {
                let name = &axis.name.value;
                !self.lengths.is_listed(name, chosen[name])
            };
            if !self.lengths.free.iter().any(other) {
                return None;
            }
            let case = self.op.at(base, &chosen)?;
            let case = Case { held_out: false, ..case };
            let fits = self.bytes(base, &chosen) <= MOST_BYTES;
            (fits && is_callable(self.op, self.device, &case) && is_new(&case)).then_some(case)
        })
    }

    /// A length for each variable axis. With `loose` some may be a workload's, or multiples of it.
    fn chosen(&self, base: &Case, loose: bool, random: &mut SplitMix) -> DrawnLengths {
        let free = &self.lengths.free;
        let focus = match self.focus {
            Focus::BeyondOuter => self.lengths.outer,
            Focus::Within(_) if free.len() > 2 && random.below(2) == 0 => random.below(free.len()),
            Focus::Within(_) | Focus::BeyondInner => free.len() - 1,
        };
        let mut chosen = base.axes.clone();
        for axis in free {
            chosen.insert(axis.name.value.clone(), least(axis));
        }
        let others = (0..free.len()).rev().filter(|place| *place != focus);
        // The outermost axes come last, and get what room is left.
        for place in std::iter::once(focus).chain(others) {
            let axis = free[place];
            let name = &axis.name.value;
            let cap = self.cap(base, &mut chosen, axis);
            let own = base.axes[name];
            let length = match if loose { random.below(3) } else { 2 } {
                0 => own.max(least(axis)),
                1 => own.saturating_mul(MULTIPLES[random.below(MULTIPLES.len())]),
                _ if place == focus => self.of_focus(axis, cap, random),
                _ => self.length(axis, CLASSES[random.below(CLASSES.len())], (least(axis), cap), random),
            };
            chosen.insert(name.clone(), length.min(cap));
        }
        chosen
    }

    fn of_focus(&self, axis: &Axis, cap: u64, random: &mut SplitMix) -> u64 {
        let name = &axis.name.value;
        match self.focus {
            Focus::Within(classes) => {
                let class = classes[random.below(classes.len())];
                let most = cap.min(self.lengths.largest[name]);
                self.length(axis, class, (least(axis), most), random)
            }
            Focus::BeyondInner | Focus::BeyondOuter => {
                let largest = self.lengths.largest[name];
                // Where there is no room beyond the largest length, near to what there is room for.
                let from = if largest < cap { largest + 1 } else { least(axis).max(cap / 2) };
                let class = CLASSES[random.below(CLASSES.len())];
                self.length(axis, class, (from, cap), random)
            }
        }
    }

    /// The greatest length of an axis beside the lengths that the others have now.
    fn cap(&self, base: &Case, chosen: &mut DrawnLengths, axis: &Axis) -> u64 {
        let name = &axis.name.value;
        let AxisKind::Var { max, .. } = axis.kind else { return base.axes[name] };
        let (mut fits, mut most) =
            (least(axis), beyond(self.lengths.largest[name]).min(max.unwrap_or(u64::MAX)));
        let least = fits;
        while fits < most {
            let middle = fits + (most - fits).div_ceil(2);
            chosen.insert(name.clone(), middle);
            let product = chosen.values().fold(1, |all: u64, one| all.saturating_mul(*one));
            if self.bytes(base, chosen) <= BYTES && product <= self.lengths.work {
                fits = middle;
            } else {
                most = middle - 1;
            }
        }
        chosen.insert(name.clone(), least);
        fits
    }

    /// A length of a class within inclusive bounds that no workload has; any length within them where few are.
    fn length(&self, axis: &Axis, class: Class, (from, to): (u64, u64), random: &mut SplitMix) -> u64 {
        let AxisKind::Var { multiple_of, .. } = axis.kind else { return from };
        let mut found = from.next_multiple_of(multiple_of).min(to - to % multiple_of);
        for turn in 0..TRIES {
            let class = if turn < TRIES / 2 { class } else { Class::Any };
            let number = of_class(class, between(from, to, random).div_ceil(multiple_of), random);
            let length = number.saturating_mul(multiple_of);
            if (from..=to).contains(&length) {
                found = length;
                if !self.lengths.is_listed(&axis.name.value, length) {
                    break;
                }
            }
        }
        found
    }

    /// Bytes of all inputs and outputs at these lengths.
    fn bytes(&self, base: &Case, chosen: &DrawnLengths) -> u64 {
        let inputs = self.op.inputs.iter().map(|input| &input.tensor).zip(&base.inputs);
        let outputs = self.op.outputs.iter().map(|output| &output.tensor).zip(&base.outputs);
        let tensors = inputs.chain(outputs).filter(|(_, concrete)| !concrete.omitted);
        let bytes = tensors.map(|(tensor, concrete)| {
            let lengths = tensor.shape.iter().map(|axis| chosen[&axis.value]);
            lengths.fold(concrete.dtype.size_bytes() as u64, u64::saturating_mul)
        });
        bytes.fold(0, u64::saturating_add)
    }
}

/// Whether the host can start the call: `[launch]`, and for the processor `[cpu]`, have values.
pub(crate) fn is_callable(op: &OpSpec, device: Device, case: &Case) -> bool {
    match device {
        Device::Cuda => {
            let launch = op.launch.as_ref();
            launch.is_none_or(|launch| launch.evaluate(case, &op.tune.default_tuning()).is_ok())
        }
        Device::Cpu => op.cpu.as_ref().is_none_or(|cpu| {
            let bindings = Bindings::new(case, &Tuning::new());
            cpu.over.evaluate(&bindings).is_ok() && cpu.grain.evaluate(&bindings).is_ok()
        }),
    }
}

/// The least length that is drawn for an axis.
fn least(axis: &Axis) -> u64 {
    match axis.kind {
        AxisKind::Const(length) => length,
        AxisKind::Var { multiple_of, min, max } => {
            let least = min.unwrap_or(0).max(LEAST).next_multiple_of(multiple_of);
            least.min(max.map_or(u64::MAX, |max| max - max % multiple_of))
        }
    }
}

/// A quarter more, and a few.
fn beyond(length: u64) -> u64 {
    length.saturating_add(length / 4).saturating_add(64)
}

/// A number between inclusive bounds; each power of two has the same share.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two numbers that fit")]
fn between(from: u64, to: u64, random: &mut SplitMix) -> u64 {
    let share = random.below(1 << 20) as f64 / f64::from(1 << 20);
    let (least, most) = (from.max(1) as f64, to.max(1) as f64);
    let number = (least * (most / least).max(1.0).powf(share)).round() as u64;
    number.clamp(from, to.max(from))
}

/// A number of a class, near `number`.
fn of_class(class: Class, number: u64, random: &mut SplitMix) -> u64 {
    match class {
        Class::Any => number,
        Class::Odd => number | 1,
        Class::Prime => {
            (number..number.saturating_mul(2).max(3)).find(|number| is_prime(*number)).unwrap_or(2)
        }
        Class::PastPower => number.max(2).next_power_of_two() / 2 + 1,
        Class::Eights => number / 64 * 64 + 8 * (1 + random.below(7) as u64),
        Class::Round => number.max(1).next_multiple_of(64),
    }
}

fn is_prime(number: u64) -> bool {
    number > 1
        && (2..).take_while(|factor| factor * factor <= number).all(|factor| !number.is_multiple_of(factor))
}

#[cfg(test)]
#[path = "drawn_tests.rs"]
mod tests;
