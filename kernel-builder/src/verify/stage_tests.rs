//! The oracle that waits for nobody: its inputs are there before what is expected, and it ends with whoever wanted it.

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::spec::op::Purpose;

use super::super::python_for_tests::{endless, is_gone, scripted, with_torch};
use super::super::schedule;
use super::*;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/rms-norm-device");

fn operation() -> OpSpec {
    let text = include_str!("../../../examples/rms-norm-device/op.toml");
    kernel_plan::spec::parse_op(SourceFile::new("op.toml", text)).0.unwrap()
}

fn one_case(op: &OpSpec) -> Vec<ScheduledCase> {
    let mut cases = schedule::schedule(op, &op.cases(Purpose::Verify, Device::Cuda));
    cases.retain(|case| case.outputs.iter().all(|output| output.elements() > 0));
    cases.sort_by_key(|case| case.inputs.iter().map(TensorSpec::elements).sum::<usize>());
    cases.truncate(1);
    cases
}

fn stage<'a>(python: &'a PythonRuntime, op: &'a OpSpec) -> Stage<'a> {
    let reference = ReferenceFile::read(op, Path::new(FOLDER)).unwrap();
    Stage::new(python, op, reference, Device::Cuda, 2, Some(7)).unwrap()
}

#[test]
fn inputs_that_never_come_are_not_waited_for() {
    let folder = files::scratch().unwrap();
    let python = scripted(folder.path(), "echo no torch >&2; exit 3");
    let op = operation();
    let (stage, cases) = (stage(&python, &op), one_case(&op));
    thread::scope(|scope| {
        let oracle = stage.begin_oracle(scope, &cases).unwrap();
        assert!(!oracle.inputs().unwrap());
        let error = oracle.expected().err().unwrap();
        assert!(matches!(error, VerifyError::Harness { role: "oracle", .. }), "{error}");
        assert!(error.to_string().contains("no torch"), "{error}");
    });
}

#[test]
fn an_oracle_that_is_dropped_is_ended() {
    let folder = files::scratch().unwrap();
    let began = folder.path().join("began");
    let python = scripted(folder.path(), &endless(&began));
    let op = operation();
    let (stage, cases) = (stage(&python, &op), one_case(&op));
    thread::scope(|scope| {
        let oracle = stage.begin_oracle(scope, &cases).unwrap();
        while !files::exists(&began) {
            thread::yield_now();
        }
        drop(oracle);
    });
    assert!(is_gone(&began));
}

#[test]
fn who_waits_for_inputs_can_be_interrupted() {
    let folder = files::scratch().unwrap();
    let began = folder.path().join("began");
    let python = scripted(folder.path(), &endless(&began));
    let op = operation();
    let (stage, cases) = (stage(&python, &op), one_case(&op));
    thread::scope(|scope| {
        let oracle = stage.begin_oracle(scope, &cases).unwrap();
        let stop = StopFlag::default();
        let of_waiting = stop.clone();
        let waiting = scope.spawn(move || interrupt::within(Some(of_waiting), || oracle.inputs().err()));
        while !files::exists(&began) {
            thread::yield_now();
        }
        stop.request();
        let error = waiting.join().unwrap();
        assert!(matches!(error, Some(VerifyError::Process(ProcessError::Interrupted))), "{error:?}");
    });
    assert!(is_gone(&began));
}

#[test]
#[expect(clippy::disallowed_macros, reason = "a test that skips says why")]
fn inputs_are_sealed_before_anybody_reads_them_and_results_follow() {
    let python = match with_torch() {
        Ok(python) => python,
        Err(reason) => return eprintln!("{reason}"),
    };
    let op = operation();
    let (stage, cases) = (stage(&python, &op), one_case(&op));
    thread::scope(|scope| {
        let ahead = stage.begin_oracle(scope, &cases).unwrap();
        assert!(ahead.inputs().unwrap());
        let place = cases[0].place;
        let early = files::read(&stage.path(&inputs(place, 0))).unwrap();
        let oracle = ahead.expected().unwrap();
        assert_eq!(stage.inputs(&oracle, place, 0, false).unwrap(), (early, true));
        let exact = stage.expected_by(&oracle, place, 0, false).unwrap().unwrap();
        let elements: usize = cases[0].outputs.iter().map(TensorSpec::elements).sum();
        // Where rows are short, the sizes of the terms follow.
        assert!([elements, 2 * elements].contains(&exact.len()), "{} for {elements}", exact.len());
        // What somebody changes afterwards is no input, and no expected value, of the oracle's.
        files::write(&stage.path(&inputs(place, 0)), b"other").unwrap();
        assert!(!stage.inputs(&oracle, place, 0, false).unwrap().1);
        files::write(&stage.path(&format!("expected/{place}-0.bin")), vec![0; 8 * exact.len()]).unwrap();
        assert!(stage.expected_by(&oracle, place, 0, false).unwrap().is_none());
    });
}
