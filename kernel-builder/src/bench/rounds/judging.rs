//! Outputs of timed calls, which the reference judges.
//!
//! Owns: which calls of a block are compared, and that the kernel's process learns it afterwards.
//! Never: compares a value.

use super::super::contender::{Aim, Block, Regime, TimedCall};
use super::super::outputs::{self, BlockContents};
use super::super::samples::KERNEL;
use super::{CallRotation, Finding, Rounds, Stop, baseline, kernel};

impl Rounds<'_> {
    /// A block whose outputs are compared, whatever time that takes.
    pub(super) fn judged_block(&mut self, turn: &mut CallRotation, calls: u64) -> Result<(), Stop> {
        let edits = self.edits(turn, KERNEL, calls);
        let block = self.block(turn, KERNEL, calls, &edits, Aim::Sample)?;
        let suspects = self.suspects(turn.regime)?;
        self.judge(turn, calls, &edits, &block, &suspects)
    }

    /// Calls of the kernel's last block that seem to have done nothing. What a processor leaves is not poisoned.
    pub(super) fn suspects(&mut self, regime: Regime) -> Result<Vec<u64>, Stop> {
        if regime == Regime::Host { Ok(Vec::new()) } else { self.kernel.suspects().map_err(kernel) }
    }

    /// Has outputs of the kernel's last block compared: which calls', it learns only now. One of the suspects is among
    /// them.
    pub(super) fn judge(
        &mut self,
        turn: &CallRotation,
        calls: u64,
        edits: &[(u64, u64)],
        block: &Block,
        suspects: &[u64],
    ) -> Result<(), Stop> {
        let kept = block.kept.clone().unwrap_or_else(|| (0..calls).collect());
        let mut places = outputs::places(&mut self.random, &kept, edits);
        places.extend(suspects.iter().find(|place| kept.contains(place) && !places.contains(place)));
        let files: Vec<_> = places.iter().map(|place| self.folder.join(format!("{place}.bin"))).collect();
        let at = turn.regime.as_str();
        if let Some(reason) = self.kernel.give(&places, &files).map_err(kernel)? {
            return Err(Stop::Refused(Finding::Wrong, format!("{at}: {reason}")));
        }
        let first = self.first(turn, KERNEL);
        let which = BlockContents { regime: turn.regime, sets: turn.sets, contents: turn.contents, first };
        let timed: Vec<TimedCall> =
            places.iter().zip(files).map(|(place, file)| which.call(*place, edits, file)).collect();
        match self.baselines.judge(&timed).map_err(baseline)? {
            Some(reason) => Err(Stop::Refused(Finding::Wrong, format!("{at}: {reason}"))),
            None => Ok(()),
        }
    }
}
