//! Measures a device candidate against the baselines: the lab's two workers on one side, the process of the baselines on
//! the other, block by block.
//!
//! Owns: what a block of a device candidate is in each regime, and the order of blocks. Never: compiles, or compares
//! values: the lab does so after every block, in full.
//!
//! No code of the candidate runs on the host, so its clock needs no second one; what it left in place of results does,
//! and every call of every block is compared.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kernel_plan::spec::launch::ConcreteLaunch;
use kernel_plan::spec::op::Case;

use crate::compile::nvrtc::Code;
use crate::device::wire::{Answer, Call, Clock, Op, Sampled, Timed};
use crate::verify::VerifyError;
use crate::verify::lab::{CandidateRefusal, Lab, LoadedCandidate};

use super::contender::{Aim, Ask, Fault, Prepared, Referee, Regime};
use super::record::SkippedContender;
use super::samples::{self, KERNEL, MeasuredCase, Samples};
use super::skip::SkipReason;
use super::stats::{self, SplitMix};

/// Trials before the first block.
const TRIALS: usize = 3;
/// Most calls of a block in the regime `hot`.
const HOT_CALLS: usize = 20;
/// Seeds travel as JSON numbers, which hold so many bits everywhere.
const SEED_BITS: u32 = 53;

/// Why a case has no numbers.
#[derive(Debug)]
pub(super) enum NoFigures {
    /// The candidate is wrong.
    Refused(CandidateRefusal),
    /// A process of the judge failed.
    Judge(VerifyError),
    /// The process of the baselines failed.
    Baselines(Fault),
}

impl From<VerifyError> for NoFigures {
    fn from(error: VerifyError) -> Self {
        Self::Judge(error)
    }
}

impl From<CandidateRefusal> for NoFigures {
    fn from(complaint: CandidateRefusal) -> Self {
        Self::Refused(complaint)
    }
}

impl From<Fault> for NoFigures {
    fn from(fault: Fault) -> Self {
        Self::Baselines(fault)
    }
}

/// A candidate on one case.
pub(super) struct DeviceRounds<'a> {
    pub(super) lab: &'a mut Lab,
    pub(super) baselines: &'a mut dyn Referee,
    pub(super) random: SplitMix,
    /// Time for samples of each regime.
    pub(super) budget: Duration,
    /// The regimes to measure; one that the device does not have is skipped.
    pub(super) regimes: Vec<Regime>,
}

impl DeviceRounds<'_> {
    /// Measures one case; nothing where there is no room for it, with the reason.
    pub(super) fn measure(
        &mut self,
        case: &Case,
        launch: &ConcreteLaunch,
        code: &Code,
    ) -> Result<Result<MeasuredCase, SkipReason>, NoFigures> {
        let need = self.baselines.begin(case)?;
        if let Some(reason) = need.unmet() {
            return Ok(Err(reason));
        }
        let seed = self.seed();
        let rivals = self.baselines.prepare(seed)?;
        let loaded = self.lab.load(launch, code)??;
        for _ in 0..TRIALS {
            self.lab.trial(&loaded)??;
        }
        let mut regimes = Vec::new();
        for (number, sizes) in rivals.regimes.iter().enumerate() {
            if self.regimes.contains(&sizes.regime) {
                regimes.push(self.regime(number as u32 + 1, sizes.regime, &loaded, &rivals)?);
            }
        }
        self.lab.unload(&loaded)?;
        self.baselines.leave()?;
        // Every call of a graph has memory of its own.
        let (bytes, sets) = (need.bytes, loaded.calls.len() as u64);
        Ok(Ok(MeasuredCase { bytes, sets, regimes, notes: rivals.notes.clone(), cupti: None }))
    }

    fn regime(
        &mut self,
        plan: u32,
        regime: Regime,
        loaded: &LoadedCandidate,
        rivals: &Prepared,
    ) -> Result<Samples, NoFigures> {
        let mut calls = rivals.sizes(regime).map(|sizes| sizes.calls.clone()).unwrap_or_default();
        let mut skipped: Vec<SkippedContender> = samples::left_out(&rivals.skipped, regime);
        let timed = match timed(self.lab, regime, loaded) {
            Ok(timed) => timed,
            Err(reason) => {
                skipped.push(SkippedContender { name: KERNEL.to_owned(), reason });
                let (samples, calls) = (BTreeMap::new(), BTreeMap::new());
                return Ok(Samples { regime, samples, calls, skipped, crowded: None, spent: Duration::ZERO });
            }
        };
        calls.insert(KERNEL.to_owned(), timed.calls.len() as u64);
        self.lab.ask(&[Op::Plan { plan, timed }])??;
        let mut samples: BTreeMap<String, Vec<f64>> =
            calls.keys().map(|name| (name.clone(), Vec::new())).collect();
        let mut order: Vec<String> = calls.keys().cloned().collect();
        // The first block of the kernel warms up.
        self.sample(regime, plan)?;
        let started = Instant::now();
        let mut clocks = Vec::new();
        let mut block = 0u64;
        loop {
            for at in (1..order.len()).rev() {
                order.swap(at, self.random.below(at + 1));
            }
            for name in &order {
                let seconds = if name == KERNEL {
                    let sample = sampled(self.sample(regime, plan)?);
                    let seconds = sample.as_ref().map_or(0.0, mean);
                    clocks.extend(sample);
                    seconds
                } else {
                    self.rival(name, regime, calls[name], block % rivals.sets.max(1))?
                };
                samples.entry(name.clone()).or_default().push(seconds);
            }
            block += 1;
            if self.over(&samples, started.elapsed()) {
                break;
            }
        }
        let spent = started.elapsed();
        self.lab.ask(&[Op::Forget { plan }, Op::Settle])??;
        if let Some(complaint) = escaped(&clocks) {
            return Err(complaint.into());
        }
        Ok(Samples { regime, samples, calls, skipped, crowded: None, spent })
    }

    /// One block of the candidate on new contents; `hot` has the same contents in every slot.
    fn sample(&mut self, regime: Regime, plan: u32) -> Result<Vec<Answer>, NoFigures> {
        let ops = [Op::Sample { plan }];
        let (answers, _) =
            if regime == Regime::Hot { self.lab.timed_alike(&ops) } else { self.lab.timed(&ops) }??;
        Ok(answers)
    }

    fn rival(&mut self, name: &str, regime: Regime, calls: u64, set: u64) -> Result<f64, NoFigures> {
        let first = if regime == Regime::Cold { set } else { 0 };
        let contents = self.seed();
        let ask = Ask { contender: Some(name), regime, calls, first, contents, edits: &[], aim: Aim::Sample };
        Ok(self.baselines.block(&ask)?.device / calls.max(1) as f64)
    }

    fn over(&self, samples: &BTreeMap<String, Vec<f64>>, spent: Duration) -> bool {
        let Some(kernel) = samples.get(KERNEL) else { return true };
        if kernel.len() >= stats::FEWEST_BLOCKS && spent > self.budget {
            return true;
        }
        let is_rival = |name: &str| !matches!(name, KERNEL | "copy" | "peak");
        let rivals: Vec<&[f64]> =
            samples.iter().filter(|(name, _)| is_rival(name)).map(|(_, found)| found.as_slice()).collect();
        stats::enough(kernel, &rivals)
    }

    fn seed(&mut self) -> u64 {
        self.random.next() >> (64 - SEED_BITS)
    }
}

/// What the device's clock did not see, where that is more than the queue explains: in every sample the device was busy
/// for half as long again, and a millisecond, after the last of its events. One sample may be disturbed; not all are.
pub(super) fn escaped(samples: &[Sampled]) -> Option<CandidateRefusal> {
    let hidden = samples.iter().map(|sample| (sample.wall - sample.device, sample.device));
    let (least, device) = hidden.min_by(|one, other| one.0.total_cmp(&other.0))?;
    (least > 0.5 * device + 1e-3).then(|| CandidateRefusal {
        code: "bench::stream_escape",
        text: format!("kept the device busy for {:.1} ms that its stream does not show", 1e3 * least),
    })
}

/// What a block of a regime is; the reason where there is none.
fn timed(lab: &Lab, regime: Regime, loaded: &LoadedCandidate) -> Result<Timed, String> {
    Ok(match regime {
        Regime::Graph => Timed { clock: Clock::All, before: lab.cover(), calls: loaded.calls.clone() },
        Regime::Cold => Timed { clock: Clock::Each, before: lab.flush(), calls: loaded.calls.clone() },
        Regime::Hot if lab.overwrites() => {
            return Err("calls that overwrite their inputs cannot be repeated on the same ones".to_owned());
        }
        Regime::Hot => {
            // Every slot is called once, since every slot is compared. The untimed ones come first, the last slot among
            // them, so that its inputs are in the cache; each timed one finds poison where it writes.
            let count = lab.hot_calls().min(HOT_CALLS).min(loaded.alike.len().saturating_sub(1));
            if count < 2 {
                return Err("inputs and outputs of two calls do not fit into half of the L2 cache".to_owned());
            }
            let (calls, untimed) = loaded.alike.split_at(count);
            let before: Call = lab.cover().into_iter().chain(untimed.iter().flatten().cloned()).collect();
            Timed { clock: Clock::All, before, calls: calls.to_vec() }
        }
        Regime::Host => return Err("device code does not run on the CPU".to_owned()),
    })
}

/// The sample among a request's answers.
pub(super) fn sampled(answers: Vec<Answer>) -> Option<Sampled> {
    answers.into_iter().find_map(|answer| match answer {
        Answer::Sampled(sampled) => Some(sampled),
        _ => None,
    })
}

/// The mean of a block's calls.
fn mean(sample: &Sampled) -> f64 {
    sample.seconds.iter().sum::<f64>() / sample.seconds.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_single_calls_is_their_mean() {
        let sample = Sampled { seconds: vec![1.0, 3.0], device: 4.0, wall: 4.0 };
        assert_eq!(mean(&sample), 2.0);
        assert_eq!(sampled(vec![Answer::Done, Answer::Sampled(sample.clone())]), Some(sample));
        assert_eq!(sampled(vec![Answer::Done]), None);
    }

    #[test]
    fn work_that_no_event_saw_is_told_and_a_disturbed_sample_is_not() {
        let sample = |device: f64, wall: f64| Sampled { seconds: vec![device], device, wall };
        assert_eq!(escaped(&[]), None);
        assert_eq!(escaped(&[sample(1e-4, 2e-4), sample(1e-4, 9e-1)]), None);
        let found = escaped(&[sample(1e-4, 5e-3), sample(1e-4, 6e-3)]).unwrap();
        assert_eq!(found.code, "bench::stream_escape");
        assert_eq!(escaped(&[sample(1.0, 1.4)]), None);
    }
}
