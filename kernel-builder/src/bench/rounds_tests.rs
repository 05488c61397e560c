//! Rounds with fake processes: honest ones, and each way in which one can be wrong.

use std::collections::VecDeque;

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::spec::op::{Device, Purpose};
use kernel_plan::spec::parse_op;

use super::*;
use crate::base::files;
use crate::base::process::ProcessError;
use crate::bench::contender::{Aim, Need, Sizes, TimedCall};

/// Contender, contents, calls and edits.
type Asked = (String, u64, u64, Vec<(u64, u64)>);

/// A process whose contenders take as long as is scripted; its time is counted, not spent.
pub(in crate::bench) struct Fake {
    /// Seconds a call, by contender.
    seconds: BTreeMap<String, f64>,
    /// What is added to this program's clock by every block.
    waking: f64,
    /// Multiplies what is claimed in short blocks, and in long ones.
    claims: (f64, f64),
    /// Outputs are wrong after so many blocks.
    wrong_after: Option<usize>,
    /// So many blocks from the first one are three times as slow.
    slow: usize,
    /// Faults of the next blocks, in order.
    faults: VecDeque<Fault>,
    blocks: usize,
    asked: Vec<Asked>,
    judged: Vec<TimedCall>,
    regime: Regime,
    needs: u64,
    /// Seconds of processors that it is seen to use at every look.
    uses: f64,
    looks: std::cell::Cell<u32>,
    calls: u64,
    /// Calls that fit into its queue, and the part of their time that its stream sees.
    queued: Option<u64>,
    seen: f64,
    /// Calls that left nothing, in every block.
    suspects: Vec<u64>,
    stopped: bool,
    /// Cases that were begun, and the one, counted from one, at whose beginning the user presses ctrl-C.
    pub(in crate::bench) begun: usize,
    /// How often it was given a new process.
    pub(in crate::bench) renewed: usize,
    /// The cases that were begun, each with how often it had a new process by then.
    pub(in crate::bench) cases: Vec<(usize, String)>,
    pub(in crate::bench) interrupted_at: Option<usize>,
    /// Outputs are wrong in this case and all that follow, counted from one.
    pub(in crate::bench) wrong_from: Option<usize>,
}

impl Fake {
    /// The same in CUDA graphs.
    pub(in crate::bench) fn in_graphs(self) -> Self {
        Self { regime: Regime::Graph, ..self }
    }

    fn new(contenders: &[(&str, f64)]) -> Self {
        Self {
            seconds: contenders.iter().map(|(name, seconds)| ((*name).to_owned(), *seconds)).collect(),
            waking: 100e-6,
            claims: (1.0, 1.0),
            wrong_after: None,
            slow: 0,
            faults: VecDeque::new(),
            blocks: 0,
            asked: Vec::new(),
            judged: Vec::new(),
            regime: Regime::Host,
            needs: 0,
            uses: 0.0,
            looks: 0.into(),
            calls: 20,
            queued: None,
            seen: 1.0,
            suspects: vec![],
            stopped: false,
            begun: 0,
            renewed: 0,
            cases: vec![],
            interrupted_at: None,
            wrong_from: None,
        }
    }

    pub(in crate::bench) fn kernel() -> Self {
        Self::new(&[("kernel", 10e-6)])
    }

    pub(in crate::bench) fn baselines() -> Self {
        Self::new(&[("eager", 20e-6), ("copy", 9e-6)])
    }
}

impl Timer for Fake {
    fn begin(&mut self, case: &Case) -> Result<Need, Fault> {
        self.stopped = false;
        self.begun += 1;
        self.cases.push((self.renewed, case.workload.to_string()));
        if self.interrupted_at == Some(self.begun) {
            return Err(ProcessError::Interrupted.into());
        }
        Ok(Need { needs: self.needs, free: Some(1000), bytes: 64 })
    }

    fn prepare(&mut self, _: u64) -> Result<Prepared, Fault> {
        let of = |number: u64| self.seconds.keys().map(|name| (name.clone(), number)).collect();
        let sizes = Sizes {
            regime: self.regime,
            calls: of(self.calls),
            most: of(100_000),
            queued: self.queued.map(of).unwrap_or_default(),
        };
        Ok(Prepared { sets: 8, regimes: vec![sizes], skipped: vec![], notes: vec![] })
    }

    fn block(&mut self, ask: &Ask<'_>) -> Result<Block, Fault> {
        if let Some(fault) = self.faults.pop_front() {
            return Err(fault);
        }
        self.blocks += 1;
        let name = ask.contender.unwrap_or("nobody");
        self.asked.push((name.to_owned(), ask.contents, ask.calls, ask.edits.to_vec()));
        let slower = if self.blocks <= self.slow { 3.0 } else { 1.0 };
        let each = self.seconds.get(name).copied().unwrap_or(0.0) * slower;
        let took = each * ask.calls as f64;
        let claimed = took
            * match ask.aim {
                Aim::Sample => self.claims.0,
                Aim::Audit => self.claims.1,
                Aim::Queue => self.seen,
            };
        let inside = if ask.aim == Aim::Queue { took } else { claimed };
        Ok(Block { device: claimed, inside, outside: took + self.waking, kept: None })
    }

    fn suspects(&mut self) -> Result<Vec<u64>, Fault> {
        Ok(self.suspects.clone())
    }

    fn give(&mut self, places: &[u64], files: &[std::path::PathBuf]) -> Result<Option<String>, Fault> {
        assert_eq!(places.len(), files.len());
        let wrong = self.wrong_after.is_some_and(|after| self.blocks > after)
            || self.wrong_from.is_some_and(|from| self.begun >= from);
        Ok(wrong.then(|| "output `out` is 7 times too far off".to_owned()))
    }

    fn leave(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    fn renew(&mut self) -> Result<(), files::FileError> {
        self.renewed += 1;
        Ok(())
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn processor_seconds(&self) -> Option<f64> {
        self.looks.set(self.looks.get() + 1);
        Some(self.uses * f64::from(self.looks.get()))
    }
}

impl Referee for Fake {
    fn judge(&mut self, calls: &[TimedCall]) -> Result<Option<String>, Fault> {
        self.judged.extend(calls.iter().cloned());
        Ok(None)
    }
}

fn case() -> Case {
    let text = r#"
format = 1
name = "scale"
[axes]
n = { type = "var" }
[inputs]
x = { shape = ["n"], dtype = "f32" }
[outputs]
y = { shape = ["n"], dtype = "f32" }
[reference]
file = "reference.py"
function = "scale"
[call]
function = "scale"
[tolerance]
accumulate = "f32"
length = 1
roundings = 1
[workload.one]
axes = { n = 4 }
"#;
    let (op, problems) = parse_op(SourceFile::new("op.toml", text));
    assert!(problems.is_empty(), "{problems:?}");
    op.unwrap().cases(Purpose::Bench, Device::Cpu).remove(0)
}

fn play(kernel: &mut Fake, baselines: &mut Fake, seed: u64) -> Result<Outcome, Stop> {
    let folder = files::scratch().unwrap();
    rounds(kernel, baselines, seed, folder.path()).measure(&case())
}

fn rounds<'a>(kernel: &'a mut Fake, baselines: &'a mut Fake, seed: u64, folder: &'a Path) -> Rounds<'a> {
    Rounds {
        kernel,
        baselines,
        tracer: None,
        traced: None,
        random: SplitMix(seed),
        folder,
        budget: Duration::from_millis(1),
        regimes: Regime::ALL.to_vec(),
        threads: 1,
        idle: Duration::from_millis(1),
    }
}

fn refused(kernel: &mut Fake, baselines: &mut Fake) -> (Finding, String) {
    match play(kernel, baselines, 5) {
        Err(Stop::Refused(finding, reason)) => (finding, reason),
        other => panic!("not refused: {other:?}"),
    }
}

/// The result for a baseline whose first blocks after the kernel are slow, and whether the kernel's process was stopped.
fn after_slow_blocks(slow: usize, idle: Duration) -> (Result<Option<String>, Stop>, bool) {
    let on_a_gpu = |fake| Fake { regime: Regime::Graph, ..fake };
    let (mut kernel, mut baselines) =
        (on_a_gpu(Fake::kernel()), Fake { slow, ..on_a_gpu(Fake::baselines()) });
    let rivals = baselines.prepare(0).unwrap();
    let folder = files::scratch().unwrap();
    let mut rounds = rounds(&mut kernel, &mut baselines, 1, folder.path());
    rounds.idle = idle;
    let found = rounds.left_behind(&rivals, &[20e-6; PROBES]);
    (found, kernel.stopped)
}

#[test]
fn a_kernel_is_blamed_for_a_slow_baseline_only_if_it_stays_slow_until_the_process_ends() {
    let long = Duration::from_secs(100);
    assert!(matches!(after_slow_blocks(0, long), (Ok(None), false)));
    // The second look finds it as fast as before.
    let (found, stopped) = after_slow_blocks(PROBES, long);
    let note = found.unwrap().unwrap();
    assert!(note.contains("3.00 times slower right after the kernel's rounds") && !stopped, "{note}");
    // No second look: it was slow until the process ended.
    let (found, stopped) = after_slow_blocks(PROBES, Duration::ZERO);
    assert!(matches!(found, Err(Stop::Refused(Finding::State, _))) && stopped);
    // It is slow without the process, too.
    let (found, stopped) = after_slow_blocks(usize::MAX, Duration::from_micros(1));
    let note = found.unwrap().unwrap();
    assert!(note.contains("without its process") && stopped, "{note}");
}

#[test]
fn honest_contenders_are_measured_in_turn() {
    let (mut kernel, mut baselines) = (Fake::kernel(), Fake::baselines());
    let Ok(Outcome::Measured(found)) = play(&mut kernel, &mut baselines, 1) else { panic!("not measured") };
    let [host] = found.regimes.as_slice() else { panic!("{found:?}") };
    assert!(found.notes.is_empty());
    for (name, seconds) in [("kernel", 10e-6), ("eager", 20e-6), ("copy", 9e-6)] {
        let samples = &host.samples[name];
        assert!(samples.len() >= stats::FEWEST_BLOCKS, "{name}: {}", samples.len());
        assert!(samples.iter().all(|sample| (sample - seconds).abs() < 1e-12), "{name}");
    }
    // Baselines are asked in different orders.
    let order: Vec<&str> = baselines.asked.iter().map(|(name, ..)| name.as_str()).collect();
    let pairs: Vec<_> = order[PROBES..].chunks(2).map(<[&str]>::to_vec).collect();
    assert!(pairs.contains(&vec!["eager", "copy"]) && pairs.contains(&vec!["copy", "eager"]), "{pairs:?}");
}

#[test]
fn contents_are_new_in_every_block_and_the_same_for_both() {
    let (mut kernel, mut baselines) = (Fake::kernel(), Fake::baselines());
    play(&mut kernel, &mut baselines, 1).unwrap();
    let contents = |fake: &Fake, wanted: &str, calls: u64| -> Vec<u64> {
        let of = fake.asked.iter().filter(|(name, _, number, _)| name == wanted && *number == calls);
        of.map(|(_, contents, ..)| *contents).collect()
    };
    let own = contents(&kernel, "kernel", 20);
    let mut once = own.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), own.len());
    let theirs = contents(&baselines, "eager", 20);
    // Before and after the samples the baselines are probed alone.
    assert!(theirs.iter().filter(|seed| own.contains(seed)).count() >= stats::FEWEST_BLOCKS);
    // Another secret, other contents.
    let mut other = Fake::kernel();
    play(&mut other, &mut Fake::baselines(), 2).unwrap();
    assert!(contents(&other, "kernel", 20).iter().all(|seed| !own.contains(seed)));
}

#[test]
fn compared_calls_are_chosen_after_the_block_and_follow_edits() {
    let (mut kernel, mut baselines) = (Fake::kernel(), Fake::baselines());
    play(&mut kernel, &mut baselines, 3).unwrap();
    assert!(baselines.judged.len() >= 4);
    assert!(baselines.judged.iter().all(|call| call.number < 8));
    assert!(baselines.judged.iter().any(|call| !call.edits.done.is_empty()));
    assert!(baselines.judged.iter().all(|call| call.edits.all.starts_with(&call.edits.done)));
    // Every call that comes back to one of the eight sets finds it edited, the rivals' as well; a ceiling has no sets.
    for fake in [&kernel, &baselines] {
        let edited = fake.asked.iter().filter(|(.., edits)| !edits.is_empty());
        let places = edited.map(|(.., edits)| edits.iter().map(|(at, _)| *at).collect::<Vec<_>>());
        let places: Vec<_> = places.collect();
        assert!(
            places.len() >= stats::FEWEST_BLOCKS
                && places.iter().all(|at| at.iter().eq(&(8..20).collect::<Vec<_>>()))
        );
    }
    assert!(baselines.asked.iter().all(|(name, .., edits)| name != "copy" || edits.is_empty()));
}

#[test]
fn no_block_on_a_gpu_has_the_contents_of_another_one() {
    for (regime, calls) in [(Regime::Graph, 8), (Regime::Cold, 4), (Regime::Cold, 1)] {
        let on_a_gpu = |fake| Fake { regime, calls, ..fake };
        let (mut kernel, mut baselines) = (on_a_gpu(Fake::kernel()), on_a_gpu(Fake::baselines()));
        play(&mut kernel, &mut baselines, 7).unwrap();
        let rivals: Vec<u64> = of_samples(&baselines, "eager", calls);
        let own: Vec<u64> = of_samples(&kernel, "kernel", calls);
        let samples: Vec<&u64> = own.iter().filter(|seed| rivals.contains(seed)).collect();
        let mut once = samples.clone();
        once.sort_unstable();
        once.dedup();
        assert!(once.len() == samples.len() && once.len() >= stats::FEWEST_BLOCKS, "{regime:?}");
        // Some blocks differ from earlier contents by one element of every set, at places with secrets of their own.
        let edited: Vec<_> = kernel.asked.iter().filter(|(.., edits)| !edits.is_empty()).collect();
        assert!(!edited.is_empty() && edited.len() < samples.len(), "{regime:?}");
        assert!(edited.iter().all(|(.., edits)| edits.len() as u64 == calls));
        let mut secrets: Vec<u64> =
            edited.iter().flat_map(|(.., edits)| edits).map(|(_, edit)| *edit).collect();
        let count = secrets.len();
        secrets.sort_unstable();
        secrets.dedup();
        assert_eq!(secrets.len(), count);
    }
}

#[test]
fn hot_inputs_are_never_edited() {
    let hot = |fake| Fake { regime: Regime::Hot, ..fake };
    let mut kernel = hot(Fake::kernel());
    play(&mut kernel, &mut hot(Fake::baselines()), 7).unwrap();
    assert!(kernel.asked.iter().all(|(.., edits)| edits.is_empty()));
}

/// The contents of a contender's blocks with so many calls.
fn of_samples(fake: &Fake, wanted: &str, calls: u64) -> Vec<u64> {
    let of = fake.asked.iter().filter(|(name, _, number, _)| name == wanted && *number == calls);
    of.map(|(_, contents, ..)| *contents).collect()
}

#[test]
fn a_lie_about_time_is_refused_in_long_blocks_and_in_short_ones() {
    for claims in [(0.1, 0.1), (0.1, 1.0)] {
        let mut kernel = Fake { claims, ..Fake::kernel() };
        assert_eq!(refused(&mut kernel, &mut Fake::baselines()).0, Finding::Clock, "{claims:?}");
    }
    let mut kernel = Fake { claims: (50.0, 50.0), ..Fake::kernel() };
    assert_eq!(refused(&mut kernel, &mut Fake::baselines()).0, Finding::Clock);
}

#[test]
fn work_that_hides_behind_the_host_is_seen_in_the_queue() {
    let on_a_gpu = |seen| {
        let kernel = Fake { regime: Regime::Cold, queued: Some(100), seen, ..Fake::kernel() };
        (kernel, Fake { regime: Regime::Cold, ..Fake::baselines() })
    };
    let (mut kernel, mut baselines) = on_a_gpu(0.01);
    let (finding, reason) = refused(&mut kernel, &mut baselines);
    assert_eq!(finding, Finding::Escape);
    assert!(reason.starts_with("100 calls took 10.0 us on the stream"), "{reason}");
    let (mut kernel, mut baselines) = on_a_gpu(1.0);
    play(&mut kernel, &mut baselines, 5).unwrap();
}

#[test]
fn a_call_that_left_nothing_is_compared_in_every_block() {
    let on_a_gpu = |fake| Fake { regime: Regime::Graph, ..fake };
    let mut kernel = Fake { suspects: vec![13], ..on_a_gpu(Fake::kernel()) };
    let mut baselines = on_a_gpu(Fake::baselines());
    play(&mut kernel, &mut baselines, 5).unwrap();
    let of_thirteen = baselines.judged.iter().filter(|call| call.file.ends_with("13.bin")).count();
    // All samples, and the block after them.
    assert!(of_thirteen > stats::FEWEST_BLOCKS, "{of_thirteen}");
}

/// A tracer that sees the device at work for so long in each call; a broken one says nothing.
struct Tracer(Option<f64>);

impl CallTracer for Tracer {
    fn trace(&mut self, _: &Case, _: u64) -> Result<Cupti, Fault> {
        let gone = || Fault::Gone { ending: "was killed".to_owned(), output: String::new() };
        let each = self.0.ok_or_else(gone)?;
        Ok(Cupti { calls: 10, busy: 10.0 * each, ..Cupti::default() })
    }
}

#[test]
fn what_the_tracer_sees_is_held_against_the_figures_and_kept() {
    let folder = files::scratch().unwrap();
    let traced = |each| {
        let moment = Duration::from_millis(1);
        let mut rounds = Rounds {
            kernel: &mut Fake::kernel(),
            baselines: &mut Fake::baselines(),
            tracer: Some(&mut Tracer(each)),
            traced: None,
            random: SplitMix(5),
            folder: folder.path(),
            budget: moment,
            regimes: Regime::ALL.to_vec(),
            threads: 1,
            idle: moment,
        };
        rounds.measure(&case())
    };
    let Ok(Outcome::Measured(found)) = traced(Some(11e-6)) else { panic!("not measured") };
    assert_eq!(found.cupti.unwrap().calls, 10);
    assert!(found.notes.is_empty());
    assert!(matches!(traced(Some(40e-6)), Err(Stop::Refused(Finding::Escape, _))));
    let Ok(Outcome::Measured(found)) = traced(None) else {
        panic!("a broken tracer is no fault of a kernel")
    };
    assert_eq!(
        (found.cupti, found.notes),
        (None, vec!["no kernel was traced: its process was killed".to_owned()])
    );
}

#[test]
fn outputs_that_go_wrong_after_some_blocks_are_refused() {
    let mut kernel = Fake { wrong_after: Some(12), ..Fake::kernel() };
    let (finding, reason) = refused(&mut kernel, &mut Fake::baselines());
    assert_eq!((finding, reason.as_str()), (Finding::Wrong, "host: output `out` is 7 times too far off"));
}

#[test]
fn a_process_that_works_while_others_are_timed_is_refused() {
    let mut kernel = Fake { uses: 5.0, ..Fake::kernel() };
    assert_eq!(refused(&mut kernel, &mut Fake::baselines()).0, Finding::State);
}

#[test]
fn a_process_that_hangs_or_dies_ends_the_case() {
    let ending = "did not answer within 60 s";
    let gone = || Fault::Gone { ending: ending.to_owned(), output: String::new() };
    let mut kernel = Fake { faults: [gone()].into(), ..Fake::kernel() };
    let stop = play(&mut kernel, &mut Fake::baselines(), 1).unwrap_err();
    assert!(matches!(stop, Stop::Fault { of: KERNEL, fault: Fault::Gone { .. } }), "{stop:?}");
    let mut baselines = Fake { faults: [gone()].into(), ..Fake::baselines() };
    let stop = play(&mut Fake::kernel(), &mut baselines, 1).unwrap_err();
    assert!(matches!(stop, Stop::Fault { of: "baselines", .. }), "{stop:?}");
}

#[test]
fn an_exception_of_the_kernel_is_its_refusal() {
    let raised = Fault::Raised("ValueError: no".to_owned());
    let mut kernel = Fake { faults: [raised].into(), ..Fake::kernel() };
    assert_eq!(
        refused(&mut kernel, &mut Fake::baselines()),
        (Finding::Raised, "kernel: ValueError: no".to_owned())
    );
}

#[test]
fn what_does_not_fit_is_skipped_before_anything_is_made() {
    let mut baselines = Fake { needs: 901, ..Fake::baselines() };
    let Ok(Outcome::Skipped(reason)) = play(&mut Fake::kernel(), &mut baselines, 1) else { panic!("fits") };
    assert_eq!(reason, SkipReason::NoRoom { needs: 901, free: 1000 });
    assert_eq!(baselines.blocks, 0);
}

#[test]
fn a_kernel_without_a_regime_leaves_it_empty() {
    let mut kernel = Fake { regime: Regime::Graph, ..Fake::kernel() };
    let Ok(Outcome::Measured(found)) = play(&mut kernel, &mut Fake::baselines(), 1) else {
        panic!("not measured")
    };
    assert!(found.regimes[0].samples.is_empty());
}
