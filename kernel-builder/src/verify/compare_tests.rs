//! Dumps that are right, and dumps with one fault each.
//!
//! Owns: nothing. Never: part of the program.

use kernel_plan::units::Dtype;

use super::super::schedule::{Form, GUARD, InputSet, Manner, Purpose};
use super::*;

fn tensor(name: &str, shape: &[u64]) -> TensorSpec {
    let (name, shape) = (name.to_owned(), shape.to_vec());
    TensorSpec {
        name,
        shape,
        dtype: Dtype::F32,
        omitted: false,
        inplace: None,
        computed: None,
        seed: false,
        non_negative: false,
    }
}

fn case() -> ScheduledCase {
    ScheduledCase {
        id: "case".to_owned(),
        place: 0,
        inputs: vec![tensor("x", &[2, 2])],
        outputs: vec![tensor("y", &[2, 2])],
        gradients: vec![],
        held_out: false,
        drawn: false,
        accumulated: 1,
        sets: vec![InputSet::default()],
        trials: vec![],
    }
}

fn trial() -> Trial {
    Trial {
        id: 0,
        purpose: Purpose::Plain,
        set: 0,
        form: Form::Out,
        poison: 0xff,
        arena: "main",
        guard: GUARD,
        shift: 1,
        strides: std::collections::BTreeMap::new(),
        calls: 1,
        manner: Manner::Single,
        input: None,
    }
}

const INPUT: [f32; 4] = [1.0, 2.0, 3.0, 4.0];
/// Where the payloads of input and output begin.
const STARTS: [usize; 2] = [GUARD + 4, (GUARD + 4) * 2 + 16 + GUARD];

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The verdict over a dump of the identity function, after `change`.
fn check(change: impl Fn(&mut Vec<u8>)) -> Result<Agreement, Fault> {
    check_terms(&[], change)
}

/// The same where the terms of the outputs have these sizes.
fn check_terms(terms: &[f64], change: impl Fn(&mut Vec<u8>)) -> Result<Agreement, Fault> {
    let guarded = |values: &[f32]| [vec![0xff; GUARD + 4], bytes(values), vec![0xff; GUARD]].concat();
    let mut dumped = [guarded(&INPUT), guarded(&INPUT)].concat();
    change(&mut dumped);
    let (case, trial) = (case(), trial());
    let passed = bytes(&INPUT);
    let dump = Dump::cut(&dumped, &case, &trial, &passed)?;
    let exact: Vec<f64> = INPUT.iter().map(|value| f64::from(*value)).chain(terms.iter().copied()).collect();
    let bound = [Bound::new(Dtype::F32, Dtype::F32, 1, 2)];
    examine(&dump, &case, &trial, &bytes(&INPUT), &exact, &bound, None)
}

#[test]
fn the_stray_byte_that_is_nearest_is_found() {
    let guard = |written: &[usize]| {
        let mut guard = vec![7; 10_000];
        written.iter().for_each(|place| guard[*place] = 8);
        guard
    };
    let stray = |front: &[usize], back: &[usize]| super::stray(&guard(front), &guard(back), 7);
    assert_eq!(stray(&[], &[]), None);
    assert_eq!(stray(&[0, 9_999], &[0]), Some((1, false)));
    assert_eq!(stray(&[], &[9_000, 5_000]), Some((5_001, true)));
    assert_eq!(super::stray(&[8], &[], 7), Some((1, false)));
}

#[test]
fn nan_may_spread_over_its_row_and_may_not_be_lost() {
    let values = |exact: [f64; 4], computed: [f32; 4]| {
        let mut agreement = Agreement::default();
        let bound = Bound::new(Dtype::F32, Dtype::F32, 1, 2);
        let (tensor, payload) = (tensor("y", &[2, 2]), bytes(&computed));
        super::values(&tensor, &payload, (&exact, &[]), &bound, Stale::Poison(0x5a), &mut agreement).is_ok()
    };
    let exact = [0.0, f64::NAN, 1.0, 2.0];
    assert!(values(exact, [0.0, f32::NAN, 1.0, 2.0]));
    assert!(values(exact, [f32::NAN, f32::NAN, 1.0, 2.0]));
    assert!(!values(exact, [0.0, 0.0, 1.0, 2.0]));
    assert!(!values(exact, [3.0, f32::NAN, 1.0, 2.0]));
    assert!(!values(exact, [0.0, f32::NAN, f32::NAN, 2.0]));
}

#[test]
fn a_small_result_of_large_terms_may_be_off_by_what_those_explain() {
    let off = |dumped: &mut Vec<u8>| {
        dumped[STARTS[1]..STARTS[1] + 4].copy_from_slice(&1.0001f32.to_le_bytes());
    };
    assert!(matches!(check(off), Err(Fault::Wrong { .. })));
    assert!(matches!(check_terms(&[1.0; 4], off), Err(Fault::Wrong { .. })));
    assert!(check_terms(&[1e3, 0.0, 0.0, 0.0], off).is_ok());
    // Terms explain the row that they belong to, and no other.
    assert!(matches!(check_terms(&[0.0, 0.0, 1e3, 0.0], off), Err(Fault::Wrong { .. })));
}

#[test]
fn an_honest_dump_passes() {
    let agreement = check(|_| ()).unwrap();
    assert_eq!(agreement.of_bound, 0.0);
    assert_eq!(agreement.outputs, bytes(&INPUT));
}

#[test]
fn a_dump_without_inputs_has_them_as_they_were_passed() {
    let [_, output] = STARTS;
    let front = 2 * GUARD + 4 + 16;
    assert!(check(|dump| drop(dump.drain(..front))).is_ok());
    let wrong = check(|dump| {
        dump[output..output + 4].copy_from_slice(&1.1f32.to_le_bytes());
        dump.drain(..front);
    });
    assert!(matches!(wrong, Err(Fault::Wrong { .. })), "{wrong:?}");
    assert!(matches!(check(|dump| drop(dump.drain(..front - 1))), Err(Fault::Truncated { .. })));
}

#[test]
fn guards_are_watched_on_both_sides() {
    let [_, output] = STARTS;
    let fault = |bytes_away, after| Fault::Guard { tensor: "y".to_owned(), bytes_away, after };
    assert_eq!(check(|dump| dump[output - 4] = 0).unwrap_err(), fault(4, false));
    assert_eq!(check(|dump| dump[output + 16] = 0).unwrap_err(), fault(1, true));
}

#[test]
fn a_changed_input_is_named() {
    let [input, _] = STARTS;
    let fault = check(|dump| dump[input + 8..input + 12].copy_from_slice(&7f32.to_le_bytes()));
    let element = Element { index: vec![1, 0], value: 7.0 };
    assert_eq!(fault.unwrap_err(), Fault::InputChanged { tensor: "x".to_owned(), element, was: 3.0 });
}

#[test]
fn poison_counts_as_unwritten_and_other_values_as_wrong() {
    let [_, output] = STARTS;
    let unwritten = check(|dump| dump[output + 12..output + 16].fill(0xff)).unwrap_err();
    assert!(matches!(unwritten, Fault::Unwritten { ref element, count: 1, .. } if element.index == [1, 1]));
    let wrong = check(|dump| dump[output..output + 4].copy_from_slice(&1.1f32.to_le_bytes())).unwrap_err();
    assert!(matches!(wrong, Fault::Wrong { exact: 1.0, count: 1, elements: 4, .. }), "{wrong:?}");
}

/// The verdict over a dump of `x += x`, where `x` (with strides or not) ends as `after`.
fn check_in_place(strides: &[u64], region: &[f32]) -> Result<Agreement, Fault> {
    let mut case = case();
    // An optional input that was not passed takes no room, and the output none of its own.
    case.inputs.insert(0, TensorSpec { omitted: true, ..tensor("bias", &[2]) });
    case.outputs[0].inplace = Some(1);
    let mut trial = Trial { poison: 0x5a, form: Form::Functional, ..trial() };
    if !strides.is_empty() {
        trial.strides.insert(1, strides.to_vec());
    }
    let dumped = [vec![0x5a; GUARD + 4], bytes(region), vec![0x5a; GUARD]].concat();
    let passed = bytes(&INPUT);
    let dump = Dump::cut(&dumped, &case, &trial, &passed)?;
    let exact: Vec<f64> = INPUT.iter().map(|value| f64::from(*value) * 2.0).collect();
    examine(&dump, &case, &trial, &passed, &exact, &[Bound::new(Dtype::F32, Dtype::F32, 1, 2)], None)
}

#[test]
fn an_output_in_place_lies_where_its_input_lay() {
    let agreement = check_in_place(&[], &[2.0, 4.0, 6.0, 8.0]).unwrap();
    assert_eq!(agreement.outputs, bytes(&[2.0, 4.0, 6.0, 8.0]));
    let fault = check_in_place(&[], &INPUT).unwrap_err();
    assert!(matches!(fault, Fault::Unwritten { count: 4, .. }), "{fault:?}");
    // One element is wrong, so the others were not forgotten.
    let fault = check_in_place(&[], &[1.0, 4.5, 6.0, 8.0]).unwrap_err();
    assert!(matches!(fault, Fault::Wrong { count: 2, exact: 4.0, .. }), "{fault:?}");
}

#[test]
fn gaps_between_elements_are_guarded() {
    let gap = f32::from_le_bytes([0x5a; 4]);
    let columns = [2.0, 6.0, gap, 4.0, 8.0];
    assert!(check_in_place(&[1, 3], &columns).is_ok());
    let fault = check_in_place(&[1, 3], &[2.0, 6.0, 0.0, 4.0, 8.0]).unwrap_err();
    assert_eq!(fault, Fault::Gap { tensor: "x".to_owned(), byte: 8 });
}

#[test]
fn what_is_beyond_the_range_has_no_error() {
    let bounds = [Bound::new(Dtype::F8e4m3, Dtype::F32, 1, 1)];
    let output = TensorSpec { dtype: Dtype::F8e4m3, ..tensor("y", &[1]) };
    let case = ScheduledCase { outputs: vec![output], ..case() };
    let share = |computed, exact| share_of_bound(&case, &[computed], &[exact], &bounds);
    // The largest number, NaN, and 288.
    assert_eq!((share(0x7e, 1000.0), share(0x7f, 1000.0)), (0.0, 0.0));
    assert!(share(0x79, 1000.0) > 1.0);
    assert_eq!(share(0x38, 1.0), 0.0);
}

#[test]
fn a_short_dump_is_no_dump() {
    assert!(matches!(check(|dump| dump.truncate(9)).unwrap_err(), Fault::Truncated { length: 9, .. }));
}
