//! Groups of calls of a package: on two streams, with results held, with inputs that change or must not.
//!
//! Owns: which cases get which groups. Pure. Never: schedules for device code, whose host is ours.

use kernel_plan::spec::op::Device;

use super::{
    Form, GUARD, InputSet, Manner, POISON_FINITE, POISON_NAN, Purpose, ScheduledCase, TensorSpec, Trial,
};

/// How many results are held at once: twice the longest ring of outputs that was seen.
const HELD: usize = 128;
/// Calls on two streams of a small case, and of a large one.
const ON_STREAMS: [usize; 2] = [16, 4];
/// Calls after which inputs are overwritten.
const OVERWRITTEN: usize = 4;
/// Sets that no other trial uses, for calls between which kept memory is scrambled.
const UNSEEN: usize = 3;
/// Elements of outputs below which a case is too small to show much.
const SMALL: usize = 64;
/// The largest case, in bytes, that groups are made of: each of its calls leaves a dump.
const LARGE: usize = 64 << 20;

/// Adds groups to a small case and to a large one, and numbers all trials anew.
pub(crate) fn with_groups(mut schedule: Vec<ScheduledCase>, device: Device) -> Vec<ScheduledCase> {
    let small = chosen(&schedule, |elements| if elements < SMALL { usize::MAX - elements } else { elements });
    let large = chosen(&schedule, |elements| usize::MAX - elements);
    if let Some(place) = small {
        add_to_small(&mut schedule[place], device);
    }
    if let Some(place) = large.filter(|large| Some(*large) != small) {
        add_to_large(&mut schedule[place], device);
    }
    let trials = schedule.iter_mut().flat_map(|case| &mut case.trials);
    trials.enumerate().for_each(|(id, trial)| trial.id = id);
    schedule
}

/// The place of the case that comes first in an order of elements; cases without elements, huge ones, and those of one
/// run alone do not count.
fn chosen(schedule: &[ScheduledCase], order: impl Fn(usize) -> usize) -> Option<usize> {
    let bytes = |case: &ScheduledCase| -> usize {
        case.inputs.iter().chain(&case.outputs).map(TensorSpec::bytes).sum()
    };
    let elements = |case: &ScheduledCase| -> usize { case.outputs.iter().map(TensorSpec::elements).sum() };
    let counts = schedule
        .iter()
        .enumerate()
        .filter(|(_, case)| !case.drawn && elements(case) > 0 && bytes(case) <= LARGE);
    counts.min_by_key(|(_, case)| order(elements(case))).map(|(place, _)| place)
}

fn add_to_small(case: &mut ScheduledCase, device: Device) {
    for place in 0..HELD {
        // Thue and Morse: the calls before 64 and those 64 later never have the same set.
        let set = place.count_ones() as usize % 2;
        add(case, Purpose::Held, Manner::Held, set, Form::Functional, None);
    }
    add_streams(case, device, ON_STREAMS[0]);
    add_overwritten(case);
    add_watched(case, device);
    add_scrambled(case);
}

fn add_to_large(case: &mut ScheduledCase, device: Device) {
    add_streams(case, device, ON_STREAMS[1]);
    add_overwritten(case);
    add_watched(case, device);
}

fn add_streams(case: &mut ScheduledCase, device: Device, calls: usize) {
    let given = first_form(case);
    for place in (0..calls).filter(|_| device == Device::Cuda) {
        // The sets alternate with the streams, the forms with every two calls.
        let form = if place / 2 % 2 == 0 { Form::Functional } else { given };
        add(case, Purpose::TwoStreams, Manner::Streams, place % 2, form, None);
    }
}

fn add_overwritten(case: &mut ScheduledCase) {
    let given = first_form(case);
    for place in 0..OVERWRITTEN {
        let form = if place < 2 { Form::Functional } else { given };
        add(case, Purpose::Overwritten, Manner::Overwritten, place % 2, form, None);
    }
}

/// One call for each input that no output overwrites.
fn add_watched(case: &mut ScheduledCase, device: Device) {
    let (purpose, manner) = match device {
        Device::Cuda => (Purpose::ReadAlong, Manner::ReadAlong),
        Device::Cpu => (Purpose::ReadOnly, Manner::ReadOnly),
    };
    let watched = |place: &usize| case.inputs[*place].elements() > 0 && !case.overwrites(*place);
    let places: Vec<usize> = (0..case.inputs.len()).filter(watched).collect();
    for place in places {
        add(case, purpose, manner, 0, Form::Functional, Some(place));
    }
}

/// Calls with inputs that nothing was called with before, twice each and in two orders.
fn add_scrambled(case: &mut ScheduledCase) {
    let first = case.sets.len();
    let like = InputSet { baseline: false, gradient: false, ..case.sets[0].clone() };
    case.sets.extend(std::iter::repeat_n(like, UNSEEN));
    for set in [0, 0, 1, 1, 2, 2, 0, 1, 2, 0] {
        add(case, Purpose::Scrambled, Manner::Scrambled, first + set, Form::Functional, None);
    }
}

/// The form of a case's first trial: into given tensors, where it takes them.
fn first_form(case: &ScheduledCase) -> Form {
    case.trials.first().map_or(Form::Functional, |trial| trial.form)
}

fn add(
    case: &mut ScheduledCase,
    purpose: Purpose,
    manner: Manner,
    set: usize,
    form: Form,
    input: Option<usize>,
) {
    let poison = if set == 0 { POISON_NAN } else { POISON_FINITE };
    let strides = Default::default();
    let (id, arena, guard, shift, calls) = (0, "group", GUARD, 0, 1);
    case.trials.push(Trial {
        id,
        purpose,
        set,
        form,
        poison,
        arena,
        guard,
        shift,
        strides,
        calls,
        manner,
        input,
    });
}

#[cfg(test)]
mod tests {
    use super::super::tests::scheduled_op;
    use super::*;

    #[test]
    fn groups_are_whole_and_trials_numbered_through() {
        for (device, streams, watched) in
            [(Device::Cpu, 0, Manner::ReadOnly), (Device::Cuda, 16, Manner::ReadAlong)]
        {
            let schedule = with_groups(scheduled_op(super::super::tests::OP), device);
            let ids: Vec<usize> =
                schedule.iter().flat_map(|case| &case.trials).map(|trial| trial.id).collect();
            assert_eq!(ids, (0..ids.len()).collect::<Vec<_>>());
            let count = |manner| {
                let trials = schedule.iter().flat_map(|case| &case.trials);
                trials.filter(|trial| trial.manner == manner).count()
            };
            assert_eq!((count(Manner::Held), count(Manner::Streams), count(watched)), (HELD, streams, 2));
        }
    }

    #[test]
    fn a_ring_of_any_power_of_two_hands_out_a_result_of_other_inputs() {
        let set = |place: usize| place.count_ones() % 2;
        for ring in [1, 2, 4, 8, 16, 32, 64] {
            assert!((0..HELD - ring).any(|place| set(place) != set(place + ring)), "{ring}");
        }
    }
}
