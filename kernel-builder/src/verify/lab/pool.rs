//! The input sets of a case with what is expected of them, in the memory of the process that judges.
//!
//! Owns: which sets there are, and the numbers of a row that the bound asks for. Never: compares.

use std::path::{Path, PathBuf};

use kernel_plan::spec::op::Case;

use super::super::VerifyError;
use super::super::compare;
use super::super::schedule::{InputSet, ScheduledCase, TensorSpec};
use super::super::stage::Stage;
use crate::base::process::ProcessError;
use crate::base::{files, interrupt};
use crate::device::wire::{Op, Place};
use crate::protocol::verify::Distribution;

/// The first number of the pool's buffers in the judging worker.
const FIRST: u32 = 100;
/// Larger cases are called with normal values only.
const LARGE: u64 = 96 << 20;

/// Sets whose expected values are in memory at a time.
const SIDE_BY_SIDE: usize = 4;

/// Bytes of the calls of a graph on small tensors, which has as many calls as sets.
const GRAPH: u64 = 256 << 20;
/// Calls of a graph on larger tensors, while [`POOL`] has room for their sets.
const CALLS: std::ops::RangeInclusive<u64> = 20..=64;
/// Bytes of all sets of a case with their expected values.
const POOL: u64 = 8 << 30;
/// A set takes as many times the bytes of its tensors: results of 16 bits are expected as `double`s.
const WITH_EXPECTED: u64 = 5;
/// Fewer calls than this would be timed with the costs of their graph.
const FEWEST: u64 = 4;

/// The number of sets that calls are timed with: one for each call of a sample, so that none finds contents of another one.
fn timed(bytes: u64) -> usize {
    let bytes = bytes.max(1);
    let calls = (GRAPH / bytes).clamp(*CALLS.start(), *CALLS.end());
    calls.min(POOL / (WITH_EXPECTED * bytes)).max(FEWEST) as usize
}

/// The sets of a case: pairs that differ in one element, and for smaller tensors other distributions, which are passed
/// when results are judged and not when calls are timed.
pub(super) fn sets(scheduled: &ScheduledCase, cancels: bool) -> (Vec<InputSet>, usize) {
    let bytes: u64 =
        scheduled.inputs.iter().chain(&scheduled.outputs).map(|tensor| tensor.bytes() as u64).sum();
    let pairs = timed(bytes) / 2;
    let first = &scheduled.sets[0];
    let hard = cancels && bytes <= LARGE;
    let set = |kind| InputSet { kind, scalars: first.scalars.clone(), hard, ..InputSet::default() };
    let changeable: Vec<usize> =
        (0..scheduled.inputs.len()).filter(|place| scheduled.inputs[*place].elements() > 0).collect();
    let mut sets: Vec<InputSet> = (0..pairs).map(|_| set(Distribution::Normal)).collect();
    for pair in 0..pairs {
        if let Some(place) = changeable.get(pair % changeable.len().max(1)) {
            sets.push(InputSet {
                edit_of: Some(pair),
                edit_input: Some(*place),
                ..set(Distribution::Normal)
            });
        }
    }
    let timed = sets.len();
    if bytes <= LARGE {
        sets.extend([Distribution::Small, Distribution::Large, Distribution::Sparse].map(set));
    }
    (sets, timed)
}

/// What the judge knows of one set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SetBuffers {
    /// The inputs, in the order of arguments, in buffers of the judging worker.
    pub(super) inputs: Vec<Option<Place>>,
    /// What is expected of each output.
    pub(super) outputs: Vec<Expected>,
}

/// What is expected of one output, as `double`s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) exact: Place,
    /// One number a row: the size of its terms.
    pub(super) terms: Place,
}

/// The pool and the operations that put it there.
pub(super) struct Pool {
    pub(super) known: Vec<SetBuffers>,
    pub(super) ops: Vec<Op>,
    pub(super) bytes: u64,
}

impl Pool {
    /// The numbers of its buffers.
    pub(super) fn buffers(&self) -> impl Iterator<Item = u32> {
        self.ops.iter().filter_map(|op| match op {
            Op::Allocate { buffer, .. } => Some(*buffer),
            _ => None,
        })
    }
}

/// Lays out all sets of a case; `rows` is the folder for what is computed of rows.
pub(super) fn pool(stage: &Stage<'_>, scheduled: &ScheduledCase, rows: &Path) -> Result<Pool, VerifyError> {
    let (mut next, mut ops, mut known, mut total) = (FIRST, Vec::new(), Vec::new(), 0);
    let mut put = |file: &Path, from: u64, bytes: u64| {
        next += 1;
        total += bytes;
        ops.push(Op::Allocate { buffer: next, bytes });
        if bytes > 0 {
            ops.push(Op::Upload { at: Place::start(next), bytes, file: file.to_owned(), from });
        }
        Place::start(next)
    };
    let lengths = all_rows(stage, scheduled, rows)?;
    for (set, lengths) in lengths.iter().enumerate() {
        let file = stage.path(&format!("inputs/{}-{set}.bin", scheduled.place));
        let (mut from, mut inputs) = (0, Vec::new());
        for tensor in &scheduled.inputs {
            let bytes = tensor.bytes() as u64;
            inputs.push((!tensor.omitted).then(|| put(&file, from, bytes)));
            from += bytes;
        }
        let expected = stage.path(&format!("expected/{}-{set}.bin", scheduled.place));
        let (mut from, mut outputs) = (0, Vec::new());
        for (number, (tensor, bytes)) in scheduled.outputs.iter().zip(lengths).enumerate() {
            let length = 8 * tensor.elements() as u64;
            let exact = put(&expected, from, length);
            let terms = put(&rows_file(rows, scheduled, set, number), 0, *bytes);
            outputs.push(Expected { exact, terms });
            from += length;
        }
        known.push(SetBuffers { inputs, outputs });
    }
    Ok(Pool { known, ops, bytes: total })
}

fn rows_file(rows: &Path, scheduled: &ScheduledCase, set: usize, output: usize) -> PathBuf {
    rows.join(format!("{}-{set}-{output}.rows", scheduled.place))
}

/// Writes what is computed of the rows of all sets, a few sets at a time; the bytes for each output of each set.
fn all_rows(stage: &Stage<'_>, scheduled: &ScheduledCase, rows: &Path) -> Result<Vec<Vec<u64>>, VerifyError> {
    let mut lengths = Vec::new();
    let sets: Vec<usize> = (0..scheduled.sets.len()).collect();
    for some in sets.chunks(SIDE_BY_SIDE.min(stage.threads).max(1)) {
        interrupt::check().map_err(|_| ProcessError::Interrupted)?;
        let found: Vec<Result<Vec<u64>, VerifyError>> = std::thread::scope(|scope| {
            let start = |set: &usize| {
                let set = *set;
                scope.spawn(move || rows_of(stage, scheduled, set, rows))
            };
            let threads: Vec<_> = some.iter().map(start).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
                Ok(found) => found,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            threads.into_iter().map(join).collect()
        });
        lengths.extend(found.into_iter().collect::<Result<Vec<_>, _>>()?);
    }
    Ok(lengths)
}

fn rows_of(
    stage: &Stage<'_>,
    scheduled: &ScheduledCase,
    set: usize,
    rows: &Path,
) -> Result<Vec<u64>, VerifyError> {
    let values = stage.expected(scheduled.place, set, false)?;
    let elements: usize = scheduled.outputs.iter().map(TensorSpec::elements).sum();
    let (exact, terms) = values.split_at(elements);
    let (mut place, mut lengths) = (0, Vec::new());
    for (number, tensor) in scheduled.outputs.iter().enumerate() {
        let own = &exact[place..place + tensor.elements()];
        let own_terms = terms.get(place..place + tensor.elements()).unwrap_or_default();
        let of_rows = compare::rows(tensor, own, own_terms);
        let bytes: Vec<u8> = of_rows.iter().flat_map(|row| row.terms.to_le_bytes()).collect();
        files::write(&rows_file(rows, scheduled, set, number), &bytes)?;
        lengths.push(bytes.len() as u64);
        place += tensor.elements();
    }
    Ok(lengths)
}

/// The case with the pool's sets and no trials.
pub(super) fn scheduled(op: &kernel_plan::spec::OpSpec, case: &Case) -> (ScheduledCase, usize) {
    let mut scheduled = super::super::schedule::schedule(op, std::slice::from_ref(case)).swap_remove(0);
    scheduled.gradients.clear();
    let (sets, timed) = sets(&scheduled, op.tolerance.cancels);
    (ScheduledCase { sets, trials: vec![], ..scheduled }, timed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_cases_have_a_set_for_every_call_and_huge_ones_a_few() {
        assert_eq!(timed(0), 64);
        assert_eq!(timed(1 << 20), 64);
        assert_eq!(timed(8 << 20), 32);
        assert_eq!(timed(64 << 20), 20);
        assert_eq!(timed(256 << 20), 6);
        assert_eq!(timed(4 << 30), 4);
    }
}
