//! Results that follow from reductions of rows and lie otherwise than the rows do: halves of a row that change places, as in rotary
//! embeddings, and other axes in front. A kernel that goes along the rows writes them where they belong.
//!
//! Owns: which results are written so, and the reductions of rows in pieces. Never: changes what is computed.

use std::collections::{BTreeMap, BTreeSet};

use super::index::Index;
use super::length::Length;
use super::pieces::{Piece, operands, slice};
use super::program::{Concatenation, Kind, Op, Program, Reduction, Value, ValueId};

/// The pieces of a result, which is a concatenation `of` others if it is one; `None` if it lies as its rows do.
pub(super) fn rows(program: &mut Program, value: ValueId, of: Option<Concatenation>) -> Option<Vec<Piece>> {
    let last = program.values[value].shape.len().checked_sub(1)?;
    let divided = of.filter(|of| of.axis == last).and_then(|of| in_pieces(program, value, of));
    let pieces = match divided {
        Some(pieces) => pieces,
        None => vec![(value, Length::default())],
    };
    let order = order(program, pieces[0].0)?;
    if pieces.len() == 1 && order.iter().copied().eq(0..=last) {
        return None;
    }
    let found = pieces.into_iter().map(|(piece, start)| {
        let own = program.values[piece].clone();
        let mut place = vec![Index::default(); last + 1];
        for (here, axis) in order.iter().enumerate() {
            place[*axis] = Index::axis(here);
        }
        let shape = order.iter().map(|axis| own.shape[*axis].clone()).collect();
        program.values.push(Value { kind: Kind::View(piece, place.clone()), shape, ..own });
        place[last] = place[last].plus(&Index::length(start));
        Piece { value: program.values.len() - 1, place }
    });
    Some(found.collect())
}

/// The axes of a value in the order of the rows that are reduced for it. Rows are along the last axis.
fn order(program: &Program, value: ValueId) -> Option<Vec<usize>> {
    let shape = &program.values[value].shape;
    let last = shape.len() - 1;
    let mut orders = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut pending = vec![(value, (0..shape.len()).map(Index::axis).collect::<Vec<_>>())];
    while let Some((next, at)) = pending.pop() {
        if !seen.insert((next, at.clone())) {
            continue;
        }
        match &program.values[next].kind {
            Kind::Pointwise(_, of) => pending.extend(of.iter().map(|one| {
                let own = &program.values[*one].shape;
                let places = own.iter().zip(&at[at.len() - own.len()..]);
                let place =
                    places.map(|(length, at)| if length.is(1) { Index::default() } else { at.clone() });
                (*one, place.collect())
            })),
            Kind::View(of, place) => {
                pending.push((*of, place.iter().map(|one| one.replaced(&at, shape)).collect()));
            }
            Kind::Reduce(_, of, axes) => {
                let own = &program.values[*of].shape;
                if axes[..] != [own.len() - 1] || own[own.len() - 1] != shape[last] {
                    return None;
                }
                let long = own.iter().zip(&at).filter(|(length, _)| !length.is(1));
                let axis = |(length, at): (&Length, &Index)| {
                    (0..last).find(|one| *at == Index::axis(*one) && shape[*one] == *length)
                };
                let mut order = long.map(axis).collect::<Option<Vec<usize>>>()?;
                order.push(last);
                orders.insert(order);
            }
            Kind::Gather(..) | Kind::Scan(..) => return None,
            Kind::Input(_) | Kind::Number(_) | Kind::Quantity(_) | Kind::Place(_) => {}
        }
    }
    let order = orders.pop_first().filter(|_| orders.is_empty())?;
    let are_all = shape.iter().enumerate().all(|(axis, length)| length.is(1) || order.contains(&axis));
    let are_different = order.iter().collect::<BTreeSet<_>>().len() == order.len();
    (are_all && are_different).then_some(order)
}

/// The pieces of a value, with the reductions of its rows as reductions of what the pieces of a row give together.
fn in_pieces(program: &mut Program, value: ValueId, of: Concatenation) -> Option<Vec<(ValueId, Length)>> {
    let whole = program.values[value].shape[of.axis].clone();
    let piece = program.values[of.pieces[0].0].shape[of.axis].clone();
    let starts: Vec<Length> = of.pieces.iter().map(|(_, start)| start.clone()).collect();
    let mut reached = BTreeSet::new();
    let mut pending: Vec<ValueId> = of.pieces.iter().map(|(piece, _)| *piece).collect();
    while let Some(next) = pending.pop() {
        if reached.insert(next) {
            pending.extend(operands(&program.values[next]));
        }
    }
    // A value comes after those that it uses.
    let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for one in reached {
        let own = program.values[one].clone();
        let mut kind = own.kind.clone();
        let uses: Vec<&mut ValueId> = match &mut kind {
            Kind::Pointwise(_, of) => of.iter_mut().collect(),
            Kind::View(of, _) | Kind::Reduce(_, of, _) | Kind::Scan(_, of, _) => vec![of],
            Kind::Gather(of, _, by) => by.iter_mut().chain([of]).collect(),
            Kind::Input(_) | Kind::Number(_) | Kind::Quantity(_) | Kind::Place(_) => Vec::new(),
        };
        for used in uses {
            *used = new.get(used).copied().unwrap_or(*used);
        }
        if let Kind::Reduce(how, of, axes) = &kind {
            let shape = program.values[*of].shape.clone();
            let last = shape.len() - 1;
            if axes[..] == [last] && shape[last] == whole {
                let (how, of) = (*how, *of);
                let together = together(program, how, of, (&starts, &piece))?;
                kind = Kind::Reduce(how, together, vec![last]);
            }
        }
        if kind != own.kind {
            program.values.push(Value { kind, ..own });
            new.insert(one, program.values.len() - 1);
        }
    }
    Some(of.pieces.into_iter().map(|(one, start)| (new.get(&one).copied().unwrap_or(one), start)).collect())
}

/// The sum, product, maximum or minimum of the pieces of a row, element by element.
fn together(
    program: &mut Program,
    how: Reduction,
    of: ValueId,
    (starts, length): (&[Length], &Length),
) -> Option<ValueId> {
    let op = match how {
        Reduction::Sum => Op::Add,
        Reduction::Product => Op::Multiply,
        Reduction::Largest => Op::Maximum,
        Reduction::Smallest => Op::Minimum,
        Reduction::PlaceOfLargest | Reduction::PlaceOfSmallest | Reduction::Mean | Reduction::Squares => {
            return None;
        }
    };
    let whole = program.values[of].clone();
    let last = whole.shape.len() - 1;
    let pieces: Vec<ValueId> =
        starts.iter().map(|start| slice(program, of, last + 1, last, (start, length))).collect();
    let mut shape = whole.shape.clone();
    shape[last] = length.clone();
    pieces.into_iter().reduce(|sum, piece| {
        let kind = Kind::Pointwise(op, vec![sum, piece]);
        program.values.push(Value { kind, shape: shape.clone(), ..whole.clone() });
        program.values.len() - 1
    })
}
