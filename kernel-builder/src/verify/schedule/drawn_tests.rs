//! Drawn lengths: within bounds, new in every run, and such that every template can be started.
//!
//! Owns: nothing. Never: part of the program.

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::spec::op::Purpose;

use super::*;
use crate::scaffold::template;

const NORM: &str = r#"
    format = 1
    name = "norm"
    constraints = ["hidden % groups == 0"]
    [axes]
    rows = { type = "var", max = 5000 }
    hidden = { type = "var", min = 8, multiple-of = 4 }
    [dtypes]
    T = ["bf16", "f32"]
    [inputs]
    x = { shape = ["rows", "hidden"], dtype = "T" }
    weight = { shape = ["hidden"], dtype = "T" }
    [scalars]
    groups = { type = "int", default = 1 }
    [outputs]
    y = { shape = ["rows", "hidden"], dtype = "T" }
    [reference]
    file = "reference.py"
    function = "norm"
    [call]
    function = "norm"
    [tolerance]
    accumulate = "f32"
    length = "hidden"
    roundings = 1
    [workload.small]
    axes = { rows = 8, hidden = 64 }
    [workload.tall]
    axes = { rows = 5000, hidden = 64 }
    [workload.wide]
    axes = { rows = 2, hidden = 65536 }
    scalars = { groups = 64 }
"#;

fn read(text: &str) -> OpSpec {
    let (op, problems) = kernel_plan::spec::parse_op(SourceFile::new("op.toml", text));
    op.unwrap_or_else(|| panic!("{problems:?}"))
}

fn drawn_cases(op: &OpSpec, seed: u64) -> Vec<Case> {
    drawn(op, Device::Cpu, &op.cases(Purpose::Verify, Device::Cpu), seed)
}

fn length(case: &Case, axis: &str) -> u64 {
    case.axes[&axis.parse::<PythonName>().unwrap()]
}

fn bytes(case: &Case) -> u64 {
    case.inputs
        .iter()
        .chain(&case.outputs)
        .map(|tensor| if tensor.omitted { 0 } else { tensor.bytes() })
        .sum()
}

#[test]
fn lengths_follow_from_the_seed_and_differ_between_seeds() {
    let op = read(NORM);
    let ids = |seed| drawn_cases(&op, seed).into_iter().map(|case| case.id).collect::<Vec<_>>();
    assert_eq!(ids(1), ids(1));
    assert!(ids(1).iter().all(|id| !ids(2).contains(id)), "{:?} {:?}", ids(1), ids(2));
    assert_eq!(ids(1).len(), 2 * PLAN.len());
    assert!(ids(1).iter().all(|id| id.starts_with("drawn-") && id.contains("/T=")));
}

#[test]
fn bounds_and_constraints_hold() {
    let op = read(NORM);
    for seed in 0..100 {
        for case in drawn_cases(&op, seed) {
            let (rows, hidden) = (length(&case, "rows"), length(&case, "hidden"));
            assert!((2..=5000).contains(&rows) && hidden >= 8 && hidden.is_multiple_of(4), "{}", case.id);
            assert!(op.admits(&case) && bytes(&case) <= BYTES && case.drawn && !case.held_out, "{}", case.id);
            assert!(![8, 5000, 2].contains(&rows) || ![64, 65536].contains(&hidden), "{}", case.id);
        }
    }
}

#[test]
fn every_kind_of_length_is_drawn() {
    let op = read(&NORM.replace(", min = 8, multiple-of = 4", "").replace("groups = 64", "groups = 1"));
    for seed in 0..20 {
        let cases = drawn_cases(&op, seed);
        let hidden: Vec<u64> = cases.iter().map(|case| length(case, "hidden")).collect();
        assert!(hidden.iter().all(|hidden| ![64, 65536].contains(hidden)), "{hidden:?}");
        let has = |is: &dyn Fn(u64) -> bool| hidden.iter().any(|hidden| is(*hidden));
        assert!(has(&|length| !length.is_multiple_of(2)), "{hidden:?}");
        assert!(has(&|length| length > 2 && (length - 1).is_power_of_two()), "{hidden:?}");
        assert!(has(&|length| length.is_multiple_of(8) && !length.is_multiple_of(64)), "{hidden:?}");
        assert!(has(&|length| length.is_multiple_of(64)), "{hidden:?}");
        assert!(has(&|length| length > 65536), "{hidden:?}");
        assert!(cases.iter().any(|case| length(case, "rows") >= 2500));
    }
}

#[test]
fn an_axis_that_a_definition_constrains_keeps_its_length() {
    let text = format!("{NORM}\n[flashinfer]\nconstraints = [\"rows == batch + 1\"]\n");
    let cases = drawn_cases(&read(&text), 3);
    assert!(!cases.is_empty());
    assert!(cases.iter().all(|case| [8, 5000, 2].contains(&length(case, "rows"))));
    // Nothing is left to be drawn.
    let both = text.replace("batch + 1", "hidden + 1");
    assert!(drawn_cases(&read(&both), 3).is_empty());
}

/// Every op.toml and backward.toml of the templates.
fn operations() -> Vec<(String, OpSpec)> {
    let mut found = vec![];
    for template in template::all().unwrap() {
        let set =
            template::render(&template, &template::sample(&template, "fast-one".parse().unwrap())).unwrap();
        for file in ["op.toml", "backward.toml"] {
            let Some(text) = set.get(file) else { continue };
            let name = format!("{}/{file}", template.name);
            let text = String::from_utf8(text.to_vec()).unwrap();
            let (op, problems) = kernel_plan::spec::parse_op(SourceFile::new(file, text));
            assert!(problems.is_empty(), "{name}: {problems:?}");
            found.push((name, op.unwrap()));
        }
    }
    assert!(found.len() > 30);
    found
}

#[test]
fn every_template_can_be_started_at_drawn_lengths() {
    for (name, op) in operations() {
        for device in [Device::Cpu, Device::Cuda] {
            let listed = op.cases(Purpose::Verify, device);
            let dtypes: BTreeSet<String> = listed.iter().map(|case| format!("{:?}", case.dtypes)).collect();
            let axes = op.axes.iter().filter(|axis| matches!(axis.kind, AxisKind::Var { .. })).count();
            let each = if axes == 1 { PLAN.len() - 1 } else { PLAN.len() };
            let mut found = 0;
            let seeds = 10;
            for seed in 0..seeds {
                for case in drawn(&op, device, &listed, seed) {
                    found += 1;
                    assert!(op.admits(&case) && bytes(&case) <= MOST_BYTES, "{name}: {}", case.id);
                    let launch = op.launch.as_ref().filter(|_| device == Device::Cuda);
                    let started = launch.map(|launch| launch.evaluate(&case, &op.tune.default_tuning()));
                    assert!(started.is_none_or(|started| started.is_ok()), "{name}: {}", case.id);
                }
            }
            let wanted = seeds as usize * each * dtypes.len();
            assert!(found * 10 >= wanted * 9, "{name}: {found} of {wanted}");
        }
    }
}
