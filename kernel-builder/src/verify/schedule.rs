//! What is called with what: the inputs of each case and the order of calls.
//!
//! Owns: the choice of value distributions, poison patterns, buffers and repetitions. Pure.
//! Never: runs anything; the harness follows the schedule, the judge reads the results by it.

use std::collections::BTreeMap;

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::{Case, CaseTensor};
use serde::Serialize;

use super::bound::unit_roundoff;
use crate::protocol::verify::Distribution;

mod concurrent;
mod drawn;
mod sets;

pub(crate) use concurrent::with_groups;
pub(crate) use drawn::{drawn, is_callable};
pub(crate) use sets::{InputSet, another, scalars_of};

pub(crate) use crate::protocol::TensorSpec;
pub(crate) use crate::protocol::verify::{Change, Form, GradientSpec, Manner};

/// Bytes on each side of a tensor that nobody may write.
pub(crate) const GUARD: usize = 16 << 10;
/// The same in one arena of each case, for writes that go further astray: of large cases, and of small ones.
const WIDE_GUARDS: [usize; 2] = [1 << 20, 256 << 10];
/// NaN in every floating-point format.
const POISON_NAN: u8 = 0xff;
/// A finite number in every floating-point format: 203.25 in f16, 1.5e16 in bf16 and f32, 20 in f8e4m3, 192 in f8e5m2.
const POISON_FINITE: u8 = 0x5a;
/// Cases up to this many bytes of inputs and outputs get every trial; larger ones those that large data can fail.
const THOROUGH: u64 = 3 << 20;
/// Cases up to this many bytes get values that are chosen to be hard, each kind in a set of its own.
const HARD: u64 = 256 << 10;
/// The largest case up to this many bytes, and all up to [`THOROUGH`], get all kinds in one set, by rows: what a kernel
/// does at large shapes alone shows there. The reference is computed several times for such a set, so it has a limit.
const MIXED: u64 = 64 << 20;
/// Values that a kernel may get wrong that is right on random data: each with the purpose of its trial.
const HARD_VALUES: &[(Distribution, Purpose)] = &[
    (Distribution::Uniform, Purpose::Uniform),
    (Distribution::Equal, Purpose::Equal),
    (Distribution::OneHot, Purpose::OneHot),
    (Distribution::Sorted, Purpose::Sorted),
    (Distribution::Shifted, Purpose::Shifted),
    (Distribution::Outlier, Purpose::Outlier),
    (Distribution::Tiny, Purpose::Tiny),
    (NON_FINITE, Purpose::NonFinite),
];
/// The same for larger cases: all kinds whose values are finite, and those that are not.
const HARD_VALUES_IN_ROWS: &[(Distribution, Purpose)] =
    &[(Distribution::Mixed, Purpose::Mixed), (NON_FINITE, Purpose::NonFinite)];
/// The one of them whose results the reference may leave open.
pub(crate) const NON_FINITE: Distribution = Distribution::NonFinite;
/// Calls in a row on one small case, so that a kernel that stops working after a while is seen.
const REPEATS: u32 = 48;

/// One case with all that happens to it.
#[derive(Debug, Clone)]
pub(crate) struct ScheduledCase {
    /// The case's name, for people and for the seed.
    pub id: String,
    /// Its place in the schedule, which names its files.
    pub place: usize,
    pub inputs: Vec<TensorSpec>,
    pub outputs: Vec<TensorSpec>,
    /// The gradients that are judged, in the order of inputs; empty where none are.
    pub gradients: Vec<GradientSpec>,
    /// Whether agents do not see the workload; nobody but the summary asks.
    pub held_out: bool,
    /// Whether its lengths were drawn for this run.
    pub drawn: bool,
    /// How many terms are accumulated.
    pub accumulated: u64,
    /// What is passed; trials name one by its place.
    pub sets: Vec<InputSet>,
    pub trials: Vec<Trial>,
}

impl ScheduledCase {
    /// The outputs that are returned, or written where the caller says: those that overwrite no input.
    pub(crate) fn returned(&self) -> impl Iterator<Item = &TensorSpec> {
        self.outputs.iter().filter(|output| output.inplace.is_none())
    }

    /// Whether an output overwrites the input of this place.
    pub(crate) fn overwrites(&self, place: usize) -> bool {
        self.outputs.iter().any(|output| output.inplace == Some(place))
    }
}

impl TensorSpec {
    pub(crate) fn elements(&self) -> usize {
        if self.omitted { 0 } else { self.shape.iter().product::<u64>() as usize }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.elements() * self.dtype.size_bytes()
    }

    /// Bytes from the first element to the end of the last; `strides` counts elements, and is absent where it is dense.
    pub(crate) fn region(&self, strides: Option<&[u64]>) -> usize {
        match strides {
            Some(strides) if self.elements() > 0 => {
                let steps = self.shape.iter().zip(strides).map(|(length, stride)| (length - 1) * stride);
                (steps.sum::<u64>() as usize + 1) * self.dtype.size_bytes()
            }
            _ => self.bytes(),
        }
    }

    /// Strides of a tensor with gaps everywhere: no two neighbors touch.
    fn spread(&self) -> Vec<u64> {
        let mut step = 2;
        self.strides_with(|length| {
            let stride = step;
            step = step * length.max(1) + 3;
            stride
        })
    }

    /// Strides of the dense tensor whose axes lie in reverse order in memory.
    fn reversed(&self) -> Vec<u64> {
        let mut step = 1;
        let strides = self.shape.iter().map(|length| {
            let stride = step;
            step *= length.max(&1);
            stride
        });
        strides.collect()
    }

    fn strides_with(&self, next: impl FnMut(u64) -> u64) -> Vec<u64> {
        let mut strides: Vec<_> = self.shape.iter().rev().copied().map(next).collect();
        strides.reverse();
        strides
    }
}

/// One call (or several) of the candidate, and the dump that follows it.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    /// Unique in the schedule, counted from 0.
    pub id: usize,
    pub purpose: Purpose,
    /// Place in the case's sets.
    pub set: usize,
    pub form: Form,
    /// The byte that fills guards and outputs.
    pub poison: u8,
    /// Trials of a case that name the same arena use the same addresses.
    pub arena: &'static str,
    /// Bytes on each side of a tensor that nobody may write.
    pub guard: usize,
    /// Elements by which every tensor is moved off the allocation's alignment.
    pub shift: usize,
    /// Strides in elements, by the place of the input, of inputs that are not dense.
    pub strides: BTreeMap<usize, Vec<u64>>,
    /// Calls before the dump; inputs and poison are renewed before the first and the last.
    pub calls: u32,
    /// Alone, or in which kind of group: neighbors of one manner are one group.
    pub manner: Manner,
    /// The input that is watched, where the manner is about one.
    pub input: Option<usize>,
}

/// What a trial is for, in the words of its refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Purpose {
    /// Ordinary values.
    Plain,
    /// The same call again into outputs of another poison.
    Again,
    /// Other values at the same addresses.
    Replay,
    /// One element changed, at the same addresses.
    Edit,
    /// One scalar changed.
    Scalar,
    /// Values of another size.
    Magnitude,
    /// Many zeros.
    Zeros,
    /// Values between 0 and 1, so that means are not near zero.
    Uniform,
    /// Rows of one value.
    Equal,
    /// Rows of zeros but for one element.
    OneHot,
    /// Rows in ascending order.
    Sorted,
    /// Rows whose elements all lie far from zero, on the same side.
    Shifted,
    /// One element of each row that is larger than all others together.
    Outlier,
    /// Values that are subnormal in formats of 8 and 16 bits with few exponents, and minute in others.
    Tiny,
    /// Every row of another kind, the hard ones among them.
    Mixed,
    /// Infinities and NaN at a few places.
    NonFinite,
    /// The rows of an earlier set, in reverse order.
    Reversed,
    /// Tensors that are aligned to their element only.
    Offset,
    /// Inputs whose neighbors do not lie beside each other.
    Strided,
    /// Other addresses.
    Rotate,
    /// The last of many calls.
    Repeat,
    /// The backward pass.
    Gradient,
    /// Results stay with the caller while more calls are made.
    Held,
    /// Calls alternate between two streams.
    TwoStreams,
    /// The caller overwrites the inputs as soon as the call has returned.
    Overwritten,
    /// An input cannot be written during the call.
    ReadOnly,
    /// Another stream reads an input during the call.
    ReadAlong,
    /// Memory that the package keeps and that depends on inputs is scrambled between calls.
    Scrambled,
}

impl Purpose {
    /// For people: "with ...".
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Plain => "normal values",
            Self::Again => "the same values again",
            Self::Replay => "new values at the same addresses",
            Self::Edit => "one element changed",
            Self::Scalar => "another scalar",
            Self::Magnitude => "values of another magnitude",
            Self::Zeros => "mostly zeros",
            Self::Uniform => "values between 0 and 1",
            Self::Equal => "rows of equal values",
            Self::OneHot => "one value that is not zero in each row",
            Self::Sorted => "sorted rows",
            Self::Shifted => "rows far from zero",
            Self::Outlier => "one huge value in each row",
            Self::Tiny => "tiny values",
            Self::Mixed => "rows of different hard values",
            Self::NonFinite => "infinities and NaN",
            Self::Reversed => "rows in reverse order",
            Self::Offset => "tensors at odd addresses",
            Self::Strided => "inputs with strides",
            Self::Rotate => "new addresses",
            Self::Repeat => "many calls in a row",
            Self::Gradient => "the backward pass",
            Self::Held => "128 results held at once",
            Self::TwoStreams => "calls on two streams at once",
            Self::Overwritten => "inputs overwritten right after the call",
            Self::ReadOnly => "a read-only input",
            Self::ReadAlong => "an input that another stream reads",
            Self::Scrambled => "kept memory scrambled between calls",
        }
    }
}

/// The schedule of every case, trials numbered through.
pub(crate) fn schedule(op: &OpSpec, cases: &[Case]) -> Vec<ScheduledCase> {
    let sizes = cases.iter().map(|case| (bytes_of(case), case.drawn)).enumerate();
    let mixed = sizes.filter(|(_, (bytes, drawn))| *bytes <= MIXED && !drawn);
    let largest = mixed.max_by_key(|(_, (bytes, _))| *bytes).map(|(place, _)| place);
    let mut next = 0;
    let cases = cases.iter().enumerate();
    cases.map(|(place, case)| scheduled(op, place, case, Some(place) == largest, &mut next)).collect()
}

/// Bytes of all inputs and outputs.
fn bytes_of(case: &Case) -> u64 {
    let tensors = case.inputs.iter().chain(&case.outputs).filter(|tensor| !tensor.omitted);
    tensors.fold(0, |all, tensor| all.saturating_add(tensor.bytes()))
}

/// Why gradients of an operation that has them are not judged, if so.
pub(crate) fn gradient_unjudged(op: &OpSpec) -> Option<&'static str> {
    let overwrites = op.outputs.iter().any(|output| output.inplace.is_some());
    (op.gradient.is_some() && overwrites)
        .then_some("this version does not judge gradients of an operation that overwrites an input")
}

/// The gradients of a case that are judged.
fn gradients(op: &OpSpec, inputs: &[TensorSpec]) -> Vec<GradientSpec> {
    let Some(gradient) = op.gradient.as_ref().filter(|_| gradient_unjudged(op).is_none()) else {
        return vec![];
    };
    let of = |name: &str| {
        let of = inputs.iter().position(|input| input.name == name && !input.omitted)?;
        let tensor = TensorSpec { name: format!("{name}.grad"), ..inputs[of].clone() };
        Some(GradientSpec { tensor, of })
    };
    gradient.inputs.iter().filter_map(|name| of(name.value.as_str())).collect()
}

fn scheduled(op: &OpSpec, place: usize, case: &Case, largest: bool, next: &mut usize) -> ScheduledCase {
    let tensors = |side: &[CaseTensor]| {
        side.iter().map(|tensor| TensorSpec::new(tensor, &case.inputs)).collect::<Vec<_>>()
    };
    let (inputs, outputs) = (tensors(&case.inputs), tensors(&case.outputs));
    let gradients = gradients(op, &inputs);
    let bytes = bytes_of(case);
    let thorough = bytes <= THOROUGH && !case.drawn;
    let scalars = scalars_of(case);
    // Large cases have nothing but normal values, of which many rows are drawn; what hides beside them is in small ones.
    let hard = op.tolerance.cancels && bytes <= THOROUGH;
    let set = |kind| InputSet { kind, scalars: scalars.clone(), hard, ..InputSet::default() };

    let judged = !gradients.is_empty() && (!case.drawn || place.is_multiple_of(2));
    let mut sets = vec![
        InputSet { baseline: !case.drawn, gradient: judged, ..set(Distribution::Normal) },
        InputSet { gradient: judged && thorough, ..set(Distribution::Normal) },
    ];
    let takes_out = !op.call.out.is_empty();
    let given = if takes_out { Form::Out } else { Form::Functional };
    let mut trials = Vec::new();
    let mut plan = |purpose, set, form, poison, arena: &'static str, calls| {
        let shift = usize::from(arena == "offset");
        let strided = case.inputs.iter().zip(&inputs).enumerate().filter(|(_, (input, _))| input.strided);
        let strides = match arena {
            "spread" => strided.map(|(place, (_, input))| (place, input.spread())).collect(),
            "reversed" => strided.map(|(place, (_, input))| (place, input.reversed())).collect(),
            _ => BTreeMap::new(),
        };
        let (manner, input) = (Manner::Single, None);
        let wide = WIDE_GUARDS[usize::from(bytes <= HARD)];
        // Of cases with few trials the arena that they have.
        let guard = if arena == "third" || (arena == "main" && bytes > THOROUGH) { wide } else { GUARD };
        trials.push(Trial {
            id: *next,
            purpose,
            set,
            form,
            poison,
            arena,
            guard,
            shift,
            strides,
            calls,
            manner,
            input,
        });
        *next += 1;
    };
    plan(Purpose::Plain, 0, given, POISON_NAN, "main", 1);
    if case.drawn {
        plan(Purpose::Again, 0, Form::Functional, POISON_FINITE, "main", 1);
        plan(Purpose::Replay, 1, given, POISON_NAN, "main", 1);
        plan(Purpose::Offset, 1, given, POISON_NAN, "offset", 1);
        plan(Purpose::Rotate, 0, given, POISON_FINITE, "third", 1);
    } else {
        plan(Purpose::Again, 0, given, POISON_FINITE, "main", 1);
        plan(Purpose::Replay, 1, given, POISON_NAN, "main", 1);
    }
    if takes_out && !case.drawn {
        // Twice, so that the first result is still there when the second is made.
        plan(Purpose::Plain, 0, Form::Functional, POISON_NAN, "main", 2);
    }
    let is_float = inputs.iter().any(|input| unit_roundoff(input.dtype) > 0.0);
    // Of drawn cases, which are many, every other one: the rest see what is not finite.
    let often = !case.drawn || place.is_multiple_of(2);
    let values = match bytes {
        ..=HARD if thorough => HARD_VALUES,
        ..=THOROUGH if case.drawn && often => &HARD_VALUES_IN_ROWS[..1],
        ..=THOROUGH if case.drawn => &HARD_VALUES_IN_ROWS[1..],
        ..=THOROUGH => HARD_VALUES_IN_ROWS,
        _ if largest => HARD_VALUES_IN_ROWS,
        _ => &[],
    };
    if thorough {
        for (place, _) in inputs.iter().enumerate().filter(|(_, input)| input.elements() > 0) {
            sets.push(InputSet { edit_of: Some(1), edit_input: Some(place), ..set(Distribution::Normal) });
            plan(Purpose::Replay, 1, given, POISON_FINITE, "main", 1);
            plan(Purpose::Edit, sets.len() - 1, given, POISON_NAN, "main", 1);
        }
        for (purpose, kind) in [
            (Purpose::Magnitude, Distribution::Small),
            (Purpose::Magnitude, Distribution::Large),
            (Purpose::Zeros, Distribution::Sparse),
        ] {
            sets.push(set(kind));
            plan(purpose, sets.len() - 1, given, POISON_NAN, "main", 1);
        }
        for (scalar, declared) in case.scalars.iter().zip(&op.scalars) {
            let name = scalar.name.to_string();
            let Some(value) = another(declared, scalar.value) else { continue };
            let mut scalars = scalars.clone();
            scalars.insert(name.clone(), value);
            // The values of set 1, so that the scalar alone differs.
            sets.push(InputSet {
                edit_of: Some(1),
                scalars,
                changed_scalar: Some(name),
                ..set(Distribution::Normal)
            });
            plan(Purpose::Scalar, sets.len() - 1, given, POISON_NAN, "main", 1);
        }
    }
    for (kind, purpose) in values.iter().filter(|_| is_float) {
        // Normal rows beside a few spoiled ones show their size; rows of each kind do not.
        let hard = hard || *kind != NON_FINITE || bytes <= HARD;
        sets.push(InputSet { hard, ..set(*kind) });
        // Where NaN is expected, a poison of NaN would look like a result.
        plan(*purpose, sets.len() - 1, given, POISON_FINITE, "main", 1);
    }
    if thorough {
        let reversed = reversed_rows(op, &inputs).filter(|_| is_float && bytes <= HARD);
        if let Some(change) = reversed {
            sets.push(InputSet { edit_of: Some(1), change: Some(change), ..set(Distribution::Normal) });
            plan(Purpose::Reversed, sets.len() - 1, given, POISON_NAN, "main", 1);
        }
        plan(Purpose::Offset, 0, given, POISON_NAN, "offset", 1);
        if case.inputs.iter().any(|input| input.strided && !input.omitted) {
            // A NaN of the gaps would reach the output with all its bits, and look as if nobody had written there.
            plan(Purpose::Strided, 1, given, POISON_FINITE, "spread", 1);
            plan(Purpose::Strided, 0, given, POISON_NAN, "reversed", 1);
        }
        plan(Purpose::Rotate, 1, given, POISON_FINITE, "second", 1);
        plan(Purpose::Rotate, 0, given, POISON_NAN, "third", 1);
        plan(Purpose::Repeat, 1, given, POISON_NAN, "main", REPEATS);
    }
    if judged {
        plan(Purpose::Gradient, 0, Form::Gradient, POISON_NAN, "main", 1);
        if thorough {
            plan(Purpose::Gradient, 1, Form::Gradient, POISON_FINITE, "main", 1);
        }
    }
    let (held_out, accumulated) = (case.held_out, case.accumulated);
    let drawn = case.drawn;
    let id = case.id.clone();
    ScheduledCase { id, place, inputs, outputs, gradients, held_out, drawn, accumulated, sets, trials }
}

/// The first axis of the first output run backwards in all inputs, where one has several indices of it.
fn reversed_rows(op: &OpSpec, inputs: &[TensorSpec]) -> Option<Change> {
    let axis = &op.outputs.first()?.tensor.shape.first()?.value;
    let present = op.inputs.iter().enumerate().filter(|(place, _)| inputs[*place].elements() > 0);
    let places: Vec<(usize, usize)> = present
        .flat_map(|(place, input)| {
            let dimensions = input.tensor.shape.iter().enumerate();
            dimensions.filter(|(_, name)| name.value == *axis).map(move |(at, _)| (place, at))
        })
        .collect();
    places.iter().any(|(place, at)| inputs[*place].shape[*at] > 1).then_some(Change::Reverse { places })
}

#[cfg(test)]
pub(super) mod tests;
