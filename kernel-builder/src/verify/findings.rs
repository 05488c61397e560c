//! Turns faults and endings into the results that people read.
//!
//! Owns: codes, sentences, the order of refusals. Never: reads a dump.

use std::path::Path;

use kernel_plan::spec::op::Case;
use serde_json::{Value, json};

use super::compare::{Agreement, Element, Fault};
use super::evidence::{CheckResult, Outcome};
use super::reference::ReferenceFile;
use super::run::Run;
use super::schedule::{Form, Purpose, ScheduledCase, Trial};
use crate::base::process::Ending;
use crate::base::report;

/// How many things a sentence names.
const NAMED: usize = 3;

/// The first of several things, and how many more there are: `a, b, c and 2 more`.
pub(super) fn first_few(things: &[String]) -> String {
    match things.len().saturating_sub(NAMED) {
        0 => things.join(", "),
        more => format!("{} and {more} more", things[..NAMED].join(", ")),
    }
}

/// The checks that one run of the candidate decides: name, and the codes that it is refused with.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "calls",
        &[
            "verify::no_result",
            "verify::crash",
            "verify::hang",
            "verify::memory",
            "verify::raised",
            "verify::malformed",
            "verify::tampered",
            "verify::settings",
            "verify::stream",
            "verify::network",
            "verify::launch",
        ],
    ),
    ("guard bands", &["verify::guard"]),
    ("inputs unchanged", &["verify::input_changed"]),
    ("outputs written", &["verify::unwritten"]),
    ("numerics", &["verify::numerics"]),
    ("sensitivity", &["verify::insensitive"]),
    ("fresh results", &["verify::fresh", "verify::replayed", STATE]),
    (GRADIENT, &["verify::gradient"]),
];

/// The check that is made only where op.toml has `[gradient]`.
const GRADIENT: &str = "gradient";

/// The code of results that are wrong once kept memory is scrambled.
const STATE: &str = "verify::state";

/// One thing that is wrong.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    /// Place of the case.
    pub case: usize,
    /// The trial's number.
    pub trial: usize,
    code: &'static str,
    summary: String,
    facts: Value,
    /// For faults in values: what a dependence on earlier calls would be called.
    history: Option<&'static str>,
    /// For faults in values: the argument that was changed, when the outputs are those from before the change.
    unmoved: Option<String>,
}

/// What can be said when nothing is wrong.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub cases: usize,
    pub calls: usize,
    pub seed: u64,
    pub of_bound: f64,
    pub of_bound_case: String,
    pub relative: f64,
    pub gradient_of_bound: f64,
    pub held_out: usize,
    /// `None` where PyTorch has no result in the real dtype.
    pub eager_of_bound: Option<f64>,
    /// Why not.
    pub no_eager: Option<String>,
    /// The first case whose outputs differ between two calls with the same inputs.
    pub nondeterministic: Option<String>,
}

impl Summary {
    /// Takes what was seen of one more case.
    pub(crate) fn take(&mut self, case: Self) {
        if case.of_bound > self.of_bound {
            self.of_bound = case.of_bound;
            self.of_bound_case = case.of_bound_case;
        }
        self.relative = self.relative.max(case.relative);
        self.gradient_of_bound = self.gradient_of_bound.max(case.gradient_of_bound);
        self.eager_of_bound = match (self.eager_of_bound, case.eager_of_bound) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        };
        self.nondeterministic = self.nondeterministic.take().or(case.nondeterministic);
    }

    pub(crate) fn note_error(&mut self, case: &str, form: Form, agreement: &Agreement) {
        if form == Form::Gradient {
            self.gradient_of_bound = self.gradient_of_bound.max(agreement.of_bound);
            return;
        }
        if agreement.of_bound > self.of_bound {
            self.of_bound = agreement.of_bound;
            self.of_bound_case = case.to_owned();
        }
        self.relative = self.relative.max(agreement.relative);
    }
}

impl Finding {
    fn new(case: &ScheduledCase, trial: &Trial, code: &'static str, text: &str, facts: Value) -> Self {
        let kind = if case.drawn { "drawn lengths" } else { "workload" };
        let summary = format!("{kind} `{}`, {}: {text}", case.id, trial.purpose.words());
        Self { case: case.place, trial: trial.id, code, summary, facts, history: None, unmoved: None }
    }

    /// The call raised, or returned something of a wrong form.
    pub(crate) fn complaint(case: &ScheduledCase, trial: &Trial, code: &'static str, text: &str) -> Self {
        let facts = json!({ "workload": case.id, "trial": trial.id });
        let text = match code {
            "verify::raised" => format!("the call raised {text}"),
            "verify::malformed" => format!("the call {text}"),
            _ => text.to_owned(),
        };
        let of_the_call = matches!(code, "verify::raised" | "verify::malformed");
        let code = if of_the_call && trial.form == Form::Gradient { "verify::gradient" } else { code };
        Self::new(case, trial, code, &text, facts)
    }

    /// The process says that it is done, and a trial has no dump.
    pub(crate) fn missing(case: &ScheduledCase, trial: &Trial) -> Self {
        let facts = json!({ "workload": case.id, "trial": trial.id });
        let text = "the process reported that all calls were made, but left no result of this one";
        Self::new(case, trial, "verify::tampered", text, facts)
    }

    /// A file of the judge was changed.
    pub(crate) fn tampered(case: &ScheduledCase, trial: &Trial) -> Self {
        let facts = json!({ "workload": case.id, "trial": trial.id });
        Self::new(
            case,
            trial,
            "verify::tampered",
            "the candidate's process changed a file of the judge",
            facts,
        )
    }

    /// A dump that is not as it must be. `same_as` is the set of an earlier trial with the same output bytes.
    pub(crate) fn fault(
        case: &ScheduledCase,
        trial: &Trial,
        fault: &Fault,
        same_as: Option<usize>,
        spec: &Case,
    ) -> Self {
        let dtype = |name: &str| {
            let gradients = case.gradients.iter().map(|gradient| &gradient.tensor);
            case.inputs
                .iter()
                .chain(&case.outputs)
                .chain(gradients)
                .filter(|tensor| tensor.name == name)
                .map(|tensor| tensor.dtype.as_str())
                .next()
                .unwrap_or("")
        };
        let place = json!({ "workload": case.id, "trial": trial.id, "purpose": trial.purpose });
        let with = |more: Value| merged(&place, more);
        match fault {
            Fault::Truncated { length, expected } => {
                let text = format!("the harness left {length} bytes in place of {expected}");
                Self::new(case, trial, "verify::no_result", &text, place)
            }
            Fault::Guard { tensor, bytes_away, after } => {
                let side = if *after { "after the end of" } else { "before the start of" };
                let text = format!("memory {bytes_away} bytes {side} `{tensor}` was written");
                let facts = with(json!({ "tensor": tensor, "bytes_away": bytes_away, "after": after }));
                Self::new(case, trial, "verify::guard", &text, facts)
            }
            Fault::Gap { tensor, byte } => {
                let text = format!(
                    "memory between the elements of `{tensor}` was written, {byte} bytes from its start"
                );
                let facts = with(json!({ "tensor": tensor, "byte": byte }));
                Self::new(case, trial, "verify::guard", &text, facts)
            }
            Fault::InputChanged { tensor, element, was } => {
                let text =
                    format!("the input {} was {was} and is now {}", named(tensor, element), element.value);
                let facts = with(json!({ "tensor": tensor, "index": element.index }));
                Self::new(case, trial, "verify::input_changed", &text, facts)
            }
            Fault::Unwritten { tensor, element, count } => {
                let text = format!(
                    "{} still holds what was there before the call ({count} such element{})",
                    named(tensor, element),
                    if *count == 1 { "" } else { "s" },
                );
                let facts = with(json!({ "tensor": tensor, "index": element.index, "count": count }));
                let finding = Self::new(case, trial, "verify::unwritten", &text, facts);
                let scrambled = trial.purpose == Purpose::Scrambled;
                Self { history: Some(if scrambled { STATE } else { "verify::fresh" }), ..finding }
            }
            Fault::Wrong { tensor, element, exact, allowed, count, elements } => {
                let text = format!(
                    "{} ({}) is {}, expected {} +- {} after {} accumulated terms; {count} of {elements} elements are off",
                    named(tensor, element),
                    dtype(tensor),
                    number(element.value),
                    number(*exact),
                    number(*allowed),
                    spec.accumulated,
                );
                let facts = with(json!({
                    "tensor": tensor, "dtype": dtype(tensor), "index": element.index, "count": count,
                    "got": number(element.value), "expected": number(*exact), "bound": number(*allowed),
                }));
                if trial.form == Form::Gradient {
                    return Self::new(case, trial, "verify::gradient", &text, facts);
                }
                let history = match (trial.purpose, same_as) {
                    (Purpose::Scrambled, _) => STATE,
                    (_, Some(_)) => "verify::replayed",
                    (_, None) => "verify::fresh",
                };
                let finding = Self::new(case, trial, "verify::numerics", &text, facts);
                let set = &case.sets[trial.set];
                let unmoved = match same_as {
                    Some(source) if set.edit_of == Some(source) => {
                        let input = set.edit_input.map(|place| case.inputs[place].name.clone());
                        set.changed_scalar.clone().or(input)
                    }
                    _ => None,
                };
                Self { history: Some(history), unmoved, ..finding }
            }
        }
    }

    /// Says how to draw the same lengths again.
    pub(crate) fn repeat_with(&mut self, seed: u64) {
        self.summary.push_str(&format!("; repeat with `--seed {seed}`"));
        self.facts = merged(&self.facts, json!({ "seed": seed }));
    }

    /// Whether the fault lies in the outputs' values, so that earlier calls could be the cause.
    pub(crate) fn is_value(&self) -> bool {
        self.history.is_some()
    }

    /// Settles the code of a fault in values by whether the same call is right in a new process.
    pub(crate) fn depends_on_history(&mut self, right_alone: bool) {
        match self.history {
            Some(code) if right_alone => {
                self.code = code;
                let reason = match code {
                    "verify::replayed" => "the result is that of other inputs, seen before",
                    STATE => "the result depends on memory that the package keeps between calls",
                    _ => "the result depends on how often the kernel was called before",
                };
                self.summary = format!("{}; the same call is right in a new process: {reason}", self.summary);
            }
            _ => {
                if let Some(argument) = &self.unmoved {
                    self.code = "verify::insensitive";
                    self.summary = format!("{}; the output did not change with `{argument}`", self.summary);
                }
            }
        }
    }
}

/// The results of one run, refusals first, the earliest of them at the head.
pub(crate) fn results(
    schedule: &[ScheduledCase],
    run: &Run,
    mut found: Vec<Finding>,
    summary: &Summary,
) -> Vec<CheckResult> {
    let trials: usize = schedule.iter().map(|case| case.trials.len()).sum();
    if let Some(finding) = ending(schedule, run, trials) {
        found.push(finding);
    }
    // Stable: of findings in one trial, the one found first stays first.
    found.sort_by_key(|finding| finding.trial);
    let complete = run.ended.done;
    let differentiates = schedule.iter().any(|case| !case.gradients.is_empty());
    let mut results: Vec<(usize, CheckResult)> = GROUPS
        .iter()
        .filter(|(name, _)| *name != GRADIENT || differentiates)
        .map(|(name, codes)| {
            let mut own = found.iter().filter(|finding| codes.contains(&finding.code));
            let Some(first) = own.next() else {
                let (outcome, text) = match complete {
                    true => (Outcome::Passed, passed(name, summary)),
                    false => (Outcome::Skipped, "the run ended early".to_owned()),
                };
                return (usize::MAX, CheckResult::new(name, codes[0], outcome, text, facts(name, summary)));
            };
            let more = own.count();
            let text = match more {
                0 => first.summary.clone(),
                _ => format!("{}; {more} more of the kind", first.summary),
            };
            (first.trial, CheckResult::new(name, first.code, Outcome::Refused, text, first.facts.clone()))
        })
        .collect();
    results.sort_by_key(|(trial, _)| *trial);
    let mut results: Vec<_> = results.into_iter().map(|(_, result)| result).collect();
    if complete {
        results.push(determinism(summary));
    }
    results
}

/// What the way in which the process ended says.
fn ending(schedule: &[ScheduledCase], run: &Run, trials: usize) -> Option<Finding> {
    let all = run.finished + run.complaints.len() == trials;
    if run.stopped {
        return None;
    }
    if run.ended.done && run.ended.process.ending.success() && run.ended.forged == 0 && all {
        return None;
    }
    let ending = run.ended.process.ending;
    let (code, text) = match ending {
        Ending::Signal(_) => ("verify::crash", format!("the process {ending}")),
        Ending::Deadline => ("verify::hang", "the call did not return before the deadline".to_owned()),
        Ending::MemoryLimit => ("verify::memory", "the process used more memory than allowed".to_owned()),
        Ending::OutputLimit => ("verify::no_result", "the process printed more than allowed".to_owned()),
        Ending::Exit(_) if run.ended.forged > 0 => {
            ("verify::tampered", "something other than the harness wrote to the judge's channel".to_owned())
        }
        Ending::Exit(code) => {
            ("verify::no_result", format!("the process returned {code} before all calls were made"))
        }
    };
    let said = run.ended.last_words();
    let facts = json!({ "ending": ending.to_string(), "said": said });
    let begun = run.begun.unwrap_or(0);
    let place = schedule
        .iter()
        .find_map(|case| case.trials.iter().find(|trial| trial.id == begun).map(|trial| (case, trial)));
    place.map(|(case, trial)| match (trial.input, ending) {
        (Some(input), Ending::Signal(_)) if trial.purpose == Purpose::ReadOnly => {
            let name = &case.inputs[input].name;
            let text = format!("the call wrote to the input `{name}`, which was read-only: {text}");
            Finding::new(case, trial, "verify::input_changed", &text, facts)
        }
        _ => Finding::new(case, trial, code, &text, facts),
    })
}

/// Reports memory that the package keeps between calls.
pub(super) fn keeps_memory(run: &Run) -> Option<CheckResult> {
    let bytes = run.kept;
    (bytes > 0).then(|| {
        let text = format!("the package keeps {} of tensors between calls", report::bytes(bytes as u64));
        let facts = json!({ "bytes": bytes });
        CheckResult::new("kept memory", "verify::keeps_memory", Outcome::Warned, text, facts)
    })
}

/// A refusal if the file of the reference is not what it was before the first check.
pub(super) fn changed_reference(reference: &ReferenceFile) -> Option<CheckResult> {
    (!reference.is_unchanged()).then(|| {
        let file = reference.path().display().to_string();
        let text = format!("`{file}` changed while the kernel was verified; if you edited it, verify again");
        CheckResult::new("reference", "verify::tampered", Outcome::Refused, text, json!({ "file": file }))
    })
}

/// Says so where the candidate's process opened the reference: what it returns may be the reference's own.
pub(super) fn fallback(run: &Run, reference: &Path) -> Option<CheckResult> {
    // As the process names it: without symbolic links.
    let real = reference.canonicalize().unwrap_or_else(|_| reference.to_owned()).display().to_string();
    let opened = run.ended.opened.contains(&real);
    opened.then(|| {
        let text =
            "the package opened the reference's file: what it returns may be the reference's own result";
        CheckResult::new("fallback", "verify::falls_back", Outcome::Warned, text, json!({ "opened": real }))
    })
}

fn passed(name: &str, summary: &Summary) -> String {
    match name {
        "calls" => {
            let held_out = match summary.held_out {
                0 => String::new(),
                count => format!(", {count} of them held out"),
            };
            format!("{} calls in {} cases{held_out}", summary.calls, summary.cases)
        }
        "numerics" => {
            let eager = match (summary.eager_of_bound, &summary.no_eager) {
                (Some(share), None) => format!(" (PyTorch eager: {share:.2})"),
                (Some(share), Some(reason)) => {
                    format!(" (PyTorch eager, where it runs: {share:.2}; else {reason})")
                }
                (None, Some(reason)) => format!(" (no PyTorch eager: {reason})"),
                (None, None) => String::new(),
            };
            format!("largest error {:.2} of the bound{eager}", summary.of_bound)
        }
        GRADIENT => format!("largest error {:.2} of the bound", summary.gradient_of_bound),
        "guard bands" => "nothing outside of the tensors was written".to_owned(),
        "inputs unchanged" => "no input was written that is not an output".to_owned(),
        "outputs written" => "every element was written, over two poisons".to_owned(),
        "sensitivity" => "outputs follow every changed element and scalar".to_owned(),
        _ => "new values, new addresses and many calls give new results".to_owned(),
    }
}

fn facts(name: &str, summary: &Summary) -> Value {
    match name {
        "calls" => json!({
            "cases": summary.cases, "calls": summary.calls, "held_out": summary.held_out, "seed": summary.seed,
        }),
        "numerics" => json!({
            "of_bound": summary.of_bound, "workload": summary.of_bound_case, "relative": summary.relative,
            "eager_of_bound": summary.eager_of_bound, "no_eager": summary.no_eager,
        }),
        GRADIENT => json!({ "of_bound": summary.gradient_of_bound }),
        _ => json!({}),
    }
}

fn determinism(summary: &Summary) -> CheckResult {
    let (outcome, text) = match &summary.nondeterministic {
        None => (Outcome::Passed, "equal calls give equal bits".to_owned()),
        Some(case) => (Outcome::Warned, format!("equal calls give different bits, first on `{case}`")),
    };
    CheckResult::new(
        "determinism",
        "verify::determinism",
        outcome,
        text,
        json!({ "workload": summary.nondeterministic }),
    )
}

fn named(tensor: &str, element: &Element) -> String {
    let index: Vec<_> = element.index.iter().map(u64::to_string).collect();
    format!("{tensor}[{}]", index.join(", "))
}

/// Six digits, as many as tell two neighbours in half precision apart; NaN and infinities by name.
fn number(value: f64) -> String {
    match value.abs() {
        size if size == 0.0 || (1e-4..1e6).contains(&size) => {
            let digits = (5 - size.max(1.0).log10().floor() as i32).max(0) as usize;
            let text = format!("{value:.*}", if size < 1.0 && size > 0.0 { 8 } else { digits });
            if text.contains('.') {
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            } else {
                text
            }
        }
        size if size.is_finite() => format!("{value:.4e}"),
        _ => value.to_string(),
    }
}

fn merged(base: &Value, more: Value) -> Value {
    let mut merged = base.clone();
    if let (Value::Object(into), Value::Object(from)) = (&mut merged, more) {
        into.extend(from);
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(number(0.0), "0");
        assert_eq!(number(0.53125), "0.53125");
        assert_eq!(number(-203.25), "-203.25");
        assert_eq!(number(1.5e16), "1.5000e16");
        assert_eq!(number(123_450.0), "123450");
        assert_eq!(number(f64::NAN), "NaN");
    }
}
