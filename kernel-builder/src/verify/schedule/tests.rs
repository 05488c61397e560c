//! The schedule of small operations.
//!
//! Owns: nothing. Never: part of the program.

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::spec::op::{Device, Purpose as For, ScalarValue};

use super::*;

pub(in crate::verify) const OP: &str = r#"
    format = 1
    name = "scale"
    [axes]
    rows = { type = "var" }
    [inputs]
    x = { shape = ["rows"], dtype = "f32", strided = true }
    bias = { shape = ["rows"], dtype = "f32", optional = true }
    [scalars]
    factor = { type = "float", default = 0.5, min = 0.0, max = 1.0 }
    [outputs]
    y = { shape = ["rows"], dtype = "f32" }
    [reference]
    file = "reference.py"
    function = "scale"
    [gradient]
    backward = true
    [call]
    function = "scale"
    [tolerance]
    accumulate = "f32"
    length = "rows"
    roundings = 1
    [workload.plain]
    axes = { rows = 8 }
    [workload.bare]
    axes = { rows = 8 }
    without = ["bias"]
    held-out = true
"#;

fn read(text: &str) -> OpSpec {
    let (op, problems) = kernel_plan::spec::parse_op(SourceFile::new("op.toml", text));
    assert!(problems.is_empty(), "{problems:?}");
    op.unwrap()
}

pub(in crate::verify) fn scheduled_op(text: &str) -> Vec<ScheduledCase> {
    let op = read(text);
    schedule(&op, &op.cases(For::Verify, Device::Cpu))
}

fn count(case: &ScheduledCase, purpose: Purpose) -> usize {
    case.trials.iter().filter(|trial| trial.purpose == purpose).count()
}

#[test]
fn an_input_that_is_not_passed_is_not_edited() {
    let [plain, bare] = scheduled_op(OP).try_into().unwrap();
    assert_eq!((count(&plain, Purpose::Edit), count(&bare, Purpose::Edit)), (2, 1));
    assert_eq!((plain.gradients.len(), bare.gradients.len()), (2, 1));
    assert_eq!((plain.inputs[1].bytes(), bare.inputs[1].bytes()), (32, 0));
    assert_eq!((plain.held_out, bare.held_out), (false, true));
}

#[test]
fn another_scalar_is_one_that_the_operation_takes() {
    let factor = |text: &str| {
        let case = scheduled_op(text).swap_remove(0);
        let changed = case.sets.iter().find(|set| set.changed_scalar.is_some());
        changed.map(|set| set.scalars["factor"])
    };
    assert_eq!(factor(OP), Some(ScalarValue::Float(0.75)));
    assert_eq!(factor(&OP.replace(", max = 1.0", "")), Some(ScalarValue::Float(1.25)));
    assert_eq!(factor(&OP.replace("min = 0.0, max = 1.0", "min = 0.5, max = 0.5")), None);
}

#[test]
fn inputs_that_take_strides_get_them() {
    let case = scheduled_op(OP).swap_remove(0);
    let of = |arena| case.trials.iter().find(|trial| trial.arena == arena).map(|trial| &trial.strides);
    assert_eq!(of("spread"), Some(&BTreeMap::from([(0, vec![2])])));
    assert_eq!(of("main"), Some(&BTreeMap::new()));
    let matrix = TensorSpec { shape: vec![3, 4], ..case.inputs[0].clone() };
    assert_eq!((matrix.spread(), matrix.reversed()), (vec![11, 2], vec![1, 3]));
    assert_eq!(matrix.region(Some(&matrix.spread())), (2 * 11 + 3 * 2 + 1) * 4);
    let dense = scheduled_op(&OP.replace(", strided = true", "")).swap_remove(0);
    assert_eq!(count(&dense, Purpose::Strided), 0);
}

#[test]
fn gradients_are_judged_or_said_not_to_be() {
    assert_eq!(gradient_unjudged(&read(OP)), None);
    assert_eq!(count(&scheduled_op(OP)[0], Purpose::Gradient), 2);
    let inplace = OP.replace(
        r#"y = { shape = ["rows"], dtype = "f32" }"#,
        r#"y = { shape = ["rows"], dtype = "f32", inplace = "x" }"#,
    );
    assert!(gradient_unjudged(&read(&inplace)).is_some());
    let [plain, _] = scheduled_op(&inplace).try_into().unwrap();
    assert_eq!((count(&plain, Purpose::Gradient), plain.outputs[0].inplace), (0, Some(0)));
    assert!(plain.overwrites(0) && !plain.overwrites(1) && plain.returned().count() == 0);
}

#[test]
fn small_cases_get_every_hard_value_and_larger_ones_all_at_once() {
    let hard = |rows: u64| -> Vec<Purpose> {
        let case = scheduled_op(&OP.replace("rows = 8 }", &format!("rows = {rows} }}"))).swap_remove(0);
        let hard = case.trials.iter().filter(|trial| case.sets[trial.set].hard).map(|trial| trial.purpose);
        hard.chain(case.trials.iter().map(|trial| trial.purpose).filter(|one| *one == Purpose::Reversed))
            .collect()
    };
    let small = hard(8);
    assert_eq!(small.len(), HARD_VALUES.len() + 1);
    assert!(small.contains(&Purpose::NonFinite) && small.contains(&Purpose::Reversed));
    assert_eq!(hard(1 << 16), [Purpose::Mixed]);
    // Too large to compute the reference several times.
    assert_eq!(hard(1 << 24), []);
}

#[test]
fn of_cases_with_few_trials_the_largest_gets_hard_values() {
    let large = |rows: &[u64]| -> Vec<usize> {
        let workloads = rows.iter().map(|rows| format!("[workload.of-{rows}]\naxes = {{ rows = {rows} }}\n"));
        let cases = scheduled_op(&format!("{OP}{}", workloads.collect::<String>()));
        cases[2..].iter().map(|case| count(case, Purpose::Mixed) + count(case, Purpose::NonFinite)).collect()
    };
    assert_eq!(large(&[1 << 20, 1 << 21, 1 << 24]), [0, 2, 0]);
    assert_eq!(large(&[1 << 16, 1 << 20]), [2, 2]);
}

#[test]
fn guards_are_wide_in_one_arena_of_each_case() {
    let widest = |rows: u64| {
        let case = scheduled_op(&OP.replace("rows = 8 }", &format!("rows = {rows} }}"))).swap_remove(0);
        let wide: Vec<_> = case.trials.iter().filter(|trial| trial.guard > GUARD).collect();
        // What lies in one arena lies between the same guards.
        assert!(case.trials.iter().all(|one| {
            case.trials.iter().all(|other| one.arena != other.arena || one.guard == other.guard)
        }));
        wide.iter().map(|trial| trial.guard).max()
    };
    assert_eq!([8, 1 << 16, 1 << 20].map(widest), [Some(256 << 10), Some(1 << 20), Some(1 << 20)]);
}

#[test]
fn drawn_cases_get_few_trials() {
    let op = read(OP);
    let listed = op.cases(For::Verify, Device::Cpu);
    let cases = [listed.clone(), drawn(&op, Device::Cpu, &listed, 5)].concat();
    let schedule = with_groups(schedule(&op, &cases), Device::Cpu);
    let own: Vec<_> = schedule.iter().filter(|case| case.drawn).collect();
    assert!(own.len() >= 4 && own.len() == cases.len() - listed.len());
    for case in &own {
        assert!(case.trials.len() <= 7, "{:?}", case.trials);
        assert_eq!(count(case, Purpose::Offset), 1);
        assert_eq!(count(case, Purpose::Mixed) + count(case, Purpose::NonFinite), 1);
    }
    assert!(own.iter().any(|case| count(case, Purpose::Gradient) == 1));
}

#[test]
fn rows_are_reversed_in_every_input_that_has_them() {
    let case = scheduled_op(OP).swap_remove(0);
    let change = case.sets.iter().find_map(|set| set.change.clone());
    assert_eq!(change, Some(Change::Reverse { places: vec![(0, 0), (1, 0)] }));
    let single = scheduled_op(&OP.replace("rows = 8 }", "rows = 1 }")).swap_remove(0);
    assert!(single.sets.iter().all(|set| set.change.is_none()));
}
