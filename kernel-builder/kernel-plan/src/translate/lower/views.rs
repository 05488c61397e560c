//! Operators that move elements and compute nothing.
//!
//! Owns: their meaning, as places in their operand. Never: an operator that copies whole tensors for itself.

use super::super::index::{Index, Part};
use super::super::length::Length;
use super::super::program::{Class, Kind, Op, ValueId};
use super::super::refusal::Refusal;
use super::super::traced::Argument;
use super::call::Call;
use super::lowering::Lowering;

pub(super) fn identity(rank: usize) -> Vec<Index> {
    (0..rank).map(Index::axis).collect()
}

/// The value of an operator of this file with one result.
pub(super) fn meaning(of: &mut Lowering, name: &str, call: &Call) -> Result<Option<ValueId>, Refusal> {
    let base = name.split('.').next().unwrap_or(name);
    let found = match base {
        "view" | "_unsafe_view" | "reshape" | "squeeze" | "unsqueeze" | "flatten" => {
            let source = of.operand(call.at(0))?;
            of.reshaped(source, call.shape()?)?
        }
        "expand" => {
            let source = of.operand(call.at(0))?;
            expanded(of, source, call.shape()?)
        }
        "permute" | "transpose" | "t" => permuted(of, base, call)?,
        "select" => {
            let source = of.operand(call.at(0))?;
            let shape = of.shape(source);
            let axis = call.axis(1, "dim", shape.len())?;
            let start = begin(of, call.at(2), &shape[axis])?;
            let mut place = identity(shape.len() - 1);
            place.insert(axis, Index::length(start));
            of.view(source, call.shape()?, place)
        }
        "slice" => {
            let source = of.operand(call.at(0))?;
            let shape = of.shape(source);
            let axis = call.axis(1, "dim", shape.len()).unwrap_or(0);
            let start = begin(of, call.get(2, "start"), &shape[axis])?;
            let step = call.whole_or(4, "step", 1)?;
            let mut place = identity(shape.len());
            place[axis] = place[axis].times(&Length::number(step)).plus(&Index::length(start));
            of.view(source, call.shape()?, place)
        }
        "flip" => {
            let source = of.operand(call.at(0))?;
            let shape = of.shape(source);
            let mut place = identity(shape.len());
            for axis in call.axes(1, "dims", shape.len())? {
                let last = &shape[axis] - &Length::number(1);
                place[axis] = Index::length(last).plus(&place[axis].times(&Length::number(-1)));
            }
            of.view(source, shape, place)
        }
        "repeat" => {
            let source = of.operand(call.at(0))?;
            let (own, shape) = (of.shape(source), call.shape()?);
            let first = shape.len() - own.len();
            let axes = own.iter().enumerate();
            let place =
                axes.map(|(axis, length)| Index::axis(first + axis).remainder(length, &shape)).collect();
            of.view(source, shape, place)
        }
        "diagonal" => diagonal(of, call)?,
        "stack" => return Ok(None),
        "constant_pad_nd" => pad(of, call)?,
        "gather" => {
            let (source, index) = (of.operand(call.at(0))?, of.operand(call.at(2))?);
            let rank = of.shape(source).len();
            let axis = call.axis(1, "dim", rank)?;
            let mut place = identity(rank);
            place[axis] = Index::part(Part::Computed(0));
            gathered(of, source, call.shape()?, place, &[(index, axis)])?
        }
        "index_select" | "embedding" => {
            let (source, index) =
                (of.operand(call.at(0))?, of.operand(call.at(if base == "embedding" { 1 } else { 2 }))?);
            let axis = if base == "embedding" { 0 } else { call.axis(1, "dim", of.shape(source).len())? };
            indexed(of, source, &[(axis, index)], call.shape()?)?
        }
        "index" => {
            let source = of.operand(call.at(0))?;
            let Argument::List(all) = call.at(1) else {
                return Err(Refusal::new("an index that is not a list"));
            };
            let mut by = Vec::new();
            for (axis, one) in all.iter().enumerate().filter(|(_, one)| !matches!(one, Argument::Absent)) {
                by.push((axis, of.operand(one)?));
            }
            indexed(of, source, &by, call.shape()?)?
        }
        _ => return Ok(None),
    };
    Ok(Some(found))
}

/// The values of an operator of this file with several results.
pub(super) fn parts(of: &mut Lowering, name: &str, call: &Call) -> Result<Option<Vec<ValueId>>, Refusal> {
    let base = name.split('.').next().unwrap_or(name);
    if !["split_with_sizes", "split", "chunk", "unbind"].contains(&base) {
        return Ok(None);
    }
    let source = of.operand(call.at(0))?;
    let rank = of.shape(source).len();
    let place = if base == "unbind" { 1 } else { 2 };
    let axis = match call.get(place, "dim") {
        Argument::Absent => 0,
        _ => call.axis(place, "dim", rank)?,
    };
    let mut start = Length::default();
    let mut found = Vec::new();
    for shape in call.shapes.clone() {
        let mut at = identity(shape.len());
        if base == "unbind" {
            at.insert(axis, Index::length(start.clone()));
            start = &start + &Length::number(1);
        } else {
            at[axis] = at[axis].plus(&Index::length(start.clone()));
            start = &start + &shape[axis];
        }
        found.push(of.view(source, shape, at));
    }
    Ok(Some(found))
}

/// Where a slice begins, counted from the end if it is negative. The sign of a length, as in `x[..., -y.shape[-1]:]`, is that
/// of the call that was traced.
pub(super) fn begin(of: &Lowering, argument: &Argument, length: &Length) -> Result<Length, Refusal> {
    match argument {
        Argument::Absent => Ok(Length::default()),
        Argument::Length(start) => {
            let start = of.length(start);
            let traced = of.symbols.iter().map(|symbol| (symbol.name.clone(), symbol.hint)).collect();
            Ok(if start.at(&traced) < 0 { length + &start } else { start })
        }
        _ => Err(Refusal::new("a slice begins at a computed place")),
    }
}

/// Elements repeated along axes that are new or have the length 1.
fn expanded(of: &mut Lowering, source: ValueId, shape: Vec<Length>) -> ValueId {
    let own = of.shape(source);
    let first = shape.len() - own.len();
    let axes = own.iter().enumerate();
    let place = axes
        .map(|(axis, length)| if length.is(1) { Index::default() } else { Index::axis(first + axis) })
        .collect();
    of.view(source, shape, place)
}

fn permuted(of: &mut Lowering, base: &str, call: &Call) -> Result<ValueId, Refusal> {
    let source = of.operand(call.at(0))?;
    let rank = of.shape(source).len();
    let mut order: Vec<usize> = (0..rank).collect();
    match base {
        "t" => order.reverse(),
        "transpose" => order.swap(call.axis(1, "dim0", rank)?, call.axis(2, "dim1", rank)?),
        _ => {
            let Argument::List(all) = call.at(1) else {
                return Err(Refusal::new("an order that is not a list"));
            };
            order = all.iter().map(|one| super::call::axis_of(one, rank)).collect::<Result<_, _>>()?;
        }
    }
    let mut place = vec![Index::default(); rank];
    for (here, there) in order.iter().enumerate() {
        place[*there] = Index::axis(here);
    }
    Ok(of.view(source, call.shape()?, place))
}

fn diagonal(of: &mut Lowering, call: &Call) -> Result<ValueId, Refusal> {
    let source = of.operand(call.at(0))?;
    let rank = of.shape(source).len();
    let by = call.whole_or(1, "offset", 0)?;
    let axis = |place, name, other: usize| match call.get(place, name) {
        Argument::Absent => Ok(other),
        _ => call.axis(place, name, rank),
    };
    let (rows, columns) = (axis(2, "dim1", 0)?, axis(3, "dim2", 1)?);
    let along = Index::axis(rank - 2);
    let mut others = 0..rank - 2;
    let place = (0..rank).map(|axis| {
        if axis == rows {
            along.plus(&Index::length(Length::number((-by).max(0))))
        } else if axis == columns {
            along.plus(&Index::length(Length::number(by.max(0))))
        } else {
            Index::axis(others.next().unwrap_or_default())
        }
    });
    let place = place.collect();
    Ok(of.view(source, call.shape()?, place))
}

/// The place along an axis, as an integer.
pub(super) fn along(of: &mut Lowering, shape: &[Length], axis: usize) -> ValueId {
    let mut own = vec![Length::number(1); shape.len()];
    own[axis] = shape[axis].clone();
    of.value(Kind::Place(Index::axis(axis)), own, Class::Integer)
}

/// `value` between 0 and `length - 1`.
fn within(of: &mut Lowering, value: ValueId, length: &Length) -> Result<ValueId, Refusal> {
    let (zero, last) = (of.number(0.0, Class::Integer), of.whole(&(length - &Length::number(1))));
    let low = of.pointwise(Op::Maximum, &[value, zero], Class::Integer)?;
    of.pointwise(Op::Minimum, &[low, last], Class::Integer)
}

/// Elements at computed places, which are kept within the source. `place` has the part `Computed(n)` where the n-th of
/// `by` decides: a value, with the axis of the source.
pub(super) fn gathered(
    of: &mut Lowering,
    source: ValueId,
    shape: Vec<Length>,
    place: Vec<Index>,
    by: &[(ValueId, usize)],
) -> Result<ValueId, Refusal> {
    let lengths = of.shape(source);
    let mut computed = Vec::new();
    for (value, axis) in by {
        let value = of.convert(*value, Class::Integer);
        let value = of.named("at", |of| within(of, value, &lengths[*axis]))?;
        computed.push(value);
    }
    let class = of.class(source);
    Ok(of.value(Kind::Gather(source, place, computed), shape, class))
}

/// Elements at computed places along neighboring axes.
fn indexed(
    of: &mut Lowering,
    source: ValueId,
    by: &[(usize, ValueId)],
    shape: Vec<Length>,
) -> Result<ValueId, Refusal> {
    let own = of.shape(source);
    let Some((first, _)) = by.first().copied() else { return Err(Refusal::new("an index without tensors")) };
    if by.iter().enumerate().any(|(number, (axis, _))| *axis != first + number) {
        return Err(Refusal::new("indexing by tensors of axes that are not neighbors has no translation"));
    }
    if by.iter().any(|(_, value)| of.class(*value) == Class::Boolean) {
        return Err(Refusal::new("indexing by a mask has a result whose shape depends on values"));
    }
    let after = own.len() - first - by.len();
    let shapes: Vec<Vec<Length>> = by.iter().map(|(_, value)| of.shape(*value)).collect();
    let whole = super::lowering::broadcast(&shapes)?;
    let mut computed = Vec::new();
    for (axis, value) in by {
        // Negative places count from the end.
        let value = of.convert(*value, Class::Integer);
        let (zero, length) = (of.number(0.0, Class::Integer), of.whole(&own[*axis]));
        let negative = of.pointwise(Op::Less, &[value, zero], Class::Boolean)?;
        let from_end = of.pointwise(Op::Add, &[value, length], Class::Integer)?;
        let value = of.pointwise(Op::Choose, &[negative, from_end, value], Class::Integer)?;
        let mut wide = of.shape(value);
        wide.extend(vec![Length::number(1); after]);
        computed.push((of.reshaped(value, wide)?, *axis));
    }
    let place = (0..own.len()).map(|axis| {
        if axis < first {
            Index::axis(axis)
        } else if axis < first + by.len() {
            Index::part(Part::Computed(axis - first))
        } else {
            Index::axis(axis - by.len() + whole.len())
        }
    });
    let place = place.collect();
    gathered(of, source, shape, place, &computed)
}

fn pad(of: &mut Lowering, call: &Call) -> Result<ValueId, Refusal> {
    let source = of.operand(call.at(0))?;
    let Argument::List(pads) = call.at(1) else { return Err(Refusal::new("a padding that is not a list")) };
    let (own, shape) = (of.shape(source), call.shape()?);
    let fill = match call.get(2, "value") {
        Argument::Absent => of.float(0.0),
        value => of.operand(&value.clone())?,
    };
    let class = of.class(source);
    let fill = of.convert(fill, class);
    let mut begins = Vec::new();
    for (pair, lengths) in pads.chunks(2).enumerate() {
        let axis = shape.len() - 1 - pair;
        let Argument::Length(before) = &lengths[0] else {
            return Err(Refusal::new("a padding that is computed"));
        };
        let before = of.length(before);
        if own[axis] != shape[axis] || !before.is(0) {
            begins.push((axis, before));
        }
    }
    padded(of, source, shape, &begins, fill)
}

/// A tensor of another shape with `fill` around its elements, which begin at some places of these axes.
pub(super) fn padded(
    of: &mut Lowering,
    source: ValueId,
    shape: Vec<Length>,
    begins: &[(usize, Length)],
    fill: ValueId,
) -> Result<ValueId, Refusal> {
    let (own, class) = (of.shape(source), of.class(source));
    let mut index = identity(shape.len());
    let (mut by, mut inside): (Vec<(ValueId, usize)>, Option<ValueId>) = (Vec::new(), None);
    for (axis, before) in begins {
        let axis = *axis;
        let place = along(of, &shape, axis);
        let begin = of.whole(before);
        let at = of.pointwise(Op::Subtract, &[place, begin], Class::Integer)?;
        let (zero, length) = (of.number(0.0, Class::Integer), of.whole(&own[axis]));
        let low = of.pointwise(Op::GreaterEqual, &[at, zero], Class::Boolean)?;
        let high = of.pointwise(Op::Less, &[at, length], Class::Boolean)?;
        let both = of.pointwise(Op::And, &[low, high], Class::Boolean)?;
        inside = Some(match inside {
            Some(others) => of.pointwise(Op::And, &[others, both], Class::Boolean)?,
            None => both,
        });
        index[axis] = Index::part(Part::Computed(by.len()));
        by.push((at, axis));
    }
    let Some(inside) = inside else { return Ok(source) };
    let moved = gathered(of, source, shape, index, &by)?;
    of.pointwise(Op::Choose, &[inside, moved, fill], class)
}
