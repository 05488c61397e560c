//! Compares a dump with what was passed and what is expected, and says what is wrong with it.
//!
//! Owns: the order of precedence among findings of one trial, how elements are compared.
//! Never: starts a process.

use kernel_plan::numbers::{self, Nearness, decode, root_mean_square, share};

use super::bound::{Bound, Row};
use super::dump::{Dump, Guarded, ResultPlace};
pub(crate) use super::fault::{Element, Fault};
use super::schedule::{ScheduledCase, TensorSpec, Trial};

/// What was right about the dump of one trial.
#[derive(Debug, Clone, Default)]
pub(crate) struct Agreement {
    /// Largest error as a share of the bound.
    pub of_bound: f64,
    /// Largest error relative to the exact value's size (or the row's, where that is larger).
    pub relative: f64,
    /// The outputs' bytes, to compare trials with each other.
    pub outputs: Vec<u8>,
}

/// The first fault of a dump, the gravest kind first: guards, inputs, then values.
///
/// `inputs` are the bytes that were passed, `expected` the exact results, one after the other: outputs, or gradients in a
/// trial of those; and after all of them, where rows do not show it, the size of the terms of each. Results that equal
/// `agreed`, which was examined before with the same expectation, are not examined again.
pub(crate) fn examine(
    dump: &Dump<'_>,
    case: &ScheduledCase,
    trial: &Trial,
    inputs: &[u8],
    expected: &[f64],
    bounds: &[Bound],
    agreed: Option<&[u8]>,
) -> Result<Agreement, Fault> {
    for (tensor, guarded) in dump.tensors() {
        guards(tensor, guarded, trial.poison)?;
    }
    let mut rest = inputs;
    let mut passed = Vec::new();
    for (place, (tensor, guarded)) in dump.inputs().iter().enumerate() {
        let (before, left) = rest.split_at(tensor.bytes());
        rest = left;
        passed.push(before);
        if !case.overwrites(place) {
            unchanged(tensor, before, &guarded.payload)?;
        }
    }
    let mut agreement = Agreement { outputs: dump.result_bytes(), ..Agreement::default() };
    if agreed.is_some_and(|agreed| agreed == agreement.outputs) {
        return Ok(agreement);
    }
    let results = dump.results();
    let elements = results.iter().map(|(tensor, _)| tensor.elements()).sum();
    let (mut rest, mut rest_of_terms) = expected.split_at(elements);
    for ((tensor, placed), bound) in results.into_iter().zip(bounds) {
        let (exact, left) = rest.split_at(tensor.elements());
        rest = left;
        let (terms, left) = rest_of_terms.split_at(tensor.elements().min(rest_of_terms.len()));
        rest_of_terms = left;
        let stale = match placed {
            ResultPlace::Over(place, _) => Stale::Before(passed[place]),
            ResultPlace::Own(_) => Stale::Poison(trial.poison),
        };
        values(tensor, placed.payload(), (exact, terms), bound, stale, &mut agreement)?;
    }
    Ok(agreement)
}

/// The error of PyTorch's own result, as a share of the bound; not judged.
pub(crate) fn share_of_bound(
    case: &ScheduledCase,
    computed: &[u8],
    expected: &[f64],
    bounds: &[Bound],
) -> f64 {
    let (mut bytes, mut largest, mut row_of_computed) = (computed, 0f64, Vec::new());
    let elements = case.outputs.iter().map(TensorSpec::elements).sum();
    let (mut exact, mut terms) = expected.split_at(elements);
    for (tensor, bound) in case.outputs.iter().zip(bounds) {
        let row_length = row_length(tensor);
        for (number, values) in exact[..tensor.elements()].chunks(row_length).enumerate() {
            let row = row_of(values, terms, number * row_length);
            let within = bound.in_row(row);
            decode_row(tensor, bytes, number * row_length, values.len(), &mut row_of_computed);
            if let Some(near) = numbers::nearness(&row_of_computed, values, &within, row.size) {
                largest = largest.max(near.of_limit);
                continue;
            }
            for (computed, exact) in row_of_computed.iter().copied().zip(values) {
                let (error, allowed) = ((computed - exact).abs(), within.at(*exact));
                // What stands for a value beyond its format's range is no error.
                let counts = error <= allowed || !bound.admits(computed, *exact, row);
                if error.is_finite() && counts {
                    largest = largest.max(share(error, allowed));
                }
            }
        }
        bytes = &bytes[tensor.bytes()..];
        exact = &exact[tensor.elements()..];
        terms = &terms[tensor.elements().min(terms.len())..];
    }
    largest
}

/// The written byte of guards that is nearest to what they guard: how far away, and whether behind its end.
pub(crate) fn stray(front: &[u8], back: &[u8], poison: u8) -> Option<(usize, bool)> {
    let untouched = [poison; BLOCK];
    let is_written = |block: &&[u8]| *block != &untouched[..block.len()];
    let written = |byte: &u8| *byte != poison;
    // By blocks: a guard may be a megabyte, and nearly always is what it was.
    let before = front.rchunks(BLOCK).enumerate().find(|(_, block)| is_written(block));
    if let Some((number, block)) = before {
        let place = block.iter().rposition(written).unwrap_or(0);
        return Some((number * BLOCK + block.len() - place, false));
    }
    let (number, block) = back.chunks(BLOCK).enumerate().find(|(_, block)| is_written(block))?;
    Some((number * BLOCK + block.iter().position(written).unwrap_or(0) + 1, true))
}

/// Bytes of a guard that are compared at once.
const BLOCK: usize = 4 << 10;

fn guards(tensor: &TensorSpec, guarded: &Guarded<'_>, poison: u8) -> Result<(), Fault> {
    if let Some((bytes_away, after)) = stray(guarded.front, guarded.back, poison) {
        return Err(Fault::Guard { tensor: tensor.name.clone(), bytes_away, after });
    }
    match guarded.gap {
        Some(byte) => Err(Fault::Gap { tensor: tensor.name.clone(), byte }),
        None => Ok(()),
    }
}

/// What an element holds that nobody wrote.
#[derive(Clone, Copy)]
enum Stale<'a> {
    /// This byte, over and over.
    Poison(u8),
    /// The input's own bytes.
    Before(&'a [u8]),
}

impl Stale<'_> {
    fn is(self, payload: &[u8], place: usize, size: usize) -> bool {
        let element = &payload[place * size..][..size];
        match self {
            Self::Poison(poison) => element.iter().all(|byte| *byte == poison),
            Self::Before(before) => element == &before[place * size..][..size],
        }
    }
}

fn unchanged(tensor: &TensorSpec, before: &[u8], after: &[u8]) -> Result<(), Fault> {
    if before == after {
        return Ok(());
    }
    let byte = before.iter().zip(after).position(|(before, after)| before != after).unwrap_or(0);
    let place = byte / tensor.dtype.size_bytes();
    Err(Fault::InputChanged {
        tensor: tensor.name.clone(),
        element: Element { index: index_of(tensor, place), value: decode(tensor.dtype, after, place) },
        was: decode(tensor.dtype, before, place),
    })
}

fn values(
    tensor: &TensorSpec,
    payload: &[u8],
    (exact, terms): (&[f64], &[f64]),
    bound: &Bound,
    stale: Stale<'_>,
    agreement: &mut Agreement,
) -> Result<(), Fault> {
    let bytes = tensor.dtype.size_bytes();
    let row_length = row_length(tensor);
    let (mut wrong, mut unwritten) = ((0, None), (0, None));
    let (mut near, mut row_of_computed) = (Nearness::default(), Vec::new());
    for (number, values) in exact.chunks(row_length).enumerate() {
        let row = row_of(values, terms, number * row_length);
        // What is not finite in the terms would explain any error.
        let (within, is_finite) = (bound.in_row(row), row == row.finite());
        decode_row(tensor, payload, number * row_length, values.len(), &mut row_of_computed);
        let nearness = numbers::nearness(&row_of_computed, values, &within, row.size);
        if let Some(of_row) = nearness.filter(|_| is_finite) {
            near = near.with(of_row);
            continue;
        }
        let spreads = values.iter().any(|exact| exact.is_nan());
        for (column, (computed, exact)) in row_of_computed.iter().copied().zip(values).enumerate() {
            let place = number * row_length + column;
            let (error, allowed) = ((computed - exact).abs(), within.at(*exact));
            let is_close = error.is_finite() && error <= allowed;
            // NaN may spread over the row that it must be in; it may not be lost, and numbers must be right.
            if (is_close && is_finite)
                || bound.admits(computed, *exact, row)
                || (spreads && computed.is_nan())
            {
                if is_close {
                    near.take(error, allowed, exact.abs().max(row.size));
                }
                continue;
            }
            let found = if stale.is(payload, place, bytes) { &mut unwritten } else { &mut wrong };
            found.0 += 1;
            found.1.get_or_insert((place, computed, *exact, allowed));
        }
    }
    agreement.of_bound = agreement.of_bound.max(near.of_limit);
    agreement.relative = agreement.relative.max(near.relative);
    let element = |place, value| Element { index: index_of(tensor, place), value };
    if let (Stale::Before(_), (1.., _)) = (stale, &wrong) {
        // An element that was written may happen to hold its old value; what is wrong is the arithmetic.
        wrong.0 += unwritten.0;
        unwritten = (0, None);
    }
    match (wrong, unwritten) {
        (_, (count, Some((place, computed, ..)))) => {
            Err(Fault::Unwritten { tensor: tensor.name.clone(), element: element(place, computed), count })
        }
        ((count, Some((place, computed, exact, allowed))), _) => Err(Fault::Wrong {
            tensor: tensor.name.clone(),
            element: element(place, computed),
            exact,
            allowed,
            count,
            elements: tensor.elements(),
        }),
        _ => Ok(()),
    }
}

/// The values of a row that begins at an element.
fn decode_row(tensor: &TensorSpec, bytes: &[u8], first: usize, length: usize, values: &mut Vec<f64>) {
    let size = tensor.dtype.size_bytes();
    numbers::decode_all(tensor.dtype, &bytes[first * size..][..length * size], values);
}

/// The length of the last dimension; everything is one row where there is none.
pub(crate) fn row_length(tensor: &TensorSpec) -> usize {
    tensor.shape.last().map_or(1, |length| *length as usize).max(1)
}

/// A row of exact values; `terms` has the sizes of the terms of the whole tensor from its first element on, or nothing.
pub(super) fn row_of(values: &[f64], terms: &[f64], first: usize) -> Row {
    let size = root_mean_square(values);
    let terms = terms.iter().skip(first).take(values.len());
    Row { size, terms: terms.copied().fold(size, f64::max) }
}

/// What the bound asks of every row of a tensor: without what is not finite, as [`Bound::admits`] takes it.
pub(crate) fn rows(tensor: &TensorSpec, exact: &[f64], terms: &[f64]) -> Vec<Row> {
    let length = row_length(tensor);
    let rows = exact.chunks(length).enumerate();
    rows.map(|(number, values)| row_of(values, terms, number * length).finite()).collect()
}

fn index_of(tensor: &TensorSpec, place: usize) -> Vec<u64> {
    let mut rest = place as u64;
    let mut index: Vec<u64> = tensor
        .shape
        .iter()
        .rev()
        .map(|length| {
            let part = rest % length.max(&1);
            rest /= length.max(&1);
            part
        })
        .collect();
    index.reverse();
    index
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
