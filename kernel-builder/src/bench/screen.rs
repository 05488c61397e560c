//! Screens device candidates on one case: each is called on contents it never saw, compared, and timed, in tens of
//! milliseconds.
//!
//! Owns: how many trials and samples a candidate gets, and what its number is. Never: compiles, or compares with PyTorch:
//! `measure` does that with what is left.
//!
//! Every sample is a CUDA graph of one call in each slot, on new contents, with outputs poisoned before and compared in
//! full after it. A copy of as many bytes is timed after every sample; its drift says what the candidate did to the
//! device, or what else happens on it.

use std::time::Duration;

use crate::compile::nvrtc::Code;
use crate::device::gpu::Gpu;
use crate::device::wire::{Clock, Function, Op, Timed};
use crate::verify::VerifyError;
use crate::verify::lab::{Attempt, CandidateRefusal, Lab, LoadedCandidate};
use kernel_plan::spec::launch::ConcreteLaunch;

use super::device::{escaped, sampled};
use super::impossible::{self, Bounds};
use super::stats;

/// Trials before the first sample; what they catch need not be timed.
const TRIALS: usize = 2;
/// Samples of a first look, of which the least counts.
const LOOKS: usize = 2;
/// The numbers of plans in the running worker.
const COPY: u32 = 1;
const CANDIDATE: u32 = 2;
/// A copy that became slower by this much after a candidate than before it is the candidate's doing.
const DRIFT: f64 = 1.1;

/// Screens one candidate after another.
pub(crate) struct Screen {
    lab: Lab,
    /// The least times that are possible for a candidate.
    bounds: Bounds,
    /// The worker that the copy was planned in.
    planned: Option<u32>,
    /// Seconds of the copy in all samples so far.
    copies: Vec<f64>,
}

/// What screening says of a candidate that is right.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScreenResult {
    /// Seconds a call, one for each sample.
    pub samples: Vec<f64>,
    /// Their median.
    pub seconds: f64,
    /// Time of the copy over time of the candidate, by the medians of samples taken in turn.
    pub copy_fraction: Option<f64>,
    /// The largest error as a share of the bound, over all trials and samples.
    pub of_bound: f64,
    /// What the kernels use.
    pub functions: Vec<Function>,
}

/// One sample of a candidate and one of a copy.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ScreenSample {
    seconds: f64,
    copy: f64,
}

impl ScreenSample {
    /// In copies.
    fn cost(self) -> f64 {
        self.seconds / self.copy
    }

    fn is_beyond(self, enough: f64) -> bool {
        self.copy > 0.0 && self.cost() > enough
    }
}

impl Screen {
    pub(crate) fn new(lab: Lab, bounds: Bounds) -> Self {
        Self { lab, bounds, planned: None, copies: vec![] }
    }

    /// What the candidates are screened on.
    pub(crate) fn lab(&self) -> &Lab {
        &self.lab
    }

    /// See [`Lab::call_in`].
    ///
    /// # Errors
    /// As [`Self::candidate`].
    pub(crate) fn call_in(
        &mut self,
        gpu: &mut Gpu,
        launch: &ConcreteLaunch,
        code: &Code,
        within: Duration,
    ) -> Result<Attempt<()>, VerifyError> {
        self.lab.call_in(gpu, launch, code, within)
    }

    /// Ends the process that runs candidates: the next one is another start, with addresses and clocks of its own.
    pub(crate) fn start_anew(&mut self) {
        self.lab.give_up();
    }

    /// The lab without what was planned in it.
    pub(crate) fn into_lab(self) -> Lab {
        self.lab
    }

    /// How long the last worker took to end and another one to be ready, where there was another one since this was last
    /// asked.
    pub(crate) fn restarted(&mut self) -> Option<Duration> {
        self.lab.restarted()
    }

    /// Judges a candidate, and times it by so many samples after one to warm up. One that is right in the first trial, and
    /// then seen to cost more than `enough`, in copies of as many bytes, is not judged or timed further: its number is of a
    /// first look then, and says that it is slow.
    ///
    /// # Errors
    /// The judge's own work fails; what is wrong with the candidate is the inner error.
    pub(crate) fn candidate(
        &mut self,
        launch: &ConcreteLaunch,
        code: &Code,
        count: usize,
        enough: Option<f64>,
    ) -> Result<Attempt<ScreenResult>, VerifyError> {
        let loaded = match self.lab.load(launch, code)? {
            Ok(loaded) => loaded,
            Err(complaint) => return Ok(Err(complaint)),
        };
        let mut of_bound = match self.lab.trial(&loaded)? {
            Ok(share) => share,
            Err(complaint) => return self.refused(&loaded, complaint),
        };
        let timed = Timed { clock: Clock::All, before: self.lab.cover(), calls: loaded.calls.clone() };
        let mut plans = vec![Op::Plan { plan: CANDIDATE, timed }];
        if self.planned != Some(self.lab.generation()) {
            let timed = Timed { clock: Clock::All, before: self.lab.cover(), calls: self.lab.copies() };
            plans.push(Op::Plan { plan: COPY, timed });
        }
        if let Err(complaint) = self.lab.ask(&plans)? {
            return Ok(Err(complaint));
        }
        self.planned = Some(self.lab.generation());
        if let Some(enough) = enough {
            match self.look()? {
                Ok(Some(look)) if look.is_beyond(enough) => {
                    if let Err(complaint) = self.forget(&loaded)? {
                        return Ok(Err(complaint));
                    }
                    let (seconds, copy_fraction) = (look.seconds, Some(look.copy / look.seconds));
                    let samples = vec![seconds];
                    let functions = loaded.functions;
                    return Ok(Ok(ScreenResult { samples, seconds, copy_fraction, of_bound, functions }));
                }
                Ok(_) => {}
                Err(complaint) => return Ok(Err(complaint)),
            }
        }
        for _ in 1..TRIALS {
            match self.lab.trial(&loaded)? {
                Ok(share) => of_bound = of_bound.max(share),
                Err(complaint) => return self.refused(&loaded, complaint),
            }
        }
        let (mut samples, mut ratios, mut copies) = (Vec::new(), Vec::new(), Vec::new());
        let mut clocks = Vec::new();
        // The first sample warms up.
        for turn in 0..=count {
            let (answers, share) = match self.lab.timed(&[Op::Sample { plan: CANDIDATE }])? {
                Ok(sampled) => sampled,
                Err(complaint) => return self.refused(&loaded, complaint),
            };
            of_bound = of_bound.max(share);
            let copied = match self.lab.ask(&[Op::Sample { plan: COPY }])? {
                Ok(answers) => sampled(answers).and_then(|copy| copy.seconds.first().copied()),
                Err(complaint) => return Ok(Err(complaint)),
            };
            let Some(sample) = sampled(answers) else { continue };
            let own = sample.seconds.first().copied();
            clocks.push(sample);
            if let (1.., Some(own), Some(copied)) = (turn, own, copied) {
                samples.push(own);
                ratios.push(copied / own);
                copies.push(copied);
            }
        }
        if let Err(complaint) = self.forget(&loaded)? {
            return Ok(Err(complaint));
        }
        if let Some(complaint) = escaped(&clocks).or_else(|| self.drift(&copies)) {
            self.lab.give_up();
            return Ok(Err(complaint));
        }
        let seconds = stats::median(&samples).unwrap_or_default();
        if let Some(complaint) = self.impossible(seconds, &loaded) {
            self.lab.give_up();
            return Ok(Err(complaint));
        }
        let copy_fraction = stats::median(&ratios);
        Ok(Ok(ScreenResult { samples, seconds, copy_fraction, of_bound, functions: loaded.functions }))
    }

    /// What the planned candidate takes on the contents of the last trial, beside a copy. The least of few samples: one that
    /// was disturbed may cost a good candidate nothing.
    fn look(&mut self) -> Result<Attempt<Option<ScreenSample>>, VerifyError> {
        let mut found: Option<ScreenSample> = None;
        for _ in 0..LOOKS {
            let answers = match self.lab.ask(&[Op::Sample { plan: CANDIDATE }, Op::Sample { plan: COPY }])? {
                Ok(answers) => answers,
                Err(complaint) => return Ok(Err(complaint)),
            };
            let mut of_each =
                answers.into_iter().filter_map(|answer| sampled(vec![answer])?.seconds.first().copied());
            if let (Some(seconds), Some(copy)) = (of_each.next(), of_each.next()) {
                let look = ScreenSample { seconds, copy };
                found = found.filter(|least| least.cost() <= look.cost()).or(Some(look));
            }
        }
        Ok(Ok(found))
    }

    /// Whether a time is below what the device allows; without samples there is none.
    fn impossible(&self, seconds: f64, loaded: &LoadedCandidate) -> Option<CandidateRefusal> {
        let timed = (seconds > 0.0).then_some(seconds)?;
        impossible::screened(timed, loaded.calls.len(), &self.bounds)
    }

    /// The end of a candidate that was timed.
    fn forget(&mut self, loaded: &LoadedCandidate) -> Result<Attempt<()>, VerifyError> {
        if let Err(complaint) = self.lab.ask(&[Op::Forget { plan: CANDIDATE }, Op::Settle])? {
            return Ok(Err(complaint));
        }
        self.lab.unload(loaded)?;
        Ok(Ok(()))
    }

    fn refused(
        &mut self,
        loaded: &LoadedCandidate,
        complaint: CandidateRefusal,
    ) -> Result<Attempt<ScreenResult>, VerifyError> {
        self.lab.unload(loaded)?;
        // A plan of the candidate may be left; a new worker has none, and nothing else that it left behind.
        self.lab.give_up();
        Ok(Err(complaint))
    }

    /// Whether the device is slower than it was with earlier candidates.
    fn drift(&mut self, copies: &[f64]) -> Option<CandidateRefusal> {
        let complaint = drifted(&self.copies, copies).map(|times| CandidateRefusal {
            code: "bench::state",
            text: format!("left the device {times:.2} times slower, measured with a copy of the same size"),
        });
        if complaint.is_none() {
            self.copies.extend(copies);
            let surplus = self.copies.len().saturating_sub(256);
            self.copies.drain(..surplus);
        }
        complaint
    }
}

/// How many times slower a copy is than before, where that is more than noise.
fn drifted(before: &[f64], now: &[f64]) -> Option<f64> {
    if before.len() < 16 {
        return None;
    }
    let times = stats::median(now)? / stats::median(before)?;
    (times > DRIFT).then_some(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_enough_for_what_is_clearly_behind() {
        let look = |seconds, copy| ScreenSample { seconds, copy };
        // The best takes 1.05 copies: 1.155 are beyond hope.
        assert!(!look(1.1e-5, 1e-5).is_beyond(1.155));
        assert!(look(1.2e-5, 1e-5).is_beyond(1.155));
        assert!(!look(1.2e-5, 0.0).is_beyond(1.155), "a clock that saw nothing says nothing");
    }

    #[test]
    fn a_slower_device_is_told_and_noise_is_not() {
        let before = vec![1e-5; 32];
        assert_eq!(drifted(&before, &[1.05e-5, 1.04e-5, 3e-5]), None);
        assert!(drifted(&before, &[2e-5, 2.1e-5, 2e-5]).is_some_and(|times| (times - 2.0).abs() < 1e-9));
        assert_eq!(drifted(&before[..4], &[2e-5]), None);
    }
}
