//! Makes sums over all axes of what is itself reduced in two steps, so that one kernel can do the inner one.
//!
//! Owns: that change of a program. Never: changes a result.

use super::program::{Kind, Program, Reduction, Value, ValueId};

/// A sum over rows and columns, of elements that need a number of their row, becomes one over columns, and one over rows.
pub(super) fn split(program: &Program) -> Program {
    let mut values: Vec<Value> = Vec::new();
    let mut new: Vec<ValueId> = Vec::new();
    for value in &program.values {
        let (whole, mut value) = (value, value.clone());
        let renamed = |of: ValueId| new[of];
        match &mut value.kind {
            Kind::Pointwise(_, of) => of.iter_mut().for_each(|one| *one = renamed(*one)),
            Kind::View(of, _) | Kind::Scan(_, of, _) => *of = renamed(*of),
            Kind::Gather(of, _, by) => {
                *of = renamed(*of);
                by.iter_mut().for_each(|one| *one = renamed(*one));
            }
            Kind::Reduce(how, of, axes) => {
                *of = renamed(*of);
                if let Some(inner) = inner_axes(&values, *of, axes).filter(|_| is_of_parts(*how)) {
                    let outer: Vec<usize> =
                        axes.iter().filter(|axis| !inner.contains(axis)).copied().collect();
                    let shape = values[*of].shape.iter().enumerate();
                    let left =
                        shape.filter(|(axis, _)| !inner.contains(axis)).map(|(_, length)| length.clone());
                    let first = Value {
                        kind: Kind::Reduce(*how, *of, inner.clone()),
                        shape: left.collect(),
                        ..whole.clone()
                    };
                    values.push(first);
                    // Axes behind those that are gone have lower numbers.
                    let moved = |axis: &usize| axis - inner.iter().filter(|gone| *gone < axis).count();
                    value.kind = Kind::Reduce(*how, values.len() - 1, outer.iter().map(moved).collect());
                }
            }
            Kind::Input(_) | Kind::Number(_) | Kind::Quantity(_) | Kind::Place(_) => {}
        }
        values.push(value);
        new.push(values.len() - 1);
    }
    let outputs = program.outputs.iter().map(|(tensor, value)| (tensor.clone(), new[*value])).collect();
    let mut concatenations = program.concatenations.clone();
    for one in concatenations.values_mut() {
        one.pieces.iter_mut().for_each(|(piece, _)| *piece = new[*piece]);
    }
    let concatenations = concatenations.into_iter().map(|(value, one)| (new[value], one)).collect();
    Program { values, outputs, concatenations, ..program.clone() }
}

/// Whether what parts come to gives the whole.
fn is_of_parts(how: Reduction) -> bool {
    !how.is_place() && !matches!(how, Reduction::Mean | Reduction::Squares)
}

/// The axes of a reduction that elements depend on, if they are some of these axes and not all.
fn inner_axes(values: &[Value], of: ValueId, axes: &[usize]) -> Option<Vec<usize>> {
    let mut pending = vec![of];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(next) = pending.pop() {
        if !seen.insert(next) {
            continue;
        }
        match &values[next].kind {
            Kind::Reduce(_, source, inner) => {
                let same = values[*source].shape == values[of].shape;
                let some = inner.len() < axes.len() && inner.iter().all(|axis| axes.contains(axis));
                return (same && some).then(|| inner.clone());
            }
            Kind::Pointwise(_, of) => pending.extend(of),
            Kind::View(of, _) | Kind::Scan(_, of, _) => pending.push(*of),
            Kind::Gather(of, _, by) => {
                pending.push(*of);
                pending.extend(by);
            }
            Kind::Input(_) | Kind::Number(_) | Kind::Quantity(_) | Kind::Place(_) => {}
        }
    }
    None
}
