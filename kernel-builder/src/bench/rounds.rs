//! One case: contenders in turn, block by block, with clocks, outputs and the state of the machine watched.
//!
//! Owns: the order of everything that is asked of the processes; every number that a candidate must not foresee.
//! Never: starts a process, compares a value, decides what a disagreement means.

mod audits;
mod judging;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use kernel_plan::spec::op::Case;

use super::clock::{self, Disagreement, Reading};
use super::contender::{Aim, Ask, Block, CallTracer, Fault, Prepared, Referee, Regime, Timer};
use super::cupti::Cupti;
use super::machine::Load;
use super::outputs;
use super::samples::{KERNEL, MeasuredCase, Samples, left_out};
use super::skip::SkipReason;
use super::state::{self, SlowdownFinding, State};
use super::stats::{self, SplitMix};
use super::traced;

/// The baseline that shows whether a kernel leaves something behind.
const PROBE: &str = "eager";
const PROBES: usize = 7;
/// On a GPU the contents of one of so many blocks, on average, differ from earlier ones by single elements.
const EDITED_EVERY: usize = 3;
/// For so many times [`IDLE`] a baseline must stay slower before the kernel is to blame.
const PERSISTS: u32 = 8;
/// Twice so long the candidate's process is left alone, and the second time it must use no processor.
pub(super) const IDLE: Duration = Duration::from_millis(300);
/// An empty block is taken every so many blocks.
const EMPTY_EVERY: usize = 3;
/// Seeds travel as JSON numbers, which hold so many bits everywhere.
const SEED_BITS: u32 = 53;

/// What came of a case.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    Measured(MeasuredCase),
    /// There is no room for it; the reason.
    Skipped(SkipReason),
}

/// What is found against a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finding {
    /// Outputs of timed calls are wrong, or inputs were changed.
    Wrong,
    /// Work outside of the stream.
    Escape,
    /// Times that cannot be.
    Clock,
    /// Times below what the machine allows.
    Impossible,
    /// It slows what comes after it.
    State,
    /// An exception.
    Raised,
}

/// Why a case ended early.
#[derive(Debug)]
pub(super) enum Stop {
    Refused(Finding, String),
    /// One of the processes failed.
    Fault {
        of: &'static str,
        fault: Fault,
    },
}

impl From<Disagreement> for Stop {
    fn from(disagreement: Disagreement) -> Self {
        match disagreement {
            Disagreement::Escape(reason) => Self::Refused(Finding::Escape, reason),
            Disagreement::Clock(reason) => Self::Refused(Finding::Clock, reason),
        }
    }
}

/// Both processes and what chance decides. `random` must come from a seed that no candidate can know.
pub(super) struct Rounds<'a> {
    pub(super) kernel: &'a mut dyn Timer,
    pub(super) baselines: &'a mut dyn Referee,
    /// On a GPU.
    pub(super) tracer: Option<&'a mut dyn CallTracer>,
    /// What the tracer saw of the case in an earlier start; then it is not asked again.
    pub(super) traced: Option<Cupti>,
    pub(super) random: SplitMix,
    /// Where outputs are left.
    pub(super) folder: &'a Path,
    /// Time for samples of each regime.
    pub(super) budget: Duration,
    /// The regimes to measure; one that the device does not have is skipped.
    pub(super) regimes: Vec<Regime>,
    /// Threads that contenders may use.
    pub(super) threads: u64,
    /// [`IDLE`], but in tests.
    pub(super) idle: Duration,
}

/// Where the calls of a regime stand: which contents the sets have, and whose turn they are.
struct CallRotation {
    regime: Regime,
    sets: u64,
    contents: u64,
    first: BTreeMap<String, u64>,
    block: usize,
    /// Whether single elements of inputs can be edited.
    editable: bool,
}

impl Rounds<'_> {
    /// Measures one case.
    ///
    /// # Errors
    /// When the candidate is refused, or one of the processes fails.
    pub(super) fn measure(&mut self, case: &Case) -> Result<Outcome, Stop> {
        let seed = self.seed();
        let need = self.baselines.begin(case).map_err(baseline)?;
        if let Some(reason) = need.unmet() {
            return Ok(Outcome::Skipped(reason));
        }
        let rivals = self.baselines.prepare(seed).map_err(baseline)?;
        let before = self.probe(&rivals)?;
        let mut outcome = self.beside(case, seed, need.bytes, &rivals, &before);
        // What has ended or hangs forgets nothing, and is not asked.
        if !matches!(outcome, Err(Stop::Fault { fault: Fault::Gone { .. }, .. })) {
            self.kernel.leave().map_err(kernel)?;
            self.baselines.leave().map_err(baseline)?;
        }
        if let Ok(Outcome::Measured(found)) = &mut outcome {
            self.trace(case, found)?;
        }
        outcome
    }

    /// Has calls traced in a process that is not timed, unless an earlier start did, and compares with the figures.
    fn trace(&mut self, case: &Case, found: &mut MeasuredCase) -> Result<(), Stop> {
        let seed = self.seed();
        if let Some(seen) = &self.traced {
            return traced::compare(seen, &found.regimes, KERNEL).map_or(Ok(()), |found| Err(found.into()));
        }
        let Some(tracer) = &mut self.tracer else { return Ok(()) };
        let reason = match tracer.trace(case, seed) {
            Ok(seen) => {
                if let Some(disagreement) = traced::compare(&seen, &found.regimes, KERNEL) {
                    return Err(disagreement.into());
                }
                let reason = seen.reason.clone();
                found.cupti = Some(seen);
                reason
            }
            Err(fault @ Fault::Process(_)) => return Err(kernel(fault)),
            // A tracer that breaks is not the kernel's fault: everything was measured without it.
            Err(Fault::Raised(reason)) => Some(reason),
            Err(Fault::Gone { ending, .. }) => Some(format!("its process {ending}")),
        };
        found.notes.extend(reason.map(|reason| format!("no kernel was traced: {reason}")));
        Ok(())
    }

    /// The part of a case in which the candidate lives.
    fn beside(
        &mut self,
        case: &Case,
        seed: u64,
        bytes: u64,
        rivals: &Prepared,
        before: &[f64],
    ) -> Result<Outcome, Stop> {
        if let Some(reason) = self.kernel.begin(case).map_err(kernel)?.unmet() {
            return Ok(Outcome::Skipped(reason));
        }
        let own = self.kernel.prepare(seed).map_err(kernel)?;
        let mut regimes = Vec::new();
        for regime in rivals.regimes.iter().map(|sizes| sizes.regime) {
            if self.regimes.contains(&regime) {
                regimes.push(self.regime(regime, case, &own, rivals)?);
            }
        }
        let mut notes = rivals.notes.clone();
        notes.extend(self.left_behind(rivals, before)?);
        Ok(Outcome::Measured(MeasuredCase { bytes, sets: own.sets.max(1), regimes, notes, cupti: None }))
    }

    /// Samples of one regime.
    fn regime(
        &mut self,
        regime: Regime,
        case: &Case,
        own: &Prepared,
        rivals: &Prepared,
    ) -> Result<Samples, Stop> {
        let calls: BTreeMap<String, u64> = [own, rivals]
            .into_iter()
            .filter_map(|prepared| prepared.sizes(regime))
            .flat_map(|sizes| sizes.calls.clone())
            .collect();
        let skipped =
            [own, rivals].into_iter().flat_map(|prepared| left_out(&prepared.skipped, regime)).collect();
        let mut found = Samples {
            regime,
            samples: calls.keys().map(|name| (name.clone(), Vec::new())).collect(),
            calls,
            skipped,
            crowded: None,
            spent: Duration::ZERO,
        };
        let Some(size) = found.calls.get(KERNEL).copied() else {
            // Without the kernel the others say nothing.
            found.samples.clear();
            found.calls.clear();
            return Ok(found);
        };
        let (contents, first, editable) = (0, BTreeMap::new(), outputs::can_edit(case));
        let mut turn = CallRotation { regime, sets: own.sets.max(1), contents, first, block: 0, editable };
        self.audits(&mut turn, own, size)?;
        if let Some(calls) = own.sizes(regime).and_then(|sizes| sizes.queued.get(KERNEL)) {
            self.queued(&mut turn, *calls)?;
        }
        let load = (regime == Regime::Host).then(|| self.load()).flatten();
        self.sample(&mut turn, &mut found, size)?;
        found.crowded =
            load.zip(self.load()).map(|(before, after)| after.crowded_since(&before, self.threads));
        self.audits(&mut turn, own, size)?;
        // Nobody knows which block is the last until it is over; so it is judged, too.
        self.renew(&mut turn);
        self.judged_block(&mut turn, size)?;
        Ok(found)
    }

    /// Blocks of one sample a contender, each in a new random order, until they are enough or the budget is spent.
    fn sample(&mut self, turn: &mut CallRotation, found: &mut Samples, size: u64) -> Result<(), Stop> {
        let mut order: Vec<String> = found.calls.keys().cloned().collect();
        let (mut readings, mut empty) = (Vec::new(), Vec::new());
        let (mut spent, mut judging) = (Duration::ZERO, Duration::ZERO);
        loop {
            let started = Instant::now();
            let mut judged = Duration::ZERO;
            // The calls of a GPU have numbers that are the same in every block, so each block has a seed of its own.
            let next = turn.first.get(KERNEL).copied().unwrap_or(1) + size;
            if turn.regime != Regime::Host || next > turn.sets || turn.block == 0 {
                self.renew(turn);
            }
            self.shuffle(&mut order);
            let single =
                turn.regime == Regime::Host || turn.block == 0 || self.random.below(EDITED_EVERY) == 0;
            for name in &order {
                let calls = found.calls[name];
                // Rivals are disturbed by edits as much as the kernel is.
                let edits = if single { self.edits(turn, name, calls) } else { Vec::new() };
                let block = self.block(turn, name, calls, &edits, Aim::Sample)?;
                let seconds = block.device / calls.max(1) as f64;
                if let Some(samples) = found.samples.get_mut(name) {
                    samples.push(seconds);
                }
                if name == KERNEL {
                    if let Some(disagreement) = clock::impossible(&block) {
                        return Err(disagreement.into());
                    }
                    let since = Instant::now();
                    let suspects = self.suspects(turn.regime)?;
                    // As much time for outputs as for samples, and never none for long.
                    if turn.block == 0 || judging < spent || !suspects.is_empty() || self.random.below(8) == 0
                    {
                        self.judge(turn, calls, &edits, &block, &suspects)?;
                    }
                    judged += since.elapsed();
                    readings.push(Reading { block, calls });
                }
                self.advance(turn, name, calls);
            }
            if turn.block.is_multiple_of(EMPTY_EVERY) {
                empty.push(self.empty(turn, Aim::Sample)?);
            }
            turn.block += 1;
            spent += started.elapsed().saturating_sub(judged);
            found.spent = spent;
            judging += judged;
            if self.over(found, spent) {
                break;
            }
        }
        // A single call after a flush is not all that its block does.
        if turn.regime != Regime::Cold
            && clock::ordinary(&readings, &empty).is_some()
            && let Some(disagreement) = self.ordinary_again(turn, size)?
        {
            return Err(disagreement.into());
        }
        Ok(())
    }

    fn over(&self, found: &Samples, spent: Duration) -> bool {
        let Some(kernel) = found.samples.get(KERNEL) else { return true };
        if kernel.len() >= stats::FEWEST_BLOCKS && spent > self.budget {
            return true;
        }
        let rivals: Vec<&[f64]> = found
            .samples
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), KERNEL | "copy" | "peak"))
            .map(|(_, samples)| samples.as_slice())
            .collect();
        stats::enough(kernel, &rivals)
    }

    /// A block without calls: what it costs to ask, and on a processor one untimed call.
    fn empty(&mut self, turn: &CallRotation, aim: Aim) -> Result<Block, Stop> {
        let ask = Ask {
            contender: (turn.regime == Regime::Host).then_some(KERNEL),
            regime: turn.regime,
            calls: 0,
            first: self.first(turn, KERNEL),
            contents: turn.contents,
            edits: &[],
            aim,
        };
        self.kernel.block(&ask).map_err(kernel)
    }

    fn block(
        &mut self,
        turn: &CallRotation,
        name: &str,
        calls: u64,
        edits: &[(u64, u64)],
        aim: Aim,
    ) -> Result<Block, Stop> {
        let first = self.first(turn, name);
        let ask = Ask {
            contender: Some(name),
            regime: turn.regime,
            calls,
            first,
            contents: turn.contents,
            edits,
            aim,
        };
        if name == KERNEL {
            self.kernel.block(&ask).map_err(kernel)
        } else {
            self.baselines.block(&ask).map_err(baseline)
        }
    }

    /// The set of a contender's next timed call; the one before it is called without a clock.
    fn first(&self, turn: &CallRotation, name: &str) -> u64 {
        match turn.regime {
            Regime::Host => turn.first.get(name).copied().unwrap_or(1),
            // Single calls have other memory in each block.
            Regime::Cold => turn.block as u64 % turn.sets,
            Regime::Graph | Regime::Hot => 0,
        }
    }

    fn advance(&self, turn: &mut CallRotation, name: &str, calls: u64) {
        let next = self.first(turn, name) + calls;
        turn.first.insert(name.to_owned(), next);
    }

    /// New contents for all sets, and everybody begins at the first again.
    fn renew(&mut self, turn: &mut CallRotation) {
        turn.contents = self.seed();
        turn.first.clear();
    }

    fn seed(&mut self) -> u64 {
        self.random.next() >> (64 - SEED_BITS)
    }

    fn shuffle(&mut self, order: &mut [String]) {
        for at in (1..order.len()).rev() {
            order.swap(at, self.random.below(at + 1));
        }
    }

    /// One edit for every call that would find contents for the second time. On a processor these are the calls that come
    /// back to a set; on a GPU all, as contents were called with untimed, or differ from call to call by the edit alone.
    fn edits(&mut self, turn: &CallRotation, name: &str, calls: u64) -> Vec<(u64, u64)> {
        let ceiling = matches!(name, "copy" | "peak");
        let seen = match turn.regime {
            Regime::Host => turn.sets..calls,
            Regime::Graph => 0..calls.min(turn.sets),
            Regime::Cold => 0..calls,
            Regime::Hot => return Vec::new(),
        };
        if ceiling || !turn.editable { Vec::new() } else { seen.map(|at| (at, self.seed())).collect() }
    }

    /// Samples of one baseline alone, in the first regime that has it.
    fn probe(&mut self, rivals: &Prepared) -> Result<Vec<f64>, Stop> {
        let Some((regime, calls)) =
            rivals.regimes.iter().find_map(|sizes| Some((sizes.regime, *sizes.calls.get(PROBE)?)))
        else {
            return Ok(Vec::new());
        };
        let (contents, first, editable) = (0, BTreeMap::new(), false);
        let mut turn = CallRotation { regime, sets: rivals.sets, contents, first, block: 0, editable };
        self.renew(&mut turn);
        (0..PROBES)
            .map(|_| Ok(self.block(&turn, PROBE, calls, &[], Aim::Sample)?.device / calls.max(1) as f64))
            .collect()
    }

    /// Whether the baselines are as fast as before the candidate, and its process is idle; notes, where that is to be
    /// told.
    fn left_behind(&mut self, rivals: &Prepared, before: &[f64]) -> Result<Option<String>, Stop> {
        let refused = |reason| Err(Stop::Refused(Finding::State, reason));
        let on_host = rivals.regimes.iter().any(|sizes| sizes.regime == Regime::Host);
        if on_host && let Some(reason) = state::busy(self.idle(rivals)?) {
            return refused(reason);
        }
        let after = self.probe(rivals)?;
        let State::Slower(mut factor) = state::compare(before, &after, on_host) else { return Ok(None) };
        // A kernel's effect lasts as long as its process. Effects of the machine pass, such as a GPU's low clock after a pause.
        let since = Instant::now();
        while since.elapsed() < self.idle * PERSISTS {
            match state::compare(before, &self.probe(rivals)?, on_host) {
                State::Slower(still) => factor = factor.min(still),
                State::Clean => return Ok(Some(state::passed(PROBE, factor))),
            }
        }
        self.kernel.stop();
        let alone = self.probe(rivals)?;
        match state::blame(PROBE, factor, before, &alone, on_host) {
            SlowdownFinding::Refused(reason) => refused(reason),
            SlowdownFinding::Told(note) => Ok(Some(note)),
        }
    }

    /// Processors that the candidate's process takes while others are timed, after it had time to come to rest.
    fn idle(&mut self, rivals: &Prepared) -> Result<f64, Stop> {
        let mut used = Vec::new();
        for _ in 0..2 {
            let since = Instant::now();
            let early = self.kernel.processor_seconds();
            while since.elapsed() < self.idle {
                if self.probe(rivals)?.is_empty() {
                    return Ok(0.0);
                }
            }
            let seconds =
                early.zip(self.kernel.processor_seconds()).map_or(0.0, |(early, late)| late - early);
            used.push(seconds / since.elapsed().as_secs_f64());
        }
        Ok(used[1])
    }

    fn load(&self) -> Option<Load> {
        let own = super::machine::processor_seconds(std::process::id())?;
        Load::now(own + self.kernel.processor_seconds()? + self.baselines.processor_seconds()?)
    }
}

fn kernel(fault: Fault) -> Stop {
    match fault {
        Fault::Raised(reason) => Stop::Refused(Finding::Raised, format!("kernel: {reason}")),
        fault => Stop::Fault { of: KERNEL, fault },
    }
}

fn baseline(fault: Fault) -> Stop {
    match fault {
        Fault::Raised(reason) => Stop::Refused(Finding::Raised, reason),
        fault => Stop::Fault { of: "baselines", fault },
    }
}

#[cfg(test)]
#[path = "rounds_tests.rs"]
pub(super) mod tests;
