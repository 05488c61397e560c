//! Which instances of its kernels a launcher needs that is compiled ahead of time.
//!
//! Owns: the questions to `length-search`, which has the lengths that are tried. Never: leaves out an instance for lengths
//! that were tried.
//!
//! `[launch]` says template arguments as expressions over lengths. Which values they take is found by trying lengths: all up
//! to 65536 where one axis decides, or two of which one makes few differences, such as a limit for many rows; otherwise a
//! choice of them where several decide (the more axes, the fewer of each); and for the axes that only conditions speak of,
//! small ones and the powers of two with their neighbors. A kernel whose arguments never change has its instance without a
//! search if its condition speaks of three axes or more. A launcher that meets a call without an instance says so by name.

use std::collections::{BTreeMap, BTreeSet};

use length_search::{Search, Tried};

use crate::spec::expr::{Expr, ExprKind, Value};
use crate::spec::launch::{Kernel, Launch, TemplateArgument};
use crate::spec::op::{Axis, AxisKind, OpSpec, ScalarValue, TensorDtype};
use crate::spec::tune::Tuning;
use crate::units::{Dtype, PythonName};

use super::error::HostError;
use super::program::{ProgramScope, program};
use super::settings::RangeSettings;

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

/// Which lengths the axes have.
#[derive(Debug, Default)]
struct Within {
    /// The least and the greatest length of some of them.
    ranges: BTreeMap<PythonName, [u64; 2]>,
    /// Their lengths are multiples of these, for some of them.
    multiples: BTreeMap<PythonName, u64>,
}

impl Setting<'_> {
    /// Which lengths calls with these dtypes have.
    fn within(&self, dtypes: &[(PythonName, Dtype)]) -> Vec<Within> {
        let Some(ranges) = &self.ranges else { return vec![Within::default()] };
        let is_for = |range: &&&RangeSettings| {
            dtypes.iter().all(|(name, dtype)| range.dtypes.get(name).is_none_or(|known| known == dtype))
        };
        let within = |range: &&RangeSettings| Within {
            ranges: range.axes.clone(),
            multiples: range.multiples.clone(),
        };
        ranges.iter().filter(is_for).map(within).collect()
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
            let mut done: Vec<(Search, BTreeSet<Vec<i64>>)> = vec![];
            for setting in settings {
                for assignment in &dtypes {
                    let assigned = assignment.iter().map(|(_, dtype)| *dtype).collect::<Vec<_>>();
                    for within in setting.within(assignment) {
                        let search = search(op, kernel, setting.tuning, assignment, &within)?;
                        // Most choices of dtypes differ in nothing that the expressions ask for.
                        let place =
                            done.iter().position(|(known, _)| *known == search).unwrap_or_else(|| {
                                let values = search.values(MOST);
                                done.push((search, values));
                                done.len() - 1
                            });
                        found.extend(done[place].1.iter().map(|values| Instance {
                            space: setting.space,
                            dtypes: assigned.clone(),
                            values: values.clone(),
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

/// The search for one kernel under one setting and one choice of dtypes.
fn search(
    op: &OpSpec,
    kernel: &Kernel,
    tuning: &Tuning,
    dtypes: &[(PythonName, Dtype)],
    within: &Within,
) -> Result<Search, HostError> {
    let dtypes: BTreeMap<PythonName, Dtype> = dtypes.iter().cloned().collect();
    let (known, tried) = known(op, tuning, &dtypes, within);
    let program = |expr: &Expr| {
        program(expr, &known).ok_or_else(|| HostError::Undecided {
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
    let conditions = match &kernel.when {
        Some(when) => program(when.tree())?.conditions(),
        None => vec![],
    };
    Ok(Search::new(values, conditions, &tried))
}

/// What every name is worth, and what the places are tried with.
fn known<'a>(
    op: &'a OpSpec,
    tuning: &'a Tuning,
    dtypes: &'a BTreeMap<PythonName, Dtype>,
    within: &Within,
) -> (ProgramScope<'a>, Vec<Tried>) {
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
                if let Some(range) = within.ranges.get(&axis.name.value) {
                    let [from, to] = range.map(|length| i64::try_from(length).unwrap_or(i64::MAX));
                    (least, greatest) = (least.max(from), greatest.min(to));
                }
                let of = within.multiples.get(&axis.name.value).copied().unwrap_or(1);
                // Both are met by a multiple of the greater one where it is one of the other; else one of them is enough.
                let (more, less) = (multiple_of.max(of), multiple_of.min(of));
                let both = if more.is_multiple_of(less) { more } else { multiple_of };
                let step = i64::try_from(both).unwrap_or(1);
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
    (ProgramScope { values, dtypes, slots, shapes: shapes.collect() }, tried)
}

/// The least and the greatest length of an axis.
pub(super) fn bounds(axis: &Axis) -> [i64; 2] {
    let number = |length: u64| i64::try_from(length).unwrap_or(i64::MAX);
    match axis.kind {
        AxisKind::Const(length) => [number(length); 2],
        AxisKind::Var { min, max, .. } => [number(min.unwrap_or(0)), max.map_or(i64::MAX, number)],
    }
}

/// The instance as C++: `softmax::held<float, 128, true>`, in its set of macros.
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
