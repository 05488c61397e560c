//! The tools `try` and `profile`.
//!
//! Owns: what is answered of one candidate on one case. Never: judges.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kernel_plan::spec::launch::ConcreteLaunch;
use kernel_plan::spec::op::Case;
use kernel_plan::spec::tune::Tuning;
use serde_json::{Value, json};

use crate::agent::kernel::{KernelRefusal, Proposal, ProposedKernel, merged};
use crate::agent::lineage::{BEST, CandidateStatus, Entry, Figure};
use crate::agent::occupancy;
use crate::agent::reply;
use crate::agent::tuned::Settings;
use crate::base::{disk, env, files, secrets};
use crate::bench::screen::ScreenResult;
use crate::bench::{self, known, paired};
use crate::exit::Failure;
use crate::mcp::{Outcome, Profile, Try};
use crate::pipeline::measure::{ceilings, listed};
use crate::pipeline::project::kernel;
use crate::verify::checks::resources::short_name;

use super::desk::{Absent, Desk, settings_of};
use super::judge::{Contender, Effort, Verdict};

/// For information: who waits for the answer learns of a difference, and `submit` measures it.
const GLANCE: Effort = Effort { starts: 1, rounds: 6, samples: 1 };
/// The code where nothing was judged.
const NO_GPU: &str = "bench::no_gpu";

impl Desk<'_> {
    /// `try`.
    pub(super) fn attempt(&mut self, arguments: Try) -> Result<Outcome, Failure> {
        let case = match self.case(arguments.workload.as_deref())? {
            Ok(case) => case,
            Err(outcome) => return Ok(outcome),
        };
        let (proposed, parent) = match self.proposed(&arguments)? {
            Ok(found) => found,
            Err(absent) => return Ok(self.absent(absent)),
        };
        // What is kept is shown to others.
        if let Some(name) = self.with_secret(&proposed) {
            return Ok(self.refused(&KernelRefusal::secret(&name)));
        }
        let tune = &proposed.op.tune;
        let tuning = match listed::with(tune, &tune.default_tuning(), &arguments.settings, &case) {
            Ok(tuning) => tuning,
            Err(why) => return Ok(Outcome::failed("agent::arguments", &why)),
        };
        self.judged(&proposed, parent, &tuning, &case, arguments.note)
    }

    /// The first file of a candidate that contains a secret of the environment.
    fn with_secret(&self, proposed: &ProposedKernel) -> Option<String> {
        let texts = proposed.kernel.files().iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let mut texts = texts.chain([(self.origin.op_name.as_str(), proposed.kernel.schedule())]);
        texts.find(|(_, text)| secrets::is_in(text)).map(|(name, _)| name.to_owned())
    }

    /// What a call of `try` hands in, and the candidate that it was made of.
    fn proposed(&self, arguments: &Try) -> Result<Result<(ProposedKernel, Option<String>), Absent>, Failure> {
        if let Some(dir) = &arguments.dir {
            let dir = env::absolute(dir);
            if !files::is_dir(&dir) {
                let text = format!("`{}` is not a folder", dir.display());
                return Ok(Err(Absent::Unknown(Outcome::failed("agent::arguments", &text))));
            }
            let inside = |root: &PathBuf| disk::real(&dir).starts_with(disk::real(root));
            if !self.within.as_ref().is_none_or(inside) {
                let text = "the folder is outside of your working folder";
                return Ok(Err(Absent::Unknown(Outcome::failed("agent::arguments", text))));
            }
            let parent = self.store.lineage().best().map(|entry| entry.id.clone());
            let read = kernel::read(&dir, &self.origin)?;
            return Ok(match read {
                Ok(same) if parent.as_ref() == Some(&same.kernel.id()) => {
                    Err(Absent::Refused(KernelRefusal::unchanged(&same.kernel.id())))
                }
                Ok(proposed) => Ok((proposed, parent)),
                Err(refused) => Err(Absent::Refused(refused)),
            });
        }
        let (entry, from) = match self.find_candidate(arguments.from.as_deref().unwrap_or(BEST))? {
            Ok(found) => found,
            Err(absent) => return Ok(Err(absent)),
        };
        let Some(changes) = &arguments.files else { return Ok(Ok((from, entry.parent))) };
        let mut proposal = Proposal::default();
        for (name, text) in from.kernel.files() {
            proposal.files.insert(name.clone(), text.clone().into_bytes());
        }
        for (name, text) in changes {
            if *name == self.origin.op_name {
                proposal.op = Some(text.clone());
            } else if *name == self.origin.reference.0 {
                proposal.reference = Some(text.clone().into_bytes());
            } else if self.origin.is_code(name) {
                proposal.files.insert(name.clone(), text.clone().into_bytes());
            } else {
                return Ok(Err(Absent::Refused(KernelRefusal::no_code(name, &self.origin.folder))));
            }
        }
        // The schedule of `from`, unless it is changed.
        if proposal.op.is_none() {
            proposal.op = merged(&self.origin.op.file.text, from.kernel.schedule()).ok();
        }
        Ok(match self.origin.propose(proposal) {
            Ok(same) if same.kernel == from.kernel => {
                Err(Absent::Refused(KernelRefusal::unchanged(&entry.id)))
            }
            Ok(proposed) => Ok((proposed, Some(entry.id))),
            Err(refused) => Err(Absent::Refused(refused)),
        })
    }

    /// Judges a candidate on a case, or finds what was said of it.
    pub(super) fn judged(
        &mut self,
        proposed: &ProposedKernel,
        parent: Option<String>,
        tuning: &Tuning,
        case: &Case,
        note: Option<String>,
    ) -> Result<Outcome, Failure> {
        let id = proposed.kernel.id();
        let settings = settings_of(tuning);
        let key = [id.clone(), json!(settings).to_string(), case.id.clone()];
        if let Some(known) = self.answered.get(&key) {
            let mut again = known.clone();
            again["seen"] = json!("agent::seen");
            again["tries_left"] = json!(self.tries);
            return Ok(Outcome::done(again));
        }
        match &mut self.tries {
            Some(0) => {
                return Ok(Outcome::failed(
                    "agent::tries",
                    "no tries are left; `submit` your best candidate",
                ));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        let verdict = self.judge.attempt(proposed, tuning, case)?;
        let known = self.store.lineage().entries().iter().find(|entry| entry.id == id).cloned();
        let parent = parent.filter(|parent| *parent != id);
        let new =
            || Entry::new(id.clone(), parent, self.maker.clone(), CandidateStatus::Compiled, files::now());
        let mut entry = known.unwrap_or_else(new);
        entry.note = entry.note.or(note);
        let mut answer = json!({
            "id": id, "parent": entry.parent, "workload": case.id, "settings": settings,
        });
        match verdict {
            Verdict::Compiled { used, missing } => {
                answer["verdict"] = json!("compiled");
                answer["judged"] = json!(false);
                answer["code"] = json!(NO_GPU);
                answer["text"] = json!(format!(
                    "it compiles, but it was not run, so its results and its speed are unknown: {missing}"
                ));
                answer["kernels"] = used
                    .iter()
                    .map(|(arch, usage)| {
                        json!({
                            "arch": arch, "kernel": short_name(&usage.kernel), "registers": usage.registers,
                            "local": usage.stack, "shared": usage.shared,
                        })
                    })
                    .collect();
            }
            Verdict::Refused(complaint) => {
                let text = reply::log(&complaint.text, "");
                answer["verdict"] = json!("refused");
                answer["judged"] = json!(true);
                answer["code"] = json!(complaint.code);
                answer["place"] = json!(reply::place(&complaint.text, proposed.kernel.files().keys()));
                answer["text"] = json!(text);
                // A setting that does not run says nothing of the others.
                let is_default = *tuning == proposed.op.tune.default_tuning();
                if is_default && matches!(entry.standing, CandidateStatus::Compiled | CandidateStatus::Right)
                {
                    entry.standing = CandidateStatus::Refused;
                    entry.code = Some(complaint.code.to_owned());
                    entry.text = text.lines().next().map(str::to_owned);
                }
            }
            Verdict::Right(screened) => {
                if entry.standing == CandidateStatus::Compiled {
                    entry.standing = CandidateStatus::Right;
                }
                let figure = figure(&screened, settings);
                put(&mut answer, &screened, figure.as_ref().err());
                answer["peak_fraction"] = json!(self.peak_fraction(case, figure.as_ref().ok())?);
                if let Ok(figure) = figure {
                    let better = |known: &Figure| figure.seconds < known.seconds;
                    if entry.figures.get(&case.id).is_none_or(better) {
                        entry.figures.insert(case.id.clone(), figure);
                    }
                    let contender =
                        Contender { proposed: proposed.clone(), settings: Settings::always(tuning.clone()) };
                    answer["of_best"] = self.of_best(&contender, case)?;
                    if self.search_later(proposed, case, tuning, screened.seconds) {
                        answer["settings_search"] = json!("begun; `history` has the fastest settings so far");
                    }
                }
            }
        }
        self.store.keep(proposed, &self.origin, entry)?;
        self.answered.insert(key, answer.clone());
        answer["tries_left"] = json!(self.tries);
        Ok(Outcome::done(answer))
    }

    /// The least time of the products of matrices in a case over that of a candidate; nothing for other operations.
    fn peak_fraction(&mut self, case: &Case, figure: Option<&Figure>) -> Result<Option<f64>, Failure> {
        let (Some(figure), true) = (figure, bench::multiplies(&self.project.op)) else { return Ok(None) };
        let Ok(about) = self.judge.device()? else { return Ok(None) };
        let peaks = ceilings::matrix_peaks(&about, self.session);
        let least = bench::least_seconds(&self.project.op, case, &peaks);
        Ok(least.map(|least| least / figure.seconds))
    }

    /// How many times faster than the best a candidate is on a case, if it is another one.
    fn of_best(&mut self, candidate: &Contender, case: &Case) -> Result<Value, Failure> {
        let Some((id, best)) = self.best()? else { return Ok(Value::Null) };
        let same_setting = best.settings.choose(&best.proposed.op, case).tuning
            == candidate.settings.choose(&candidate.proposed.op, case).tuning;
        if id == candidate.proposed.kernel.id() && same_setting {
            return Ok(Value::Null);
        }
        Ok(match self.judge.rounds(&best, candidate, case, GLANCE)? {
            Ok(starts) => {
                let gain = starts.first().and_then(|rounds| paired::gain(&rounds.best, &rounds.candidate));
                let found = |gain: crate::agent::gain::Gain| json!({ "best": id, "ratio": gain.ratio, "low": gain.low, "high": gain.high });
                gain.map_or(Value::Null, found)
            }
            Err(complaint) => {
                json!({ "not_measured": reply::short(&complaint.text), "code": complaint.code })
            }
        })
    }

    /// `profile`.
    pub(super) fn profile(&mut self, arguments: &Profile) -> Result<Outcome, Failure> {
        let case = match self.case(arguments.workload.as_deref())? {
            Ok(case) => case,
            Err(outcome) => return Ok(outcome),
        };
        let (entry, proposed) = match self.find_candidate(&arguments.id)? {
            Ok(found) => found,
            Err(absent) => return Ok(self.absent(absent)),
        };
        let tune = &proposed.op.tune;
        let tuning = match listed::with(tune, &tune.default_tuning(), &arguments.settings, &case) {
            Ok(tuning) => tuning,
            Err(why) => return Ok(Outcome::failed("agent::arguments", &why)),
        };
        let launch = proposed.op.launch.as_ref().map(|launch| launch.evaluate(&case, &tuning));
        let launch = match launch {
            Some(Ok(launch)) => launch,
            Some(Err(error)) => return Ok(Outcome::failed("verify::launch", &error.to_string())),
            None => return Ok(Outcome::failed("verify::launch", "op.toml has no [launch]")),
        };
        let device = self.judge.device()?;
        let data = match self.judge.attempt(&proposed, &tuning, &case)? {
            Verdict::Refused(complaint) => json!({
                "id": entry.id, "verdict": "refused", "code": complaint.code, "text": reply::log(&complaint.text, ""),
            }),
            Verdict::Compiled { used, missing } => {
                let kernels = used.iter().flat_map(|(arch, usage)| {
                    let of = (usage.kernel.as_str(), usage.registers, usage.shared as u32, usage.stack);
                    rows(&launch, of, capability(arch), None, arch)
                });
                json!({
                    "id": entry.id, "verdict": "compiled", "judged": false, "code": NO_GPU, "text": missing.to_string(),
                    "workload": case.id, "kernels": kernels.collect::<Vec<_>>(),
                })
            }
            Verdict::Right(screened) => {
                let about = device.ok();
                let kernels = screened.functions.iter().flat_map(|function| {
                    let of = (function.name.as_str(), function.registers, function.shared, function.local);
                    let capability = about.as_ref().map(|about| about.capability);
                    let count = about.as_ref().map(|about| about.multiprocessors);
                    rows(&launch, of, capability, count, "")
                });
                let mut data = json!({
                    "id": entry.id, "workload": case.id, "kernels": kernels.collect::<Vec<_>>(),
                });
                let figure = figure(&screened, settings_of(&tuning));
                put(&mut data, &screened, figure.as_ref().err());
                data["peak_fraction"] = json!(self.peak_fraction(&case, figure.as_ref().ok())?);
                data["lowest_possible"] = self.lowest(&case)?;
                match self.judge.counters(&proposed, &tuning, &case)? {
                    Ok(counters) => data["counters"] = json!(counters),
                    Err(none) => data["counters_not_read"] = json!(reply::log(&none.to_string(), "")),
                }
                data
            }
        };
        Ok(Outcome::done(data))
    }
}

/// The figure of a right candidate; why it is none.
fn figure(screened: &ScreenResult, settings: BTreeMap<String, Value>) -> Result<Figure, String> {
    known::of_samples(&screened.samples)?;
    Ok(Figure { seconds: screened.seconds, copy_fraction: screened.copy_fraction, settings })
}

/// What is told of a right candidate. A time that is not a result is not told.
fn put(answer: &mut Value, screened: &ScreenResult, unknown: Option<&String>) {
    answer["verdict"] = json!("passed");
    answer["judged"] = json!(true);
    answer["seconds"] = json!(unknown.is_none().then_some(screened.seconds));
    answer["not_measured"] = json!(unknown);
    answer["copy_fraction"] = json!(screened.copy_fraction.filter(|_| unknown.is_none()));
    answer["of_bound"] = json!(screened.of_bound);
    if answer.get("kernels").is_none() {
        answer["kernels"] = screened
            .functions
            .iter()
            .map(|function| {
                json!({
                    "kernel": short_name(&function.name), "registers": function.registers, "local": function.local,
                    "shared": function.shared,
                })
            })
            .collect();
    }
}

/// The launches of one compiled kernel, with what limits them.
fn rows(
    launch: &ConcreteLaunch,
    (name, registers, shared, local): (&str, u32, u32, u32),
    capability: Option<(u32, u32)>,
    multiprocessors: Option<u32>,
    arch: &str,
) -> Vec<Value> {
    let short = short_name(name);
    let of_name = launch.kernels.iter().filter(|kernel| {
        let entry = kernel.entry.rsplit("::").next().unwrap_or(&kernel.entry);
        entry == short
    });
    of_name
        .map(|kernel| {
            let threads: u32 = kernel.block.iter().product();
            let blocks: u64 = kernel.grid.iter().map(|length| u64::from(*length)).product();
            let found = capability
                .and_then(|capability| occupancy::estimate(threads, shared + kernel.shared, registers, capability));
            let waves = found.zip(multiprocessors).map(|(found, count)| {
                blocks as f64 / f64::from((found.blocks * count).max(1))
            });
            json!({
                "kernel": kernel.entry, "arch": (!arch.is_empty()).then_some(arch), "registers": registers, "local": local,
                "static_shared": shared, "dynamic_shared": kernel.shared, "grid": kernel.grid, "block": kernel.block,
                "blocks": blocks, "blocks_per_multiprocessor": found.map(|found| found.blocks),
                "warps_per_multiprocessor": found.map(|found| found.warps),
                "occupancy": found.map(|found| f64::from(found.warps) / f64::from(found.most_warps)),
                "limited_by": found.map(|found| found.limit), "waves": waves,
                "spills": local > 0,
            })
        })
        .collect()
}

/// The compute capability of an architecture: of `sm_90a`, 9 and 0.
fn capability(arch: &str) -> Option<(u32, u32)> {
    let digits: u32 = arch.trim_start_matches("sm_").trim_end_matches(char::is_alphabetic).parse().ok()?;
    Some((digits / 10, digits % 10))
}
