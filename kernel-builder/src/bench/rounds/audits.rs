//! Blocks that are no samples: they hold what a process says of its time against other clocks.
//!
//! Owns: how many there are, how long, and how often they are repeated. Never: decides what a disagreement is.

use super::super::clock::{self, Disagreement, Reading};
use super::super::contender::{Aim, Prepared};
use super::super::samples::KERNEL;
use super::super::stats;
use super::{CallRotation, Rounds, Stop};

/// Long blocks before and after the samples of a regime, and how many seconds one is to last: at first, and where clocks
/// disagreed.
const AUDITS: usize = 3;
const LONGER: [f64; 3] = [0.015, 0.06, 0.25];

impl Rounds<'_> {
    /// Long blocks of the kernel, compared by three clocks with empty ones beside them. Where they disagree they are
    /// repeated, longer: what a crowded machine adds does not grow with them, what is hidden does.
    pub(super) fn audits(&mut self, turn: &mut CallRotation, own: &Prepared, size: u64) -> Result<(), Stop> {
        let most = own.sizes(turn.regime).and_then(|sizes| sizes.most.get(KERNEL).copied()).unwrap_or(size);
        self.agree(turn, Aim::Audit, |rounds, turn, seconds| {
            let short = rounds.block(turn, KERNEL, size, &[], Aim::Sample)?;
            Ok(clock::long_calls(turn.regime, &short, size, most, seconds))
        })
    }

    /// Blocks of calls that wait in the queue of a busy device. Work beside the stream hides behind the host's time
    /// otherwise, where a caller takes longer to ask for it than the device to do it.
    pub(super) fn queued(&mut self, turn: &mut CallRotation, calls: u64) -> Result<(), Stop> {
        self.agree(turn, Aim::Queue, |_, _, _| Ok(calls))
    }

    /// Blocks with one aim beside empty ones, again while their clocks disagree; `calls` says how many a block has that
    /// is to last so long.
    fn agree(
        &mut self,
        turn: &mut CallRotation,
        aim: Aim,
        calls: impl Fn(&mut Self, &CallRotation, f64) -> Result<u64, Stop>,
    ) -> Result<(), Stop> {
        let mut disagreement = None;
        for seconds in LONGER {
            self.renew(turn);
            let calls = calls(self, turn, seconds)?;
            let (mut readings, mut empty) = (Vec::new(), Vec::new());
            for _ in 0..AUDITS {
                let block = self.block(turn, KERNEL, calls, &[], aim)?;
                readings.push(Reading { block, calls });
                empty.push(self.empty(turn, aim)?);
            }
            disagreement = clock::audit(&readings, &empty);
            if disagreement.is_none() {
                return Ok(());
            }
        }
        disagreement.map_or(Ok(()), |disagreement| Err(disagreement.into()))
    }

    /// Blocks of the kernel with empty ones between them, when those among the samples disagreed.
    pub(super) fn ordinary_again(
        &mut self,
        turn: &mut CallRotation,
        size: u64,
    ) -> Result<Option<Disagreement>, Stop> {
        let (mut readings, mut empty) = (Vec::new(), Vec::new());
        for _ in 0..stats::FEWEST_BLOCKS {
            self.renew(turn);
            let block = self.block(turn, KERNEL, size, &[], Aim::Sample)?;
            readings.push(Reading { block, calls: size });
            empty.push(self.empty(turn, Aim::Sample)?);
        }
        Ok(clock::ordinary(&readings, &empty))
    }
}
