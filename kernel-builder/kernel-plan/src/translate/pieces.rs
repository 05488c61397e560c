//! Values that are written elsewhere than they are computed: concatenations piece by piece, so that each place of a kernel
//! makes an element of every piece, and tensors turned around.
//!
//! Owns: what the pieces are. Never: changes what is computed.

use std::collections::{BTreeMap, BTreeSet};

use super::index::Index;
use super::length::Length;
use super::program::{Concatenation, Kind, Op, Program, Value, ValueId};

/// More pieces than this do not fit into a kernel.
const MOST: usize = 8;

/// Some elements of a result.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub(super) value: ValueId,
    /// The place in the result for each place of the value.
    pub(super) place: Vec<Index>,
}

/// The pieces of a concatenation.
pub(super) fn placed(program: &Program, value: ValueId, whole: Concatenation) -> Vec<Piece> {
    let axes = program.values[value].shape.len();
    let pieces = whole.pieces.into_iter().map(|(value, start)| {
        let mut place: Vec<Index> = (0..axes).map(Index::axis).collect();
        place[whole.axis] = place[whole.axis].plus(&Index::length(start));
        Piece { value, place }
    });
    pieces.collect()
}

/// What a result is when it is turned back, if it is another value turned around along some axes.
pub(super) fn turned(program: &Program, value: ValueId) -> Option<Piece> {
    let own = &program.values[value];
    let Kind::View(of, place) = &own.kind else { return None };
    let last = |axis: usize| Index::length(&own.shape[axis] + &Length::number(-1));
    let is_turned = |(axis, place): (usize, &Index)| {
        *place == last(axis).plus(&Index::axis(axis).times(&Length::number(-1)))
    };
    let is_same = |(axis, place): (usize, &Index)| *place == Index::axis(axis);
    let fits = program.values[*of].shape == own.shape
        && place.iter().enumerate().all(|one| is_same(one) || is_turned(one))
        && place.iter().enumerate().any(is_turned)
        && !matches!(program.values[*of].kind, Kind::Input(_));
    fits.then(|| Piece { value: *of, place: place.clone() })
}

/// The values that a value is made of.
pub(super) fn operands(value: &Value) -> Vec<ValueId> {
    match &value.kind {
        Kind::Pointwise(_, of) => of.clone(),
        Kind::View(of, _) | Kind::Reduce(_, of, _) | Kind::Scan(_, of, _) => vec![*of],
        Kind::Gather(of, _, by) => by.iter().chain([of]).copied().collect(),
        Kind::Input(_) | Kind::Number(_) | Kind::Quantity(_) | Kind::Place(_) => Vec::new(),
    }
}

/// Whether no reduction and no scan is in an expression.
pub(super) fn is_pointwise(program: &Program, value: ValueId) -> bool {
    let mut pending = vec![value];
    let mut seen = BTreeSet::new();
    while let Some(next) = pending.pop() {
        let own = &program.values[next];
        if matches!(own.kind, Kind::Reduce(..) | Kind::Scan(..)) {
            return false;
        }
        if seen.insert(next) {
            pending.extend(operands(own));
        }
    }
    true
}

/// A value as a concatenation, if it is one, or a function of one and of others.
///
/// Every value is looked at once, after those that it uses: recursion would take steps without number where values are used twice.
pub(super) fn carried(program: &mut Program, value: ValueId) -> Option<Concatenation> {
    if program.concatenations.is_empty() {
        return None;
    }
    let mut reached = BTreeSet::new();
    let mut pending = vec![value];
    while let Some(next) = pending.pop() {
        if reached.insert(next) && !program.concatenations.contains_key(&next) {
            pending.extend(operands(&program.values[next]));
        }
    }
    let mut known: BTreeMap<ValueId, Concatenation> = BTreeMap::new();
    for one in reached {
        let whole = program.values[one].clone();
        let found = match &whole.kind {
            _ if program.concatenations.contains_key(&one) => program.concatenations.get(&one).cloned(),
            Kind::Pointwise(op, of) => applied(program, &known, &whole, (*op, of)),
            Kind::View(of, place) => known.get(of).and_then(|own| {
                stacked(program, &whole, own, place)
                    .or_else(|| rearranged(program, &whole, own, (*of, place)))
            }),
            _ => None,
        };
        if let Some(found) = found {
            known.insert(one, found);
        }
    }
    known.remove(&value)
}

/// A function of values, some of which are concatenations of the same pieces.
fn applied(
    program: &mut Program,
    known: &BTreeMap<ValueId, Concatenation>,
    whole: &Value,
    (op, of): (Op, &[ValueId]),
) -> Option<Concatenation> {
    let parts: Vec<Option<&Concatenation>> =
        of.iter().map(|one| known.get(one).filter(|_| program.values[*one].shape == whole.shape)).collect();
    let first = (*parts.iter().flatten().next()?).clone();
    let starts = |of: &Concatenation| of.pieces.iter().map(|(_, start)| start.clone()).collect::<Vec<_>>();
    let mut pieces = Vec::new();
    for (number, (piece, start)) in first.pieces.iter().enumerate() {
        let length = program.values[*piece].shape[first.axis].clone();
        let mut operands = Vec::new();
        for (one, part) in of.iter().zip(&parts) {
            let own = match part {
                Some(part) if part.axis == first.axis && starts(part) == starts(&first) => {
                    part.pieces[number].0
                }
                _ => slice(program, *one, whole.shape.len(), first.axis, (start, &length)),
            };
            operands.push(own);
        }
        let mut shape = whole.shape.clone();
        shape[first.axis] = length;
        program.values.push(Value { kind: Kind::Pointwise(op, operands), shape, ..whole.clone() });
        pieces.push((program.values.len() - 1, start.clone()));
    }
    Some(Concatenation { axis: first.axis, pieces })
}

/// A concatenation that is seen with its pieces along an axis of their own: what PyTorch makes of a stack.
fn stacked(
    program: &mut Program,
    whole: &Value,
    of: &Concatenation,
    place: &[Index],
) -> Option<Concatenation> {
    let Concatenation { axis, pieces } = of.clone();
    let piece = program.values[pieces[0].0].shape.clone();
    let mut shape = piece.clone();
    shape.insert(axis, Length::number(i64::try_from(pieces.len()).ok()?));
    // Axes behind the new one.
    let own = |one: usize| if one < axis { one } else { one + 1 };
    let mut expected: Vec<Index> = (0..piece.len()).map(|one| Index::axis(own(one))).collect();
    expected[axis] = Index::axis(axis).times(&piece[axis]).plus(&Index::axis(axis + 1));
    if shape != whole.shape || place != expected {
        return None;
    }
    shape[axis] = Length::number(1);
    let mut found = Vec::new();
    for (number, (one, _)) in pieces.iter().enumerate() {
        let place = (0..piece.len()).map(|one| Index::axis(own(one))).collect();
        program.values.push(Value { kind: Kind::View(*one, place), shape: shape.clone(), ..whole.clone() });
        found.push((program.values.len() - 1, Length::number(i64::try_from(number).ok()?)));
    }
    Some(Concatenation { axis, pieces: found })
}

/// A concatenation whose axis is an axis of a view of it, wherever it lies there: the same view of each piece.
fn rearranged(
    program: &mut Program,
    whole: &Value,
    own: &Concatenation,
    (of, place): (ValueId, &[Index]),
) -> Option<Concatenation> {
    let axis = (0..whole.shape.len()).find(|axis| place[own.axis] == Index::axis(*axis))?;
    let others = place.iter().enumerate().filter(|(one, _)| *one != own.axis);
    if whole.shape[axis] != program.values[of].shape[own.axis]
        || others.into_iter().any(|(_, one)| one.uses(axis))
    {
        return None;
    }
    let mut pieces = Vec::new();
    for (piece, start) in &own.pieces {
        let mut shape = whole.shape.clone();
        shape[axis] = program.values[*piece].shape[own.axis].clone();
        program.values.push(Value { kind: Kind::View(*piece, place.to_vec()), shape, ..whole.clone() });
        pieces.push((program.values.len() - 1, start.clone()));
    }
    Some(Concatenation { axis, pieces })
}

/// Some of the places of an operand along an axis of what it is an operand of, which has so many axes.
pub(super) fn slice(
    program: &mut Program,
    operand: ValueId,
    axes: usize,
    axis: usize,
    (start, length): (&Length, &Length),
) -> ValueId {
    let own = &program.values[operand];
    let missing = axes - own.shape.len();
    if axis < missing || own.shape[axis - missing].is(1) {
        return operand;
    }
    let axis = axis - missing;
    let mut place: Vec<Index> = (0..own.shape.len()).map(Index::axis).collect();
    place[axis] = place[axis].plus(&Index::length(start.clone()));
    let mut value = Value { kind: Kind::View(operand, place), ..own.clone() };
    value.shape[axis] = length.clone();
    program.values.push(value);
    program.values.len() - 1
}

/// Whether tensors one behind the other can be written by one kernel.
pub(super) fn fit(lengths: &[Length]) -> bool {
    (2..=MOST).contains(&lengths.len()) && lengths.windows(2).all(|pair| pair[0] == pair[1])
}
