//! Real processes on the processor: an honest package, and packages that lie in one way each.
//!
//! They need a Python with torch: `KERNELWRIGHT_PYTHON`, else `python3`, with the packages of the folder that
//! `KERNELWRIGHT_SITE` names, if it does; without torch each says so and passes.

use std::path::Path;
use std::time::Duration;

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::plan::CommandLine;
use kernel_plan::spec::op::{Device, Purpose};
use kernel_plan::spec::parse_op;
use kernel_plan::units::Dtype;

use super::{Part, PythonTimer};
use crate::base::digest::Digest;
use crate::base::process::{self, Limits};
use crate::base::report::{MessageFormat, Report};
use crate::base::session::Session;
use crate::base::{env, files};
use crate::bench::rounds::{Finding, IDLE, Outcome, Rounds, Stop};
use crate::bench::run::{self, Subject};
use crate::bench::stats::SplitMix;
use crate::bench::{KeepNothing, OPTIONAL_RIVALS, Options};
use crate::compile::artifact::Artifact;
use crate::protocol::SourceText;
use crate::protocol::bench::{BaselineJob, Job, KernelJob, Reference, Regime, Tolerance};
use crate::toolchain::PythonRuntime;
use crate::verify::ReferenceFile;

/// Names a managed folder of packages, as the harness takes it.
const SITE: &str = "KERNELWRIGHT_SITE";
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
axes = { n = 3000 }
"#;

/// The interpreter; nothing where it has no torch.
#[expect(clippy::disallowed_macros, reason = "a test that skips says why")]
fn python() -> Option<CommandLine> {
    let program = env::text("KERNELWRIGHT_PYTHON").unwrap_or_else(|| "python3".to_owned());
    let site = env::text(SITE);
    let with = |line: CommandLine| match &site {
        Some(site) => line.env(SITE, site.as_str()),
        None => line,
    };
    let look = format!("import os, site; site.addsitedir(os.environ.get('{SITE}', '')); import torch");
    let asked = with(CommandLine::new(&program).args(["-c", &look]));
    let found = process::run(&asked, Limits::wall(Duration::from_secs(100))).ok()?.ending.success();
    if !found {
        eprintln!("skipped: {program} has no torch");
    }
    // Dynamo would compile for half a minute what is not judged here.
    found.then(|| with(CommandLine::new(&program).env("TORCHDYNAMO_DISABLE", "1")))
}

fn measure(folder: &Path, line: &CommandLine, package: &str) -> Result<Outcome, Stop> {
    files::write(&folder.join("package/__init__.py"), package).unwrap();
    let text = |path: &str| folder.join(path).display().to_string();
    let baseline = Job::Baseline(BaselineJob {
        device: "cpu".to_owned(),
        threads: 1,
        reference: Reference {
            source: SourceText {
                file: text("reference.py"),
                text: "def scale(x):\n    return x * 2\n".to_owned(),
            },
            function: "scale".to_owned(),
            fused: None,
        },
        without: vec!["compile".to_owned()],
        tolerance: Tolerance { accumulate: Dtype::F32, roundings: 1, own_errors: false },
    });
    let candidate = Job::Candidate(KernelJob {
        device: "cpu".to_owned(),
        threads: 1,
        package: text("package"),
        id: "scale_package".to_owned(),
        call: "scale".to_owned(),
        outputs_dir: text(""),
        home: None,
    });
    let (op, problems) = parse_op(SourceFile::new("op.toml", OP));
    assert!(problems.is_empty(), "{problems:?}");
    let case = op.unwrap().cases(Purpose::Bench, Device::Cpu).remove(0);
    let mut baselines = PythonTimer::new(Part::new(line.clone(), baseline)).unwrap();
    let mut kernel = PythonTimer::new(Part::new(line.clone(), candidate)).unwrap();
    let mut rounds = Rounds {
        tracer: None,
        traced: None,
        kernel: &mut kernel,
        baselines: &mut baselines,
        random: SplitMix(11),
        folder,
        budget: Duration::from_millis(300),
        regimes: vec![Regime::Host],
        threads: 1,
        idle: IDLE,
    };
    rounds.measure(&case)
}

/// What is found against a package.
fn found(package: &str) -> Option<Result<(), (Finding, String)>> {
    let line = python()?;
    let folder = files::scratch().unwrap();
    Some(match measure(folder.path(), &line, package) {
        Ok(Outcome::Measured(measured)) => {
            let samples = &measured.regimes[0].samples;
            assert!(samples["kernel"].len() >= 15 && samples.contains_key("copy"), "{samples:?}");
            let skipped = &measured.regimes[0].skipped;
            let left_out =
                |name: &str| skipped.iter().any(|one| one.name == name && one.reason.contains("--without"));
            assert!(!samples.contains_key("compile") && left_out("compile"), "{skipped:?}");
            Ok(())
        }
        Err(Stop::Refused(finding, reason)) => Err((finding, reason)),
        other => panic!("{other:?}"),
    })
}

#[track_caller]
fn refused(package: &str, expected: Finding) {
    if let Some(found) = found(package) {
        let (finding, reason) = found.expect_err("measured");
        assert_eq!(finding, expected, "{reason}");
    }
}

#[test]
fn an_honest_package_is_measured() {
    if let Some(found) = found("def scale(x):\n    return x * 2\n") {
        assert_eq!(found, Ok(()));
    }
}

#[test]
fn a_patched_clock_is_refused() {
    let package = "
import sys, time
true = time.perf_counter_ns
start = true()
time.perf_counter_ns = sys.modules['host'].clock = lambda: start + (true() - start) // 10
def scale(x):
    return x * 2
";
    refused(package, Finding::Clock);
}

#[test]
fn a_package_that_stops_computing_is_refused() {
    let package = "
calls, last = 0, None
def scale(x):
    global calls, last
    calls += 1
    if calls < 2000 or last is None:
        last = x * 2
    return last
";
    refused(package, Finding::Wrong);
}

#[test]
fn results_that_are_kept_by_pointer_are_refused() {
    let package = "
kept = {}
def scale(x):
    key = (x.data_ptr(), x._version)
    if key not in kept:
        kept[key] = x * 2
    return kept[key]
";
    refused(package, Finding::Wrong);
}

#[test]
fn an_input_that_is_changed_is_refused() {
    refused("def scale(x):\n    y = x * 2\n    x.zero_()\n    return y\n", Finding::Wrong);
}

#[test]
fn a_thread_that_goes_on_is_refused() {
    let package = "
import threading
def spin():
    while True:
        sum(range(1000))
threading.Thread(target=spin, daemon=True).start()
def scale(x):
    return x * 2
";
    refused(package, Finding::State);
}

/// What a role leaves of itself at each import: the number of its process.
const SIGNS: &str = "import os
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'processes'), 'a') as file:
    file.write(f'{os.getpid()}\\n')
";

#[test]
fn three_starts_are_three_processes_of_each_role() {
    let Some(line) = python() else { return };
    let folder = files::scratch().unwrap();
    let path = |name: &str| folder.path().join(name);
    files::write(&path("reference.py"), format!("{SIGNS}def scale(x):\n    return x * 2\n")).unwrap();
    files::write(&path("package/__init__.py"), format!("{SIGNS}def scale(x):\n    return x * 2\n")).unwrap();
    let text = format!("{OP}[workload.two]\naxes = {{ n = 5000 }}\n");
    let op = parse_op(SourceFile::new("op.toml", &text)).0.unwrap();
    let artifact = Artifact {
        variant: "a-variant".to_owned(),
        backend: "cpu".to_owned(),
        dir: path("package"),
        id: "scale_package".to_owned(),
        library: None,
        capabilities: vec![],
        digest: Digest::blake3(b"artifact"),
        commit: None,
        tools: Default::default(),
        outside: vec![],
    };
    let without = OPTIONAL_RIVALS.map(str::to_owned).to_vec();
    let options = Options { budget: 0.3, starts: Some(3), threads: Some(1), without, ..Options::default() };
    let cases = op.cases(Purpose::Bench, Device::Cpu);
    let (op, project) = (&op, folder.path());
    let reference = ReferenceFile::read(op, project).unwrap();
    let subject = Subject {
        artifact: &artifact,
        op,
        project,
        reference,
        device: Device::Cpu,
        cases,
        options: &options,
    };
    let site = env::text(SITE).map(Into::into);
    let runtime = PythonRuntime { program: line.program.clone(), site, beside: vec![], torch: String::new() };
    let report = Report::new(MessageFormat::Human, true);
    let session = Session { report, cache: path("cache"), offline: true, jobs: 1 };
    let found = match run::of_package::run_package(&subject, &runtime, &mut KeepNothing, &session) {
        Ok(crate::bench::Outcome::Measured(found)) => found,
        other => panic!("{other:?}"),
    };
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|one| one.starts() == 3 && one.versus("eager").unwrap().starts.len() == 3));
    for name in ["package/processes", "processes"] {
        let text = files::read_text(&path(name)).unwrap();
        let different: std::collections::BTreeSet<&str> = text.lines().collect();
        assert_eq!(different.len(), 3, "{name}: {text}");
    }
}
