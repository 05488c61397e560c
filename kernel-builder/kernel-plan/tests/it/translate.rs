//! Graphs of functions to kernels: what is planned and written for each, and what is refused.
#![expect(clippy::disallowed_methods, reason = "the graphs are files beside the tests")]

use std::path::Path;

use kernel_plan::diagnostic::{SourceFile, has_errors};
use kernel_plan::spec::parse_op;
use kernel_plan::translate::{
    Choices, Emitted, Part, Plan, Program, Project, Refusal, TracedGraph, agree, choosable, emit, lower,
    lower_gradient, plan,
};
use serde_json::{Value, json};

use crate::project::render;

/// The graphs beside the tests, as harness/translation.py exported them.
const GRAPHS: [&str; 12] = [
    "dropped_branch",
    "gated_norm",
    "gated_scan",
    "gated_sum",
    "group_norm",
    "masked_mean",
    "mixed_tokens",
    "partial_rotary",
    "positional_bias",
    "reversed_running_sum",
    "smoothed_loss",
    "to_ycbcr",
];

fn graph(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/translate/{name}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).expect("a readable file")).expect("a graph")
}

fn traced(graph: Value) -> TracedGraph {
    serde_json::from_value(graph).expect("the form of a graph")
}

fn planned(graph: Value) -> Result<(Program, Plan), Refusal> {
    let program = lower(&traced(graph))?;
    let plan = plan(&program, &Choices::default())?;
    Ok((program, plan))
}

fn emitted(graph: Value) -> Result<Emitted, Refusal> {
    let (program, plan) = planned(graph)?;
    let project = Project {
        module: "mine".to_owned(),
        op: "mine".to_owned(),
        file: "reference.py".to_owned(),
        reference: "mine".to_owned(),
        part: Part::Alone,
    };
    emit(&program, &plan, &project)
}

#[test]
fn graphs_become_kernels() {
    for name in GRAPHS {
        let (program, plan) = planned(graph(name)).unwrap_or_else(|refusal| panic!("{name}: {refusal:?}"));
        insta::assert_snapshot!(format!("plan_{name}"), plan.listing(&program));
    }
}

/// A step that is split off has memory of its own, and the result is made from it.
#[test]
fn steps_are_split_off_and_fused() {
    let lowered = |name: &str| lower(&traced(graph(name))).expect("a program");
    let choices = |split: &[&str], fuse: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Choices { split: owned(split), fuse: owned(fuse) }
    };
    let norm = lowered("gated_norm");
    let whole = plan(&norm, &Choices::default()).expect("a plan");
    assert_eq!((whole.kernels.len(), whole.workspaces.len()), (1, 0));
    let apart = plan(&norm, &choices(&["hidden"], &[])).expect("a plan");
    assert_eq!((apart.kernels.len(), apart.workspaces.len()), (2, 1));
    assert!(apart.held[0].starts_with("`hidden` of line"), "{:?}", apart.held);
    insta::assert_snapshot!("plan_gated_norm_split", apart.listing(&norm));
    // Without the losses of rows in memory, numbers of rows are there instead.
    let loss = lowered("smoothed_loss");
    let fused = plan(&loss, &choices(&[], &["loss"])).expect("a plan");
    assert!(fused.held[0].starts_with("`largest` of line"), "{:?}", fused.held);
    let refusal =
        plan(&loss, &choices(&[], &["loss", "largest"])).map(|plan| plan.held).expect_err("a refusal");
    assert_eq!(
        refusal.what,
        "`largest` cannot be fused: the kernel that computes `div` goes over other axes"
    );
    let unknown = choices(&["hidden", "gate", "weight"], &["nothing"]);
    assert_eq!(unknown.unknown(&[&norm]), ["gate", "weight", "nothing"]);
    assert!(choosable(&norm).contains(&"hidden"));
}

/// What stands in the project is what op.toml's own reader takes, for every graph.
#[test]
fn contracts_have_no_problem() {
    for name in GRAPHS {
        let text = emitted(graph(name)).unwrap_or_else(|refusal| panic!("{name}: {refusal:?}")).op;
        let (op, problems) = parse_op(SourceFile::new("op.toml", text.clone()));
        assert!(op.is_some() && !has_errors(&problems), "{name}: {}\n{text}", render(&problems));
    }
}

#[test]
fn terms_cancel_where_they_follow_from_the_same_elements() {
    let cancels = |name: &str| emitted(graph(name)).expect("a translation").op.contains("cancels = true");
    let found: Vec<&str> = GRAPHS.into_iter().filter(|name| cancels(name)).collect();
    // Others add elements of different tensors or places, or terms of one sign.
    assert_eq!(found, ["group_norm", "smoothed_loss", "to_ycbcr"]);
}

/// A graph of `x * w + b` and what follows: operators of one argument, each with its other arguments.
fn of_affine(then: &[(&str, Value)]) -> Value {
    let tensor = json!({ "shape": [[[1, ["rows"]]], [[1, ["hidden"]]]], "dtype": "bfloat16" });
    let input = |value: &str| json!({ "value": value, "name": value, "tensor": tensor, "non_negative": value == "w" });
    let mut nodes = Vec::new();
    let mut add = |op: &str, arguments: Value| {
        let name = format!("v{}", nodes.len());
        nodes.push(json!({
            "name": name, "op": op, "arguments": arguments, "keywords": {}, "results": [tensor], "line": 1, "text": "",
        }));
        json!({ "node": name })
    };
    let product = add("aten.mul.Tensor", json!([{ "node": "x" }, { "node": "w" }]));
    let mut last = add("aten.add.Tensor", json!([product, { "node": "b" }]));
    for (op, other) in then {
        let arguments = if other.is_null() { vec![last] } else { vec![last, other.clone()] };
        last = add(op, arguments.into());
    }
    let symbol = json!({ "hint": 16, "min": 0, "quotient": null });
    let inputs: Vec<_> = ["x", "w", "b"].map(input).into();
    json!({
        "function": "affine", "inputs": inputs, "nodes": nodes, "outputs": [last["node"]],
        "symbols": { "rows": symbol, "hidden": symbol }, "variable": true,
    })
}

#[test]
fn bounded_functions_hide_how_large_terms_were() {
    let none = Value::Null;
    let cancels = |then: &[(&str, Value)]| {
        emitted(of_affine(then)).expect("a translation").op.contains("cancels = true")
    };
    assert!(!cancels(&[]));
    assert!(!cancels(&[("aten.relu.default", none.clone())]));
    assert!(cancels(&[("aten.tanh.default", none.clone())]));
    assert!(cancels(&[("aten.relu.default", none), ("aten.clamp_max.default", json!(6.0))]));
}

#[test]
fn a_vector_that_is_turned_around_has_packs_where_its_length_has() {
    let tensor = json!({ "shape": [[[1, ["hidden"]]]], "dtype": "bfloat16" });
    let of = |op: &str, arguments: Value| {
        let node = json!({
            "name": "y", "op": op, "arguments": arguments, "keywords": {}, "results": [tensor], "line": 1, "text": "",
        });
        let op = emitted(json!({
            "function": "turned", "inputs": [{ "value": "x", "name": "x", "tensor": tensor }], "nodes": [node],
            "outputs": ["y"], "symbols": { "hidden": { "hint": 16, "min": 0, "quotient": null } }, "variable": true,
        }));
        op.expect("a translation").op
    };
    let turned = of("aten.flip.default", json!([{ "node": "x" }, [0]]));
    assert!(
        turned.contains("even = \"(length) % access == 0\"") && turned.contains("and not even"),
        "{turned}"
    );
    let plain = of("aten.neg.default", json!([{ "node": "x" }]));
    assert!(!plain.contains("not even"), "{plain}");
}

#[test]
fn inputs_that_must_not_be_negative_say_so() {
    let op = emitted(of_affine(&[])).expect("a translation").op;
    assert_eq!(op.matches("non-negative = true").count(), 1, "{op}");
    assert!(
        op.contains("w = { shape = [\"rows\", \"hidden\"], dtype = \"T\", non-negative = true }"),
        "{op}"
    );
}

/// The gradient of a function has the function's axes, and op.toml's reader takes its description.
#[test]
fn a_gradient_becomes_kernels() {
    let of = traced(graph("smoothed_loss"));
    let mut function = lower(&of).expect("a program");
    let own = plan(&function, &Choices::default()).expect("kernels");
    let mut gradient = lower_gradient(&traced(graph("smoothed_loss_backward")), &of).expect("a program");
    let planned = plan(&gradient, &Choices::default()).expect("kernels");
    agree((&mut function, &own), (&mut gradient, &planned));
    // Labels are places among at least two columns, which the gradient alone does not show.
    let least = |program: &Program| program.symbols.iter().map(|one| one.min).collect::<Vec<_>>();
    assert_eq!(least(&function), least(&gradient));
    insta::assert_snapshot!("plan_smoothed_loss_backward", planned.listing(&gradient));
    let project = Project {
        module: "mine".to_owned(),
        op: "mine_backward".to_owned(),
        file: "reference.py".to_owned(),
        reference: "mine_backward".to_owned(),
        part: Part::Gradient,
    };
    let text = emit(&gradient, &planned, &project).expect("files").op;
    let (op, problems) = parse_op(SourceFile::new("backward.toml", text.clone()));
    assert!(op.is_some() && !has_errors(&problems), "{}\n{text}", render(&problems));
    assert!(text.contains("grad_logits = { shape = [\"rows\", \"hidden\"], dtype = \"T\" }"), "{text}");
}

#[test]
fn a_row_reduction_is_written_out() {
    let files = emitted(graph("gated_norm")).expect("a translation");
    insta::assert_snapshot!("gated_norm_device", files.cuda);
    insta::assert_snapshot!("gated_norm_processor", files.body);
    insta::assert_snapshot!("gated_norm_contract", files.op);
    insta::assert_snapshot!("gated_norm_plan", files.plan);
}

#[test]
fn a_scan_and_a_sum_in_two_stages_are_written_out() {
    insta::assert_snapshot!("gated_scan_device", emitted(graph("gated_scan")).expect("a translation").cuda);
    insta::assert_snapshot!(
        "masked_mean_processor",
        emitted(graph("masked_mean")).expect("a translation").body
    );
}

/// The mask of a dropout is computed from the seed where it is used, in the function and in its gradient.
#[test]
fn dropout_is_written_out() {
    let files = emitted(graph("dropped_branch")).expect("a translation");
    assert!(files.op.contains("seed = { shape = [\"of_1\"], dtype = \"i64\", seed = true }"), "{}", files.op);
    insta::assert_snapshot!("dropped_branch_device", files.cuda);
    insta::assert_snapshot!("dropped_branch_processor", files.body);
    let of = traced(graph("dropped_branch"));
    let gradient = lower_gradient(&traced(graph("dropped_branch_backward")), &of).expect("a program");
    let names: Vec<&str> = gradient.inputs.iter().map(|input| input.name.as_str()).collect();
    assert_eq!(names, ["grad_out", "branch", "gamma", "seed"]);
    let plan = plan(&gradient, &Choices::default()).expect("kernels");
    insta::assert_snapshot!("plan_dropped_branch_backward", plan.listing(&gradient));
}

/// A stack is written piece by piece, and a result that is turned around where its elements end up: by one kernel each.
#[test]
fn results_are_written_where_they_belong() {
    for name in ["to_ycbcr", "reversed_running_sum"] {
        let (_, plan) = planned(graph(name)).expect("a plan");
        assert_eq!((plan.kernels.len(), plan.workspaces.len()), (1, 0), "{name}");
        let stores = &plan.kernels[0].stores;
        assert_eq!(stores.len(), if name == "to_ycbcr" { 3 } else { 1 }, "{name}");
    }
    insta::assert_snapshot!("to_ycbcr_device", emitted(graph("to_ycbcr")).expect("a translation").cuda);
}

/// Tensors that lie across the results are read in packs of their own, if the results' rows are not short.
#[test]
fn a_transposition_is_written_out() {
    let files = emitted(graph("mixed_tokens")).expect("a translation");
    insta::assert_snapshot!("mixed_tokens_device", files.cuda);
    insta::assert_snapshot!("mixed_tokens_contract", files.op);
    let form = |length: &Value| {
        let mut graph = of_one("aten.t.default", &json!([{ "node": "x" }]));
        graph["inputs"][0]["tensor"]["shape"] = json!([length, [[1, ["b"]]]]);
        graph["nodes"][0]["results"][0]["shape"] = json!([[[1, ["b"]]], length]);
        let (_, plan) = planned(graph).expect("a plan");
        plan.kernels[0].form().words()
    };
    assert_eq!(form(&json!([[1, ["a"]]])), "transposition");
    assert_eq!(form(&json!([[16, []]])), "transposition");
    assert_eq!(form(&json!([[15, []]])), "pointwise");
}

/// The largest of a column, less that of the column at the other end: one kernel has only its own column's.
#[test]
fn a_reduction_at_another_place_is_another_number() {
    let row = json!({ "shape": [[[1, []]], [[1, ["b"]]]], "dtype": "bfloat16" });
    let mut graph = of_one("aten.amax.default", &json!([{ "node": "x" }, [0], true]));
    graph["nodes"][0]["results"] = json!([row]);
    for (name, op, arguments) in [
        ("turned", "aten.flip.default", json!([{ "node": "y" }, [1]])),
        ("z", "aten.sub.Tensor", json!([{ "node": "y" }, { "node": "turned" }])),
    ] {
        graph["nodes"].as_array_mut().expect("nodes").push(json!({
            "name": name, "op": op, "arguments": arguments, "keywords": {}, "results": [row],
            "line": 5, "text": "return y - y.flip(1)",
        }));
    }
    graph["outputs"] = json!(["z"]);
    let (_, plan) = planned(graph).expect("a plan");
    assert_eq!((plan.kernels.len(), plan.workspaces.len()), (2, 1));
}

/// Each value is used twice by the next one: whoever follows every use takes two to the power of 60 steps.
#[test]
fn values_that_are_used_twice_are_looked_at_once() {
    let squares = |mut graph: Value, shape: &Value| {
        for number in 0..60 {
            let of = if number == 0 { "y".to_owned() } else { format!("square_{number}") };
            graph["nodes"].as_array_mut().expect("nodes").push(json!({
                "name": format!("square_{}", number + 1), "op": "aten.mul.Tensor",
                "arguments": [{ "node": of }, { "node": of }], "keywords": {},
                "results": [{ "shape": shape, "dtype": "bfloat16" }], "line": 5, "text": "y = y * y",
            }));
        }
        graph["outputs"] = json!(["square_60"]);
        graph
    };
    let twice = json!([[[2, ["a"]]], [[1, ["b"]]]]);
    let mut both = of_one("aten.cat.default", &json!([[{ "node": "x" }, { "node": "x" }]]));
    both["nodes"][0]["results"][0]["shape"] = twice.clone();
    let (_, plan) = planned(squares(both, &twice)).expect("a plan");
    assert_eq!((plan.kernels.len(), plan.kernels[0].stores.len()), (1, 2));
    let row = json!([[[1, ["b"]]]]);
    let mut sum = of_one("aten.sum.dim_IntList", &json!([{ "node": "x" }, [0]]));
    sum["nodes"][0]["results"][0]["shape"] = row.clone();
    let cuda = emitted(squares(sum, &row)).expect("a translation").cuda;
    assert!(cuda.contains("all_of_columns"), "{cuda}");
}

/// A graph of one operator on a matrix `x`, with a result of its shape.
fn of_one(op: &str, arguments: &Value) -> Value {
    let tensor = json!({ "shape": [[[1, ["a"]]], [[1, ["b"]]]], "dtype": "bfloat16" });
    json!({
        "function": "f",
        "inputs": [{ "value": "x", "name": "x", "tensor": tensor }],
        "nodes": [{
            "name": "y", "op": op, "arguments": arguments, "keywords": {}, "results": [tensor],
            "line": 4, "text": "return g(x)",
        }],
        "outputs": ["y"],
        "symbols": {
            "a": { "hint": 6, "min": 0, "quotient": null },
            "b": { "hint": 16, "min": 0, "quotient": null },
        },
        "variable": true,
    })
}

#[track_caller]
fn refused(graph: Value, words: &[&str]) {
    let refusal = emitted(graph).expect_err("a refusal");
    let text = format!("{refusal:?}");
    for word in words {
        assert!(text.contains(word), "{word}\n{text}");
    }
}

#[test]
fn a_refusal_names_the_operator_and_the_line() {
    let x = json!([{ "node": "x" }]);
    refused(
        of_one("aten.mm.default", &x),
        &["aten.mm.default", "line: Some(4)", "return g(x)", "matrix product"],
    );
    refused(of_one("aten.sort.default", &x), &["sorting is left to PyTorch"]);
    refused(of_one("aten.bernoulli.default", &x), &["it draws random numbers", "masks as an argument"]);
    refused(of_one("aten.frobnicate.default", &x), &["the operator has no translation"]);
    let rounded = json!([{ "node": "x" }, 2]);
    refused(of_one("aten.round.decimals", &rounded), &["rounding to decimals"]);
}

#[test]
fn what_a_contract_cannot_say_is_refused() {
    let mut graph = of_one("aten.view.default", &json!([{ "node": "x" }, [{ "length": [[1, ["a", "b"]]] }]]));
    graph["nodes"][0]["results"][0]["shape"] = json!([[[1, ["a", "b"]]]]);
    refused(graph, &["an axis of the length hidden * rows"]);
    let mut graph = of_one("aten.neg.default", &json!([{ "node": "x" }]));
    graph["inputs"][0]["tensor"]["dtype"] = json!("float64");
    refused(graph, &["`x` has the dtype float64"]);
    let mut graph = of_one("aten.neg.default", &json!([{ "node": "x" }]));
    graph["outputs"] = json!(["x"]);
    refused(graph, &["returns its argument `x` unchanged"]);
}

/// A thousand operators are a matter of a moment, and one kernel.
#[test]
fn a_long_graph_is_one_kernel() {
    let mut graph = of_one("aten.neg.default", &json!([{ "node": "x" }]));
    let mut nodes = Vec::new();
    for number in 0..1000 {
        let mut node = graph["nodes"][0].clone();
        let before = if number == 0 { "x".to_owned() } else { format!("y{}", number - 1) };
        node["name"] = json!(format!("y{number}"));
        node["op"] = json!(["aten.neg.default", "aten.add.Tensor"][number % 2]);
        node["arguments"] = json!([{ "node": before }, { "node": "x" }]);
        nodes.push(node);
    }
    graph["nodes"] = json!(nodes);
    graph["outputs"] = json!(["y999"]);
    let (_, plan) = planned(graph.clone()).expect("a plan");
    assert_eq!(plan.kernels.len(), 1);
    assert!(emitted(graph).expect("a translation").cuda.len() > 30_000);
}
