//! Two processes on one GPU: one runs candidates, the other holds the inputs and what is expected, lends itself the first
//! one's memory, and compares on the device.
//!
//! Owns: their lives, what lies where, one trial after the other. Never: lets expected values into a context in which a
//! candidate's kernel runs.
//!
//! A candidate sees other contents at the same addresses in every trial, in an order that nobody can guess; whatever it
//! left in memory of its own from an earlier trial is wrong in the next.

use std::time::{Duration, Instant};

use kernel_plan::spec::launch::ConcreteLaunch;
use kernel_plan::spec::op::Case;

use super::VerifyError;
use super::bound::Numbers;
use super::schedule::{ScheduledCase, TensorSpec};
use super::watched::Watched;
use crate::base::causes::chain;
use crate::base::digest::DigestBuilder;
use crate::compile::nvrtc::Code;
use crate::device::calls::{self, Addresses, Unplaced};
use crate::device::gpu::Gpu;
use crate::device::wire::{Answer, Call, DeviceProperties, Function, Op, Place, Start};

mod begin;
mod counted;
mod examine;
mod groundwork;
#[cfg(test)]
mod kernels_tests;
mod layout;
mod pool;
pub(super) mod refusal;

pub(crate) use begin::NoLab;
pub(crate) use groundwork::{Groundwork, ProcessorShare};
use layout::{ARENA, Layout};
use pool::SetBuffers;
pub(crate) use refusal::{Attempt, CandidateRefusal};

/// How long the judge's own requests may take: gigabytes are copied.
const OWN: Duration = Duration::from_secs(120);
/// The numbers of what the running worker has of its own: code that reads a range, memory to flush the cache with.
const HELPER: u32 = 1;
const FLUSH: u32 = 3;
const SINK: u32 = 4;
/// The first number of a candidate's machine code.
const CANDIDATE: u32 = 10;
/// The bytes that poison alternates between: NaN everywhere, and a finite number everywhere.
const POISONS: [u8; 2] = [0xff, 0x5a];

/// One case, ready for candidates.
pub(crate) struct Lab {
    /// Runs candidates.
    runner: Gpu,
    /// Compares.
    checker: Gpu,
    about: DeviceProperties,
    case: Case,
    scheduled: ScheduledCase,
    /// How many of the sets calls are timed with; the first ones.
    timed: usize,
    bounds: Vec<Numbers>,
    known: Vec<SetBuffers>,
    layout: Layout,
    /// Bytes of the piece in which it lies: as many as any candidate needed so far.
    piece: u64,
    judge: Code,
    /// The runner that has its memory; another one has none.
    ready: Option<u32>,
    /// How long it took to end the last runner and to have another one ready; nothing once it was told.
    restarted: Option<Duration>,
    trials: u64,
    secret: String,
    /// Seconds that an attempt may take.
    patience: Duration,
    /// Buffers of the worker that compares.
    lent: Vec<u32>,
    /// The data of the candidate that is loaded.
    watched: Watched,
}

/// A candidate whose machine code is loaded.
pub(crate) struct LoadedCandidate {
    /// What each slot's call starts, in an order that nobody can foresee.
    pub calls: Vec<Call>,
    /// The same with the inputs of the last slot: calls on one input set, each with outputs of its own.
    pub alike: Vec<Call>,
    /// What its kernels use.
    pub functions: Vec<Function>,
    modules: u32,
}

impl Lab {
    /// Seconds that the worker with the candidates and the one that compares were asked things, so far.
    pub(crate) fn request_time(&self) -> (Duration, Duration) {
        (self.runner.request_time(), self.checker.request_time())
    }

    /// What the device is.
    pub(crate) fn about(&self) -> &DeviceProperties {
        &self.about
    }

    /// How many calls a trial makes.
    pub(crate) fn slots(&self) -> usize {
        self.layout.slots.len()
    }

    /// How often the running worker was started.
    pub(crate) fn generation(&self) -> u32 {
        self.runner.generation()
    }

    /// How long it took to end the last running worker and to have another one ready, if there was another one since this
    /// was last asked.
    pub(crate) fn restarted(&mut self) -> Option<Duration> {
        self.restarted.take()
    }

    /// Bytes that a call reads and writes at least.
    pub(crate) fn bytes(&self) -> u64 {
        let tensors = self.scheduled.inputs.iter().chain(&self.scheduled.outputs);
        tensors.map(|tensor| tensor.bytes() as u64).sum()
    }

    /// Loads a candidate.
    ///
    /// # Errors
    /// The judge's own work fails. What is wrong with the candidate is the inner error.
    pub(crate) fn load(
        &mut self,
        launch: &ConcreteLaunch,
        code: &Code,
    ) -> Result<Attempt<LoadedCandidate>, VerifyError> {
        let wanted = Layout::new(&self.scheduled, &launch.workspaces, self.slots());
        // What was planned in the running worker, a copy for one, names addresses in its piece: a larger one is another
        // worker's. One that is too large is good for what needs less.
        if wanted.bytes > self.piece && self.ready.is_some() {
            self.give_up();
        }
        self.layout = wanted.within(self.piece);
        if let Err(complaint) = self.prepare()? {
            return Ok(Err(complaint));
        }
        let modules = code.cubins.len() as u32;
        self.watched = match Watched::new(code, CANDIDATE) {
            Ok(watched) => watched,
            Err(error) => {
                return Ok(Err(CandidateRefusal { code: "verify::state", text: chain(&error) }));
            }
        };
        let mut ops: Vec<Op> = load_all(code).collect();
        ops.extend(self.watched.begin());
        let answers = match self.ask(&ops)? {
            Ok(answers) => answers,
            Err(complaint) => return Ok(Err(complaint)),
        };
        let _first_contents = self.watched.hear(&answers);
        let functions = answers.into_iter().flat_map(|answer| match answer {
            Answer::Functions { functions } => functions,
            _ => vec![],
        });
        let functions = functions.collect();
        let last = self.slots().saturating_sub(1);
        let all = |inputs: Option<usize>| -> Result<Vec<Call>, Unplaced> {
            (0..self.slots()).map(|slot| self.call(launch, code, inputs.unwrap_or(slot), slot)).collect()
        };
        let calls = all(None).and_then(|calls| Ok((calls, all(Some(last))?)));
        let order = self.shuffled(self.slots());
        Ok(match calls {
            Ok((calls, alike)) => {
                let calls = order.into_iter().map(|slot| calls[slot].clone()).collect();
                Ok(LoadedCandidate { calls, alike, functions, modules })
            }
            Err(error) => {
                self.give_up();
                Err(error.into())
            }
        })
    }

    /// Forgets a candidate.
    pub(crate) fn unload(&mut self, loaded: &LoadedCandidate) -> Result<(), VerifyError> {
        if self.is_ready() {
            let modules = (0..loaded.modules).map(|module| Op::Unload { module: CANDIDATE + module });
            let ops: Vec<Op> = self.watched.end().into_iter().chain(modules).collect();
            // Whatever is wrong now is wrong with the worker; the next candidate finds a new one.
            let _complaint = self.ask(&ops)?;
        }
        Ok(())
    }

    /// A call on the inputs of one slot with the outputs of another one, or of the same.
    fn call(&self, launch: &ConcreteLaunch, code: &Code, from: usize, to: usize) -> Result<Call, Unplaced> {
        let slots = &self.layout.slots;
        let inputs: Vec<Option<Place>> =
            slots[from].inputs.iter().map(|range| range.map(layout::Range::place)).collect();
        let own: Vec<Place> = slots[to].own.iter().map(|range| range.place()).collect();
        let workspaces = self.layout.workspaces.iter().map(|(name, range)| (name.clone(), range.place()));
        let addresses = Addresses::new(&self.case, &inputs, &own, workspaces);
        calls::call(launch, &addresses, |kernel| {
            let (module, function) = code.place(launch, kernel)?;
            Some((CANDIDATE + module, function))
        })
    }

    /// Calls the candidate once in every slot, on any of the sets, and compares.
    ///
    /// # Errors
    /// As [`Self::load`]; gives the largest error as a share of the bound.
    pub(crate) fn trial(&mut self, loaded: &LoadedCandidate) -> Result<Attempt<f64>, VerifyError> {
        let sets = self.known.len();
        let run = [Op::Run { calls: loaded.calls.clone() }];
        let assignment = self.next(sets);
        Ok(self.judged(assignment, &run)?.map(|(_, share)| share))
    }

    /// Does something with the candidate on new contents, and compares what its calls left: one call in every slot, the
    /// last one where there are several. Gives the answers and the largest error as a share of the bound.
    pub(crate) fn timed(&mut self, ops: &[Op]) -> Result<Attempt<(Vec<Answer>, f64)>, VerifyError> {
        let assignment = self.next(self.timed);
        self.judged(assignment, ops)
    }

    /// [`Self::timed`] with the same contents in every slot, for [`LoadedCandidate::alike`].
    pub(crate) fn timed_alike(&mut self, ops: &[Op]) -> Result<Attempt<(Vec<Answer>, f64)>, VerifyError> {
        let (mut assignment, poison) = self.next(self.timed);
        let set = assignment.last().copied().unwrap_or_default();
        assignment.fill(set);
        self.judged((assignment, poison), ops)
    }

    fn judged(
        &mut self,
        (assignment, poison): (Vec<usize>, u8),
        ops: &[Op],
    ) -> Result<Attempt<(Vec<Answer>, f64)>, VerifyError> {
        self.refresh(&assignment, poison)?;
        // The sink is the only other memory that the runner keeps and a sample does not fill.
        let sink = Op::Fill { at: Place::start(SINK), bytes: layout::PAGE, byte: poison };
        let ops: Vec<Op> = [sink].into_iter().chain(ops.iter().cloned()).chain(self.watched.look()).collect();
        let answers = match self.ask(&ops)? {
            Ok(answers) => answers,
            Err(complaint) => return Ok(Err(complaint)),
        };
        if let Some(complaint) = self.watched.hear(&answers) {
            return Ok(Err(complaint));
        }
        let shared = self.examine(&assignment, poison)?;
        Ok(shared.map(|share| (answers, share)))
    }

    /// Asks the running worker something that concerns no memory of a call.
    pub(crate) fn ask(&mut self, ops: &[Op]) -> Result<Attempt<Vec<Answer>>, VerifyError> {
        Ok(match self.runner.ask(ops, self.patience)? {
            Ok(answers) => Ok(answers),
            Err(failure) => {
                // Whatever state it is in, the next candidate gets a new one.
                self.give_up();
                Err(CandidateRefusal::from_failure(&failure))
            }
        })
    }

    /// What fills the cache with clean lines that belong to nobody: written, then read.
    pub(crate) fn flush(&self) -> Call {
        let bytes = 2 * self.about.l2;
        let at = Place::start(FLUSH);
        vec![
            Start::Fill { at, bytes, byte: 0 },
            examine::touch(HELPER, examine::touch_function(), at, bytes, Place::start(SINK)),
        ]
    }

    /// What keeps the device busy until a graph is in the queue.
    pub(crate) fn cover(&self) -> Call {
        self.flush().into_iter().filter(|start| matches!(start, Start::Fill { .. })).collect()
    }

    /// How many calls on one input set, each with outputs of its own, stay in half of the cache.
    pub(crate) fn hot_calls(&self) -> usize {
        let sum = |tensors: &mut dyn Iterator<Item = &TensorSpec>| -> u64 {
            tensors.map(|tensor| tensor.bytes() as u64).sum()
        };
        let inputs = sum(&mut self.scheduled.inputs.iter());
        let outputs = sum(&mut self.scheduled.returned());
        ((self.about.l2 / 2).saturating_sub(inputs) / outputs.max(1)) as usize
    }

    /// Whether calls overwrite inputs.
    pub(crate) fn overwrites(&self) -> bool {
        self.scheduled.outputs.iter().any(|output| output.inplace.is_some())
    }

    /// A copy that reads and writes as many bytes as a call does at least, for every slot.
    pub(crate) fn copies(&self) -> Vec<Call> {
        let half = self.bytes() / 2;
        // A ragged end makes a copy slower than its bytes explain.
        let bytes = if half >= 1 << 16 { half / 4096 * 4096 } else { half };
        // Where memory holds a single call, the piece may be too short for both ends of such a copy.
        let bytes = bytes.min(self.layout.bytes / 2 / layout::ALIGNMENT * layout::ALIGNMENT);
        let at = |offset| Place { buffer: ARENA, offset };
        let pairs = self.layout.pairs(bytes);
        pairs.map(|(from, to)| vec![Start::Copy { to: at(to), from: at(from), bytes }]).collect()
    }

    fn is_ready(&self) -> bool {
        self.runner.lives() && self.ready == Some(self.runner.generation())
    }

    /// Ends the running worker, so that the next one begins with nothing.
    pub(crate) fn give_up(&mut self) {
        self.runner.end();
        self.ready = None;
    }

    /// Gives the running worker its memory, and the judging one its share in it.
    fn prepare(&mut self) -> Result<Attempt<()>, VerifyError> {
        if self.is_ready() {
            return Ok(Ok(()));
        }
        let since = Instant::now();
        // The memory of an earlier worker is gone with it; what the judge had of it may be refused, and is forgotten.
        // That comes first, or the device holds both.
        let _gone = self.checker.ask(&[Op::Free { buffer: ARENA }], OWN)?;
        let l2 = self.about.l2;
        let bytes = self.piece.max(self.layout.bytes);
        let ops = [
            load(HELPER, &self.judge),
            Op::Allocate { buffer: FLUSH, bytes: 2 * l2 },
            Op::Allocate { buffer: SINK, bytes: layout::PAGE },
            Op::Allocate { buffer: ARENA, bytes },
            Op::Export { buffer: ARENA },
        ];
        let handle = match self.runner.ask(&ops, OWN)? {
            Ok(answers) => answers.into_iter().find_map(|answer| match answer {
                Answer::Handle { handle } => Some(handle),
                _ => None,
            }),
            Err(failure) => {
                self.give_up();
                return Ok(Err(CandidateRefusal::from_failure(&failure)));
            }
        };
        let import = Op::Import { buffer: ARENA, handle: handle.unwrap_or_default(), bytes };
        self.checked(&[import])?;
        self.ready = Some(self.runner.generation());
        self.piece = bytes;
        self.restarted = Some(self.runner.ending() + since.elapsed());
        Ok(Ok(()))
    }

    /// Another choice of sets for the slots, and another poison, that follow from a secret. No two slots have one set while
    /// there are enough.
    fn next(&mut self, sets: usize) -> (Vec<usize>, u8) {
        self.trials += 1;
        let assignment = self.shuffled(sets).into_iter().cycle().take(self.slots()).collect();
        (assignment, POISONS[(self.trials % 2) as usize])
    }

    /// The numbers below `count` in an order that follows from a secret and the number of trials.
    fn shuffled(&self, count: usize) -> Vec<usize> {
        let key = |number: &usize| {
            DigestBuilder::new("order")
                .field("secret", &self.secret)
                .field("trial", self.trials.to_le_bytes())
                .field("number", number.to_le_bytes())
                .finish()
        };
        let mut numbers: Vec<usize> = (0..count).collect();
        numbers.sort_by_cached_key(|number| key(number).to_string());
        numbers
    }

    /// Poison everywhere, then the inputs.
    fn refresh(&mut self, assignment: &[usize], poison: u8) -> Result<(), VerifyError> {
        let mut ops = vec![Op::Fill { at: Place::start(ARENA), bytes: self.layout.bytes, byte: poison }];
        for (slot, set) in self.layout.slots.iter().zip(assignment) {
            for (range, kept) in slot.inputs.iter().zip(&self.known[*set].inputs) {
                if let (Some(range), Some(kept)) = (range, kept) {
                    ops.push(Op::Copy { to: range.place(), from: *kept, bytes: range.bytes });
                }
            }
        }
        self.checked(&ops).map(drop)
    }

    fn examine(&mut self, assignment: &[usize], poison: u8) -> Result<Attempt<f64>, VerifyError> {
        let examination = examine::examination(
            &self.scheduled,
            &self.layout,
            &self.known,
            &self.bounds,
            assignment,
            poison,
        );
        let at = Place::start(examine::VERDICTS);
        let bytes = examination.bytes();
        let ops = [
            Op::Fill { at, bytes, byte: 0 },
            Op::Run { calls: vec![examination.call.clone()] },
            Op::Peek { at, bytes },
        ];
        let numbers = self.checked(&ops)?.into_iter().find_map(|answer| match answer {
            Answer::Bytes { bytes } => Some(bytes),
            _ => None,
        });
        Ok(examination.read(&self.scheduled, &numbers.unwrap_or_default()))
    }

    /// Asks the judging worker, which no candidate can harm.
    fn checked(&mut self, ops: &[Op]) -> Result<Vec<Answer>, VerifyError> {
        self.checker.ask(ops, OWN)?.map_err(|failure| VerifyError::Judge { cause: failure.into() })
    }
}

/// Loads all machine code of a candidate.
fn load_all(code: &Code) -> impl Iterator<Item = Op> {
    code.cubins.iter().enumerate().map(|(place, cubin)| Op::Load {
        module: CANDIDATE + place as u32,
        cubin: cubin.path.clone(),
        functions: cubin.names.clone(),
    })
}

fn load(module: u32, code: &Code) -> Op {
    let cubin = &code.cubins[0];
    Op::Load { module, cubin: cubin.path.clone(), functions: cubin.names.clone() }
}
