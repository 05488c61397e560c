//! Which instances of its kernels a launcher needs that is compiled ahead of time.
//!
//! Owns: the lengths that are tried, and what is found for them. Never: leaves out an instance for lengths that it tried.
//!
//! `[launch]` says template arguments as expressions over lengths. Which values they take is found by trying lengths: all up
//! to 65536 where one axis decides, a choice of them where several do, and for the axes that only conditions speak of, small
//! ones and the powers of two with their neighbors. A launcher that meets a call without an instance says so by name.

use std::collections::{BTreeMap, BTreeSet};

use crate::spec::expr::{Expr, ExprKind, Value};
use crate::spec::launch::{Kernel, Launch, TemplateArgument};
use crate::spec::op::{Axis, AxisKind, OpSpec, ScalarValue, TensorDtype};
use crate::spec::tune::Tuning;
use crate::units::{Dtype, PythonName};

use super::program::{Known, Program};
use super::{HostError, RangeSettings};

/// One instance of one kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Instance {
    /// Which set of macros the code was compiled with.
    pub(super) space: usize,
    /// What each type variable stands for, in file order.
    pub(super) dtypes: Vec<Dtype>,
    /// The template arguments that are values; truths are 0 and 1.
    pub(super) values: Vec<i64>,
}

/// A setting, and the calls that have it.
#[derive(Debug)]
pub(super) struct Setting<'a> {
    pub(super) tuning: &'a Tuning,
    /// Its set of macros.
    pub(super) space: usize,
    /// Ranges of calls; without them it is for every call.
    pub(super) ranges: Option<Vec<&'a RangeSettings>>,
}

/// The least and the greatest length of some axes.
type Within = BTreeMap<PythonName, [u64; 2]>;

impl Setting<'_> {
    /// Which lengths calls with these dtypes have.
    fn within(&self, dtypes: &[(PythonName, Dtype)]) -> Vec<Within> {
        let Some(ranges) = &self.ranges else { return vec![Within::new()] };
        let is_for = |range: &&&RangeSettings| {
            dtypes.iter().all(|(name, dtype)| range.dtypes.get(name).is_none_or(|known| known == dtype))
        };
        ranges.iter().filter(is_for).map(|range| range.axes.clone()).collect()
    }
}

/// The most instances of one kernel: more would take an hour to compile.
const MOST: usize = 512;

/// The instances of every kernel, in file order.
///
/// # Errors
/// A template argument that no instance can be compiled for, or too many of them.
pub(super) fn instances(
    op: &OpSpec,
    launch: &Launch,
    settings: &[Setting<'_>],
) -> Result<Vec<BTreeSet<Instance>>, HostError> {
    let dtypes = assignments(op);
    launch
        .kernels
        .iter()
        .map(|kernel| {
            let mut found = BTreeSet::new();
            for setting in settings {
                for assignment in &dtypes {
                    let assigned = assignment.iter().map(|(_, dtype)| *dtype).collect::<Vec<_>>();
                    for within in setting.within(assignment) {
                        let search = Search::new(op, kernel, setting.tuning, assignment, &within)?;
                        found.extend(search.values().into_iter().map(|values| Instance {
                            space: setting.space,
                            dtypes: assigned.clone(),
                            values,
                        }));
                    }
                    if found.len() > MOST {
                        return Err(HostError::TooMany { entry: kernel.entry.value.clone(), most: MOST });
                    }
                }
            }
            Ok(found)
        })
        .collect()
}

/// Every choice of a dtype for each type variable, in file order.
fn assignments(op: &OpSpec) -> Vec<Vec<(PythonName, Dtype)>> {
    op.dtypes.iter().fold(vec![vec![]], |partial, variable| {
        let with = |chosen: &Vec<(PythonName, Dtype)>, dtype: Dtype| {
            let mut chosen = chosen.clone();
            chosen.push((variable.name.value.clone(), dtype));
            chosen
        };
        partial
            .iter()
            .flat_map(|chosen| variable.dtypes.iter().map(|dtype| with(chosen, *dtype)).collect::<Vec<_>>())
            .collect()
    })
}

/// One kernel under one setting and one choice of dtypes.
struct Search {
    values: Vec<Program>,
    /// Conditions that nothing decides but what decides the values.
    near: Vec<Program>,
    /// The others.
    far: Vec<Program>,
    /// The numbers that each place is tried with.
    near_slots: Vec<(usize, Lengths)>,
    far_slots: Vec<(usize, Vec<i64>)>,
    slots: usize,
}

/// Lengths to try: a few first, so that what is common is known soon, then all.
struct Lengths {
    few: Vec<i64>,
    all: Vec<i64>,
}

impl Search {
    fn new(
        op: &OpSpec,
        kernel: &Kernel,
        tuning: &Tuning,
        dtypes: &[(PythonName, Dtype)],
        within: &Within,
    ) -> Result<Self, HostError> {
        let dtypes: BTreeMap<PythonName, Dtype> = dtypes.iter().cloned().collect();
        let (known, tried) = known(op, tuning, &dtypes, within);
        let program = |expr: &Expr| {
            Program::of(expr, &known).ok_or_else(|| HostError::Undecided {
                expression: expr.to_string(),
                entry: kernel.entry.value.clone(),
            })
        };
        let mut values = vec![];
        for argument in &kernel.template {
            if let TemplateArgument::Value(value) = argument {
                values.push(program(value.tree())?);
            }
        }
        let mut near_places: Vec<usize> = values.iter().flat_map(Program::slots).collect();
        near_places.sort_unstable();
        near_places.dedup();
        let conditions = match &kernel.when {
            Some(when) => program(when.tree())?.conditions(),
            None => vec![],
        };
        let is_near = |condition: &Program| condition.slots().iter().all(|slot| near_places.contains(slot));
        let (near, far): (Vec<_>, Vec<_>) = conditions.into_iter().partition(is_near);
        let mut far_places: Vec<usize> = far.iter().flat_map(Program::slots).collect();
        far_places.sort_unstable();
        far_places.dedup();
        far_places.retain(|place| !near_places.contains(place));
        let several = near_places.len() > 1;
        let near_slots =
            near_places.into_iter().map(|place| (place, tried[place].near(several))).collect::<Vec<_>>();
        let many = far_places.len();
        let far_slots = far_places.into_iter().map(|place| (place, tried[place].far(many))).collect();
        Ok(Self { values, near, far, near_slots, far_slots, slots: tried.len() })
    }

    /// Every tuple of template values for which the kernel runs with some lengths.
    fn values(&self) -> BTreeSet<Vec<i64>> {
        let mut found = BTreeSet::new();
        let mut numbers = vec![1i64; self.slots];
        self.walk(0, false, &mut numbers, &mut found);
        self.walk(0, true, &mut numbers, &mut found);
        found
    }

    fn walk(&self, at: usize, all: bool, numbers: &mut [i64], found: &mut BTreeSet<Vec<i64>>) {
        if found.len() > MOST {
            return;
        }
        let Some((place, lengths)) = self.near_slots.get(at) else { return self.visit(numbers, found) };
        for length in if all { &lengths.all } else { &lengths.few } {
            numbers[*place] = *length;
            self.walk(at + 1, all, numbers, found);
        }
    }

    fn visit(&self, numbers: &mut [i64], found: &mut BTreeSet<Vec<i64>>) {
        let Some(values) = self.values.iter().map(|value| value.run(numbers)).collect::<Option<Vec<_>>>()
        else {
            return;
        };
        let holds =
            |condition: &Program, numbers: &[i64]| condition.run(numbers).is_some_and(|truth| truth != 0);
        if found.contains(&values) || !self.near.iter().all(|condition| holds(condition, numbers)) {
            return;
        }
        if self.can_hold(0, numbers) {
            found.insert(values);
        }
    }

    /// Whether the other conditions hold for some numbers of what only they speak of.
    fn can_hold(&self, at: usize, numbers: &mut [i64]) -> bool {
        let Some((place, lengths)) = self.far_slots.get(at) else {
            return self.far.iter().all(|condition| condition.run(numbers).is_some_and(|truth| truth != 0));
        };
        lengths.iter().any(|length| {
            numbers[*place] = *length;
            self.can_hold(at + 1, numbers)
        })
    }
}

/// What a place stands for.
enum Tried {
    Axis {
        least: i64,
        greatest: i64,
        step: i64,
    },
    /// False or true; whether an optional input is there.
    Truth,
    /// A whole number that the caller passes.
    Number(i64),
}

impl Tried {
    /// The numbers that decide template arguments.
    fn near(&self, several: bool) -> Lengths {
        if several {
            let some = self.some();
            return Lengths { few: self.corners(), all: some };
        }
        match self {
            Self::Axis { least, greatest, step } => {
                let dense = (1..=65_536).chain((65_536..=262_144).step_by(8));
                let all =
                    dense.map(|number| number * step).filter(|number| (*least..=*greatest).contains(number));
                Lengths { few: self.some(), all: all.collect() }
            }
            _ => Lengths { few: self.some(), all: self.some() },
        }
    }

    /// The numbers that only conditions speak of.
    fn far(&self, many: usize) -> Vec<i64> {
        match many {
            0 | 1 => self.some(),
            2 => self.corners(),
            // Conditions on several lengths are about their product.
            _ => self.fit([0, 1, 2, 8, 64, 1 << 10, 1 << 16, 1 << 24, 1 << 31].into_iter(), 16),
        }
    }

    /// Small numbers, multiples, and powers of two with their neighbors.
    fn some(&self) -> Vec<i64> {
        let small = (0..=128).chain((136..=1_024).step_by(8)).chain((1_088..=16_384).step_by(64));
        let powers = (11..=31).flat_map(|power| [-1, 0, 1].map(|by| (1i64 << power) + by));
        self.fit(small.chain(powers), 128)
    }

    /// Fewer of them.
    fn corners(&self) -> Vec<i64> {
        let powers = (2..=31).flat_map(|power| [-1, 0, 1].map(|by| (1i64 << power) + by));
        self.fit([0, 1, 2].into_iter().chain(powers), 16)
    }

    /// Those that it may be, and `edge` at each end of a range, so that it has every remainder of a division, however narrow
    /// it is.
    fn fit(&self, numbers: impl Iterator<Item = i64>, edge: i64) -> Vec<i64> {
        match self {
            Self::Truth => vec![0, 1],
            Self::Number(number) => vec![*number],
            Self::Axis { least, greatest, step } => {
                let ends = [least / step * step]
                    .into_iter()
                    .chain((*greatest < i64::MAX).then(|| greatest / step * step));
                let edges = ends.flat_map(|end| (-edge..=edge).map(move |by| end.saturating_add(by * step)));
                let multiples = numbers.flat_map(|number| [number * step, number / step * step]).chain(edges);
                let inside = multiples.filter(|number| (*least..=*greatest).contains(number));
                inside.collect::<BTreeSet<_>>().into_iter().collect()
            }
        }
    }
}

/// What every name is worth, and what the places are tried with.
fn known<'a>(
    op: &'a OpSpec,
    tuning: &'a Tuning,
    dtypes: &'a BTreeMap<PythonName, Dtype>,
    within: &Within,
) -> (Known<'a>, Vec<Tried>) {
    let mut values: BTreeMap<&PythonName, Value> =
        tuning.iter().map(|(name, value)| (name, *value)).collect();
    let (mut slots, mut tried) = (BTreeMap::new(), vec![]);
    let mut place = |name, what| {
        slots.insert(name, tried.len());
        tried.push(what);
    };
    for scalar in &op.scalars {
        match scalar.default.value {
            ScalarValue::Bool(_) => place(&scalar.name.value, Tried::Truth),
            ScalarValue::Int(number) => place(&scalar.name.value, Tried::Number(number)),
            ScalarValue::Float(_) => {}
        }
    }
    for input in op.inputs.iter().filter(|input| input.optional) {
        place(&input.tensor.name.value, Tried::Truth);
    }
    for axis in &op.axes {
        match axis.kind {
            AxisKind::Const(length) => {
                values.insert(&axis.name.value, Value::Integer(i64::try_from(length).unwrap_or(i64::MAX)));
            }
            AxisKind::Var { multiple_of, .. } => {
                let [mut least, mut greatest] = bounds(axis);
                if let Some(range) = within.get(&axis.name.value) {
                    let [from, to] = range.map(|length| i64::try_from(length).unwrap_or(i64::MAX));
                    (least, greatest) = (least.max(from), greatest.min(to));
                }
                let step = i64::try_from(multiple_of).unwrap_or(1);
                place(&axis.name.value, Tried::Axis { least, greatest, step });
            }
        }
    }
    let inputs = op.inputs.iter().map(|input| &input.tensor);
    let tensors = inputs.chain(op.outputs.iter().map(|output| &output.tensor));
    let shapes = tensors.map(|tensor| {
        let axes = tensor.shape.iter();
        let trees =
            axes.map(|axis| Expr { kind: ExprKind::Name(axis.value.clone()), span: axis.span.clone() });
        (&tensor.name.value, trees.collect())
    });
    (Known { values, dtypes, slots, shapes: shapes.collect() }, tried)
}

/// The least and the greatest length of an axis.
pub(super) fn bounds(axis: &Axis) -> [i64; 2] {
    let number = |length: u64| i64::try_from(length).unwrap_or(i64::MAX);
    match axis.kind {
        AxisKind::Const(length) => [number(length); 2],
        AxisKind::Var { min, max, .. } => [number(min.unwrap_or(0)), max.map_or(i64::MAX, number)],
    }
}

/// The instance as C++: `soft::held<float, 128, true>`, in its set of macros.
pub(super) fn spelled(kernel: &Kernel, op: &OpSpec, instance: &Instance, space: &str) -> String {
    let variables: Vec<_> = op.dtypes.iter().map(|variable| &variable.name.value).collect();
    let mut values = instance.values.iter();
    let arguments = kernel.template.iter().map(|argument| match argument {
        TemplateArgument::Type(TensorDtype::Fixed(dtype)) => dtype.cuda_name().to_owned(),
        TemplateArgument::Type(TensorDtype::Variable(name)) => {
            let place = variables.iter().position(|variable| *variable == name).unwrap_or_default();
            instance.dtypes[place].cuda_name().to_owned()
        }
        TemplateArgument::Value(value) => {
            let number = values.next().copied().unwrap_or_default();
            match value {
                crate::spec::expr::ValueExpr::Integer(_) => number.to_string(),
                crate::spec::expr::ValueExpr::Boolean(_) => (number != 0).to_string(),
            }
        }
    });
    let arguments: Vec<String> = arguments.collect();
    let entry = &kernel.entry.value;
    if arguments.is_empty() {
        format!("{space}{entry}")
    } else {
        format!("{space}{entry}<{}>", arguments.join(", "))
    }
}
