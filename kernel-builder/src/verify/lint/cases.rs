//! Which cases are linted, at which size, with which inputs.
//!
//! Owns: what stands for what: one size for workloads that differ in nothing else, one dtype for all of a workload; how
//! far lengths are cut. Pure. Never: judges a value.

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::{Axis, AxisKind, Case, Device, Output, Purpose, Workload};
use kernel_plan::units::Dtype;

use super::super::bound::{Bound, unit_roundoff};
use super::super::schedule::{self, Change, InputSet, ScheduledCase, TensorSpec};

/// Elements of all tensors of a case together, up to which it is computed at its real size.
const BUDGET: u64 = 5 << 17;
/// An axis is not cut below this length as long as another can be.
const SHORTEST: u64 = 64;
/// Input sets for a case, and for one whose smallest output has so few elements that chance could decide.
const SEEDS: usize = 5;
const SEEDS_OF_FEW: usize = 16;
const FEW: u64 = 64;
/// Changed sets for each input and scalar, and where outputs have few elements.
const CHANGED: usize = 2;
const CHANGED_OF_FEW: usize = 8;
/// Cases that relations are looked for in: those of the first workloads.
const RELATED: usize = 2;

/// A case that is computed, and all that it stands for.
pub(super) struct Linted {
    pub scheduled: ScheduledCase,
    /// What each set is for.
    pub roles: Vec<Role>,
    /// The cases that it stands for, the coarsest dtypes first.
    pub stands_for: Vec<StandsFor>,
    /// The axes of each output.
    pub axes: Vec<Vec<String>>,
}

/// A case that is judged by the values of another, or its own.
pub(super) struct StandsFor {
    pub id: String,
    /// The bounds of its outputs.
    pub bounds: Vec<Bound>,
    /// The lengths that were cut, where any were.
    pub cut: Option<String>,
}

/// What a set of inputs is for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Role {
    /// Values of their own.
    Plain,
    /// Those of a plain set, but for one input.
    Input { of: usize, input: usize },
    /// Those of a plain set, but for one scalar.
    Scalar { of: usize, scalar: String },
    /// Those of a plain set, with the values of one input shuffled along an axis that the outputs do not have.
    Shuffled { of: usize, input: usize, axis: String },
    /// Those of the first plain set, changed so that a relation shows.
    Related { relation: Relation },
}

/// What may hold between the outputs at two sets of inputs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Relation {
    /// An axis runs backwards.
    Reversed { axis: String },
    /// An input is multiplied by 4.
    Scaled { input: usize },
    /// 4 is added to an input.
    Shifted { input: usize },
}

/// A power of two, so that scaling rounds nothing.
pub(super) const FACTOR: f64 = 4.0;

/// Every case to lint, those that stand for others once; and the ids of those without elements.
pub(super) fn choose(op: &OpSpec) -> (Vec<Linted>, Vec<String>) {
    let mut chosen: Vec<(Case, Linted)> = Vec::new();
    let mut empty = Vec::new();
    for workload in &op.workloads {
        let (workload, cut) = fitted(op, workload);
        let mut cases = cases_of(op, &workload);
        if cases.iter().any(|case| case.outputs.iter().all(|output| output.elements() == 0)) {
            empty.extend(cases.into_iter().map(|case| case.id));
            continue;
        }
        // The coarsest dtype draws values that every finer one has, too.
        let coarseness = |case: &Case| -> f64 {
            case.inputs.iter().chain(&case.outputs).map(|tensor| unit_roundoff(tensor.dtype)).sum()
        };
        cases.sort_by(|a, b| coarseness(b).total_cmp(&coarseness(a)));
        let stands =
            |case: &Case| StandsFor { id: case.id.clone(), bounds: bounds(op, case), cut: cut.clone() };
        let stands_for: Vec<_> = cases.iter().map(stands).collect();
        let Some(first) = cases.into_iter().next() else { continue };
        let like = |other: &Case| {
            let own = (&first.axes, &first.dtypes, &first.inputs, &first.scalars);
            own == (&other.axes, &other.dtypes, &other.inputs, &other.scalars)
        };
        if let Some((_, same)) = chosen.iter_mut().find(|(other, _)| like(other)) {
            same.stands_for.extend(stands_for);
            continue;
        }
        let place = chosen.len();
        let (scheduled, roles) = scheduled(op, place, &first);
        let named = |output: &Output| output.tensor.shape.iter().map(|axis| axis.value.to_string()).collect();
        let axes = op.outputs.iter().map(named).collect();
        chosen.push((first, Linted { scheduled, roles, stands_for, axes }));
    }
    (chosen.into_iter().map(|(_, linted)| linted).collect(), empty)
}

fn bounds(op: &OpSpec, case: &Case) -> Vec<Bound> {
    let (accumulate, roundings) = (op.tolerance.accumulate.value, op.tolerance.roundings.value);
    let of = |dtype: Dtype| Bound::new(dtype, accumulate, roundings, case.accumulated);
    case.outputs.iter().map(|output| of(output.dtype)).collect()
}

/// The cases of one workload, wherever it runs and whatever it is for.
fn cases_of(op: &OpSpec, workload: &Workload) -> Vec<Case> {
    let workload =
        Workload { purposes: vec![Purpose::Verify], devices: vec![Device::Cpu], ..workload.clone() };
    OpSpec { workloads: vec![workload], ..op.clone() }.cases(Purpose::Verify, Device::Cpu)
}

fn elements(case: &Case) -> u64 {
    let tensors = case.inputs.iter().filter(|input| !input.omitted).chain(&case.outputs);
    tensors.fold(0, |sum: u64, tensor| sum.saturating_add(tensor.elements()))
}

/// The workload with axes cut until it fits, and what was cut. Axes that sums run over are cut last, since they decide
/// how large results are.
fn fitted(op: &OpSpec, workload: &Workload) -> (Workload, Option<String>) {
    let mut fitted = workload.clone();
    let summed: Vec<_> =
        op.tolerance.length.tree().names().into_iter().map(|(name, _)| name.clone()).collect();
    loop {
        let largest = cases_of(op, &fitted).iter().map(elements).max().unwrap_or(0);
        if largest <= BUDGET {
            break;
        }
        let shorter = |axis: &Axis| {
            let length = *fitted.axes.get(&axis.name.value)?;
            let AxisKind::Var { multiple_of, min, .. } = axis.kind else { return None };
            // An odd length stays odd.
            let half = (length / 2) | (length % 2);
            let cut =
                (half / multiple_of * multiple_of).max(min.unwrap_or(1).div_ceil(multiple_of) * multiple_of);
            let cut = cut.max(multiple_of);
            let last = (summed.contains(&axis.name.value), length <= SHORTEST);
            (cut < length).then(|| (last, std::cmp::Reverse(length), axis.name.value.clone(), cut))
        };
        let Some((.., name, cut)) = op.axes.iter().filter_map(shorter).min_by_key(|(last, length, ..)| {
            // Long free axes, then long summed ones, then the short of both.
            (last.1, last.0, *length)
        }) else {
            break;
        };
        fitted.axes.insert(name, cut);
    }
    let changed = workload.axes.iter().filter(|(name, length)| fitted.axes.get(*name) != Some(length));
    let changed: Vec<String> =
        changed.map(|(name, length)| format!("{name} {} of {length}", fitted.axes[name])).collect();
    let cut = (!changed.is_empty()).then(|| changed.join(", "));
    (fitted, cut)
}

fn scheduled(op: &OpSpec, place: usize, case: &Case) -> (ScheduledCase, Vec<Role>) {
    let tensors =
        |side: &[_]| side.iter().map(|tensor| TensorSpec::new(tensor, &case.inputs)).collect::<Vec<_>>();
    let (inputs, outputs) = (tensors(&case.inputs), tensors(&case.outputs));
    let smallest = case.outputs.iter().map(|output| output.elements()).min().unwrap_or(0);
    let (seeds, changed) = if smallest < FEW { (SEEDS_OF_FEW, CHANGED_OF_FEW) } else { (SEEDS, CHANGED) };
    let scalars = schedule::scalars_of(case);
    let hard = op.tolerance.cancels;
    let plain = InputSet { scalars: scalars.clone(), hard, ..InputSet::default() };
    let mut sets = vec![plain.clone(); seeds];
    let mut roles = vec![Role::Plain; seeds];
    let passed = |(_, input): &(usize, &TensorSpec)| input.elements() > 0;
    let changes = |change, of| InputSet { edit_of: Some(of), change: Some(change), ..plain.clone() };
    for (input, _) in inputs.iter().enumerate().filter(passed) {
        for of in 0..changed {
            sets.push(changes(Change::Redraw { input }, of));
            roles.push(Role::Input { of, input });
        }
    }
    for (scalar, declared) in case.scalars.iter().zip(&op.scalars) {
        let Some(value) = schedule::another(declared, scalar.value) else { continue };
        let name = scalar.name.to_string();
        for of in 0..changed {
            let mut scalars = scalars.clone();
            scalars.insert(name.clone(), value);
            sets.push(InputSet { edit_of: Some(of), scalars, ..plain.clone() });
            roles.push(Role::Scalar { of, scalar: name.clone() });
        }
    }
    for (input, dimension, axis) in collapsible(op) {
        if inputs[input].elements() > 0 && inputs[input].shape[dimension] > 1 {
            for of in 0..changed {
                sets.push(changes(Change::Shuffle { input, dimension }, of));
                roles.push(Role::Shuffled { of, input, axis: axis.clone() });
            }
        }
    }
    if place < RELATED {
        for (change, relation) in relations(op, &inputs) {
            sets.push(changes(change, 0));
            roles.push(Role::Related { relation });
        }
    }
    let id = case.id.clone();
    let (held_out, accumulated) = (case.held_out, case.accumulated);
    let (gradients, trials, drawn) = (vec![], vec![], false);
    let case =
        ScheduledCase { id, place, inputs, outputs, gradients, held_out, drawn, accumulated, sets, trials };
    (case, roles)
}

/// Inputs with a dimension over which a product with another input is summed away: `[k, n]` beside `[m, k]`, where no
/// output has `n` or `k`. Then each is an input, the dimension of `n`, and its axis.
fn collapsible(op: &OpSpec) -> Vec<(usize, usize, String)> {
    let in_outputs = |axis: &str| {
        op.outputs.iter().any(|output| output.tensor.shape.iter().any(|name| name.value.as_str() == axis))
    };
    let axes: Vec<Vec<&str>> = op
        .inputs
        .iter()
        .map(|input| input.tensor.shape.iter().map(|axis| axis.value.as_str()).collect())
        .collect();
    let mut found = Vec::new();
    for (place, own) in axes.iter().enumerate() {
        for (dimension, axis) in own.iter().enumerate().filter(|(_, axis)| !in_outputs(axis)) {
            let others = || axes.iter().enumerate().filter(|(other, _)| *other != place);
            let alone = others().all(|(_, other)| other.len() < 2 || !other.contains(axis));
            let contracted = own.iter().any(|shared| {
                shared != axis && !in_outputs(shared) && others().any(|(_, other)| other.contains(shared))
            });
            if alone && contracted {
                found.push((place, dimension, (*axis).to_owned()));
            }
        }
    }
    found
}

fn relations(op: &OpSpec, inputs: &[TensorSpec]) -> Vec<(Change, Relation)> {
    let mut found = Vec::new();
    for axis in op.axes.iter().map(|axis| axis.name.value.as_str()) {
        let places: Vec<(usize, usize)> = op
            .inputs
            .iter()
            .enumerate()
            .filter(|(place, _)| inputs[*place].elements() > 0)
            .flat_map(|(place, input)| {
                let dimensions = input.tensor.shape.iter().enumerate();
                dimensions.filter(|(_, name)| name.value.as_str() == axis).map(move |(at, _)| (place, at))
            })
            .collect();
        if places.iter().any(|(place, at)| inputs[*place].shape[*at] > 1) {
            found.push((Change::Reverse { places }, Relation::Reversed { axis: axis.to_owned() }));
        }
    }
    for (input, tensor) in inputs.iter().enumerate() {
        if tensor.elements() > 0 && unit_roundoff(tensor.dtype) > 0.0 {
            found.push((Change::Scale { input, by: FACTOR }, Relation::Scaled { input }));
            found.push((Change::Shift { input, by: FACTOR }, Relation::Shifted { input }));
        }
    }
    found
}

#[cfg(test)]
pub(super) mod tests {
    use kernel_plan::diagnostic::SourceFile;

    use super::*;

    const OP: &str = r#"
        format = 1
        name = "norm"
        [axes]
        rows = { type = "var" }
        hidden = { type = "var", min = 1 }
        [dtypes]
        T = ["f32", "bf16"]
        [inputs]
        x = { shape = ["rows", "hidden"], dtype = "T" }
        weight = { shape = ["hidden"], dtype = "T" }
        [outputs]
        y = { shape = ["rows", "hidden"], dtype = "T" }
        [reference]
        file = "reference.py"
        function = "norm"
        [call]
        function = "norm"
        [tolerance]
        accumulate = "f32"
        length = "hidden"
        roundings = 1
    "#;

    pub(in super::super) fn read(workloads: &str) -> OpSpec {
        let (op, problems) =
            kernel_plan::spec::parse_op(SourceFile::new("op.toml", format!("{OP}{workloads}").as_str()));
        assert!(problems.is_empty(), "{problems:?}");
        op.unwrap()
    }

    fn lengths(workload: &str) -> (Vec<u64>, Option<String>) {
        let (linted, _) = choose(&read(workload));
        (linted[0].scheduled.inputs[0].shape.clone(), linted[0].stands_for[0].cut.clone())
    }

    #[test]
    fn free_axes_are_cut_first_and_odd_lengths_stay_odd() {
        assert_eq!(lengths("[workload.a]\naxes = { rows = 100, hidden = 3000 }"), (vec![100, 3000], None));
        let (shape, cut) = lengths("[workload.a]\naxes = { rows = 4097, hidden = 4096 }");
        assert_eq!((shape, cut.as_deref()), (vec![65, 4096], Some("rows 65 of 4097")));
        let (shape, cut) = lengths("[workload.a]\naxes = { rows = 3, hidden = 1000001 }");
        assert_eq!((shape[0], shape[1] % 2), (3, 1));
        assert!(cut.is_some_and(|cut| cut.starts_with("hidden ")));
    }

    #[test]
    fn what_differs_in_nothing_is_computed_once_in_the_coarsest_dtype() {
        let (linted, empty) = choose(&read(
            "[workload.a]\naxes = { rows = 4096, hidden = 4096 }\n[workload.b]\naxes = { rows = 8192, hidden = 4096 }\n\
             [workload.none]\naxes = { rows = 0, hidden = 8 }",
        ));
        assert_eq!((linted.len(), empty.len()), (1, 2));
        let ids: Vec<_> = linted[0].stands_for.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(ids, ["a/T=bf16", "a/T=f32", "b/T=bf16", "b/T=f32"]);
        assert_eq!(linted[0].scheduled.inputs[0].dtype, Dtype::Bf16);
        assert_eq!(linted[0].stands_for[3].bounds[0].output(), Dtype::F32);
        assert_eq!(linted[0].stands_for[3].cut.as_deref(), Some("rows 64 of 8192"));
    }

    #[test]
    fn chance_decides_nothing_where_outputs_are_small() {
        let plain = |workload: &str| {
            let (linted, _) = choose(&read(workload));
            linted[0].roles.iter().filter(|role| **role == Role::Plain).count()
        };
        assert_eq!(plain("[workload.a]\naxes = { rows = 1, hidden = 1 }"), SEEDS_OF_FEW);
        assert_eq!(plain("[workload.a]\naxes = { rows = 8, hidden = 8 }"), SEEDS);
    }
}
