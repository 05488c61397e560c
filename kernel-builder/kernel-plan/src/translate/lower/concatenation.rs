//! Tensors one behind the other.
//!
//! Owns: what a concatenation is. Never: which kernel writes it; pieces.rs decides that.

use super::super::index::{Index, Part};
use super::super::length::Length;
use super::super::pieces::fit;
use super::super::program::{Class, Concatenation, Kind, Op, Reduction, ValueId};
use super::super::refusal::Refusal;
use super::super::traced::Argument;
use super::call::Call;
use super::lowering::Lowering;
use super::views::{along, gathered, identity};

/// The value of an operator of this file.
pub(super) fn meaning(of: &mut Lowering, name: &str, call: &Call) -> Result<Option<ValueId>, Refusal> {
    match name.split('.').next() {
        Some("cat") => cat(of, call).map(Some),
        _ => Ok(None),
    }
}

fn cat(of: &mut Lowering, call: &Call) -> Result<ValueId, Refusal> {
    let Argument::List(all) = call.at(0) else { return Err(Refusal::new("a concatenation of one tensor")) };
    let shape = call.shape()?;
    let axis = match call.get(1, "dim") {
        Argument::Absent => 0,
        _ => call.axis(1, "dim", shape.len())?,
    };
    let mut values = Vec::new();
    for one in all {
        values.push(of.operand(one)?);
    }
    let Some(scanned) = scanned_with(of, &mut values, axis) else {
        return concatenated(of, &values, shape, axis);
    };
    let whole = concatenated(of, &values, shape.clone(), axis)?;
    let class = of.class(whole);
    Ok(of.value(Kind::Scan(scanned, whole, axis), shape, class))
}

/// Makes of zeros before a running sum, or of ones before a running product, what is scanned: the scan of all of that is the same.
fn scanned_with(of: &Lowering, values: &mut [ValueId], axis: usize) -> Option<Reduction> {
    let (last, before) = values.split_last_mut()?;
    let Kind::Scan(how, source, along) = of.values[*last].kind else { return None };
    let neutral = match how {
        Reduction::Sum => 0.0,
        Reduction::Product => 1.0,
        _ => return None,
    };
    let fits = along == axis && !before.is_empty();
    if !fits || before.iter().any(|one| constant(of, *one) != Some(neutral)) {
        return None;
    }
    *last = source;
    Some(how)
}

/// The number that all elements of a value are.
fn constant(of: &Lowering, value: ValueId) -> Option<f64> {
    match &of.values[value].kind {
        Kind::Number(number) => Some(*number),
        Kind::View(source, _) => constant(of, *source),
        Kind::Pointwise(Op::ToFloat, operands) => constant(of, operands[0]),
        _ => None,
    }
}

/// Tensors one behind the other.
fn concatenated(
    of: &mut Lowering,
    values: &[ValueId],
    shape: Vec<Length>,
    axis: usize,
) -> Result<ValueId, Refusal> {
    let place = along(of, &shape, axis);
    let (mut pieces, mut parts, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    let mut start = Length::default();
    let mut class = Class::Boolean;
    for value in values.iter().copied() {
        let length = of.shape(value)[axis].clone();
        let begin = of.whole(&start);
        let at = of.pointwise(Op::Subtract, &[place, begin], Class::Integer)?;
        let mut index = identity(shape.len());
        index[axis] = Index::part(Part::Computed(0));
        let piece = gathered(of, value, shape.clone(), index, &[(at, axis)])?;
        class = class.max(of.class(piece));
        parts.push((value, start.clone()));
        lengths.push(length.clone());
        start = &start + &length;
        pieces.push((piece, start.clone()));
    }
    let Some((last, _)) = pieces.pop() else { return Err(Refusal::new("a concatenation of nothing")) };
    let mut whole = of.convert(last, class);
    for (piece, end) in pieces.into_iter().rev() {
        let (piece, end) = (of.convert(piece, class), of.whole(&end));
        let is_before = of.pointwise(Op::Less, &[place, end], Class::Boolean)?;
        whole = of.pointwise(Op::Choose, &[is_before, piece, whole], class)?;
    }
    if fit(&lengths) {
        let pieces = parts.into_iter().map(|(part, start)| (of.convert(part, class), start)).collect();
        of.concatenations.insert(whole, Concatenation { axis, pieces });
    }
    Ok(whole)
}
