//! Calls the kernel and compares everything it leaves behind.
//!
//! Owns: the run of the candidate beside the oracle. Never: names a fault; `findings` does.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Instant;

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::{Case, Device, Purpose};
use rayon::prelude::*;
use serde_json::json;

use super::super::bound::Bound;
use super::super::compare::{self, Agreement, Fault};
use super::super::dump::Dump;
use super::super::evidence::{CheckResult, Outcome};
use super::super::findings::{self, Finding, Summary};
use super::super::run::Run;
use super::super::schedule::{self, Form, ScheduledCase, TensorSpec, Trial};
use super::super::stage::{self, Oracle, Stage};
use super::super::{NO_GPU, NO_PYTHON, NOT_LOADED, Subject, VerifyError, listed};
use crate::base::digest::Digest;
use crate::base::files;
use crate::base::process::Limits;
use crate::protocol::verify::{Event, Failure, Job};
use crate::toolchain::PythonRuntime;

/// Every call is right, for every workload, dtype and distribution of the schedule.
pub(crate) fn check(subject: &mut Subject<'_>) -> Result<Vec<CheckResult>, VerifyError> {
    let skipped = |code: &str, summary: &str| {
        Ok(vec![CheckResult::new("results", code, Outcome::Skipped, summary, json!({}))])
    };
    let Some(op) = subject.op else {
        return skipped("verify::no_op", "no op.toml: the kernel's results were not checked");
    };
    let Some(python) = subject.python else {
        return skipped(NO_PYTHON, "no Python with torch here: the kernel was not called");
    };
    let device = match subject.artifact.backend.as_str() {
        "cpu" => Device::Cpu,
        "cuda" => Device::Cuda,
        _ => return skipped("verify::no_device", "this version cannot run kernels of this backend"),
    };
    let Some(loaded) = subject.loaded.as_ref().filter(|loaded| loaded.has_function) else {
        return skipped(NOT_LOADED, "the package was not loaded, so it was not called");
    };
    if device == Device::Cuda && !loaded.cuda_available {
        return skipped(NO_GPU, "no NVIDIA GPU here: results on the GPU were not checked");
    }
    let cases = op.cases(Purpose::Verify, device);
    if cases.is_empty() {
        return skipped("verify::no_workload", "op.toml has no workload to verify on this device");
    }
    run(subject, op, python, device, &cases)
}

/// The code of each failure that the candidate's process reports.
fn code_of(failure: Failure) -> &'static str {
    match failure {
        Failure::Raised => "verify::raised",
        Failure::Malformed => "verify::malformed",
        Failure::Tampered => "verify::tampered",
        Failure::Settings => "verify::settings",
        Failure::Stream => "verify::stream",
        Failure::Network => "verify::network",
        Failure::Disturbed => "verify::input_changed",
    }
}

fn run(
    subject: &mut Subject<'_>,
    op: &OpSpec,
    python: &PythonRuntime,
    device: Device,
    cases: &[Case],
) -> Result<Vec<CheckResult>, VerifyError> {
    let options = subject.options;
    let Some(reference) = subject.reference else { return Ok(vec![]) };
    let seed = stage::seed(options.seed);
    let cases = &[cases, &schedule::drawn(op, device, cases, seed)].concat();
    let stage = Stage::new(python, op, reference.clone(), device, options.threads, Some(seed))?;
    let schedule = schedule::with_groups(schedule::schedule(op, cases), device);
    let progress = subject.session.report.progress(
        "calling the kernel",
        crate::base::report::ProgressKind::Count,
        Some(schedule.iter().map(|case| case.trials.len() as u64).sum()),
    );
    let call = |cases: &[ScheduledCase]| candidate(subject, &stage, cases, &|| progress.add(1));
    let since = Instant::now();
    let ((run, called), oracle) =
        stage.beside_oracle(&schedule, || Ok((call(&schedule)?, since.elapsed().as_secs_f64())))?;
    let expected = since.elapsed().as_secs_f64();
    let mut results = judged(&stage, &oracle, &schedule, cases, &run, &mut |alone| call(alone))?;
    if let Some(calls) = results.iter_mut().find(|check| check.name == "calls") {
        let comparison = since.elapsed().as_secs_f64() - expected;
        calls.facts["seconds"] =
            json!({ "calls": called, "expected": expected - called, "comparison": comparison });
    }
    results.extend(listed::of_project(op, subject.project)?);
    if let Some(reason) = schedule::gradient_unjudged(op) {
        results.push(CheckResult::new("gradient", "verify::gradient", Outcome::Skipped, reason, json!({})));
    }
    Ok(results)
}

/// What the dumps of a run say. `again` makes calls in a new process, to see whether a wrong value is wrong there, too.
pub(crate) fn judged(
    stage: &Stage<'_>,
    oracle: &Oracle,
    schedule: &[ScheduledCase],
    cases: &[Case],
    run: &Run,
    again: &mut dyn FnMut(&[ScheduledCase]) -> Result<Run, VerifyError>,
) -> Result<Vec<CheckResult>, VerifyError> {
    let mut summary = Summary {
        cases: schedule.len(),
        calls: schedule.iter().flat_map(|case| &case.trials).map(|trial| trial.calls as usize).sum(),
        held_out: schedule.iter().filter(|case| case.held_out).count(),
        no_eager: oracle.no_baseline.clone(),
        seed: stage.seed,
        ..Summary::default()
    };
    let mut found = Vec::new();
    if let Some((case, trial)) = first_trial(schedule).filter(|_| !stage.is_untouched()) {
        found.push(Finding::tampered(case, trial));
    }
    // Side by side: gigabytes are decoded and compared.
    let examined = |case: &ScheduledCase| {
        let (mut summary, mut found) = (Summary::default(), Vec::new());
        let mut examiner = Examiner { stage, oracle, run, summary: &mut summary };
        examiner.case(case, &cases[case.place], &mut found)?;
        Ok((summary, found))
    };
    let examined: Vec<Result<_, VerifyError>> = schedule.par_iter().map(examined).collect();
    for one in examined {
        let (of_case, wrong) = one?;
        summary.take(of_case);
        found.extend(wrong);
        if !found.is_empty() {
            // One wrong case is enough, and the earliest is what is told.
            break;
        }
    }
    if let Some(first) =
        found.first_mut().filter(|finding: &&mut Finding| finding.is_value() && finding.trial > 0)
    {
        // Right as the first call of a new process, and wrong here: then it depends on the calls before.
        let case = &schedule[first.case];
        let alone = ScheduledCase {
            trials: case.trials.iter().filter(|trial| trial.id == first.trial).cloned().collect(),
            ..case.clone()
        };
        let again = again(std::slice::from_ref(&alone))?;
        let mut ignored = Summary::default();
        let mut repeated = Vec::new();
        let mut examiner = Examiner { stage, oracle, run: &again, summary: &mut ignored };
        examiner.case(&alone, &cases[first.case], &mut repeated)?;
        let complete = again.ended.done;
        first.depends_on_history(complete && repeated.is_empty());
    }
    for finding in found.iter_mut().filter(|finding| schedule[finding.case].drawn) {
        finding.repeat_with(stage.seed);
    }
    let mut results = findings::results(schedule, run, found, &summary);
    results.extend(non_finite(schedule, oracle));
    results.extend(findings::fallback(run, stage.reference.path()));
    results.extend(findings::keeps_memory(run));
    Ok(results)
}

fn first_trial(schedule: &[ScheduledCase]) -> Option<(&ScheduledCase, &Trial)> {
    schedule.iter().find_map(|case| Some((case, case.trials.first()?)))
}

/// That infinities and NaN were not judged, where the reference leaves open what comes of them.
fn non_finite(schedule: &[ScheduledCase], oracle: &Oracle) -> Option<CheckResult> {
    let (place, _) = oracle.undefined.first()?;
    let asked = schedule.iter().filter(|case| case.sets.iter().any(|set| set.kind == schedule::NON_FINITE));
    let summary = format!(
        "in {} of {} cases, first `{}`, the reference has infinities or NaN in other places in the real dtype, or at \
         values near by, than in float64, so these values are not judged",
        oracle.undefined.len(),
        asked.count(),
        schedule[*place].id,
    );
    Some(CheckResult::new("non-finite values", "verify::non_finite", Outcome::Skipped, summary, json!({})))
}

fn candidate(
    subject: &Subject<'_>,
    stage: &Stage<'_>,
    cases: &[ScheduledCase],
    each: &dyn Fn(),
) -> Result<Run, VerifyError> {
    let job = stage.candidate_job(&subject.artifact.dir, &subject.artifact.id, cases);
    let limits = Limits { resident: Some(subject.options.memory), ..Limits::wall(subject.options.deadline) };
    let (mut begun, mut finished, mut complaints, mut kept) = (None, 0, BTreeMap::new(), 0);
    let mut disk_full = false;
    let ended = stage.play(Job::Candidate(job), limits, &mut |event| match event {
        Event::Begin { trial } => begun = Some(trial),
        Event::Kept { bytes } => kept = kept.max(bytes),
        Event::NoSpace {} => disk_full = true,
        Event::End { .. } => {
            finished += 1;
            each();
        }
        Event::Failed { trial, kind, error } => {
            complaints.insert(trial, (code_of(kind), error));
        }
        _ => {}
    })?;
    if disk_full {
        return Err(VerifyError::DiskFull { folder: stage.path("dumps") });
    }
    let dumps = stage.sealed(cases);
    Ok(Run { ended, begun, finished, complaints, stopped: false, dumps, kept })
}

/// Values of a case: the place of the set, and whether they are gradients.
type Values = (usize, bool);

/// Compares dumps with what the oracle left.
struct Examiner<'a> {
    stage: &'a Stage<'a>,
    oracle: &'a Oracle,
    run: &'a Run,
    summary: &'a mut Summary,
}

impl Examiner<'_> {
    fn case(
        &mut self,
        case: &ScheduledCase,
        spec: &Case,
        found: &mut Vec<Finding>,
    ) -> Result<(), VerifyError> {
        let bounds = self.stage.bounds(spec);
        let gradient_bounds = self.stage.gradient_bounds(spec, case);
        let mut inputs: BTreeMap<Values, (Vec<u8>, bool)> = BTreeMap::new();
        let mut expected: BTreeMap<Values, Vec<f64>> = BTreeMap::new();
        // What earlier trials left, to tell a replay from an error.
        let mut earlier: Vec<(usize, Form, Vec<u8>)> = Vec::new();
        let mut agreed_sets: BTreeMap<Values, usize> = BTreeMap::new();
        for trial in &case.trials {
            if self.oracle.undefined.contains(&(case.place, trial.set)) {
                continue;
            }
            if let Some((code, text)) = self.run.complaints.get(&trial.id) {
                found.push(Finding::complaint(case, trial, code, text));
                continue;
            }
            let path = self.stage.dump(trial.id);
            let Some(sealed) = self.run.dumps.get(&trial.id) else {
                if self.run.ended.done {
                    // It says that all was done, and left nothing to be compared.
                    found.push(Finding::missing(case, trial));
                }
                // Else the process ended before; its ending is the finding.
                break;
            };
            let gradient = trial.form == Form::Gradient;
            let of = (trial.set, gradient);
            if let Entry::Vacant(entry) = inputs.entry(of) {
                entry.insert(self.stage.inputs(self.oracle, case.place, trial.set, gradient)?);
            }
            if let Entry::Vacant(entry) = expected.entry(of) {
                let exact = self.stage.expected_by(self.oracle, case.place, trial.set, gradient)?;
                entry.insert(exact.unwrap_or_default());
            }
            let (bytes, genuine) = &inputs[&of];
            let dumped = files::read(&path)?;
            files::remove_file(&path)?;
            let genuine = *genuine && Digest::blake3(&dumped) == *sealed;
            let known = !expected[&of].is_empty() || case.outputs.iter().all(|output| output.elements() == 0);
            if !genuine || !known {
                found.push(Finding::tampered(case, trial));
                continue;
            }
            // A set's outputs are compared once; later trials with the same bits need no second look at the values.
            let agreed = agreed_sets.get(&of).map(|place: &usize| earlier[*place].2.as_slice());
            let bounds = if gradient { &gradient_bounds } else { &bounds };
            match examine(&dumped, case, trial, bytes, &expected[&of], bounds, agreed) {
                Ok(agreement) => {
                    self.note(case, trial, &agreement, &earlier);
                    agreed_sets.entry(of).or_insert(earlier.len());
                    earlier.push((trial.set, trial.form, agreement.outputs));
                }
                Err((fault, outputs)) => {
                    let same = earlier.iter().find(|(set, form, kept)| {
                        let comparable = (*form == Form::Gradient) == gradient && *set != trial.set;
                        comparable && !outputs.is_empty() && *kept == outputs
                    });
                    found.push(Finding::fault(case, trial, &fault, same.map(|(set, ..)| *set), spec));
                    earlier.push((trial.set, trial.form, outputs));
                }
            }
        }
        self.baseline(case, &expected, &bounds)
    }

    fn note(
        &mut self,
        case: &ScheduledCase,
        trial: &Trial,
        agreement: &Agreement,
        earlier: &[(usize, Form, Vec<u8>)],
    ) {
        self.summary.note_error(&case.id, trial.form, agreement);
        let aligned = trial.shift == 0;
        let same = |(set, form, _): &&(usize, Form, Vec<u8>)| *set == trial.set && *form == trial.form;
        if aligned && earlier.iter().find(same).is_some_and(|(.., kept)| *kept != agreement.outputs) {
            self.summary.nondeterministic.get_or_insert_with(|| case.id.clone());
        }
    }

    /// How far PyTorch's own result is off, for comparison.
    fn baseline(
        &mut self,
        case: &ScheduledCase,
        expected: &BTreeMap<Values, Vec<f64>>,
        bounds: &[Bound],
    ) -> Result<(), VerifyError> {
        for (_, set) in self.oracle.baselines.iter().filter(|(place, _)| *place == case.place) {
            let Some(exact) = expected.get(&(*set, false)) else { continue };
            let eager = files::read(&self.stage.path(&format!("expected/{}-{set}.eager.bin", case.place)))?;
            let whole: usize = case.outputs.iter().map(TensorSpec::bytes).sum();
            if exact.is_empty() || eager.len() != whole {
                // Somebody was there; the finding says so.
                continue;
            }
            let share = compare::share_of_bound(case, &eager, exact, bounds);
            let largest = self.summary.eager_of_bound.get_or_insert(0.0);
            *largest = largest.max(share);
        }
        Ok(())
    }
}

fn examine(
    dumped: &[u8],
    case: &ScheduledCase,
    trial: &Trial,
    inputs: &[u8],
    expected: &[f64],
    bounds: &[Bound],
    agreed: Option<&[u8]>,
) -> Result<Agreement, (Fault, Vec<u8>)> {
    let dump = Dump::cut(dumped, case, trial, inputs).map_err(|fault| (fault, vec![]))?;
    compare::examine(&dump, case, trial, inputs, expected, bounds, agreed)
        .map_err(|fault| (fault, dump.result_bytes()))
}
