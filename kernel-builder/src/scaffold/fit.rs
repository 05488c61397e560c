//! Which template serves a person's reference, by what harness/trace.py saw of both.
//!
//! Owns: the decision, its reasons, what is told about a match. Never: runs Python, reads or writes a file.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::observed::{Reason, percent};
use super::ops;
use super::report::{Attempt, Facts, Graph, Origin, Report};
use super::serves::{Form, Served};

/// How far results may be apart, in parts of the largest of their row, in float64. A constant that a person wrote with
/// eight digits stays below it; another eps, another curve or another divisor does not.
const NEAR: f64 = 1e-7;
/// How many different sets of lengths must have been tried.
const PASSES: usize = 4;

/// A template that serves the reference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// The template.
    pub template: String,
    /// The form, in words; nothing for the operation's own call.
    pub form: Option<String>,
    /// What each argument of the form is called by the person.
    pub arguments: Vec<(String, String)>,
    /// Defaults of scalars that the project gets.
    pub defaults: BTreeMap<String, Value>,
    /// The largest deviation that was seen.
    pub deviation: f64,
    /// How many sets of inputs were compared.
    pub sets: usize,
    /// What a person should know.
    pub notes: Vec<String>,
    /// Why the template's reference is kept; nothing when the person's own takes its place.
    pub keeps_template: Option<String>,
}

/// Why no template serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// The operators, in order, each once.
    pub ops: Vec<String>,
    /// The nearest template.
    pub nearest: Option<String>,
    /// Why it does not serve.
    pub why: String,
    /// The next step, if it is not to change the template.
    pub step: Option<String>,
}

/// The template that serves the reference, or why none does.
pub fn judge(report: &Report, served: &[Served]) -> Result<Fit, Unfit> {
    let mut fitting: Vec<(&Attempt, &Served, &Form, &Facts)> = Vec::new();
    for attempt in &report.attempts {
        let Some((served, form)) = place(attempt, served) else { continue };
        let Some(facts) = &attempt.facts else { continue };
        if reasons(report, attempt, facts, served, form).is_empty() {
            fitting.push((attempt, served, form, facts));
        }
    }
    let from =
        |attempt: &Attempt| attempt.numbers.values().filter(|(origin, _)| *origin == Origin::From).count();
    let is_default = |attempt: &Attempt, served: &Served| {
        let default = |(name, (_, value)): (&String, &(Origin, Value))| {
            default_of(served, name).as_ref() == Some(value)
        };
        attempt.numbers.iter().filter(|number| default(*number)).count()
    };
    // A match for certain lengths comes after a match for any length, and an operation with more axes after one with fewer:
    // a layer normalisation without a weight is an instance normalisation of three axes too.
    let class = |attempt: &Attempt, served: &Served, form: &Form| {
        (form.remains.is_some(), !attempt.changed.is_empty(), served.op.axes.len())
    };
    fitting.sort_by_key(|(attempt, served, form, _)| {
        let more = std::cmp::Reverse((from(attempt), is_default(attempt, served)));
        (class(attempt, served, form), attempt.split, form.as_words.is_some(), more)
    });
    let Some((attempt, serving, form, facts)) = fitting.first().copied() else {
        return Err(unfit(report, served));
    };
    let rivals: BTreeSet<&str> = fitting
        .iter()
        .filter(|(other, served, of, _)| class(other, served, of) == class(attempt, serving, form))
        .map(|(attempt, ..)| attempt.template.as_str())
        .collect();
    if rivals.len() > 1 {
        let names: Vec<_> = rivals.into_iter().collect();
        let why =
            format!("the templates {} match equally well; choose one with --template", names.join(" and "));
        return Err(Unfit {
            ops: facts.graph.as_ref().map(names_of).unwrap_or_default(),
            nearest: None,
            why,
            step: None,
        });
    }
    Ok(fit(report, attempt, serving, form, facts))
}

fn place<'s>(attempt: &Attempt, served: &'s [Served]) -> Option<(&'s Served, &'s Form)> {
    let served = served.iter().find(|served| served.template.name == attempt.template)?;
    Some((served, served.forms.get(attempt.form)?))
}

fn default_of(served: &Served, scalar: &str) -> Option<Value> {
    let found = served.op.scalars.iter().find(|one| one.name.value.as_str() == scalar)?;
    serde_json::to_value(found.default.value).ok()
}

/// Why an attempt is no match; nothing when it is one.
fn reasons(report: &Report, attempt: &Attempt, facts: &Facts, served: &Served, form: &Form) -> Vec<Reason> {
    let mut found: Vec<String> = Vec::new();
    if let Some(problem) = facts.problems.first() {
        found.push(format!("a call fails: {problem}"));
    }
    let far = facts.proof.iter().filter(|proof| proof.deviation.is_nan() || proof.deviation > NEAR);
    if let Some(worst) = far.max_by(|one, other| one.deviation.total_cmp(&other.deviation)) {
        found.push(differs(worst.deviation, &worst.drawn));
    }
    let passes: BTreeSet<usize> = facts.proof.iter().map(|proof| proof.pass).collect();
    if passes.len() < PASSES {
        found.push(format!("it was compared at only {} sets of lengths", passes.len()));
    }
    if !facts.places.as_ref().is_some_and(|places| places.contains(&0)) {
        found.push("it does not return the operation's first result".to_owned());
    }
    for name in &facts.written_to {
        let argument = attempt.order.iter().position(|slot| slot == name);
        let input = argument.and_then(|place| form.arguments.get(place));
        let overwrites = |input: &String| {
            let mut outputs = served.op.outputs.iter().filter_map(|output| output.inplace.as_ref());
            outputs.any(|inplace| inplace.value.as_str() == input)
        };
        if !input.is_some_and(overwrites) {
            found.push(format!("it writes into `{name}`, but the kernel does not"));
        }
    }
    found.extend(in_graph(facts));
    let mut found: Vec<Reason> = found.into_iter().map(Reason::from).collect();
    match &facts.effects {
        Some(effects) => found.extend(effects.reasons(&report.name, &facts.written_to)),
        None => found.push("its side effects cannot be compared".to_owned().into()),
    }
    found
}

/// Reasons in the graph against a match.
fn in_graph(facts: &Facts) -> Vec<String> {
    let Some(graph) = &facts.graph else {
        return vec!["torch.export makes no graph of it".to_owned()];
    };
    let mut found = Vec::new();
    if !facts.graphs_alike {
        found.push("its operators differ between lengths".to_owned());
    }
    if !facts.constants_alike {
        found.push("one of its constants depends on the dtype (perhaps a default eps)".to_owned());
    }
    if !facts.operators_alike {
        found.push("its operators differ between dtypes".to_owned());
    }
    let (decides, unknown) = ops::decisions(graph);
    let known = ops::computes(facts.template_ops.iter().map(String::as_str));
    for name in unknown {
        found.push(format!("it uses the operator `{name}`, which Kernelwright cannot compare"));
    }
    let casts = facts.template_ops.iter().any(|op| op == "_to_copy.default");
    for name in decides.difference(&known).filter(|name| !(casts && *name == "round")) {
        found.push(format!("it has {}, but the template's reference does not", in_words(name)));
    }
    found
}

fn differs(deviation: f64, drawn: &str) -> String {
    if deviation >= 1e299 {
        return format!(
            "on inputs drawn `{drawn}` a result cannot be compared (another shape or dtype, or not finite)"
        );
    }
    let share = percent(deviation);
    format!("on inputs drawn `{drawn}` results differ by up to {share} of the row's largest value")
}

/// What decides, for people.
fn in_words(name: &str) -> String {
    match name {
        "round" => "a rounding (`round`, or a cast to integers)".to_owned(),
        "narrow" => "a cast to a narrower dtype, whatever its input has".to_owned(),
        "compare" => "a comparison".to_owned(),
        "gather" => "indexing by a tensor".to_owned(),
        "clamp" => "`clamp` (or relu)".to_owned(),
        other => format!("`{other}`"),
    }
}

fn fit(report: &Report, attempt: &Attempt, served: &Served, form: &Form, facts: &Facts) -> Fit {
    let outputs: Vec<String> = match &form.results {
        Some(results) => results.clone(),
        None => served.op.outputs.iter().map(|output| output.tensor.name.value.to_string()).collect(),
    };
    let places = facts.places.clone().unwrap_or_default();
    let mut notes = Vec::new();
    notes.extend(form.remains.iter().map(|remains| format!("left to you: {remains}")));
    let more: Vec<&str> = outputs
        .iter()
        .enumerate()
        .filter(|(place, _)| !places.contains(place))
        .map(|(_, name)| name.as_str())
        .collect();
    if !more.is_empty() {
        notes.push(format!("the kernel also returns: {}", more.join(", ")));
    }
    if places.iter().enumerate().any(|(place, is)| place != *is && places.len() > 1) {
        notes.push(format!("the kernel returns in the order {}", outputs.join(", ")));
    }
    if attempt.split {
        notes.push("your inputs have two leading axes where the operation has one".to_owned());
    } else if !facts.other_rank {
        notes.push(
            "with another leading axis, your function computes something else; the kernel is for these shapes"
                .to_owned(),
        );
    }
    let hard: Vec<&str> =
        facts.hard.iter().filter(|(_, same)| !**same).map(|(kind, _)| kind.as_str()).collect();
    if !hard.is_empty() {
        let list = hard.join(", ");
        notes.push(format!(
            "your function and the kernel give different results on these kinds of inputs: {list}"
        ));
    }
    notes.extend(facts.effects.iter().flat_map(|effects| effects.notes(served, form, outputs.len())));
    let defaults = attempt.numbers.iter().filter_map(|(name, (origin, value))| {
        let value = match origin {
            Origin::Is => Some(value.clone()),
            Origin::From => {
                let own = report.parameters.iter().find(|one| Some(one.name.as_str()) == value.as_str());
                own.and_then(|own| own.value.clone())
            }
        }?;
        (default_of(served, name).as_ref() != Some(&value)).then(|| (name.clone(), value))
    });
    Fit {
        template: attempt.template.clone(),
        form: form.as_words.clone(),
        arguments: attempt.order.iter().cloned().zip(form.arguments.iter().cloned()).collect(),
        defaults: defaults.filter(|(name, _)| !form.scalars.contains_key(name)).collect(),
        deviation: facts.proof.iter().map(|proof| proof.deviation).fold(0.0, f64::max),
        sets: facts.proof.len(),
        notes,
        keeps_template: keeps_template(report, attempt, served, form, facts, &places, outputs.len()),
    }
}

/// Why the person's function cannot be the reference that the kernel is verified against.
fn keeps_template(
    report: &Report,
    attempt: &Attempt,
    served: &Served,
    form: &Form,
    facts: &Facts,
    places: &[usize],
    outputs: usize,
) -> Option<String> {
    let tensors = report.parameters.iter().filter(|one| one.kind == "tensor").take(attempt.order.len());
    let signature = tensors.map(|one| &one.name).eq(attempt.order.iter());
    let leads = report.parameters.iter().take(attempt.order.len()).all(|one| one.kind == "tensor");
    let by_name = |(name, (origin, value)): (&String, &(Origin, Value))| {
        *origin == Origin::From && value.as_str() == Some(name.as_str())
    };
    let why = if report.module {
        "your reference is a module"
    } else if form.as_words.is_some() || !form.without.is_empty() || attempt.split || !signature || !leads {
        "your function takes its tensors in another form or order"
    } else if !attempt.numbers.iter().all(by_name) {
        "your function does not use the operation's names for the scalars"
    } else if !places.iter().copied().eq(0..outputs) {
        "your function does not return the operation's results in order"
    } else if !facts.written_to.is_empty() {
        "your function writes into its arguments"
    } else if !facts.float64_stays {
        "your function does not compute in float64 on float64 tensors"
    } else if !facts.effects.as_ref().is_some_and(|effects| effects.dtypes.is_empty()) {
        "your function returns other dtypes"
    } else if facts.effects.as_ref().is_some_and(|effects| !effects.failing.is_empty()) {
        "your function fails for a dtype of the kernel"
    } else if !facts.hard.values().all(|same| *same) {
        "your function differs on hard inputs"
    } else if served.op.gradient.as_ref().is_some_and(|gradient| gradient.function.is_some()) {
        "the template's file also has the exact gradients"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// The operators of a graph, in order, each once, without what only moves values.
fn names_of(graph: &Graph) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for node in &graph.nodes {
        let name = ops::base(&node.op).to_owned();
        if ops::named(&name).0 != ops::Class::Move && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Why nothing serves it, with the nearest template: by a proof that failed, else by operators and deviation.
fn unfit(report: &Report, served: &[Served]) -> Unfit {
    let proven = report.attempts.iter().filter_map(|attempt| {
        let facts = attempt.facts.as_ref()?;
        let (served, form) = place(attempt, served)?;
        Some((attempt, facts, reasons(report, attempt, facts, served, form)))
    });
    if let Some((attempt, facts, reasons)) = proven.min_by(|one, other| {
        let worst = |facts: &Facts| facts.proof.iter().map(|proof| proof.deviation).fold(0.0, f64::max);
        one.2.len().cmp(&other.2.len()).then(worst(one.1).total_cmp(&worst(other.1)))
    }) {
        let ops = facts.graph.as_ref().map(names_of).unwrap_or_default();
        let why = reasons.iter().map(|reason| reason.what.as_str()).collect::<Vec<_>>().join("; ");
        // Only where that is all that is in the way.
        let steps: BTreeSet<_> = reasons.iter().map(|reason| reason.step.clone()).collect();
        let step = steps.into_iter().collect::<Option<Vec<_>>>().map(|steps| steps.join(" "));
        return Unfit { ops, nearest: Some(attempt.template.clone()), why, step };
    }
    let ops = report.graph.as_ref().map(names_of).unwrap_or_default();
    let own = ops::computes(ops.iter().map(String::as_str));
    let nearness = |name: &str| {
        let theirs = report.template_ops.get(name).map(|ops| ops::computes(ops.iter().map(String::as_str)));
        let theirs = theirs.unwrap_or_default();
        let both = own.intersection(&theirs).count() as f64;
        both / (own.union(&theirs).count() as f64).max(1.0)
    };
    let ran = |name: &str| {
        let tries = report.attempts.iter().filter(|attempt| attempt.template == name);
        let best = tries.clone().filter_map(|attempt| attempt.deviation).min_by(f64::total_cmp);
        (best, tries.filter_map(|attempt| attempt.error.clone()).next())
    };
    // Operators are not looked at where there is a translation; then a template is near that was called with the inputs.
    let is_compared = !report.template_ops.is_empty();
    // A template that was called with the inputs is nearer than one whose inputs are others.
    let names = served.iter().map(|served| served.template.name.as_str());
    let names = names.filter(|name| if is_compared { nearness(name) > 0.0 } else { ran(name).0.is_some() });
    let nearest = names.max_by(|one, other| {
        let deviation = |name| ran(name).0.unwrap_or(f64::INFINITY);
        let was_called = |name| ran(name).0.is_some();
        let called = was_called(one).cmp(&was_called(other));
        called
            .then(nearness(one).total_cmp(&nearness(other)))
            .then(deviation(other).total_cmp(&deviation(one)))
    });
    let why = match (nearest.map(ran), &report.error) {
        (Some((Some(deviation), _)), _) => differs(deviation, "normal"),
        (Some((None, Some(error))), _) => error,
        (_, Some(error)) => format!("tracing it with simple inputs failed: {error}"),
        _ if is_compared => "no template has these operators".to_owned(),
        _ => "no template takes these arguments".to_owned(),
    };
    Unfit { ops, nearest: nearest.map(str::to_owned), why, step: None }
}
