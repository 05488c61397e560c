//! One call of a candidate in another worker, such as one that a profiler watches.
//!
//! Owns: which contents that call gets. Never: compares results; lends the worker any memory of the judge.

use std::time::Duration;

use kernel_plan::spec::launch::ConcreteLaunch;

use super::super::VerifyError;
use super::layout::{ARENA, Layout};
use super::refusal::{Attempt, CandidateRefusal};
use super::{Lab, POISONS, load_all};
use crate::base::files;
use crate::compile::nvrtc::Code;
use crate::device::gpu::Gpu;
use crate::device::wire::{Op, Place};

impl Lab {
    /// Makes one call of a candidate in a worker that has nothing yet, on contents that candidates are judged with.
    ///
    /// # Errors
    /// The judge's own work fails. What is wrong with the candidate is the inner error.
    pub(crate) fn call_in(
        &mut self,
        gpu: &mut Gpu,
        launch: &ConcreteLaunch,
        code: &Code,
        within: Duration,
    ) -> Result<Attempt<()>, VerifyError> {
        let folder = files::scratch()?;
        let file = folder.path().join("inputs");
        let layout = Layout::new(&self.scheduled, &launch.workspaces, 1);
        let bytes = layout.bytes;
        let (mut ranges, mut uploads, mut from) = (Vec::new(), Vec::new(), 0);
        let kept = self.known.first().map(|set| set.inputs.as_slice()).unwrap_or_default();
        for (range, kept) in layout.slots[0].inputs.iter().zip(kept) {
            if let (Some(range), Some(kept)) = (range, kept)
                && range.bytes > 0
            {
                ranges.push((*kept, range.bytes));
                uploads.push(Op::Upload { at: range.place(), bytes: range.bytes, file: file.clone(), from });
                from += range.bytes;
            }
        }
        self.checked(&[Op::Dump { file, ranges }])?;
        let own = std::mem::replace(&mut self.layout, layout);
        let call = self.call(launch, code, 0, 0);
        self.layout = own;
        let call = match call {
            Ok(call) => call,
            Err(error) => return Ok(Err(error.into())),
        };
        let mut ops = vec![
            Op::Allocate { buffer: ARENA, bytes },
            Op::Fill { at: Place::start(ARENA), bytes, byte: POISONS[0] },
        ];
        ops.extend(uploads);
        ops.extend(load_all(code));
        ops.push(Op::Run { calls: vec![call] });
        Ok(match gpu.ask(&ops, within)? {
            Ok(_) => Ok(()),
            Err(failure) => Err(CandidateRefusal::from_failure(&failure)),
        })
    }
}
