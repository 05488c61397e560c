//! Makes the calls of a schedule on the device.
//!
//! Owns: the order of operations of a trial, and what a failure of the device means. Never: compares a value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernel_plan::spec::launch::ConcreteLaunch;
use kernel_plan::spec::op::Case;
use kernel_plan::spec::tune::Tuning;
use kernel_plan::spec::{LaunchError, OpSpec};
use serde_json::Value;

use super::super::channel::RoleResult;
use super::super::run::Run;
use super::super::schedule::{Form, GUARD, ScheduledCase, Trial};
use super::super::stage::Stage;
use super::super::watched::Watched;
use super::super::{VerifyError, compare};
use super::arena::{Arena, spread};
use super::failure::{CodedText, LAUNCH, meaning};
use crate::agent::tuned::Settings;
use crate::base::causes::chain;
use crate::base::files;
use crate::base::process::{Ending, Finished};
use crate::compile::nvrtc::Code;
use crate::device::calls;
use crate::device::gpu::Gpu;
use crate::device::wire::Op;

/// How long one trial may take, its copies included.
const TRIAL: Duration = Duration::from_secs(60);

/// The schedule of a device candidate: every call writes into given tensors that begin at multiples of 16 bytes, which is
/// what the host that starts device code sees to; and there is no backward pass.
pub(super) fn adapted(mut schedule: Vec<ScheduledCase>) -> Vec<ScheduledCase> {
    for case in &mut schedule {
        case.gradients.clear();
        case.trials.retain(|trial| trial.form != Form::Gradient && trial.shift == 0);
        case.trials.iter_mut().for_each(|trial| trial.form = Form::Out);
        case.sets.iter_mut().for_each(|set| set.gradient = false);
    }
    schedule
}

/// The case as one trial has it: with its scalars and its strides.
pub(super) fn case_of(case: &Case, scheduled: &ScheduledCase, trial: &Trial) -> Case {
    let mut case = case.clone();
    let scalars = &scheduled.sets[trial.set].scalars;
    for scalar in &mut case.scalars {
        scalar.value = scalars.get(scalar.name.as_str()).copied().unwrap_or(scalar.value);
    }
    for (place, strides) in &trial.strides {
        case.inputs[*place].strides = Some(strides.clone());
    }
    case
}

/// Why a call has no launch.
#[derive(Debug, thiserror::Error)]
pub(super) enum LaunchFailure {
    /// op.toml does not say how to start a kernel.
    #[error("op.toml has no [launch]")]
    Undeclared,
    /// `[launch]` has no numbers for this call.
    #[error(transparent)]
    Evaluation(#[from] LaunchError),
}

/// The launch of one trial.
pub(super) fn launch_of(
    op: &OpSpec,
    case: &Case,
    scheduled: &ScheduledCase,
    trial: &Trial,
    settings: &Settings,
) -> Result<ConcreteLaunch, LaunchFailure> {
    let launch = op.launch.as_ref().ok_or(LaunchFailure::Undeclared)?;
    let case = case_of(case, scheduled, trial);
    Ok(launch.evaluate(&case, &settings.choose(op, &case).tuning)?)
}

/// One worker with the candidate's machine code.
pub(super) struct Lane<'a> {
    pub(super) gpu: Gpu,
    pub(super) code: &'a Code,
    pub(super) op: &'a OpSpec,
    pub(super) settings: &'a Settings,
    pub(super) stage: &'a Stage<'a>,
    /// The worker that the code was loaded into.
    loaded_in: Option<u32>,
    /// The code's own data in that worker.
    watched: Watched,
    /// The last number that a buffer was given.
    next: u32,
}

/// The buffers of a case by the arenas of its trials.
type Arenas = BTreeMap<&'static str, Arena>;

impl<'a> Lane<'a> {
    pub(super) fn new(
        gpu: Gpu,
        code: &'a Code,
        op: &'a OpSpec,
        settings: &'a Settings,
        stage: &'a Stage<'a>,
    ) -> Self {
        Self { gpu, code, op, settings, stage, loaded_in: None, watched: Watched::default(), next: 0 }
    }

    /// Makes every call, until one breaks the device or all time is spent.
    pub(super) fn run(
        &mut self,
        schedule: &[ScheduledCase],
        cases: &[Case],
        deadline: Duration,
        each: &dyn Fn(),
    ) -> Result<Run, VerifyError> {
        let started = Instant::now();
        let (mut begun, mut finished, mut complaints) = (None, 0, BTreeMap::new());
        let mut stopped = false;
        'all: for scheduled in schedule {
            let case = &cases[scheduled.place];
            let mut arenas = Arenas::new();
            for trial in &scheduled.trials {
                begun = Some(trial.id);
                let left = deadline.saturating_sub(started.elapsed());
                match self.trial(case, scheduled, trial, &mut arenas, left.min(TRIAL))? {
                    Ok(()) => {
                        finished += 1;
                        each();
                    }
                    Err(complaint) => {
                        complaints.insert(trial.id, complaint);
                        stopped = true;
                        break 'all;
                    }
                }
            }
            let free: Vec<Op> = arenas.values().flat_map(Arena::free).collect();
            if let Err(failure) = self.gpu.ask(&free, TRIAL)? {
                complaints.insert(begun.unwrap_or(0), meaning(&failure));
                stopped = true;
                break;
            }
        }
        let dumps = self.stage.sealed(schedule);
        let ended = ended(started.elapsed(), !stopped);
        Ok(Run { ended, begun, finished, complaints, stopped, dumps, kept: 0 })
    }

    /// One trial; the complaint where the device refuses it, hangs or breaks.
    fn trial(
        &mut self,
        case: &Case,
        scheduled: &ScheduledCase,
        trial: &Trial,
        arenas: &mut Arenas,
        within: Duration,
    ) -> Result<Result<(), CodedText>, VerifyError> {
        let launch = match launch_of(self.op, case, scheduled, trial, self.settings) {
            Ok(launch) => launch,
            Err(error) => return Ok(Err((LAUNCH, format!("cannot be started: {error}")))),
        };
        let mut ops = Vec::new();
        if self.loaded_in != Some(self.gpu.generation()) || !self.gpu.lives() {
            arenas.clear();
            ops.extend(load(self.code));
            self.watched = match Watched::new(self.code, 0) {
                Ok(watched) => watched,
                Err(error) => return Ok(Err((LAUNCH, format!("cannot be started: {}", chain(&error))))),
            };
            ops.extend(self.watched.begin());
        }
        let arena = match arenas.get(trial.arena) {
            Some(arena) => arena.clone(),
            None => {
                let arena = Arena::new(scheduled, trial, &launch, &mut self.next);
                ops.extend(arena.allocate());
                arenas.insert(trial.arena, arena.clone());
                arena
            }
        };
        let call = calls::call(&launch, &arena.addresses(&case_of(case, scheduled, trial)), |kernel| {
            self.code.place(&launch, kernel)
        });
        let call = match call {
            Ok(call) => call,
            Err(error) => return Ok(Err((LAUNCH, format!("cannot be started: {error}")))),
        };
        let inputs = self.stage.path(&format!("inputs/{}-{}.bin", scheduled.place, trial.set));
        let gaps = self.gaps(scheduled, trial, &inputs)?;
        let gaps: Vec<Option<&Path>> = gaps.iter().map(Option::as_deref).collect();
        let overwrites = scheduled.outputs.iter().any(|output| output.inplace.is_some());
        for turn in 0..trial.calls {
            if overwrites || turn == 0 || turn + 1 == trial.calls {
                ops.extend(arena.fill(trial, scheduled, &inputs, &gaps));
            }
            ops.push(Op::Run { calls: vec![call.clone()] });
        }
        let dump = self.stage.dump(trial.id);
        let guards = self.stage.path(&format!("dumps/{}.workspaces", trial.id));
        ops.extend(arena.dump(&dump, &guards));
        ops.extend(self.watched.look());
        match self.gpu.ask(&ops, within)? {
            Ok(answers) => {
                self.loaded_in = Some(self.gpu.generation());
                match self.watched.hear(&answers) {
                    Some(complaint) => Ok(Err((complaint.code, complaint.text))),
                    None => workspaces(&arena, trial, &guards),
                }
            }
            Err(failure) => {
                self.loaded_in = None;
                self.gpu.end();
                Ok(Err(meaning(&failure)))
            }
        }
    }

    /// Files with the inputs of a trial that have strides.
    fn gaps(
        &self,
        scheduled: &ScheduledCase,
        trial: &Trial,
        inputs: &Path,
    ) -> Result<Vec<Option<PathBuf>>, VerifyError> {
        if trial.strides.is_empty() {
            return Ok(vec![None; scheduled.inputs.len()]);
        }
        let bytes = files::read(inputs)?;
        let mut from = 0;
        let mut found = Vec::new();
        for (place, tensor) in scheduled.inputs.iter().enumerate() {
            let dense = &bytes[from..from + tensor.bytes()];
            from += tensor.bytes();
            let strides = trial.strides.get(&place).filter(|_| !tensor.omitted && tensor.elements() > 0);
            found.push(match strides {
                Some(strides) => {
                    let path = self.stage.path(&format!("inputs/strided-{}-{place}.bin", trial.id));
                    files::write(&path, spread(dense, tensor, strides, trial.poison))?;
                    Some(path)
                }
                None => None,
            });
        }
        Ok(found)
    }
}

/// Loads all machine code.
fn load(code: &Code) -> impl Iterator<Item = Op> {
    code.cubins.iter().enumerate().map(|(module, cubin)| Op::Load {
        module: module as u32,
        cubin: cubin.path.clone(),
        functions: cubin.names.clone(),
    })
}

/// Whether the guards of workspaces are what they were.
fn workspaces(arena: &Arena, trial: &Trial, guards: &Path) -> Result<Result<(), CodedText>, VerifyError> {
    let names: Vec<&str> = arena.workspaces().collect();
    if names.is_empty() {
        return Ok(Ok(()));
    }
    let bytes = files::read(guards)?;
    files::remove_file(guards)?;
    for (name, both) in names.iter().zip(bytes.chunks(2 * GUARD)) {
        let (front, back) = both.split_at(GUARD.min(both.len()));
        if let Some((bytes_away, after)) = compare::stray(front, back, trial.poison) {
            let side = if after { "after the end of" } else { "before the start of" };
            let text = format!("wrote memory {bytes_away} bytes {side} the workspace `{name}`");
            return Ok(Err(("verify::guard", text)));
        }
    }
    Ok(Ok(()))
}

/// The end of a run, in the words of one that had a process of its own.
fn ended(wall: Duration, done: bool) -> RoleResult {
    let process =
        Finished { ending: Ending::Exit(0), stdout: vec![], stderr: vec![], wall, peak_resident: 0 };
    RoleResult { process, done, forged: 0, unreadable: None, opened: vec![] }
}

/// A setting, for people.
pub(super) fn words_of(tuning: &Tuning) -> Value {
    tuning.iter().map(|(name, value)| (name.to_string(), Value::from(value.to_string()))).collect()
}
