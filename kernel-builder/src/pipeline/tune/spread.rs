//! Settings for lengths that no workload names: searched at a drawn sample of them, and tried at others.
//!
//! Owns: which lengths are searched and which are held back, how the budget is shared, whether rules are kept. Never: fits
//! rules, searches or times.
//!
//! Dtypes of the same sizes share rules, since a kernel moves as many bytes for them. Every setting that won somewhere is
//! timed at all lengths. Rules are fitted to the searched ones. The others decide whether the rules are kept, so that what is
//! said of unseen lengths is so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::expr::Bindings;
use kernel_plan::spec::op::{Case, Device};
use kernel_plan::spec::tune::Tuning;

use crate::agent::gain::Gain;
use crate::agent::rules::{self, Cost, Rule, Sample};
use crate::agent::spread::{Spread, SpreadRule};
use crate::agent::tuned::{self as table, TunedTable};
use crate::agent::{Agent as _, Budget};
use crate::base::date;
use crate::base::random::SplitMix;
use crate::base::report::ProgressKind;
use crate::base::session::Session;
use crate::bench::drawn::{self, Draw};
use crate::bench::{paired, stats};
use crate::exit::Failure;
use crate::pipeline::create::generate;
use crate::pipeline::measure::screening;
use crate::pipeline::project::tuned;
use crate::verify::device as judge;

use super::on_gpu::{CarriedOver, GpuJudge, GroundworkQueue};
use super::search::{self, Log};
use super::shares::Shares;
use super::{Opened, Request, Run, compare};

/// The share of the budget that searches; the rest compares what was found.
const SEARCHES: f64 = 0.6;
/// Settings of a length that others are compared with.
const BEST: usize = 2;
/// The most settings that are compared, beside the defaults.
const COMPARED: usize = 31;
/// The fewest unseen lengths that say something about others.
const FEWEST_UNSEEN: usize = 3;

/// Lengths that are searched, and compared, however little time there is.
const FEWEST_SEARCHED: usize = 4;
const FEWEST_COMPARED: usize = 6;

/// The places of the plan that are compared, two searched ones and an unseen one in turn, so that there are some of both
/// whenever the time is over. Of the searched ones the first `reached` were.
fn compared(searched: usize, reached: usize, all: usize) -> Vec<usize> {
    let mut seen = searched..searched + reached;
    let mut unseen = 2 * searched..all;
    let mut order = vec![];
    while !seen.is_empty() || !unseen.is_empty() {
        order.extend(seen.by_ref().take(2));
        order.extend(unseen.next());
    }
    order
}

/// The results of all dtypes.
pub(crate) struct SpreadSearch {
    /// One for dtypes of the same sizes.
    pub(crate) groups: Vec<Group>,
    /// The file of settings, in the project.
    pub(crate) name: String,
    /// Its new content.
    pub(crate) table: TunedTable,
    /// The time for all dtypes.
    pub(crate) took: Duration,
}

/// The results of dtypes of the same sizes.
pub(crate) struct Group {
    /// The dtype of each type variable.
    pub(crate) dtypes: Vec<BTreeMap<String, String>>,
    /// The settings that were compared; the defaults first.
    pub(crate) settings: Vec<Tuning>,
    /// The rules, if they are better than the defaults at the searched lengths.
    pub(crate) rules: Vec<Rule>,
    /// The choice of the rules at each length.
    pub(crate) lengths: Vec<Length>,
    /// The gain at unseen lengths, if enough of them were measured.
    pub(crate) worth: Option<Worth>,
}

/// The result at one length.
pub(crate) struct Length {
    /// The name of the case.
    pub(crate) case: String,
    /// Whether the rules were fitted without it.
    pub(crate) is_unseen: bool,
    /// The place of the setting that the rules choose.
    pub(crate) setting: usize,
    /// The time of the defaults over that of the chosen setting.
    pub(crate) over_defaults: Option<f64>,
    /// The time of the best setting over that of the chosen one.
    pub(crate) of_best: Option<f64>,
}

/// The gain of rules at lengths that they were not fitted to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Worth {
    /// Lengths that are known.
    pub(crate) lengths: usize,
    /// The geometric mean over the defaults.
    pub(crate) over_defaults: Gain,
    /// The geometric mean of the best setting's time over theirs.
    pub(crate) of_best: f64,
    /// The least share, with its case.
    pub(crate) worst: (f64, String),
}

impl Group {
    /// Whether the rules are written: they are faster than the defaults where they were not fitted.
    pub(crate) fn is_kept(&self) -> bool {
        !self.rules.is_empty() && self.worth.as_ref().is_some_and(|worth| worth.over_defaults.low >= 1.0)
    }
}

/// Searches settings at drawn lengths, and writes the rules that hold at others. `args.budget` is for all of them.
///
/// # Errors
/// There is nothing to search or to draw, no GPU, or the judge itself fails.
pub(crate) fn spread(args: &Request, count: usize, session: &Session) -> Result<SpreadSearch, Failure> {
    let started = Instant::now();
    let project = super::project(args, session)?;
    let op = &project.op;
    let draw = Draw { seed: args.seed, count: count + count.div_ceil(2) };
    let mut searched = drawn::cases_to_search(op, Device::Cuda, draw)?;
    if searched.is_empty() {
        // It says that no workload is measured on cuda.
        screening::cases(op, None)?;
    }
    // Fewer are drawn where op.toml does not allow as many.
    let held_back = searched.len() / 3;
    let unseen = searched.split_off(searched.len() - held_back);
    let plan: Vec<Case> = searched.iter().chain(&searched).chain(&unseen).cloned().collect();
    super::opened(args, &project, session, |run, opened| {
        let Opened { name, mut table, checker, asked } = opened;
        let lay = |case: &Case, beside| run.groundwork(case, beside);
        let groups = std::thread::scope(|scope| {
            let grounds = GroundworkQueue::begin(scope, &plan, &lay);
            asked.tell(session);
            let mut handed = CarriedOver { grounds, checker: Some(checker) };
            run.spread(&plan, searched.len(), &mut handed)
        })?;
        let before = table.clone();
        for group in &groups {
            table.remove_spread(&group.dtypes);
            if let Some(found) = run.found(group).filter(|_| group.is_kept()) {
                table.put_spread(found);
            }
        }
        if table != before {
            tuned::write(&project, &name, &table)?;
            generate::after_fill(&project.dir, session)?;
        }
        Ok(SpreadSearch { groups, name, table, took: started.elapsed() })
    })
}

/// The settings that won at some lengths.
#[derive(Default)]
pub(super) struct Winners {
    /// The best one of each length.
    first: Vec<Tuning>,
    /// Others that were nearly as good.
    others: Vec<Tuning>,
}

impl Winners {
    pub(super) fn add(&mut self, best: Vec<Tuning>) {
        let mut best = best.into_iter();
        self.first.extend(best.next());
        self.others.extend(best);
    }

    /// The settings to compare, each once: the defaults, the best of each length, then others and earlier winners.
    pub(super) fn pool(self, default: Tuning, taught: Vec<Tuning>) -> Vec<Tuning> {
        let mut pool: Vec<Tuning> = vec![];
        let all = std::iter::once(default).chain(self.first).chain(taught).chain(self.others);
        for tuning in all {
            if pool.len() <= COMPARED && !pool.contains(&tuning) {
                pool.push(tuning);
            }
        }
        pool
    }
}

/// The bytes of an element of each type variable: dtypes with the same ones share rules.
pub(super) fn sizes(case: &Case) -> Vec<usize> {
    case.dtypes.values().map(|dtype| dtype.size_bytes()).collect()
}

impl Run<'_> {
    /// Searches the first `searched` cases of the plan, and compares what was found at the rest. What the budget does not
    /// reach is left out.
    fn spread(
        &self,
        plan: &[Case],
        searched: usize,
        handed: &mut CarriedOver<'_, '_>,
    ) -> Result<Vec<Group>, Failure> {
        let Budget { seconds, .. } = self.args.budget;
        let session = self.session;
        let progress =
            session.report.progress("searching drawn lengths", ProgressKind::Count, Some(plan.len() as u64));
        let mut winners: BTreeMap<Vec<usize>, Winners> = BTreeMap::new();
        let mut time = Shares::new(SEARCHES * seconds, FEWEST_SEARCHED);
        let mut reached = 0;
        for (place, case) in plan[..searched].iter().enumerate() {
            let Some(share) = time.next(searched - place) else { break };
            progress.doing(&format!("searching {}", case.id));
            let found = self.search_case(case, place, share, handed)?;
            time.ended(share);
            self.learn(&found);
            winners.entry(sizes(case)).or_default().add(found);
            reached += 1;
            progress.add(1);
        }
        let pools: BTreeMap<Vec<usize>, Vec<Tuning>> = winners
            .into_iter()
            .map(|(sizes, won)| (sizes, won.pool(self.project.op.tune.default_tuning(), self.taught())))
            .collect();
        let order = compared(searched, reached, plan.len());
        let mut time = Shares::new(seconds - time.spent(), FEWEST_COMPARED);
        let mut samples: BTreeMap<Vec<usize>, Vec<(usize, Sample)>> = BTreeMap::new();
        // Dtypes of which no case was searched have no settings to compare.
        let with_pool = order.into_iter().filter_map(|place| Some((place, pools.get(&sizes(&plan[place]))?)));
        let order: Vec<(usize, &Vec<Tuning>)> = with_pool.collect();
        let mut done = 0;
        for (place, pool) in order.iter().copied() {
            let case = &plan[place];
            let Some(share) = time.next(order.len() - done) else { break };
            progress.doing(&format!("comparing at {}", case.id));
            let costs = self.compare_case(case, place, pool, share, handed)?;
            time.ended(share);
            let lengths = table::axes_of(&self.project.op, case).into_values().collect();
            samples.entry(sizes(case)).or_default().push((place, Sample { lengths, costs }));
            done += 1;
            progress.add(1);
        }
        if reached < searched || done < order.len() {
            session.report.warn(format!(
                "the time was over when {reached} of {searched} lengths were searched, and settings compared at {done} of {}: a \
                 larger --budget reaches more, a smaller --count asks for less",
                plan.len() - searched,
            ));
        }
        let group = |(sizes, mut known): (Vec<usize>, Vec<(usize, Sample)>)| {
            known.sort_by_key(|(place, _)| *place);
            let settings = pools.get(&sizes).cloned().unwrap_or_default();
            let is_unseen = |place: usize| place >= 2 * searched;
            group(plan, known, settings, is_unseen)
        };
        Ok(samples.into_iter().map(group).collect())
    }

    /// The best settings of a case.
    fn search_case(
        &self,
        case: &Case,
        place: usize,
        seconds: f64,
        handed: &mut CarriedOver<'_, '_>,
    ) -> Result<Vec<Tuning>, Failure> {
        let budget = Budget { seconds, ..self.args.budget };
        let mut tuner = self.tuner(case, &budget);
        let mut log = Log::open(&self.project.dir, &self.key(case)?, self.args.earlier)?;
        let arch = judge::arch_of(self.about);
        let task = self.task(case, &arch);
        let since = Instant::now();
        let clock = || since.elapsed().as_secs_f64();
        task.run(|line| {
            let mut judge = GpuJudge::new(&task, line, self.source.clone(), place, handed);
            search::search(&mut tuner, &mut judge, &mut log, &budget, &clock, &mut |_, _| {})?;
            judge.finish()
        })?;
        Ok(tuner.best(BEST))
    }

    /// Compares the times of the settings in one case.
    fn compare_case(
        &self,
        case: &Case,
        place: usize,
        pool: &[Tuning],
        seconds: f64,
        handed: &mut CarriedOver<'_, '_>,
    ) -> Result<Vec<Cost>, Failure> {
        let settings: Vec<Option<Tuning>> =
            pool.iter().map(|tuning| runs(&self.project.op, case, tuning).then(|| tuning.clone())).collect();
        let arch = judge::arch_of(self.about);
        let task = self.task(case, &arch);
        let since = Instant::now();
        let clock = || since.elapsed().as_secs_f64();
        let mut random = SplitMix(self.args.seed ^ place as u64);
        task.run(|line| {
            let mut judge = GpuJudge::new(&task, line, self.source.clone(), place, handed);
            let costs = compare::compare(&settings, &mut judge, seconds, &clock, &mut random)?;
            judge.finish()?;
            Ok(costs)
        })
    }

    /// The entry of a group in the table.
    fn found(&self, group: &Group) -> Option<Spread> {
        let worth = group.worth.as_ref()?;
        let axes = self.project.op.axes.iter();
        let mut axes: Vec<String> = axes
            .filter(|axis| matches!(axis.kind, kernel_plan::spec::op::AxisKind::Var { .. }))
            .map(|axis| axis.name.value.to_string())
            .collect();
        axes.sort();
        let rule = |rule: &Rule| SpreadRule::new(rule, &axes, table::written(&group.settings[rule.setting]));
        Some(Spread {
            seed: self.args.seed,
            date: date::today(),
            driver: self.driver.clone(),
            compiler: self.compiler.id(),
            protocol: paired::PROTOCOL,
            searched: group.lengths.iter().filter(|length| !length.is_unseen).count() as u64,
            unseen: worth.lengths as u64,
            over_defaults: worth.over_defaults,
            of_best: worth.of_best,
            worst: worth.worst.0,
            dtypes: group.dtypes.clone(),
            rules: group.rules.iter().map(rule).collect(),
        })
    }
}

/// Whether a call can have a setting: else it gets the defaults.
pub(super) fn runs(op: &OpSpec, case: &Case, tuning: &Tuning) -> bool {
    op.tune.allows(&Bindings::new(case, tuning)).unwrap_or_default()
        && op.launch.as_ref().is_some_and(|launch| launch.evaluate(case, tuning).is_ok())
}

/// Fits rules to the searched cases, and tries them at the others.
pub(super) fn group(
    plan: &[Case],
    known: Vec<(usize, Sample)>,
    settings: Vec<Tuning>,
    is_unseen: impl Fn(usize) -> bool,
) -> Group {
    let seen: Vec<Sample> =
        known.iter().filter(|(place, _)| !is_unseen(*place)).map(|(_, sample)| sample.clone()).collect();
    // One that is wrong at an unseen length is not used either.
    let right = rules::never_refused(known.iter().map(|(_, sample)| sample));
    let rules = rules::fit(&seen, &right);
    let length = |(place, sample): &(usize, Sample)| {
        let setting = rules::choose(&rules, &sample.lengths);
        let share = |of: Option<f64>| Some(of? / sample.cost(setting)?);
        Length {
            case: plan[*place].id.clone(),
            is_unseen: is_unseen(*place),
            setting,
            over_defaults: share(sample.cost(0)),
            of_best: share(sample.best()),
        }
    };
    let lengths: Vec<Length> = known.iter().map(length).collect();
    let mut dtypes: Vec<BTreeMap<String, String>> =
        known.iter().map(|(place, _)| table::dtypes_of(&plan[*place])).collect();
    dtypes.sort();
    dtypes.dedup();
    let worth = worth(&lengths);
    Group { dtypes, settings, rules, lengths, worth }
}

fn worth(lengths: &[Length]) -> Option<Worth> {
    let unseen = || lengths.iter().filter(|length| length.is_unseen);
    let over: Vec<f64> = unseen().filter_map(|length| length.over_defaults).collect();
    let shares: Vec<(f64, &String)> =
        unseen().filter_map(|length| Some((length.of_best?, &length.case))).collect();
    let (ratio, (low, high)) = (stats::geometric_mean(&over)?, stats::over_cases(&over)?);
    let of_best = stats::geometric_mean(&shares.iter().map(|(share, _)| *share).collect::<Vec<_>>())?;
    let worst = shares.iter().min_by(|one, other| one.0.total_cmp(&other.0))?;
    (over.len() >= FEWEST_UNSEEN).then(|| Worth {
        lengths: over.len(),
        over_defaults: Gain { ratio, low, high },
        of_best,
        worst: (worst.0, worst.1.clone()),
    })
}

/// The dtypes of a group: `T=bf16, T=f16`.
pub(crate) fn dtype_words(group: &Group) -> String {
    let one = |dtypes: &BTreeMap<String, String>| {
        let pairs: Vec<String> = dtypes.iter().map(|(name, dtype)| format!("{name}={dtype}")).collect();
        pairs.join(",")
    };
    let all: Vec<String> = group.dtypes.iter().map(one).collect();
    if group.dtypes.iter().all(BTreeMap::is_empty) { "all calls".to_owned() } else { all.join(", ") }
}

/// The result of a group, in words.
pub(crate) fn verdict(group: &Group) -> String {
    let searched = group.lengths.iter().filter(|length| !length.is_unseen).count();
    let Some(worth) = &group.worth else {
        return format!(
            "too few lengths outside of the {searched} searched ones were measured; nothing is written; use a larger --count"
        );
    };
    let Worth { lengths, over_defaults: Gain { ratio, low, high }, of_best, worst } = worth;
    if group.rules.is_empty() {
        return format!("the defaults: {of_best:.3} of the best setting at {lengths} unseen lengths");
    }
    let rules = match group.rules.len() {
        1 => "1 rule".to_owned(),
        count => format!("{count} rules"),
    };
    let used: BTreeSet<usize> = group.rules.iter().map(|rule| rule.setting).collect();
    let figures = format!(
        "{ratio:.3}x [{low:.3}, {high:.3}] over the defaults at {lengths} unseen lengths, {of_best:.3} of the best setting \
         there, worst {:.3} ({})",
        worst.0, worst.1
    );
    let settings = match used.len() {
        1 => "1 setting".to_owned(),
        count => format!("{count} settings"),
    };
    match group.is_kept() {
        true => format!("{rules} with {settings} from {searched} lengths: {figures}"),
        false => format!("{rules} not written, since they are not faster: {figures}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(is_unseen: bool, over_defaults: Option<f64>, of_best: f64) -> Length {
        let case = format!("drawn-0-{of_best}");
        Length { case, is_unseen, setting: 0, over_defaults, of_best: Some(of_best) }
    }

    #[test]
    fn searched_and_unseen_lengths_are_compared_in_turn() {
        assert_eq!(compared(4, 4, 10), [4, 5, 8, 6, 7, 9]);
        assert_eq!(compared(4, 1, 10), [4, 8, 9], "what was not searched is not compared");
    }

    #[test]
    fn only_unseen_lengths_say_what_rules_are_worth() {
        let mut lengths = vec![
            length(false, Some(9.0), 0.1),
            length(true, Some(1.1), 1.0),
            length(true, Some(1.2), 0.9),
            length(true, None, 0.8),
        ];
        assert_eq!(worth(&lengths), None, "two of them are known");
        lengths.push(length(true, Some(1.15), 1.0));
        let found = worth(&lengths).unwrap();
        assert_eq!((found.lengths, found.worst.clone()), (3, (0.8, "drawn-0-0.8".to_owned())));
        assert!((found.over_defaults.ratio - (1.1f64 * 1.2 * 1.15).cbrt()).abs() < 1e-12);
        assert!(found.over_defaults.low >= 1.1 && found.over_defaults.high <= 1.2);
    }
}
