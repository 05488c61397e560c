//! Measures verified artifacts against PyTorch, interleaved, with an interval on every ratio.
//!
//! Owns: baselines, rounds, when to stop, the check of timed results, the records.
//! Never: compiles, judges an artifact that is not verified, or prints a time without its machine.
//!
//! The harness times in rounds of blocks; a block holds every contender twice, in a new order and back. After each round
//! it waits for an answer: `more`, or `stop` when every ratio's interval is narrow or the budget is spent. So the
//! statistics that decide live here alone, and nothing of them runs while something is timed. Results of timed calls are
//! kept and compared with the oracle's, which computes only after the measuring process has ended.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::{Case, Device, Purpose};
use serde_json::{Map, Value, json};

use crate::base::process::Limits;
use crate::base::report::ProgressKind;
use crate::base::session::Session;
use crate::base::{env, files};
use crate::compile::artifact::Artifact;
use crate::toolchain::PythonRuntime;
use crate::verify::Verified;
use crate::verify::channel::{self, Message};
use crate::verify::compare::{self, Fault};
use crate::verify::schedule::{InputSet, ScheduledCase, TensorSpec, value_of};
use crate::verify::stage::{Oracle, Stage};

mod error;
mod machine;
mod measurement;
pub mod statistics;
mod table;

pub use error::BenchError;
pub use measurement::{Contender, Machine, Measurement, PROTOCOL, Ratio, Unavailable};
pub use table::table;

/// What a candidate is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// The reference as written.
    Eager,
    /// `reference.fused` of op.toml, where it names one.
    Fused,
    /// The reference under `torch.compile`.
    Compile,
}

impl Baseline {
    /// Every baseline.
    pub const ALL: &[Self] = &[Self::Eager, Self::Fused, Self::Compile];

    /// The name in records and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Fused => "fused",
            Self::Compile => "compile",
        }
    }
}

/// How to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Time to spend on one workload, dtype and regime at most, warm-up not counted.
    pub budget: Duration,
    /// A ratio is known well enough when half its interval is below this share of it.
    pub precision: f64,
    /// What to compare with.
    pub baselines: Vec<Baseline>,
    /// Threads of every contender.
    pub threads: usize,
}

impl Options {
    /// Five seconds or 1%, every baseline, every processor.
    pub fn standard() -> Self {
        Self {
            budget: Duration::from_secs(5),
            precision: 0.01,
            baselines: Baseline::ALL.to_vec(),
            threads: env::processors(),
        }
    }
}

/// Blocks before the first look at the intervals.
const FEWEST_BLOCKS: usize = 20;
/// Seconds of one round.
const ROUND: f64 = 0.5;
/// Warm-up and compilation of one case, beyond its budget.
const PREPARATION: Duration = Duration::from_secs(180);
/// Rotating inputs fill this much: more than the last cache of a GPU, or what a processor's core has.
const ROTATION_GPU: usize = 256 << 20;
const ROTATION_HOST: usize = 32 << 20;

/// The samples of one case in one regime.
#[derive(Debug, Default)]
struct Samples {
    blocks: Vec<BTreeMap<String, f64>>,
    began: Option<Instant>,
    /// The set whose results lie in each slot.
    slots: BTreeMap<usize, usize>,
    rounds: usize,
}

/// Times one verified artifact on every workload of op.toml for its device.
///
/// # Errors
/// When there is nothing to measure, the device is missing, the process fails, or a timed call is wrong.
pub fn measure(
    verified: &Verified<Artifact>,
    op: &OpSpec,
    project: &Path,
    python: &PythonRuntime,
    options: &Options,
    session: &Session,
) -> Result<Vec<Measurement>, BenchError> {
    let artifact = verified.inner();
    let device = match artifact.backend.as_str() {
        "cuda" => Device::Cuda,
        _ => Device::Cpu,
    };
    if verified.evidence().skipped().any(|check| check.code == crate::verify::NO_GPU) {
        let reason = "no NVIDIA GPU, so its results could not be checked".to_owned();
        return Err(BenchError::NoDevice { variant: artifact.variant.clone(), reason });
    }
    let cases = op.cases(Purpose::Bench, device);
    if cases.is_empty() {
        return Err(BenchError::NoWorkload { device: device.to_string() });
    }
    let stage = Stage::new(python, op, project, device, options.threads, None)?;
    let schedule: Vec<_> = cases.iter().enumerate().map(|(place, case)| rotation(place, case)).collect();
    let mut bench = Bench {
        stage: &stage,
        options,
        cases: &cases,
        schedule: &schedule,
        samples: BTreeMap::new(),
        unavailable: BTreeMap::new(),
        environment: None,
        begun: 0,
    };
    let progress = session.report.progress("timing", ProgressKind::Count, Some(cases.len() as u64));
    let (result, oracle) = stage.beside_oracle(&schedule, || {
        Ok(bench.time(artifact, session, &|case| {
            progress.doing(&format!("timing {case}"));
            progress.add(1);
        }))
    })?;
    result?;
    bench.check(&oracle)?;
    Ok(bench.measurements(artifact, project))
}

/// The inputs of a case, without trials: the timing harness has its own order of calls.
fn rotation(place: usize, case: &Case) -> ScheduledCase {
    let scalars: Map<String, Value> =
        case.scalars.iter().map(|scalar| (scalar.name.to_string(), value_of(&scalar.value))).collect();
    let set = InputSet { kind: "normal", scalars, ..InputSet::default() };
    ScheduledCase {
        id: case.id.clone(),
        place,
        inputs: case.inputs.iter().map(TensorSpec::of).collect(),
        outputs: case.outputs.iter().map(TensorSpec::of).collect(),
        sets: vec![set.clone(), set],
        trials: vec![],
    }
}

struct Bench<'a> {
    stage: &'a Stage<'a>,
    options: &'a Options,
    cases: &'a [Case],
    schedule: &'a [ScheduledCase],
    samples: BTreeMap<(usize, String), Samples>,
    unavailable: BTreeMap<usize, Vec<Unavailable>>,
    environment: Option<Message>,
    begun: usize,
}

impl Bench<'_> {
    fn time(&mut self, artifact: &Artifact, session: &Session, each: &dyn Fn(&str)) -> Result<(), BenchError> {
        let job = self.job(artifact, session)?;
        let regimes = if self.stage.device == Device::Cuda { 2 } else { 1 };
        let wall = (PREPARATION + self.options.budget * 2 * regimes) * self.cases.len() as u32;
        let stage = self.stage;
        let mut failed = None;
        let ended = stage.play("timing", &job, Limits::wall(wall), &mut |message| {
            if let Err(error) = self.hear(message, each) {
                failed.get_or_insert(error);
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        if !ended.done || !ended.process.ending.success() || ended.forged > 0 {
            return Err(BenchError::Ended {
                ending: ended.process.ending.to_string(),
                workload: self.cases[self.begun].id.clone(),
                said: ended.said(),
            });
        }
        Ok(())
    }

    fn job(&self, artifact: &Artifact, session: &Session) -> Result<Value, BenchError> {
        let op = self.stage.op;
        let mut job = self.stage.candidate_job(&artifact.dir, &artifact.id);
        let cases: Vec<Value> = self
            .schedule
            .iter()
            .map(|case| {
                let inputs: usize = case.inputs.iter().map(TensorSpec::bytes).sum();
                let rotation = match self.stage.device {
                    Device::Cuda => ROTATION_GPU,
                    Device::Cpu => ROTATION_HOST,
                };
                json!({
                    "place": case.place,
                    "inputs": case.inputs,
                    "outputs": case.outputs,
                    "sets": case.sets.iter().map(|_| json!({})).collect::<Vec<_>>(),
                    "scalars": case.sets[0].scalars,
                    "copies": rotation.div_ceil(inputs.max(1)).clamp(2, 512),
                    "bytes_moved": bytes_moved(case),
                })
            })
            .collect();
        let answers = self.stage.path("answers");
        let compiled = session.cache.join("inductor");
        for folder in [&answers, &compiled] {
            files::create_dirs(folder)?;
        }
        let baselines: Vec<_> = self.options.baselines.iter().map(|baseline| baseline.as_str()).collect();
        job["cases"] = Value::from(cases);
        job["reference"] = json!(self.stage.reference.display().to_string());
        job["eager"] = json!(op.reference.function.as_str());
        job["fused"] = json!(op.reference.fused.as_ref().map(|name| name.as_str()));
        job["baselines"] = json!(baselines);
        job["answers_dir"] = json!(answers.display().to_string());
        job["compiled_dir"] = json!(compiled.display().to_string());
        job["round_seconds"] = json!(ROUND);
        job["round_blocks"] = json!(4);
        job["order_seed"] = json!(channel::secret()?);
        Ok(job)
    }

    fn hear(&mut self, message: &Message, each: &dyn Fn(&str)) -> Result<(), BenchError> {
        let Some(place) = message.count("case").filter(|place| *place < self.cases.len()) else {
            if message.event == "environment" {
                self.environment = Some(message.clone());
            }
            return Ok(());
        };
        match message.event.as_str() {
            "begin" => {
                self.begun = place;
                each(&self.cases[place].id);
                Ok(())
            }
            "unavailable" => self.miss(place, message),
            "round" => self.round(place, message),
            _ => Ok(()),
        }
    }

    fn miss(&mut self, place: usize, message: &Message) -> Result<(), BenchError> {
        let (name, reason) = (message.text("contender"), message.text("error"));
        if name == "candidate" {
            return Err(BenchError::Raised { workload: self.cases[place].id.clone(), reason });
        }
        let missing = self.unavailable.entry(place).or_default();
        if missing.iter().all(|known| known.name != name) {
            missing.push(Unavailable { name, reason });
        }
        Ok(())
    }

    /// Takes the samples of a round and answers whether there shall be another.
    fn round(&mut self, place: usize, message: &Message) -> Result<(), BenchError> {
        let regime = message.text("regime");
        let samples = self.samples.entry((place, regime.clone())).or_default();
        let began = *samples.began.get_or_insert_with(Instant::now);
        for block in message.field("blocks").as_array().into_iter().flatten().filter_map(Value::as_object) {
            let times = block.iter().filter_map(|(name, time)| Some((name.clone(), time.as_f64()?)));
            samples.blocks.push(times.collect());
        }
        samples.slots.extend(message.count("slot").zip(message.count("set")));
        let enough = began.elapsed() >= self.options.budget || narrow(samples, self.options.precision);
        let answer = self.stage.path("answers").join(format!("{place}-{regime}-{}", samples.rounds));
        samples.rounds += 1;
        Ok(files::write(&answer, if enough { "stop" } else { "more" })?)
    }

    /// Compares the kept results of timed calls with the exact ones.
    fn check(&self, oracle: &Oracle) -> Result<(), BenchError> {
        for ((place, regime), samples) in &self.samples {
            let case = &self.schedule[*place];
            let bounds = self.stage.bounds(&self.cases[*place]);
            for (slot, set) in &samples.slots {
                let wrong = |reason: String| BenchError::WrongWhileTimed { workload: case.id.clone(), reason };
                if !self.stage.inputs(oracle, *place, *set)?.1 {
                    return Err(wrong("the process changed a file of the judge".to_owned()));
                }
                let outputs = files::read(&self.stage.path(&format!("dumps/{place}-{regime}-{slot}.bin")))?;
                let expected = self.stage.expected(*place, *set)?;
                compare::examine_outputs(case, &outputs, &expected, &bounds)
                    .map_err(|fault| wrong(described(&fault)))?;
            }
        }
        Ok(())
    }

    fn measurements(&self, artifact: &Artifact, project: &Path) -> Vec<Measurement> {
        let told = |field: &str| self.environment.as_ref().map_or_else(String::new, |facts| facts.text(field));
        let gpu = self.stage.device == Device::Cuda;
        let (machine, commit) = (machine::machine(self.options.threads, gpu), machine::commit(project));
        let when = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let timed = self.samples.iter().map(|((place, regime), samples)| {
            let case = &self.cases[*place];
            let contenders = contenders(samples);
            let median_of = |name: &str| {
                contenders.iter().find(|contender| contender.name == name).map(|found| found.median_s)
            };
            let dtypes: Vec<_> = case.dtypes.values().map(ToString::to_string).collect();
            Measurement {
                artifact: artifact.digest,
                variant: artifact.variant.clone(),
                workload: case.workload.to_string(),
                dtype: dtypes.join(","),
                regime: regime.clone(),
                device: told("device"),
                machine: machine.clone(),
                torch: told("torch"),
                when,
                commit: commit.clone(),
                protocol: PROTOCOL,
                ratios: ratios(samples),
                of_copy: median_of("copy").zip(median_of("candidate")).map(|(copy, own)| copy / own),
                contenders,
                unavailable: self.unavailable.get(place).cloned().unwrap_or_default(),
                bytes: bytes_moved(&self.schedule[*place]) as u64,
            }
        });
        timed.collect()
    }
}

fn bytes_moved(case: &ScheduledCase) -> usize {
    case.inputs.iter().chain(&case.outputs).map(TensorSpec::bytes).sum()
}

/// The times of one contender, block by block.
fn times(samples: &Samples, name: &str) -> Vec<f64> {
    samples.blocks.iter().filter_map(|block| block.get(name).copied()).collect()
}

/// Candidate, baselines in their usual order, copy; only those that ran.
fn contenders(samples: &Samples) -> Vec<Contender> {
    let names = ["candidate"].into_iter().chain(Baseline::ALL.iter().map(|baseline| baseline.as_str()));
    names
        .chain(["copy"])
        .map(|name| (name, times(samples, name)))
        .filter(|(_, times)| !times.is_empty())
        .map(|(name, samples)| Contender {
            name: name.to_owned(),
            median_s: statistics::median(&samples),
            samples,
        })
        .collect()
}

fn ratios(samples: &Samples) -> Vec<Ratio> {
    let candidate = times(samples, "candidate");
    Baseline::ALL
        .iter()
        .filter_map(|baseline| {
            let other = times(samples, baseline.as_str());
            let interval = statistics::paired_ratio(&candidate, &other).filter(|_| other.len() == candidate.len())?;
            Some(Ratio { versus: baseline.as_str().to_owned(), interval })
        })
        .collect()
}

/// Whether every ratio is known to the wanted precision.
fn narrow(samples: &Samples, precision: f64) -> bool {
    samples.blocks.len() >= FEWEST_BLOCKS
        && ratios(samples).iter().all(|ratio| ratio.interval.half_width() < precision)
}

fn described(fault: &Fault) -> String {
    match fault {
        Fault::Wrong { tensor, element, exact, allowed, count, .. } => format!(
            "{tensor}{:?} is {}, expected {exact} +- {allowed:e}, and {count} elements are off",
            element.index, element.value
        ),
        Fault::Unwritten { tensor, element, count } => {
            format!("{tensor}{:?} was not written, nor were {count} elements in all", element.index)
        }
        _ => "the result has another size than op.toml says".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(candidate: &[f64], eager: &[f64]) -> Samples {
        let block = |(own, other): (&f64, &f64)| {
            BTreeMap::from([("candidate".to_owned(), *own), ("eager".to_owned(), *other)])
        };
        Samples { blocks: candidate.iter().zip(eager).map(block).collect(), ..Samples::default() }
    }

    #[test]
    fn sampling_stops_when_ratios_are_narrow() {
        let steady = samples(&[1.0; 40], &[1.5; 40]);
        assert!(narrow(&steady, 0.01));
        assert!(!narrow(&samples(&[1.0; 10], &[1.5; 10]), 0.01));
        let noisy: Vec<f64> = (0..40).map(|place| 1.0 + f64::from(place % 7) / 5.0).collect();
        assert!(!narrow(&samples(&[1.0; 40], &noisy), 0.01));
    }

    #[test]
    fn missing_contenders_leave_no_ratio() {
        let found = samples(&[1.0; 4], &[2.0; 4]);
        let ratios: Vec<_> = ratios(&found).into_iter().map(|ratio| (ratio.versus, ratio.interval.ratio)).collect();
        assert_eq!(ratios.len(), 1);
        assert_eq!(ratios[0].0, "eager");
        assert!((ratios[0].1 - 2.0).abs() < 1e-12);
        assert_eq!(contenders(&found).len(), 2);
    }
}
