//! Where the tensors of a trial lie on the device, and what is done to them round a call.
//!
//! Owns: buffers with guards, and the operations that fill and dump them; the layout of a dump is that of `dump`.
//! Never: talks to a worker.

use std::path::Path;

use kernel_plan::spec::launch::ConcreteLaunch;
use kernel_plan::spec::op::Case;

use super::super::schedule::{GUARD, ScheduledCase, TensorSpec, Trial};
use crate::device::calls::Addresses;
use crate::device::wire::{Op, Place};

/// The guarded buffers of one trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arena {
    inputs: Vec<Option<Buffer>>,
    own: Vec<Buffer>,
    workspaces: Vec<(String, Buffer)>,
}

/// A tensor between guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Buffer {
    number: u32,
    /// Bytes before the tensor.
    front: u64,
    /// Bytes of the tensor, with what lies between its elements.
    region: u64,
    /// Bytes after the tensor.
    back: u64,
}

impl Buffer {
    fn bytes(self) -> u64 {
        self.front + self.region + self.back
    }

    fn tensor(self) -> Place {
        Place::start(self.number).plus(self.front)
    }

    fn all(self) -> (Place, u64) {
        (Place::start(self.number), self.bytes())
    }
}

impl Arena {
    /// Buffers for a trial with this launch, numbered from `next` on.
    pub(super) fn new(case: &ScheduledCase, trial: &Trial, launch: &ConcreteLaunch, next: &mut u32) -> Self {
        let mut buffer = |front: usize, region: u64, back: usize| {
            *next += 1;
            Buffer { number: *next, front: front as u64, region, back: back as u64 }
        };
        let guard = trial.guard;
        let front = |tensor: &TensorSpec| guard + trial.shift * tensor.dtype.size_bytes();
        let inputs = case.inputs.iter().enumerate().map(|(place, tensor)| {
            let strides = trial.strides.get(&place).map(Vec::as_slice);
            (!tensor.omitted).then(|| buffer(front(tensor), tensor.region(strides) as u64, guard))
        });
        let inputs = inputs.collect();
        let own = case.returned().map(|tensor| buffer(front(tensor), tensor.bytes() as u64, guard)).collect();
        let workspaces = launch.workspaces.iter();
        // Scratch memory is allocated by the host, so it is always aligned.
        let workspaces = workspaces
            .map(|workspace| (workspace.name.to_string(), buffer(GUARD, workspace.bytes, GUARD)))
            .collect();
        Self { inputs, own, workspaces }
    }

    fn buffers(&self) -> impl Iterator<Item = Buffer> {
        let workspaces = self.workspaces.iter().map(|(_, buffer)| *buffer);
        self.inputs.iter().flatten().copied().chain(self.own.iter().copied()).chain(workspaces)
    }

    /// Takes the memory.
    pub(super) fn allocate(&self) -> impl Iterator<Item = Op> {
        self.buffers().map(|buffer| Op::Allocate { buffer: buffer.number, bytes: buffer.bytes() })
    }

    /// Gives the memory back.
    pub(super) fn free(&self) -> impl Iterator<Item = Op> {
        self.buffers().map(|buffer| Op::Free { buffer: buffer.number })
    }

    /// Poison everywhere, then the inputs, which lie one after the other in `file`: dense, or with their gaps where
    /// `gaps` has them.
    pub(super) fn fill(
        &self,
        trial: &Trial,
        case: &ScheduledCase,
        file: &Path,
        gaps: &[Option<&Path>],
    ) -> Vec<Op> {
        let poison = |buffer: Buffer| {
            let (at, bytes) = buffer.all();
            Op::Fill { at, bytes, byte: trial.poison }
        };
        let mut ops: Vec<Op> = self.buffers().map(poison).collect();
        let mut from = 0;
        for ((tensor, buffer), gaps) in case.inputs.iter().zip(&self.inputs).zip(gaps) {
            if let Some(buffer) = buffer {
                let (file, from) = gaps.map_or((file, from), |gaps| (gaps, 0));
                ops.push(Op::Upload {
                    at: buffer.tensor(),
                    bytes: buffer.region,
                    file: file.to_owned(),
                    from,
                });
            }
            from += tensor.bytes() as u64;
        }
        ops
    }

    /// Every tensor with its guards to a file, and the guards of workspaces to another.
    pub(super) fn dump(&self, tensors: &Path, workspaces: &Path) -> Vec<Op> {
        let all = self.inputs.iter().flatten().chain(&self.own).map(|buffer| buffer.all()).collect();
        let guards = self.workspaces.iter().flat_map(|(_, buffer)| {
            let back = buffer.tensor().plus(buffer.region);
            [(Place::start(buffer.number), buffer.front), (back, buffer.back)]
        });
        let guards: Vec<_> = guards.collect();
        let mut ops = vec![Op::Dump { file: tensors.to_owned(), ranges: all }];
        if !guards.is_empty() {
            ops.push(Op::Dump { file: workspaces.to_owned(), ranges: guards });
        }
        ops
    }

    /// The names of workspaces in the order of their guards in the dump.
    pub(super) fn workspaces(&self) -> impl Iterator<Item = &str> {
        self.workspaces.iter().map(|(name, _)| name.as_str())
    }

    /// What the launch calls by name.
    pub(super) fn addresses(&self, case: &Case) -> Addresses {
        let inputs: Vec<_> = self.inputs.iter().map(|buffer| buffer.map(Buffer::tensor)).collect();
        let own: Vec<_> = self.own.iter().map(|buffer| buffer.tensor()).collect();
        let workspaces = self.workspaces.iter().map(|(name, buffer)| (name.clone(), buffer.tensor()));
        Addresses::new(case, &inputs, &own, workspaces)
    }
}

/// A dense tensor's bytes spread over a region with gaps, which hold `poison`.
pub(super) fn spread(dense: &[u8], tensor: &TensorSpec, strides: &[u64], poison: u8) -> Vec<u8> {
    let size = tensor.dtype.size_bytes();
    let mut region = vec![poison; tensor.region(Some(strides))];
    for place in 0..tensor.elements() as u64 {
        let (mut rest, mut element) = (place, 0);
        for (length, stride) in tensor.shape.iter().zip(strides).rev() {
            element += rest % length * stride;
            rest /= length;
        }
        let (from, to) = (place as usize * size, element as usize * size);
        region[to..to + size].copy_from_slice(&dense[from..from + size]);
    }
    region
}

#[cfg(test)]
mod tests {
    use kernel_plan::units::Dtype;

    use super::*;

    #[test]
    fn gaps_keep_the_poison() {
        let tensor = TensorSpec {
            name: "x".to_owned(),
            shape: vec![2, 2],
            dtype: Dtype::I8,
            omitted: false,
            inplace: None,
            computed: None,
            seed: false,
            non_negative: false,
        };
        assert_eq!(spread(&[1, 2, 3, 4], &tensor, &[5, 2], 9), [1, 9, 2, 9, 9, 3, 9, 4]);
        assert_eq!(spread(&[1, 2, 3, 4], &tensor, &[1, 2], 9), [1, 3, 2, 4]);
    }
}
