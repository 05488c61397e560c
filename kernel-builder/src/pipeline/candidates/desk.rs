//! The judge as tools: what an agent asks, and what it is answered.
//!
//! Owns: who is the best, what was answered already, how many tries are left. Never: writes into the project beside
//! `.kernelwright/candidates/`; tells an agent anything of a workload that is held out.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::Case;
use serde_json::{Value, json};

use crate::agent::kernel::{KernelRefusal, OpTextError, Origin, ProposedKernel, visible};
use crate::agent::lineage::{Entry, Maker};
use crate::agent::reply;
use crate::agent::tuned::Settings;
use crate::agent::{Candidate, Feedback};
use crate::base::files;
use crate::base::session::Session;
use crate::exit::Failure;
use crate::mcp::{Outcome, Tool};
use crate::pipeline::measure::screening;
use crate::pipeline::project::device::{self, DeviceProject};
use crate::pipeline::project::kernel;
use crate::pipeline::project::tuned::{self, Choice};

use super::judge::{Contender, Judge, Verdict};
use super::store::Store;

/// How long nobody may ask before the GPU is let go.
pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// Where an agent hands in candidates.
pub(crate) struct Desk<'a> {
    pub(super) project: &'a DeviceProject,
    pub(super) origin: Origin,
    pub(super) store: Store,
    pub(super) judge: Box<dyn Judge + Send + 'a>,
    pub(super) session: &'a Session,
    /// Who hands in.
    pub(super) maker: Maker,
    /// The folder that it may name folders of; any if `None`.
    pub(super) within: Option<PathBuf>,
    /// When something was asked last.
    asked: Option<Instant>,
    /// How many new candidates are still judged; no limit if `None`.
    pub(super) tries: Option<usize>,
    /// Answers by candidate, settings and case.
    pub(super) answered: BTreeMap<[String; 3], Value>,
    /// Refusals of what is no candidate, by code.
    pub(super) turned_away: BTreeMap<&'static str, usize>,
    /// The best, ready to be timed.
    best: Option<(String, Contender)>,
    /// Kernels whose `[tune]` is searched, the first one first.
    pub(super) searches: VecDeque<SettingsSearch>,
}

/// A kernel whose settings are searched on a case.
pub(super) struct SettingsSearch {
    /// It.
    pub(super) proposed: ProposedKernel,
    /// The case.
    pub(super) case: Case,
    /// What came of settings so far.
    pub(super) known: Vec<Feedback>,
    /// Settings that are tried next.
    pub(super) waiting: VecDeque<Candidate>,
}

/// Why there is no candidate to look at.
pub(super) enum Absent {
    /// The caller named nothing that is known.
    Unknown(Outcome),
    /// What was handed in is no candidate.
    Refused(KernelRefusal),
}

impl<'a> Desk<'a> {
    /// A desk for a project. The project's own kernel is kept as the seed, if it is not known yet.
    ///
    /// # Errors
    /// The project has no `[launch]`, or its kernel is no candidate: too large, or not in one folder.
    pub(crate) fn open(
        project: &'a DeviceProject,
        origin: Origin,
        judge: Box<dyn Judge + Send + 'a>,
        session: &'a Session,
    ) -> Result<Result<Self, KernelRefusal>, Failure> {
        let mut store = Store::open(project)?;
        let seed = match kernel::read(&project.dir, &origin)? {
            Ok(seed) => seed,
            Err(refused) => return Ok(Err(refused)),
        };
        let id = seed.kernel.id();
        if !store.lineage().entries().iter().any(|entry| entry.id == id) {
            store.keep(&seed, &origin, Entry::seed(id, files::now()))?;
        }
        Ok(Ok(Self {
            project,
            origin,
            store,
            judge,
            session,
            maker: Maker::default(),
            within: None,
            asked: None,
            tries: None,
            answered: BTreeMap::new(),
            turned_away: BTreeMap::new(),
            best: None,
            searches: VecDeque::new(),
        }))
    }

    /// Does what a tool says. Whatever goes wrong is in the answer.
    pub(crate) fn ask(&mut self, name: &str, tool: Result<Tool, String>) -> Outcome {
        let done = match tool {
            Ok(Tool::Task) => self.task(),
            Ok(Tool::Try(try_)) => self.attempt(try_),
            Ok(Tool::Profile(profile)) => self.profile(&profile),
            Ok(Tool::History(history)) => self.history(&history),
            Ok(Tool::Submit(submit)) => self.submit(&submit),
            Err(why) => return Outcome::failed("agent::arguments", &why),
        };
        self.asked = Some(Instant::now());
        done.unwrap_or_else(|failure| {
            let first = failure.reports.first();
            let code = first.and_then(|report| report.code()).map(|code| code.to_string());
            let text = first.map_or_else(|| format!("`{name}` failed"), ToString::to_string);
            let help =
                first.and_then(|report| report.help()).map(|help| format!("; {help}")).unwrap_or_default();
            let text = reply::log(&format!("{text}{help}"), &self.project.dir.display().to_string());
            Outcome::failed(code.as_deref().unwrap_or("agent::judge"), &text)
        })
    }

    /// Judges no more than so many new candidates.
    pub(crate) fn limit(&mut self, tries: Option<usize>) {
        self.tries = tries;
    }

    /// Lets go of the GPU, unless somebody else asked something meanwhile.
    pub(crate) fn rest(&mut self) {
        if self.asked.is_none_or(|asked| asked.elapsed() >= IDLE) {
            self.judge.rest();
        }
    }

    /// A case that an agent may know: the named one, or the first.
    pub(super) fn case(&self, name: Option<&str>) -> Result<Result<Case, Outcome>, Failure> {
        let visible: Vec<Case> = self.cases()?;
        let found = visible
            .iter()
            .find(|case| name.is_none_or(|name| case.id == name || case.workload.as_str() == name));
        Ok(found.cloned().ok_or_else(|| {
            let known: Vec<&str> = visible.iter().map(|case| case.id.as_str()).collect();
            let text = match name {
                Some(name) => {
                    format!("there is no workload `{name}`; the workloads are {}", known.join(", "))
                }
                None => "op.toml measures no visible workload on cuda".to_owned(),
            };
            Outcome::failed("bench::unknown_workload", &text)
        }))
    }

    /// The cases that are measured and not held out.
    pub(super) fn cases(&self) -> Result<Vec<Case>, Failure> {
        let mut cases = screening::cases(&self.project.op, None)?;
        cases.retain(|case| !case.held_out);
        Ok(cases)
    }

    /// The candidate of a name.
    pub(super) fn find_candidate(
        &self,
        name: &str,
    ) -> Result<Result<(Entry, ProposedKernel), Absent>, Failure> {
        let Some(entry) = self.store.lineage().find(name) else {
            let text = format!("`{name}` does not match exactly one candidate");
            return Ok(Err(Absent::Unknown(Outcome::failed("agent::unknown_candidate", &text))));
        };
        let entry = entry.clone();
        let loaded = self.store.load(&entry.id, &self.origin)?;
        Ok(loaded.map(|proposed| (entry, proposed)).map_err(Absent::Refused))
    }

    /// The best, with the settings that were found for it here; nothing without one.
    pub(super) fn best(&mut self) -> Result<Option<(String, Contender)>, Failure> {
        let Some(id) = self.store.lineage().best().map(|entry| entry.id.clone()) else { return Ok(None) };
        if let Some((known, contender)) = &self.best
            && *known == id
        {
            return Ok(Some((id, contender.clone())));
        }
        let Ok(proposed) = self.store.load(&id, &self.origin)? else { return Ok(None) };
        let is_own = kernel::read(&self.project.dir, &self.origin)?.is_ok_and(|own| own.kernel.id() == id);
        let mut settings = Settings::defaults(&proposed.op);
        if is_own {
            settings = tuned::settings(self.project, Choice::Tuned, self.session)?;
        }
        if settings.are_defaults() {
            let path = self.store.place(&id).join(&self.origin.op_name);
            settings =
                tuned::settings(&device::read_code(&path, self.session)?, Choice::Tuned, self.session)?;
        }
        let contender = Contender { proposed, settings };
        self.best = Some((id.clone(), contender.clone()));
        Ok(Some((id, contender)))
    }

    /// The best after a search of its settings as long as that of a candidate. The project's own kernel may never have been
    /// tuned, and any copy of it would win by its settings alone.
    pub(super) fn tuned_best(&mut self) -> Result<Option<(String, Contender)>, Failure> {
        let Some((id, mut best)) = self.best()? else { return Ok(None) };
        let Some(case) = self.cases()?.into_iter().next() else { return Ok(Some((id, best))) };
        let is_tuned = !best.settings.are_defaults() || best.proposed.op.tune.tunables.is_empty();
        let default = best.proposed.op.tune.default_tuning();
        // Nothing is searched for a kernel that is wrong: whatever is right replaces it.
        if !is_tuned && matches!(self.judge.attempt(&best.proposed, &default, &case)?, Verdict::Right(_)) {
            best.settings = self.judge.tune(&best.proposed, &self.store.place(&id))?;
            self.best = Some((id.clone(), best.clone()));
        }
        Ok(Some((id, best)))
    }

    /// The answer to what is no candidate.
    pub(super) fn refused(&mut self, refused: &KernelRefusal) -> Outcome {
        *self.turned_away.entry(refused.code).or_insert(0) += 1;
        Outcome::done(json!({
            "verdict": "refused", "judged": false, "code": refused.code, "text": reply::short(&refused.text),
            "tries_left": self.tries,
        }))
    }

    /// The answer to a name that leads to nothing.
    pub(super) fn absent(&mut self, absent: Absent) -> Outcome {
        match absent {
            Absent::Unknown(outcome) => outcome,
            Absent::Refused(refused) => self.refused(&refused),
        }
    }
}

/// A setting in JSON.
pub(super) fn settings_of(tuning: &kernel_plan::spec::tune::Tuning) -> BTreeMap<String, Value> {
    tuning.iter().map(|(name, value)| (name.to_string(), json!(value))).collect()
}

/// Texts of files, for an agent.
pub(super) fn files_of(
    proposed: &ProposedKernel,
    op_name: &str,
    op: &OpSpec,
) -> Result<BTreeMap<String, String>, OpTextError> {
    let mut files = proposed.kernel.files().clone();
    files.insert(op_name.to_owned(), visible(&op.file.text)?);
    Ok(files)
}
