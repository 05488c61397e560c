//! Operators that write elements into a copy of a tensor, as gradients of views do.
//!
//! Owns: their meaning, as a choice at every place of the copy. Never: writes a place twice.

use super::super::index::{Index, Part};
use super::super::length::Length;
use super::super::program::{Class, Op, ValueId};
use super::super::refusal::Refusal;
use super::super::traced::Argument;
use super::call::Call;
use super::lowering::Lowering;
use super::views::{along, begin, gathered, identity};

/// More elements than this along the axis are not compared with every place.
const MOST_PLACES: i64 = 8;

/// The value of an operator of this file.
pub(super) fn meaning(of: &mut Lowering, name: &str, call: &Call) -> Result<Option<ValueId>, Refusal> {
    let base = name.split('.').next().unwrap_or(name);
    let found = match base {
        "slice_scatter" => slice(of, call)?,
        "select_scatter" => select(of, call)?,
        "scatter" | "scatter_add" => scatter(of, base == "scatter_add", call)?,
        _ => return Ok(None),
    };
    Ok(Some(found))
}

/// `source` where a condition holds, else the copy.
fn chosen(of: &mut Lowering, condition: ValueId, source: ValueId, copy: ValueId) -> Result<ValueId, Refusal> {
    let class = of.class(copy).max(of.class(source));
    let (source, copy) = (of.convert(source, class), of.convert(copy, class));
    of.pointwise(Op::Choose, &[condition, source, copy], class)
}

fn slice(of: &mut Lowering, call: &Call) -> Result<ValueId, Refusal> {
    let (copy, source) = (of.operand(call.at(0))?, of.operand(call.at(1))?);
    let shape = of.shape(copy);
    let axis = match call.get(2, "dim") {
        Argument::Absent => 0,
        _ => call.axis(2, "dim", shape.len())?,
    };
    let length = of.shape(source)[axis].clone();
    let step = call.whole_or(5, "step", 1)?;
    let start = begin(of, call.get(3, "start"), &shape[axis])?;
    if step == 1 && length == shape[axis] {
        return Ok(source);
    }
    let place = along(of, &shape, axis);
    let (first, zero, count) = (of.whole(&start), of.number(0.0, Class::Integer), of.whole(&length));
    let mut at = of.pointwise(Op::Subtract, &[place, first], Class::Integer)?;
    let mut inside = of.pointwise(Op::GreaterEqual, &[at, zero], Class::Boolean)?;
    if step > 1 {
        let by = of.whole(&Length::number(step));
        let rest = of.pointwise(Op::Remainder, &[at, by], Class::Integer)?;
        let is_whole = of.pointwise(Op::Equal, &[rest, zero], Class::Boolean)?;
        inside = of.pointwise(Op::And, &[inside, is_whole], Class::Boolean)?;
        at = of.pointwise(Op::FloorDivide, &[at, by], Class::Integer)?;
    }
    let before_end = of.pointwise(Op::Less, &[at, count], Class::Boolean)?;
    inside = of.pointwise(Op::And, &[inside, before_end], Class::Boolean)?;
    let mut index = identity(shape.len());
    index[axis] = Index::part(Part::Computed(0));
    let moved = gathered(of, source, shape, index, &[(at, axis)])?;
    chosen(of, inside, moved, copy)
}

fn select(of: &mut Lowering, call: &Call) -> Result<ValueId, Refusal> {
    let (copy, source) = (of.operand(call.at(0))?, of.operand(call.at(1))?);
    let shape = of.shape(copy);
    let axis = call.axis(2, "dim", shape.len())?;
    let at = begin(of, call.at(3), &shape[axis])?;
    let (place, at) = (along(of, &shape, axis), of.whole(&at));
    let is_it = of.pointwise(Op::Equal, &[place, at], Class::Boolean)?;
    let mut wide = of.shape(source);
    wide.insert(axis, Length::number(1));
    let source = of.reshaped(source, wide)?;
    chosen(of, is_it, source, copy)
}

/// Elements at computed places along an axis. Each place of the copy is compared with all of them, so there may be few.
fn scatter(of: &mut Lowering, adds: bool, call: &Call) -> Result<ValueId, Refusal> {
    let (mut copy, index) = (of.operand(call.at(0))?, of.operand(call.at(2))?);
    let source = of.operand(call.at(3))?;
    let shape = of.shape(copy);
    let axis = call.axis(1, "dim", shape.len())?;
    let own = of.shape(index);
    let count = own[axis].value().filter(|count| (0..=MOST_PLACES).contains(count));
    let fits = own.iter().zip(&shape).enumerate().all(|(one, (own, whole))| one == axis || own == whole);
    let (Some(count), true) = (count, fits) else {
        return Err(Refusal::new(format!(
            "writing to computed places has a translation for up to {MOST_PLACES} along an axis"
        )));
    };
    let index = of.convert(index, Class::Integer);
    let place = along(of, &shape, axis);
    let mut narrow = own.clone();
    narrow[axis] = Length::number(1);
    for number in 0..count {
        let mut at = identity(own.len());
        at[axis] = Index::length(Length::number(number));
        let one = of.view(index, narrow.clone(), at.clone());
        let is_here = of.pointwise(Op::Equal, &[place, one], Class::Boolean)?;
        let given = if of.shape(source).is_empty() { source } else { of.view(source, narrow.clone(), at) };
        let mut new = given;
        if adds {
            let class = of.class(copy).max(of.class(given));
            let (copy, given) = (of.convert(copy, class), of.convert(given, class));
            new = of.pointwise(Op::Add, &[copy, given], class)?;
        }
        copy = chosen(of, is_here, new, copy)?;
    }
    Ok(copy)
}
