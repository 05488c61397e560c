//! What the values of one case say about the task.
//!
//! Owns: which wrong answer is a finding, and which finding makes another needless. Never: reads a file.

use std::collections::BTreeMap;

use super::super::bound::Bound;
use super::super::schedule::TensorSpec;
use super::cases::{FACTOR, Linted, Relation, Role, StandsFor};
use super::probes::{self, Sample, Values};

/// The share of elements from which a wrong answer is told. All of them must pass in the judge; a task where a hundredth
/// of the work is left is no task either.
pub(super) const NEAR: f64 = 0.99;
/// An output with fewer values that the bound tells apart is nearly a constant.
const LEVELS: f64 = 16.0;
/// The deviation below which judges with an absolute tolerance of 1e-2 take a constant.
const TINY: f64 = 0.01;

/// A code and what it is about: an output, an input or a scalar.
pub(super) type Subject = (&'static str, String);

/// What was found in one case.
#[derive(Debug, Default)]
pub(super) struct CaseFindings {
    /// The cases with how near the wrong answer came.
    pub findings: BTreeMap<Subject, Vec<(String, f64)>>,
    /// Relations, and whether they hold.
    pub relations: Vec<(String, bool)>,
}

/// The values of one case: a file a set, and the inputs of plain sets.
pub(super) struct Computed {
    pub outputs: Vec<Vec<u8>>,
    pub inputs: Vec<Vec<u8>>,
}

/// One output with what is looked at of it.
struct Output<'a> {
    tensor: &'a TensorSpec,
    /// Its place among outputs.
    place: usize,
    /// Where it begins in a file of values.
    first: usize,
    /// What is looked at, at each plain set.
    plain: Vec<Vec<Sample>>,
}

/// Holds every wrong answer against every bound that the case stands for.
pub(super) fn judge(linted: &Linted, computed: &Computed) -> CaseFindings {
    let case = &linted.scheduled;
    let elements: usize = case.outputs.iter().map(TensorSpec::elements).sum();
    let plain_sets = linted.roles.iter().filter(|role| **role == Role::Plain).count();
    let mut first = 0;
    let mut outputs = Vec::new();
    for (place, tensor) in case.outputs.iter().enumerate() {
        let of = |set: usize| probes::samples(tensor, Values(&computed.outputs[set]), first, elements);
        outputs.push(Output { tensor, place, first, plain: (0..plain_sets).map(of).collect() });
        first += tensor.elements();
    }
    let mut found = CaseFindings::default();
    let mut known: Vec<(&[Bound], BTreeMap<Subject, f64>)> = Vec::new();
    for StandsFor { id, bounds, .. } in &linted.stands_for {
        let findings = match known.iter().find(|(other, _)| other == bounds) {
            Some((_, findings)) => findings.clone(),
            None => {
                let findings = of_bounds(linted, computed, &outputs, bounds);
                known.push((bounds, findings.clone()));
                findings
            }
        };
        for (subject, share) in findings {
            found.findings.entry(subject).or_default().push((id.clone(), share));
        }
    }
    // What holds of an output that can be had without its inputs holds for no reason.
    let varying = |output: &Output<'_>| {
        let fixed = ["lint::zeros", "lint::constant", "lint::replay"];
        !fixed.iter().any(|code| found.findings.contains_key(&(*code, output.tensor.name.clone())))
    };
    outputs.retain(varying);
    if let Some(coarsest) = linted.stands_for.first() {
        found.relations = relations(linted, computed, &outputs, &coarsest.bounds);
    }
    found
}

fn of_bounds(
    linted: &Linted,
    computed: &Computed,
    outputs: &[Output<'_>],
    bounds: &[Bound],
) -> BTreeMap<Subject, f64> {
    let mut found = BTreeMap::new();
    // Whether each output can be had without its inputs; then nothing else about it is worth telling.
    let fixed: Vec<bool> = outputs
        .iter()
        .map(|output| {
            let (answer, share) = fixed_answer(output, &bounds[output.place]);
            if share >= NEAR {
                found.insert((answer, output.tensor.name.clone()), share);
            }
            share >= NEAR
        })
        .collect();
    for (output, _) in outputs.iter().zip(&fixed).filter(|(_, fixed)| !**fixed) {
        lazy_answers(linted, computed, output, &bounds[output.place], &mut found);
    }
    if !fixed.iter().all(|fixed| *fixed) {
        for (subject, sets) in changed_sets(linted) {
            let unchanged = |output: &Output<'_>, (of, set): (usize, usize)| {
                let values = Values(&computed.outputs[set]);
                let answer = |sample: &Sample| values.at(output.first + sample.place);
                // The values are exact, so they are not rounded to the dtype, which could hide a difference of none.
                shared(&output.plain[of], &bounds[output.place], answer)
            };
            let share = outputs
                .iter()
                .flat_map(|output| sets.iter().map(move |pair| (output, *pair)))
                .map(|(output, pair)| unchanged(output, pair))
                .fold(1.0, f64::min);
            if share >= 1.0 {
                found.insert(subject, share);
            }
        }
        // What has no effect has none when it is shuffled.
        let ignored: Vec<String> = found
            .keys()
            .filter(|(code, _)| *code == "lint::ignored_input")
            .map(|(_, input)| input.clone())
            .collect();
        found.retain(|(code, about), _| {
            *code != "lint::collapse"
                || !ignored.iter().any(|input| about.starts_with(&format!("{input} along ")))
        });
    }
    found
}

/// The share at which an exact value may stand for another.
fn shared(samples: &[Sample], bound: &Bound, answer: impl Fn(&Sample) -> f64) -> f64 {
    probes::share(samples, bound, kernel_plan::units::Dtype::F64, answer)
}

/// The least share over all sets.
fn over_sets(output: &Output<'_>, bound: &Bound, answer: impl Fn(usize, &Sample) -> f64) -> f64 {
    let of = |(set, samples): (usize, &Vec<Sample>)| {
        probes::share(samples, bound, bound.output(), |sample| answer(set, sample))
    };
    output.plain.iter().enumerate().map(of).fold(1.0, f64::min)
}

/// The best answer that needs no input, and how near it comes: zeros, another constant, or what the first call gave.
fn fixed_answer(output: &Output<'_>, bound: &Bound) -> (&'static str, f64) {
    let zeros = over_sets(output, bound, |_, _| 0.0);
    if zeros >= NEAR {
        return ("lint::zeros", zeros);
    }
    let middle = probes::best_constant(&output.plain, bound);
    let candidates = [Some(middle), probes::commonest(&output.plain)];
    let constant = candidates
        .into_iter()
        .flatten()
        .map(|value| over_sets(output, bound, |_, _| value))
        .fold(0.0, f64::max);
    if constant >= NEAR {
        return ("lint::constant", constant);
    }
    let first: BTreeMap<usize, f64> =
        output.plain[0].iter().map(|sample| (sample.place, sample.exact)).collect();
    let replay = over_sets(output, bound, |_, sample| first.get(&sample.place).copied().unwrap_or(f64::NAN));
    ("lint::replay", replay)
}

/// Answers that need no arithmetic, and outputs that say little.
fn lazy_answers(
    linted: &Linted,
    computed: &Computed,
    output: &Output<'_>,
    bound: &Bound,
    found: &mut BTreeMap<Subject, f64>,
) {
    let case = &linted.scheduled;
    let name = || output.tensor.name.clone();
    let mut first = 0;
    for input in &case.inputs {
        let (begin, elements) = (first, input.elements());
        first += elements;
        // A copy, or one that is repeated along the leading axes.
        if elements == 0 || !output.tensor.shape.ends_with(&input.shape) {
            continue;
        }
        let copy = over_sets(output, bound, |set, sample| {
            Values(&computed.inputs[set]).at(begin + sample.place % elements)
        });
        if copy >= NEAR {
            found.insert(("lint::copy", format!("{} of {}", output.tensor.name, input.name)), copy);
        }
    }
    for (dimension, _) in output.tensor.shape.iter().enumerate().filter(|(_, length)| **length > 1) {
        let repeated = over_sets(output, bound, |set, sample| {
            let place = probes::first_along(&output.tensor.shape, dimension, sample.place);
            Values(&computed.outputs[set]).at(output.first + place)
        });
        if repeated >= 1.0 {
            let axis = &linted.axes[output.place][dimension];
            found.insert(("lint::repeated", format!("{} along {axis}", name())), repeated);
        }
    }
    if let Some(spread) = probes::spread(&output.plain, bound) {
        if spread.levels < LEVELS {
            found.insert(("lint::narrow", name()), spread.levels);
        }
        if spread.deviation < TINY {
            found.insert(("lint::tiny", name()), spread.deviation);
        }
    }
}

/// The sets in which one thing differs from a plain set: pairs of the plain set and the changed one.
fn changed_sets(linted: &Linted) -> Vec<(Subject, Vec<(usize, usize)>)> {
    let mut changed: BTreeMap<Subject, Vec<(usize, usize)>> = BTreeMap::new();
    let input = |place: usize| linted.scheduled.inputs[place].name.clone();
    for (set, role) in linted.roles.iter().enumerate() {
        let (subject, of) = match role {
            Role::Plain | Role::Related { .. } => continue,
            Role::Input { of, input: place } => (("lint::ignored_input", input(*place)), of),
            Role::Scalar { of, scalar } => (("lint::ignored_scalar", scalar.clone()), of),
            Role::Shuffled { of, input: place, axis } => {
                (("lint::collapse", format!("{} along {axis}", input(*place))), of)
            }
        };
        changed.entry(subject).or_default().push((*of, set));
    }
    changed.into_iter().collect()
}

fn relations(
    linted: &Linted,
    computed: &Computed,
    outputs: &[Output<'_>],
    bounds: &[Bound],
) -> Vec<(String, bool)> {
    let case = &linted.scheduled;
    let mut found = Vec::new();
    for (set, role) in linted.roles.iter().enumerate() {
        let Role::Related { relation } = role else { continue };
        let values = Values(&computed.outputs[set]);
        for output in outputs {
            let name = &output.tensor.name;
            let plain = Values(&computed.outputs[0]);
            let holds = |expected: &dyn Fn(usize) -> f64| {
                let close = |sample: &Sample| {
                    let (got, wanted) = (values.at(output.first + sample.place), expected(sample.place));
                    let slack = bounds[output.place].at(wanted, sample.exact.abs());
                    (got.is_nan() && wanted.is_nan()) || got == wanted || (got - wanted).abs() <= slack
                };
                output.plain[0].iter().all(close)
            };
            let at = |place: usize| plain.at(output.first + place);
            match relation {
                Relation::Reversed { axis } => {
                    let names = linted.axes[output.place].iter().enumerate();
                    let own: Vec<usize> =
                        names.filter(|(_, name)| *name == axis).map(|(dimension, _)| dimension).collect();
                    let reversed =
                        |place: usize| at(probes::reversed_along(&output.tensor.shape, &own, place));
                    let how = if own.is_empty() { "leaves" } else { "reverses" };
                    found.push((format!("reversing `{axis}` {how} `{name}`"), holds(&reversed)));
                }
                Relation::Scaled { input } => {
                    let input = &case.inputs[*input].name;
                    for (power, how) in [(0, "leaves"), (1, "scales"), (2, "scales twice"), (-1, "divides")] {
                        let scaled = |place: usize| at(place) * FACTOR.powi(power);
                        found.push((format!("scaling `{input}` {how} `{name}`"), holds(&scaled)));
                    }
                }
                Relation::Shifted { input } => {
                    let input = &case.inputs[*input].name;
                    for (by, how) in [(0.0, "leaves"), (FACTOR, "shifts")] {
                        let shifted = |place: usize| at(place) + by;
                        found.push((format!("shifting `{input}` {how} `{name}`"), holds(&shifted)));
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::cases::{choose, tests::read};
    use super::*;

    /// Values that look random and are the same on every machine.
    fn values(count: usize, seed: usize) -> Vec<f64> {
        let mut state = seed as u64 * 2 + 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f64::from((state >> 40) as u32) / f64::from(1 << 23) - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    fn bytes(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// The codes and subjects found where the reference is `function` of `x` (4 x 32) and `weight`.
    fn found(function: impl Fn(&[f64], &[f64]) -> Vec<f64>) -> Vec<String> {
        let (linted, _) = choose(&read("[workload.a]\naxes = { rows = 4, hidden = 32 }\ndtypes = [\"f32\"]"));
        let linted = &linted[0];
        let mut computed = Computed { outputs: vec![], inputs: vec![] };
        let inputs = |of: usize| (values(4 * 32, 2 * of + 1), values(32, 2 * of + 2));
        for (set, role) in linted.roles.iter().enumerate() {
            let (x, weight) = match role {
                Role::Plain => inputs(set),
                Role::Input { of, input: 0 } => (inputs(set).0, inputs(*of).1),
                Role::Input { of, .. } => (inputs(*of).0, inputs(set).1),
                Role::Related { relation: Relation::Scaled { input: 0 } } => {
                    (inputs(0).0.iter().map(|x| x * FACTOR).collect(), inputs(0).1)
                }
                _ => inputs(0),
            };
            computed.outputs.push(bytes(&function(&x, &weight)));
            if *role == Role::Plain {
                computed.inputs.push(bytes(&[x, weight].concat()));
            }
        }
        let found = judge(linted, &computed);
        let holds = found.relations.iter().filter(|(name, holds)| *holds && name.contains("scaling `x`"));
        let findings = found.findings.keys().map(|(code, about)| format!("{code} {about}"));
        findings.chain(holds.map(|(name, _)| name.clone())).collect()
    }

    #[test]
    fn a_product_of_both_inputs_is_sound() {
        let product = |x: &[f64], weight: &[f64]| -> Vec<f64> {
            x.iter().enumerate().map(|(place, x)| x * weight[place % 32]).collect()
        };
        assert_eq!(found(product), ["scaling `x` scales `y`"]);
    }

    #[test]
    fn answers_without_inputs_are_told_once() {
        assert_eq!(found(|_, _| vec![0.0; 128]), ["lint::zeros y"]);
        assert_eq!(found(|_, _| vec![2.5; 128]), ["lint::constant y"]);
        assert_eq!(found(|_, _| values(128, 7)), ["lint::replay y"]);
        // One of a hundred elements is another.
        let nearly = |x: &[f64], _: &[f64]| -> Vec<f64> {
            (0..128).map(|place| if place == 5 { x[0] } else { 0.0 }).collect()
        };
        assert_eq!(found(nearly), ["lint::zeros y"]);
    }

    #[test]
    fn answers_without_arithmetic_are_told() {
        let copy = found(|x, _| x.to_vec());
        assert_eq!(copy, ["lint::copy y of x", "lint::ignored_input weight", "scaling `x` scales `y`"]);
        let repeated = found(|_, weight| weight.repeat(4));
        let wanted = ["lint::copy y of weight", "lint::ignored_input x", "lint::repeated y along rows"];
        assert_eq!(repeated[..3], wanted, "{repeated:?}");
    }

    #[test]
    fn outputs_that_say_little_are_told() {
        let tiny = found(|x, weight| x.iter().zip(weight.repeat(4)).map(|(x, w)| x * w * 1e-3).collect());
        assert_eq!(tiny, ["lint::tiny y", "scaling `x` scales `y`"]);
        let narrow =
            found(|x, weight| x.iter().zip(weight.repeat(4)).map(|(x, w)| 1.0 + x * w * 1e-5).collect());
        assert!(narrow.contains(&"lint::narrow y".to_owned()), "{narrow:?}");
    }
}
