//! A run over several cases with fake processes: what is kept when it ends in the middle.

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::spec::parse_op;

use super::*;
use crate::base::digest::Digest;
use crate::base::files::FileError;
use crate::base::process::ProcessError;
use crate::base::report::{MessageFormat, Report};
use crate::bench::options::{MeasurementStore, Outcome};
use crate::bench::rounds::tests::Fake;
use crate::bench::run::of_package::Timers;
use crate::bench::{Draw, RunContext, select};
use crate::verify::ReferenceFile;

const OP: &str = r#"
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
[workload.two]
axes = { n = 5 }
[workload.three]
axes = { n = 6 }
"#;

/// What was kept, as a file would have it.
#[derive(Default)]
struct Kept {
    cases: Vec<Vec<Measurement>>,
    known: Vec<Measurement>,
    /// Nothing can be written.
    full: bool,
}

impl MeasurementStore for Kept {
    fn earlier_measurements(&self) -> &[Measurement] {
        &self.known
    }

    fn keep(&mut self, case: &[Measurement]) -> Result<(), FileError> {
        if self.full {
            let cause = std::io::Error::other("no space");
            return Err(FileError { action: "write", path: "unfinished".into(), cause });
        }
        self.cases.push(case.to_vec());
        Ok(())
    }
}

fn run(kernel: &mut Fake, torch: &str, kept: &mut Kept) -> Result<Outcome, BenchError> {
    run_of(OP, RunContext::default(), kernel, torch, kept)
}

fn run_of(
    text: &str,
    about: RunContext,
    kernel: &mut Fake,
    torch: &str,
    kept: &mut Kept,
) -> Result<Outcome, BenchError> {
    run_with(text, about, kernel, &mut Fake::baselines(), torch, kept)
}

fn run_with(
    text: &str,
    about: RunContext,
    kernel: &mut Fake,
    rivals: &mut Fake,
    torch: &str,
    kept: &mut Kept,
) -> Result<Outcome, BenchError> {
    let options = Options { budget: 0.001, about, ..Options::default() };
    run_as(text, &options, kernel, rivals, torch, kept)
}

fn run_as(
    text: &str,
    options: &Options,
    kernel: &mut Fake,
    rivals: &mut Fake,
    torch: &str,
    kept: &mut Kept,
) -> Result<Outcome, BenchError> {
    let (op, problems) = parse_op(SourceFile::new("op.toml", text));
    assert!(problems.is_empty(), "{problems:?}");
    let op = op.unwrap();
    let artifact = Artifact {
        variant: "a-variant".to_owned(),
        backend: "cpu".to_owned(),
        dir: "package".into(),
        id: "_scale".to_owned(),
        library: None,
        capabilities: vec![],
        digest: Digest::blake3(b"artifact"),
        commit: None,
        tools: Default::default(),
        outside: vec![],
    };
    let cases = select(&op, Device::Cpu, options).unwrap();
    let project = Path::new(".");
    let reference = ReferenceFile::with_text("");
    let subject =
        Subject { artifact: &artifact, op: &op, project, reference, device: Device::Cpu, cases, options };
    let machine = Machine {
        torch: torch.to_owned(),
        python: "3.12".to_owned(),
        threads: 1,
        device: Some("cpu".to_owned()),
        reason: None,
        l2: None,
    };
    let report = Report::new(MessageFormat::Human, true);
    let session = Session { report, cache: env::temp_dir(), offline: true, jobs: 1 };
    let timers = Timers { kernel, baselines: rivals, tracer: None };
    subject.measure(timers, machine, &env::temp_dir(), kept, &session)
}

/// The workloads of measurements.
fn workloads<'a>(measured: impl IntoIterator<Item = &'a Measurement>) -> Vec<&'a str> {
    measured.into_iter().map(|one| one.workload.as_str()).collect()
}

fn measured(outcome: Result<Outcome, BenchError>) -> Vec<Measurement> {
    match outcome {
        Ok(Outcome::Measured(found)) => found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_case_is_kept_before_the_next_one_begins_and_is_not_measured_twice() {
    let mut kept = Kept::default();
    let mut kernel = Fake::kernel();
    kernel.interrupted_at = Some(3);
    let error = run(&mut kernel, "2.11", &mut kept).unwrap_err();
    assert!(matches!(error, BenchError::Start(ProcessError::Interrupted)), "{error:?}");
    assert!(!error.refuses());
    assert_eq!(workloads(kept.cases.iter().flatten()), ["one", "two"]);

    let mut again = Kept { known: kept.cases.concat(), ..Kept::default() };
    let mut kernel = Fake::kernel();
    let found = measured(run(&mut kernel, "2.11", &mut again));
    assert_eq!((workloads(&found), kernel.begun), (vec!["one", "two", "three"], 1));
    assert_eq!(found[..2], again.known[..]);
    assert_eq!(workloads(again.cases.iter().flatten()), ["three"]);
}

#[test]
fn an_interrupted_run_of_drawn_cases_goes_on_and_its_records_have_the_seed() {
    let options = Options { budget: 0.001, drawn: Some(Draw { seed: 7, count: 3 }), ..Options::default() };
    let mut kept = Kept::default();
    let mut kernel = Fake::kernel();
    kernel.interrupted_at = Some(3);
    run_as(OP, &options, &mut kernel, &mut Fake::baselines(), "2.11", &mut kept).unwrap_err();
    assert_eq!(kept.cases.len(), 2);

    let mut again = Kept { known: kept.cases.concat(), ..Kept::default() };
    let mut kernel = Fake::kernel();
    let found = measured(run_as(OP, &options, &mut kernel, &mut Fake::baselines(), "2.11", &mut again));
    assert_eq!((kernel.begun, found.len()), (1, 3));
    for one in &found {
        assert_eq!((one.drawn, one.workload.clone()), (Some(7), format!("drawn-7-{}", one.axes["n"])));
    }
    // More cases of the seed begin with those that were measured; those of another seed do not.
    let begun = |seed| {
        let options = Options { drawn: Some(Draw { seed, count: 4 }), ..options.clone() };
        let mut kernel = Fake::kernel();
        let mut kept = Kept { known: found.clone(), ..Kept::default() };
        measured(run_as(OP, &options, &mut kernel, &mut Fake::baselines(), "2.11", &mut kept));
        kernel.begun
    };
    assert_eq!((begun(7), begun(8)), (1, 4));
}

/// A run of three starts.
fn three(kernel: &mut Fake, rivals: &mut Fake, kept: &mut Kept) -> Result<Outcome, BenchError> {
    let options = Options { budget: 0.001, starts: Some(3), ..Options::default() };
    run_as(OP, &options, kernel, rivals, "2.11", kept)
}

#[test]
fn each_start_has_new_processes_and_every_case_once() {
    let more: String =
        (0..5).map(|at| format!("[workload.more-{at}]\naxes = {{ n = {} }}\n", 10 + at)).collect();
    let text = format!("{OP}{more}");
    let (mut kernel, mut rivals) = (Fake::kernel().in_graphs(), Fake::baselines().in_graphs());
    let options = Options { budget: 0.001, starts: Some(3), ..Options::default() };
    let found = run_as(&text, &options, &mut kernel, &mut rivals, "2.11", &mut Kept::default());
    let found = measured(found);
    assert_eq!(found.len(), 8);
    assert_eq!(workloads(&found)[..3], ["one", "two", "three"], "in the order of op.toml");
    assert_eq!((kernel.renewed, rivals.renewed), (2, 2));
    assert_eq!(kernel.cases, rivals.cases);
    let mut orders = std::collections::BTreeSet::new();
    for start in 0..3 {
        let of = kernel.cases.iter().filter(|(renewed, _)| *renewed == start);
        let order: Vec<&str> = of.map(|(_, case)| case.as_str()).collect();
        let different: std::collections::BTreeSet<&str> = order.iter().copied().collect();
        assert_eq!((order.len(), different.len()), (8, 8), "start {start}: {order:?}");
        orders.insert(order);
    }
    // Three times the same order of eight cases comes by chance once in 10^9 runs.
    assert!(orders.len() > 1, "cases are shuffled in every start: {orders:?}");
    for one in &found {
        let (blocks, ratio) = (one.contender("kernel").unwrap().samples.len(), one.versus("eager").unwrap());
        assert_eq!((one.protocol, one.starts.len(), ratio.starts.len()), (6, 3, 3));
        assert_eq!(one.starts.iter().sum::<u64>(), blocks as u64);
    }
    let mut kernel = Fake::kernel();
    let found = measured(run(&mut kernel, "2.11", &mut Kept::default()));
    assert_eq!((kernel.renewed, kernel.begun, found[0].starts()), (0, 3, 1), "one start on a processor");
}

#[test]
fn a_run_that_is_interrupted_in_a_later_start_goes_on_there() {
    let mut kept = Kept::default();
    let mut kernel = Fake::kernel().in_graphs();
    kernel.interrupted_at = Some(6);
    let error = three(&mut kernel, &mut Fake::baselines().in_graphs(), &mut kept).unwrap_err();
    assert!(matches!(error, BenchError::Start(ProcessError::Interrupted)), "{error:?}");
    assert_eq!(kept.cases.len(), 5, "three of the first start, two of the second");

    let mut again = Kept { known: kept.cases.concat(), ..Kept::default() };
    let (mut kernel, mut rivals) = (Fake::kernel().in_graphs(), Fake::baselines().in_graphs());
    let found = measured(three(&mut kernel, &mut rivals, &mut again));
    assert_eq!((kernel.begun, kernel.renewed, again.cases.len()), (4, 1, 4));
    assert!(found.iter().all(|one| one.starts() == 3) && found.len() == 3);
}

#[test]
fn a_refusal_in_one_start_ends_the_run_after_that_start() {
    let mut kernel = Fake::kernel().in_graphs();
    kernel.wrong_from = Some(5);
    let error = three(&mut kernel, &mut Fake::baselines().in_graphs(), &mut Kept::default()).unwrap_err();
    assert!(error.refuses(), "{error:?}");
    assert_eq!(kernel.begun, 6, "all cases of the second start were tried, and none of the third");
}

#[test]
fn figures_of_another_torch_or_other_lengths_are_measured_again() {
    let mut kept = Kept::default();
    let known = measured(run(&mut Fake::kernel(), "2.11", &mut kept));
    let begun = |torch: &str, known: Vec<Measurement>| {
        let mut kernel = Fake::kernel();
        measured(run(&mut kernel, torch, &mut Kept { known, ..Kept::default() }));
        kernel.begun
    };
    assert_eq!(begun("2.11", known.clone()), 0);
    assert_eq!(begun("2.12", known.clone()), 3);
    let mut longer = known.clone();
    longer[0].axes.insert("n".to_owned(), 400);
    assert_eq!(begun("2.11", longer), 1);
    let elsewhere = |one: Measurement| Measurement { device: "another processor".to_owned(), ..one };
    assert_eq!(begun("2.11", known.into_iter().map(elsewhere).collect()), 3);
}

#[test]
fn a_refusal_says_that_what_was_kept_does_not_count() {
    let mut kept = Kept::default();
    let mut kernel = Fake::kernel();
    kernel.wrong_from = Some(2);
    let error = run(&mut kernel, "2.11", &mut kept).unwrap_err();
    assert!(error.refuses() && matches!(error, BenchError::WrongWhileTimed { .. }), "{error:?}");
    assert_eq!(workloads(kept.cases.iter().flatten()), ["one"]);
    assert_eq!(kernel.begun, 3, "all cases were tried");
}

#[test]
fn what_cannot_be_kept_stops_the_run() {
    let mut kept = Kept { full: true, ..Kept::default() };
    let mut kernel = Fake::kernel();
    let error = run(&mut kernel, "2.11", &mut kept).unwrap_err();
    assert!(matches!(error, BenchError::File(_)) && !error.refuses(), "{error:?}");
    assert_eq!(kernel.begun, 1);
}

#[test]
fn a_product_of_matrices_is_held_against_the_measured_peak_of_its_operands() {
    let gemm = r#"
format = 1
name = "gemm"
[axes]
m = { type = "var" }
n = { type = "var" }
k = { type = "var" }
[inputs]
a = { shape = ["m", "k"], dtype = "bf16" }
b = { shape = ["k", "n"], dtype = "bf16" }
bias = { shape = ["n"], dtype = "f32" }
[outputs]
c = { shape = ["m", "n"], dtype = "f32" }
[reference]
file = "reference.py"
function = "gemm"
[call]
function = "gemm"
[tolerance]
accumulate = "f32"
length = "k"
roundings = 1
[flashinfer]
op-type = "gemm"
[workload.one]
axes = { m = 100, n = 100, k = 100 }
"#;
    let beyond = |limit: f64| {
        let matrix_limit = std::collections::BTreeMap::from([("bf16".to_owned(), limit)]);
        let about = RunContext { matrix_limit, ..RunContext::default() };
        let mut kept = Kept::default();
        let mut kernel = Fake::kernel().in_graphs();
        let mut rivals = Fake::baselines().in_graphs();
        (run_with(gemm, about, &mut kernel, &mut rivals, "2.11", &mut kept), kept.cases.len())
    };
    let (refused, kept) = beyond(0.08);
    let error = refused.unwrap_err();
    assert!(error.refuses() && matches!(error, BenchError::Impossible { .. }), "{error:?}");
    assert_eq!(kept, 0);
    assert_eq!(measured(beyond(0.2).0).len(), 1);
    let roofline = |text: &str, peaks: &[(&str, f64)]| {
        let matrix_peak = peaks.iter().map(|(dtype, rate)| ((*dtype).to_owned(), *rate)).collect();
        let about = RunContext { matrix_peak, ..RunContext::default() };
        let found = run_of(text, about, &mut Fake::kernel(), "2.11", &mut Kept::default());
        measured(found)[0].roofline.unwrap()
    };
    // Two million operations in ten microseconds: 0.2 of 10^12 a second.
    let found = roofline(gemm, &[("bf16", 0.4), ("f32", 0.1)]);
    assert!((found.teraflops_per_second.unwrap() - 0.2).abs() < 1e-9, "{found:?}");
    assert!((found.of_matrix_peak.unwrap() - 0.5).abs() < 1e-9, "{found:?}");
    assert_eq!(roofline(gemm, &[("f32", 0.1)]).of_matrix_peak, None, "operands decide, not results");
    let other = gemm.replace("op-type = \"gemm\"", "op-type = \"norm\"");
    assert_eq!(roofline(&other, &[("bf16", 0.4)]).of_matrix_peak, None);
}
