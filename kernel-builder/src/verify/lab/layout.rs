//! Where the tensors of many calls lie in one piece of memory, with guards between all of them.
//!
//! Owns: offsets. Never: talks to a worker.
//!
//! One piece, because that is what one process lends to another. Calls rotate over the slots, so that together they are
//! larger than the cache.

use kernel_plan::spec::launch::ConcreteWorkspace;

use super::super::schedule::{GUARD, ScheduledCase};
use crate::device::wire::Place;

/// The number of the piece in every worker.
pub(super) const ARENA: u32 = 1;
/// Bytes that the driver maps at a time.
pub(super) const PAGE: u64 = 2 << 20;
/// What every tensor is aligned to, as memory of its own would be.
pub(super) const ALIGNMENT: u64 = 512;
/// Fewer slots would show the same addresses again and again; more do not fit into one graph well.
const SLOTS: std::ops::RangeInclusive<u64> = 3..=64;
/// What a graph costs once, and what the cache has to write back when it begins, is shared by its calls: baselines have so
/// many in theirs (harness/gpu.py).
const GRAPH_CALLS: u64 = 20;

/// Bytes of one tensor in the piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl Range {
    pub(super) fn place(self) -> Place {
        Place { buffer: ARENA, offset: self.offset }
    }
}

/// The tensors of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    /// In the order of arguments; nothing for an input that is not passed.
    pub(super) inputs: Vec<Option<Range>>,
    /// The outputs that overwrite no input.
    pub(super) own: Vec<Range>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) slots: Vec<Slot>,
    /// Scratch memory, which all calls share: they run one after the other.
    pub(super) workspaces: Vec<(String, Range)>,
    /// What lies between tensors; nobody may write there.
    pub(super) gaps: Vec<Range>,
    /// Bytes in all.
    pub(super) bytes: u64,
}

/// How many slots a case gets: as many as make the tensors of all of them four times the cache, and as many as a graph has
/// calls, while they take no more than `room` bytes; but no more than fit into `memory`.
pub(super) fn slots(case: &ScheduledCase, l2: u64, room: u64, memory: u64) -> usize {
    let tensors = case.inputs.iter().chain(case.returned());
    let bytes: u64 = tensors.map(|tensor| tensor.bytes() as u64 + GUARD as u64 + ALIGNMENT).sum();
    let larger = (4 * l2).div_ceil(bytes.max(1)).clamp(*SLOTS.start(), *SLOTS.end());
    let wanted = larger.max(GRAPH_CALLS.min(room / bytes.max(1)));
    wanted.min((memory / bytes.max(1)).max(1)) as usize
}

impl Layout {
    pub(super) fn new(case: &ScheduledCase, workspaces: &[ConcreteWorkspace], slots: usize) -> Self {
        let (mut end, mut gaps) = (0u64, Vec::new());
        let mut place = |bytes: u64| {
            let offset = (end + GUARD as u64).next_multiple_of(ALIGNMENT);
            gaps.push(Range { offset: end, bytes: offset - end });
            end = offset + bytes;
            Range { offset, bytes }
        };
        let slots = (0..slots).map(|_| Slot {
            inputs: case
                .inputs
                .iter()
                .map(|tensor| (!tensor.omitted).then(|| place(tensor.bytes() as u64)))
                .collect(),
            own: case.returned().map(|tensor| place(tensor.bytes() as u64)).collect(),
        });
        let slots = slots.collect();
        let workspaces =
            workspaces.iter().map(|workspace| (workspace.name.to_string(), place(workspace.bytes))).collect();
        // The driver maps whole pages: what lies behind the last tensor can be written, too.
        let bytes = (end + GUARD as u64).next_multiple_of(PAGE);
        gaps.push(Range { offset: end, bytes: bytes - end });
        Self { slots, workspaces, gaps, bytes }
    }

    /// The same in a larger piece, all of which is watched.
    pub(super) fn within(mut self, piece: u64) -> Self {
        if let Some(last) = self.gaps.last_mut().filter(|_| piece > self.bytes) {
            last.bytes += piece - self.bytes;
            self.bytes = piece;
        }
        self
    }
}

impl Layout {
    /// For every slot a place to copy so many bytes from, and one to copy them to. Calls that overwrite their inputs move
    /// more bytes than their tensors have: the last copies begin earlier then, so that all of them end within the piece.
    pub(super) fn pairs(&self, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
        let length = bytes.next_multiple_of(ALIGNMENT);
        let last = self.bytes.saturating_sub(2 * length) / ALIGNMENT * ALIGNMENT;
        let step = self.bytes / self.slots.len().max(1) as u64 / ALIGNMENT * ALIGNMENT;
        (0..self.slots.len() as u64).map(move |slot| {
            let from = (slot * step).min(last);
            (from, from + length)
        })
    }
}

#[cfg(test)]
mod tests {
    use kernel_plan::units::Dtype;

    use super::super::super::schedule::TensorSpec;
    use super::*;

    fn tensor(name: &str, length: u64, inplace: Option<usize>) -> TensorSpec {
        TensorSpec {
            name: name.to_owned(),
            shape: vec![length],
            dtype: Dtype::F32,
            omitted: false,
            inplace,
            computed: None,
            seed: false,
            non_negative: false,
        }
    }

    fn case(length: u64) -> ScheduledCase {
        ScheduledCase {
            id: "case".to_owned(),
            place: 0,
            inputs: vec![tensor("x", length, None), TensorSpec { omitted: true, ..tensor("bias", 4, None) }],
            outputs: vec![tensor("y", length, None), tensor("x_out", length, Some(0))],
            gradients: vec![],
            held_out: false,
            drawn: false,
            accumulated: 1,
            sets: vec![],
            trials: vec![],
        }
    }

    #[test]
    fn tensors_and_gaps_fill_the_piece_without_overlap() {
        let layout = Layout::new(&case(1001), &[], 3);
        let tensors = layout.slots.iter().flat_map(|slot| slot.inputs.iter().flatten().chain(&slot.own));
        let mut all: Vec<Range> = tensors.chain(&layout.gaps).copied().collect();
        all.sort_by_key(|range| range.offset);
        let mut end = 0;
        for range in &all {
            assert_eq!(range.offset, end);
            end += range.bytes;
        }
        assert_eq!(end, layout.bytes);
        assert!(layout.gaps.iter().all(|gap| gap.bytes >= GUARD as u64));
        let slot = &layout.slots[1];
        assert_eq!((slot.inputs.len(), slot.inputs[1], slot.own.len()), (2, None, 1));
        assert_eq!(slot.own[0].offset % ALIGNMENT, 0);
    }

    #[test]
    fn copies_lie_within_the_piece_whatever_they_move() {
        let layout = Layout::new(&case(1 << 20), &[], 5);
        // What reads and writes `x`, and writes `y`: more than both have together.
        for bytes in [100, 3 << 20, 6 << 20] {
            let pairs: Vec<(u64, u64)> = layout.pairs(bytes).collect();
            assert_eq!(pairs.len(), 5);
            for (from, to) in &pairs {
                assert!(from + bytes <= *to && to + bytes <= layout.bytes, "{bytes}: {from} {to}");
                assert_eq!((from % ALIGNMENT, to % ALIGNMENT), (0, 0));
            }
            assert!(pairs.windows(2).all(|pair| pair[0].0 < pair[1].0), "{bytes}");
        }
    }

    #[test]
    fn slots_exceed_the_cache_and_fit_the_memory() {
        let l2 = 60 << 20;
        assert_eq!(slots(&case(16 << 20), l2, 0, 1 << 40), 3);
        assert_eq!(slots(&case(4 << 20), l2, 0, 1 << 40), 8);
        assert_eq!(slots(&case(64), l2, 0, 1 << 40), 64);
        assert_eq!(slots(&case(16 << 20), l2, 8 << 30, 256 << 20), 1);
    }

    #[test]
    fn graphs_are_as_long_as_those_of_baselines_where_there_is_room() {
        let l2 = 60 << 20;
        assert_eq!(slots(&case(16 << 20), l2, 8 << 30, 1 << 40), 20);
        assert_eq!(slots(&case(16 << 20), l2, 1 << 30, 1 << 40), 7);
        assert_eq!(slots(&case(1 << 30), l2, 8 << 30, 1 << 40), 3);
        assert_eq!(slots(&case(64), l2, 8 << 30, 1 << 40), 64);
    }
}
