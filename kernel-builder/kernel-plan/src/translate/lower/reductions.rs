//! Operators that make one number of many, and scans.
//!
//! Owns: their meaning. Never: a sum of more than one kind; composite.rs has those.

use super::super::length::Length;
use super::super::program::{Class, Kind, Op, Reduction, ValueId};
use super::super::refusal::Refusal;
use super::super::traced::Argument;
use super::call::Call;
use super::lowering::Lowering;

/// The values of an operator of this file.
pub(super) fn meaning(of: &mut Lowering, name: &str, call: &Call) -> Result<Option<Vec<ValueId>>, Refusal> {
    let base = name.split('.').next().unwrap_or(name);
    let how = match base {
        "sum" | "mean" => Reduction::Sum,
        "amax" | "max" | "any" => Reduction::Largest,
        "amin" | "min" | "all" => Reduction::Smallest,
        "prod" => Reduction::Product,
        "argmax" => Reduction::PlaceOfLargest,
        "argmin" => Reduction::PlaceOfSmallest,
        "cumsum" | "cumprod" => return scan(of, base, call).map(|one| Some(vec![one])),
        _ => return Ok(None),
    };
    // `max.other` and `min.other` are the larger and the smaller of two tensors.
    if name.ends_with(".other") {
        return Err(Refusal::operator(name));
    }
    let mut operand = of.operand(call.at(0))?;
    let wanted = if base == "mean" { Class::Float } else { Class::Integer };
    let class = of.class(operand).max(wanted);
    operand = of.convert(operand, class);
    // The sum of integers as a float: `dtype=` says so.
    if call.results.first().copied() == Some(Class::Float) && matches!(base, "sum" | "prod") {
        operand = of.convert(operand, Class::Float);
    }
    let shape = of.shape(operand);
    if how.is_place() {
        return place(of, how, call, operand).map(|one| Some(vec![one]));
    }
    let axes = if name.ends_with(".default") && !matches!(base, "amax" | "amin") {
        (0..shape.len()).collect()
    } else {
        call.axes(1, "dim", shape.len())?
    };
    let keep = call.flag(2, "keepdim");
    let found = of.reduce(how, operand, &axes, keep)?;
    let mut found = vec![found];
    if base == "mean" {
        let count = of.count(operand, &axes);
        found[0] = of.floats(Op::Divide, &[found[0], count])?;
    }
    // Of `max.dim` the places, too.
    if call.shapes.len() == 2 {
        let how =
            if how == Reduction::Largest { Reduction::PlaceOfLargest } else { Reduction::PlaceOfSmallest };
        found.push(of.reduce(how, operand, &axes, keep)?);
    }
    Ok(Some(found))
}

fn place(of: &mut Lowering, how: Reduction, call: &Call, operand: ValueId) -> Result<ValueId, Refusal> {
    let shape = of.shape(operand);
    if of.class(operand) != Class::Float {
        return Err(Refusal::new("the place of an integer has no translation"));
    }
    if matches!(call.get(1, "dim"), Argument::Absent) {
        let flat = of.reshaped(operand, vec![Length::product(&shape)])?;
        let found = of.reduce(how, flat, &[0], false)?;
        return of.reshaped(found, call.shape()?);
    }
    let axis = call.axis(1, "dim", shape.len())?;
    of.reduce(how, operand, &[axis], call.flag(2, "keepdim"))
}

fn scan(of: &mut Lowering, base: &str, call: &Call) -> Result<ValueId, Refusal> {
    let operand = of.operand(call.at(0))?;
    let shape = of.shape(operand);
    let axis = call.axis(1, "dim", shape.len())?;
    let class = call.results.first().copied().unwrap_or(Class::Float).max(Class::Integer);
    let operand = of.convert(operand, class);
    let how = if base == "cumsum" { Reduction::Sum } else { Reduction::Product };
    if shape.is_empty() {
        return Ok(operand);
    }
    Ok(of.value(Kind::Scan(how, operand, axis), shape, class))
}
