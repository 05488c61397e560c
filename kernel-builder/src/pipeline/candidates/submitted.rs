//! The tool `submit`.
//!
//! Owns: when a candidate replaces the best. Never: tells more of full verification than right or wrong.

use std::collections::BTreeMap;
use std::time::Instant;

use kernel_plan::spec::op::Case;
use serde_json::{Value, json};

use crate::agent::gain::Gain;
use crate::agent::kernel::ProposedKernel;
use crate::agent::lineage::{CandidateStatus, Entry, replaces};
use crate::agent::reply;
use crate::base::files;
use crate::base::random::{self, SplitMix};
use crate::bench::paired::{self, Paired};
use crate::exit::Failure;
use crate::mcp::{Outcome, Submit};
use crate::pipeline::measure::listed;

use super::desk::Desk;
use super::judge::{Contender, Effort, Rounds, Verdict};

/// All starts must put a candidate above the best.
const EFFORT: Effort = Effort { starts: 3, rounds: 2 * paired::FEWEST, samples: 3 };

/// What came of holding a candidate against the best.
enum ComparisonResult {
    /// How many times faster it is.
    Gain(Gain),
    /// The times varied too much.
    Unknown,
    /// There is no kernel that is right to hold it against.
    Alone,
}

impl Desk<'_> {
    /// `submit`.
    pub(super) fn submit(&mut self, arguments: &Submit) -> Result<Outcome, Failure> {
        self.store.refresh()?;
        let (mut entry, proposed) = match self.find_candidate(&arguments.id)? {
            Ok(found) => found,
            Err(absent) => return Ok(self.absent(absent)),
        };
        if let Err(missing) = self.judge.device()? {
            let missing = reply::short(&missing.to_string());
            let text = format!("there is no GPU, so nothing can be compared: {missing}");
            return Ok(Outcome::failed("bench::no_gpu", &text));
        }
        let refused = match entry.standing {
            CandidateStatus::Right => None,
            CandidateStatus::Compiled => Some(("agent::not_tried", "it was not judged yet; `try` it first")),
            CandidateStatus::Refused => Some(("agent::not_right", "it was refused")),
            CandidateStatus::NotFaster => Some(("agent::seen", "it was submitted before, and is not faster")),
            CandidateStatus::Kept | CandidateStatus::Seed => Some(("agent::seen", "it is or was the best")),
        };
        if let Some((code, text)) = refused {
            return Ok(Outcome::done(
                json!({ "id": entry.id, "verdict": "refused", "code": code, "text": text }),
            ));
        }
        if arguments.note.is_some() {
            entry.note.clone_from(&arguments.note);
        }
        if let Some(best) = self.copied(&proposed, &entry)? {
            entry.standing = CandidateStatus::NotFaster;
            let answer = json!({
                "id": entry.id, "verdict": "not faster", "code": "agent::same_code", "best_before": best,
                "text": "it compiles to the machine code of the best",
            });
            self.store.note(entry)?;
            return Ok(Outcome::done(answer));
        }
        let mut steps = Steps::new();
        let best = self.tuned_best()?;
        let settings = self.judge.tune(&proposed, &self.store.place(&entry.id))?;
        steps.end("settings");
        let contender = Contender { proposed, settings };
        if let Err(check) = self.judge.verify(&contender)? {
            let code = check.code;
            (entry.standing, entry.code) = (CandidateStatus::Refused, Some(code.clone()));
            entry.text = Some("refused by full verification".to_owned());
            let id = entry.id.clone();
            self.store.note(entry)?;
            let text = "full verification refused it: other lengths, values or held-out workloads give wrong results";
            return Ok(Outcome::done(json!({ "id": id, "verdict": "refused", "code": code, "text": text })));
        }
        steps.end("verification");
        let compared = match &best {
            Some((id, best)) => self.against((id.as_str(), best), &contender)?,
            None => Ok(ComparisonResult::Alone),
        };
        steps.end("comparison");
        let gain = match compared {
            Ok(ComparisonResult::Gain(gain)) => Some(gain),
            Ok(ComparisonResult::Alone) => None,
            Ok(ComparisonResult::Unknown) => {
                let text = "the times varied too much to tell; submit it again while the GPU is idle";
                let answer = json!({ "id": entry.id, "verdict": "not measured", "text": text });
                return Ok(Outcome::done(answer));
            }
            Err(outcome) => return Ok(outcome),
        };
        let wins = gain.as_ref().is_none_or(|gain| gain.low > 1.0);
        entry.standing = if wins { CandidateStatus::Kept } else { CandidateStatus::NotFaster };
        entry.gain = gain;
        if wins {
            // The order of those that were kept is that of their times.
            entry.when = files::now().max(self.store.lineage().best().map_or(0, |best| best.when + 1));
        }
        let answer = json!({
            "id": entry.id, "verdict": if wins { "kept" } else { "not faster" },
            "best_before": best.map(|(id, _)| id), "gain": gain.as_ref().map(gain_json), "seconds": steps.seconds,
        });
        self.store.note(entry)?;
        Ok(Outcome::done(answer))
    }

    /// The best, if a candidate is nothing but a copy of it: the same machine code in every visible case, with the default
    /// settings and with those that were found for either.
    fn copied(&mut self, proposed: &ProposedKernel, entry: &Entry) -> Result<Option<String>, Failure> {
        let Some((id, best)) = self.best()? else { return Ok(None) };
        if best.proposed.kernel.schedule() != proposed.kernel.schedule() {
            return Ok(None);
        }
        let tune = &proposed.op.tune;
        for case in self.cases()? {
            let mut tunings =
                vec![tune.default_tuning(), best.settings.choose(&best.proposed.op, &case).tuning];
            if let Some(figure) = entry.figures.get(&case.id) {
                let settings = figure.settings.clone().into_iter().collect();
                tunings.extend(listed::with(tune, &tune.default_tuning(), &settings, &case).ok());
            }
            for tuning in tunings {
                if !self.judge.same_code(&best.proposed, proposed, &tuning, &case)? {
                    return Ok(None);
                }
            }
        }
        Ok(Some(id))
    }

    /// Whether the project's own kernel gives wrong results. One that replaced another was verified.
    fn is_wrong_seed(&mut self, id: &str, best: &Contender, case: &Case) -> Result<bool, Failure> {
        if self.store.lineage().seed().is_none_or(|seed| seed.id != id) {
            return Ok(false);
        }
        let tuning = best.settings.choose(&best.proposed.op, case).tuning;
        Ok(matches!(self.judge.attempt(&best.proposed, &tuning, case)?, Verdict::Refused(_)))
    }

    /// How many times faster than the best a candidate is over all visible workloads, in rounds that had no part in choosing
    /// it.
    fn against(
        &mut self,
        (id, best): (&str, &Contender),
        candidate: &Contender,
    ) -> Result<Result<ComparisonResult, Outcome>, Failure> {
        let mut starts: Vec<Vec<Paired>> = vec![vec![]; EFFORT.starts];
        let mut cases = self.cases()?;
        // An order that nobody knows: a kernel cannot tell which of its calls decide.
        let shift = SplitMix(random::seed()).below(cases.len().max(1));
        cases.rotate_left(shift);
        for case in cases {
            match self.judge.rounds(best, candidate, &case, EFFORT)? {
                Ok(found) => {
                    for (start, Rounds { best, candidate }) in starts.iter_mut().zip(found) {
                        start.push(Paired { weight: case.weight, default: best, chosen: candidate });
                    }
                }
                Err(_) if self.is_wrong_seed(id, best, &case)? => return Ok(Ok(ComparisonResult::Alone)),
                Err(complaint) => {
                    return Ok(Err(Outcome::done(json!({
                        "verdict": "refused", "code": complaint.code, "text": reply::short(&complaint.text),
                        "workload": case.id,
                    }))));
                }
            }
        }
        let gains: Option<Vec<Gain>> = starts.iter().map(|start| paired::geometric(start)).collect();
        let gain = gains.and_then(|gains| replaces(&gains)).filter(|gain| paired::unknown(gain).is_none());
        Ok(Ok(gain.map_or(ComparisonResult::Unknown, ComparisonResult::Gain)))
    }
}

/// How long each step of a submission took.
struct Steps {
    last: Instant,
    seconds: BTreeMap<&'static str, f64>,
}

impl Steps {
    fn new() -> Self {
        Self { last: Instant::now(), seconds: BTreeMap::new() }
    }

    fn end(&mut self, step: &'static str) {
        self.seconds.insert(step, self.last.elapsed().as_secs_f64());
        self.last = Instant::now();
    }
}

fn gain_json(gain: &Gain) -> Value {
    json!({ "ratio": gain.ratio, "low": gain.low, "high": gain.high })
}
