//! How a lab begins and ends on a device.
//!
//! Owns: what lies in the worker that compares, and that nothing of it is left for the next case. Never: runs a candidate.

use std::time::Duration;

use super::super::VerifyError;
use super::super::schedule::ScheduledCase;
use super::super::watched::Watched;
use super::groundwork::Groundwork;
use super::layout::{self, ARENA, Layout};
use super::{Lab, OWN, examine, load};
use crate::base::random;
use crate::compile::nvrtc::{Code, Compiler, Source};
use crate::device::gpu::{Gpu, NoDevice};
use crate::device::wire::{DeviceProperties, Op};

/// The judge's own kernels.
pub(super) const SOURCE: &str = concat!(
    include_str!("../../../resources/judge/bound.cuh"),
    include_str!("../../../resources/judge/kernels.cu")
);
/// What may not be had.
#[derive(Debug)]
pub(crate) enum NoLab {
    /// There is no device, or it refuses even the judge.
    Device(NoDevice),
    /// The oracle or the compiler failed.
    Failed(VerifyError),
}

impl<E: Into<VerifyError>> From<E> for NoLab {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Lab {
    /// Puts on the device what a case needs; `checker` is a worker that compares, a new one or that of an earlier lab.
    /// Workspaces depend on the tuning, so every candidate has a layout of its own; tensors lie first, in the same places
    /// in all of them. `room` is for the bytes of so many calls as a graph should have.
    ///
    /// # Errors
    /// There is no device, or it has no room.
    pub(crate) fn on(
        groundwork: &Groundwork,
        mut checker: Gpu,
        compiler: &Compiler,
        patience: Duration,
        room: u64,
    ) -> Result<Self, NoLab> {
        let about =
            super::super::device::device(&mut checker).map_err(NoLab::Failed)?.map_err(NoLab::Device)?;
        let judge = judge(&about, compiler)?;
        let Groundwork { case, scheduled, pool, .. } = groundwork;
        let left = about.free.saturating_sub(pool.bytes);
        // Every call of a sample has contents of its own.
        let slots = layout::slots(scheduled, about.l2, room, left / 4).min(groundwork.timed);
        let layout = Layout::new(scheduled, &[], slots);
        let mut ops = vec![
            load(examine::MODULE, &judge),
            Op::Allocate { buffer: examine::VERDICTS, bytes: most(scheduled, &layout) },
        ];
        ops.extend(pool.ops.iter().cloned());
        let mut runner = Gpu::new();
        // The running worker gets its context while the other one reads the files.
        let put = std::thread::scope(|scope| {
            let started = scope.spawn(|| super::super::device::device(&mut runner));
            let put = checker.ask(&ops, OWN);
            // Where it has none, whoever needs it asks again and is told.
            let _about = started.join();
            put
        });
        put.map_err(VerifyError::from)?.map_err(|failure| NoLab::Device(failure.into()))?;
        Ok(Self {
            runner,
            checker,
            about,
            case: case.clone(),
            scheduled: scheduled.clone(),
            timed: groundwork.timed,
            bounds: groundwork.bounds.clone(),
            known: pool.known.clone(),
            layout,
            piece: 0,
            judge,
            ready: None,
            restarted: None,
            trials: 0,
            secret: random::secret(),
            patience,
            lent: pool.buffers().collect(),
            watched: Watched::default(),
        })
    }

    /// The worker that compares, with nothing of this case in it, for the next case: a context takes a second to make. The
    /// worker that ran candidates is gone.
    ///
    /// # Errors
    /// ctrl-C.
    pub(crate) fn into_checker(mut self) -> Result<Gpu, VerifyError> {
        // Nobody may run in memory that is given back.
        self.give_up();
        let _none_where_nothing_ran = self.checker.ask(&[Op::Free { buffer: ARENA }], OWN)?;
        let buffers = std::iter::once(examine::VERDICTS).chain(std::mem::take(&mut self.lent));
        let mut ops: Vec<Op> = buffers.map(|buffer| Op::Free { buffer }).collect();
        ops.push(Op::Unload { module: examine::MODULE });
        if self.checker.ask(&ops, OWN)?.is_err() {
            // Whatever is left in it is gone with it; the next question finds a new one.
            self.checker.end();
        }
        Ok(self.checker)
    }
}

/// Bytes for the numbers of all comparisons of a trial: outputs, inputs and gaps.
fn most(case: &ScheduledCase, layout: &Layout) -> u64 {
    let tensors = layout.slots.len() * (case.inputs.len() + case.outputs.len());
    // A candidate may have workspaces, which add gaps.
    (tensors + layout.gaps.len() + 64) as u64 * examine::VERDICT
}

/// The judge's own kernels for a device.
fn judge(about: &DeviceProperties, compiler: &Compiler) -> Result<Code, VerifyError> {
    let source = Source { text: SOURCE.to_owned(), name: "judge.cu".to_owned(), include: vec![], root: None };
    let expressions = examine::expressions();
    Code::plain(&source, expressions, &super::super::device::arch_of(about), compiler)
        .map_err(VerifyError::Compiler)
}
