//! The matcher on reports that harness/trace.py made of tests/tracing; no Python is needed.

use std::path::Path;

use serde_json::{Value, json};

use super::fit::{Fit, Unfit, judge};
use super::report::Report;
use super::serves::{self, Served};
use super::template;
use crate::base::files;

/// A change of what was seen.
type Edit<'e> = &'e dyn Fn(&mut Value);

fn served() -> Vec<Served> {
    let traced = template::all().unwrap().into_iter().filter(|template| template.traced);
    traced.map(|template| serves::served(template).unwrap()).collect()
}

/// A recorded report.
fn recorded(case: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tracing/recorded.jsonl");
    let text = files::read_text(&path).unwrap();
    let mut reports = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    reports.find(|report| report["case"] == case).unwrap_or_else(|| panic!("`{case}` is not recorded"))
}

fn judged(report: Value) -> Result<Fit, Unfit> {
    let report: Report = serde_json::from_value(report).unwrap();
    judge(&report, &served())
}

#[track_caller]
fn fits(case: &str, template: &str) -> Fit {
    let fit = judged(recorded(case)).unwrap();
    assert_eq!(fit.template, template, "{case}");
    fit
}

#[track_caller]
fn refused(report: Value, nearest: Option<&str>, why: &str) {
    let unfit = judged(report).unwrap_err();
    assert_eq!(unfit.nearest.as_deref(), nearest, "{}", unfit.why);
    assert!(unfit.why.contains(why), "{}", unfit.why);
}

#[test]
fn what_people_write_is_recognised() {
    let fit = fits("norms/llama", "rms-norm");
    assert_eq!(fit.defaults.get("eps"), Some(&json!(1e-5)));
    assert!(fit.keeps_template.unwrap().contains("names for the scalars"));
    let fit = fits("norms/by_sum", "rms-norm");
    let names: Vec<_> =
        fit.arguments.iter().map(|(own, argument)| (own.as_str(), argument.as_str())).collect();
    assert_eq!((names, fit.defaults.get("eps")), (vec![("x", "input"), ("w", "weight")], Some(&json!(1e-5))));
    assert_eq!(
        fits("norms/LlamaRMSNorm", "rms-norm").keeps_template.as_deref(),
        Some("your reference is a module")
    );
    fits("norms/modulated", "adaln");
    fits("rows/soft", "softmax");
    fits("rows/losses", "cross-entropy");
    assert_eq!(fits("rows/means", "row-sum").defaults.get("mean"), Some(&json!(true)));
    assert!(fits("gates/chunks", "swiglu").form.unwrap().contains("in each row the gates"));
    assert!(fits("gates/gelu_by_hand", "geglu").form.unwrap().contains("two tensors"));
    assert!(fits("gates/transformers", "rope").form.unwrap().contains("transformers"));
}

#[test]
fn the_persons_function_is_the_reference_where_it_can_be() {
    assert_eq!(fits("norms/own", "rms-norm").keeps_template, None);
    let fit = fits("rows/soft_unsafe", "softmax");
    assert_eq!(fit.keeps_template.as_deref(), Some("your function differs on hard inputs"));
    assert!(fit.notes.iter().any(|note| note.contains("huge")), "{:?}", fit.notes);
}

#[test]
fn what_the_kernel_does_not_do_is_said() {
    let fit = fits("rows/mean_loss", "cross-entropy");
    assert!(
        fit.notes.contains(&"left to you: the mean over the rows that count".to_owned()),
        "{:?}",
        fit.notes
    );
    let fit = fits("rows/losses", "cross-entropy");
    assert!(fit.notes.contains(&"the kernel also returns: lse".to_owned()), "{:?}", fit.notes);
    assert!(fits("gates/one", "rope").notes[0].contains("the other tensor"));
    // The operation overwrites the residual, too.
    fits("norms/added_in_place", "add-rms-norm");
}

#[test]
fn what_only_looks_like_it_is_refused() {
    for (case, nearest, why) in [
        ("norms/eps_outside", "rms-norm", "drawn `tiny` results differ"),
        ("norms/eps_of_the_dtype", "rms-norm", "depends on the dtype"),
        ("norms/rounded", "rms-norm", "a cast to a narrower dtype"),
        ("norms/clamped", "rms-norm", "`clamp`"),
        ("norms/writes", "rms-norm", "it writes into `x`"),
        ("norms/only_short", "rms-norm", "operators differ between lengths"),
        ("norms/Gemma", "rms-norm", "results differ"),
        ("norms/unbiased", "layer-norm", "results differ"),
        ("rows/over_columns", "softmax", "results differ"),
        ("rows/clamped", "softmax", "`clamp`"),
        ("gates/backwards", "rope", "results differ"),
    ] {
        refused(recorded(case), Some(nearest), why);
    }
    let unfit = judged(recorded("rows/total")).unwrap_err();
    assert_eq!(unfit.ops, ["sum"]);
    assert!(unfit.why.contains("shape"), "{}", unfit.why);
}

#[test]
fn each_part_of_the_proof_is_needed() {
    let attempt = |report: &Value| {
        let attempts = report["attempts"].as_array().unwrap();
        attempts.iter().position(|attempt| attempt.get("facts").is_some()).unwrap()
    };
    let changed = |edit: Edit<'_>| {
        let mut report = recorded("rows/soft");
        let place = attempt(&report);
        edit(&mut report["attempts"][place]["facts"]);
        report
    };
    assert!(judged(changed(&|_| {})).is_ok());
    let edits: [(Edit<'_>, &str); 23] = [
        (&|facts| facts["proof"][31]["deviation"] = json!(1e-6), "results differ"),
        (
            &|facts| facts["proof"] = json!([{ "pass": 0, "drawn": "normal", "deviation": 0.0 }]),
            "1 sets of lengths",
        ),
        (&|facts| facts["proof"] = json!([]), "0 sets of lengths"),
        (&|facts| facts["graph"] = Value::Null, "no graph"),
        (&|facts| facts["graphs_alike"] = json!(false), "differ between lengths"),
        (&|facts| facts["constants_alike"] = json!(false), "depends on the dtype"),
        (&|facts| facts["operators_alike"] = json!(false), "operators differ between dtypes"),
        (&|facts| facts["effects"] = Value::Null, "its side effects cannot be compared"),
        (
            &|facts| {
                facts["effects"]["parameters"] = left("only", false);
                facts["effects"]["parameters"][0]["buffer"] = json!(true);
            },
            "calls fail with other values of the buffer `gain`",
        ),
        (&|facts| facts["places"] = Value::Null, "first result"),
        (&|facts| facts["problems"] = json!(["boom"]), "a call fails: boom"),
        (
            &|facts| facts["graph"]["nodes"][0]["op"] = json!("frobnicate.default"),
            "it uses the operator `frobnicate`, which Kernelwright cannot compare",
        ),
        (
            &|facts| facts["effects"]["dtypes"] = json!([[0, "bfloat16", "float32", "bfloat16"]]),
            "for bfloat16 its result 1 is float32",
        ),
        (&|facts| facts["effects"]["parameters"] = left("changes", false), "`gain=2.0` gives another result"),
        (
            &|facts| facts["effects"]["parameters"] = left("unknown", false),
            "the effect of other values is not known",
        ),
        (&|facts| facts["effects"]["parameters"] = left("passed-on", false), "it passes `gain` on"),
        (
            &|facts| {
                facts["effects"]["overwrites"] = json!([{ "slot": "x", "input": "input", "alike": false }])
            },
            "the kernel overwrites `x`",
        ),
        (
            &|facts| facts["effects"]["aliases"] = json!([{ "result": 0, "slot": "x", "own": true }]),
            "result 1 is a view of `x`",
        ),
        (
            &|facts| facts["effects"]["aliases"] = json!([{ "result": 0, "slot": "x", "own": false }]),
            "the kernel returns `x` as result 1",
        ),
        (&|facts| facts["effects"]["shared_results"] = json!([[0, 1]]), "results 1 and 2 share memory"),
        (
            &|facts| facts["effects"]["gradients"]["differs"] = json!([{ "slots": ["x"], "deviation": 0.5 }]),
            "the gradient of `x` differs from the kernel's by 50%",
        ),
        (&|facts| facts["effects"]["training"] = json!(false), "in training mode"),
        (&|facts| facts["effects"]["written_state"] = json!(["calls"]), "changes the `calls`"),
    ];
    for (edit, why) in edits {
        refused(changed(edit), Some("softmax"), why);
    }
}

/// A parameter that the kernel does not have.
fn left(effect: &str, pinned: bool) -> Value {
    json!([{
        "name": "gain", "effect": effect, "buffer": false, "value": "1.0", "pinned": pinned, "other": "2.0"
    }])
}

#[test]
fn a_parameter_without_effect_or_with_a_given_value_is_told() {
    for (effect, pinned, note) in [
        ("unread", false, "`gain` has no effect: your function does not read it"),
        ("idle", false, "no tested value of `gain` has an effect"),
        ("only", false, "the tested values of `gain` fail or have no effect"),
        ("changes", true, "the kernel is only for `gain` = 1.0 from `example_inputs()`"),
    ] {
        let mut report = recorded("rows/soft");
        let attempts = report["attempts"].as_array_mut().unwrap();
        let near = attempts.iter_mut().find(|attempt| attempt.get("facts").is_some()).unwrap();
        near["facts"]["effects"]["parameters"] = left(effect, pinned);
        let fit = judged(report).unwrap();
        assert!(fit.notes.iter().any(|told| told.contains(note)), "{effect}: {:?}", fit.notes);
    }
}

#[test]
fn a_parameter_that_no_template_takes_is_refused_with_what_to_do() {
    let unfit = judged(recorded("observed/tempered")).unwrap_err();
    assert_eq!(unfit.nearest.as_deref(), Some("rms-norm"));
    let step = unfit.step.unwrap();
    assert!(step.contains("a function without `temperature`") && step.contains("example_inputs()"), "{step}");
    // Another reason beside it: then the template is what must change.
    let mut report = recorded("observed/tempered");
    for attempt in report["attempts"].as_array_mut().unwrap() {
        if let Some(facts) = attempt.get_mut("facts") {
            facts["effects"]["shared_results"] = json!([[0, 1]]);
        }
    }
    assert_eq!(judged(report).unwrap_err().step, None);
}

#[test]
fn inputs_stay_as_they_are_or_are_overwritten_on_both_sides() {
    let fit = fits("observed/kept", "add-rms-norm-separate");
    assert!(fit.notes.is_empty(), "{:?}", fit.notes);
    let fit = fits("norms/added_in_place", "add-rms-norm");
    assert!(fit.notes.iter().any(|note| note.contains("the kernel has no gradient")), "{:?}", fit.notes);
    let mut report = recorded("norms/added_in_place");
    for attempt in report["attempts"].as_array_mut().unwrap() {
        if let Some(facts) = attempt.get_mut("facts") {
            facts["effects"]["overwrites"][0]["alike"] = json!(false);
        }
    }
    refused(report, Some("add-rms-norm"), "it leaves a different value in `residual`");
    refused(recorded("observed/detached"), Some("rms-norm"), "the gradient of `x` differs");
}

#[test]
fn the_nearer_of_two_templates_is_taken() {
    let fit = fits("norms/layer_plain", "layer-norm");
    let note = "your function has no `weight`: pass `torch.ones(hidden)` with the dtype and device of the input; `hidden` is \
                the length of the last axis of `input`";
    assert!(fit.notes.iter().any(|told| told.contains(note)), "{:?}", fit.notes);
    fits("norms/groups", "group-norm");
    fits("gates/gates_last", "mul-and-silu");
}

#[test]
fn two_templates_that_serve_alike_are_a_question() {
    let mut report = recorded("rows/soft");
    let mut other =
        report["attempts"].as_array().unwrap().iter().find(|one| one.get("facts").is_some()).unwrap().clone();
    other["template"] = json!("log-softmax");
    other["facts"]["template_ops"] = json!(["amax.default"]);
    report["attempts"].as_array_mut().unwrap().push(other);
    refused(report, None, "log-softmax and softmax match equally well; choose one with --template");
}
