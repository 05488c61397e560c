//! Graphs with operators that stay PyTorch's: how they are divided, and what is written for the parts.
#![expect(clippy::disallowed_methods, reason = "the graphs are files beside the tests")]

use std::path::Path;

use kernel_plan::diagnostic::{SourceFile, has_errors};
use kernel_plan::spec::parse_op;
use kernel_plan::translate::{
    Choices, Division, FixedAxis, Form, Kernel, Part, Project, Refusal, TracedGraph, Whole, divide,
    emit_whole, lower, steps,
};
use serde_json::{Value, json};

use crate::project::render;

fn graph(name: &str) -> TracedGraph {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/translate/{name}.json"));
    let text = std::fs::read_to_string(path).expect("a readable file");
    serde_json::from_str(&text).expect("the form of a graph")
}

fn project() -> Project {
    Project {
        module: "mine".to_owned(),
        op: "mine".to_owned(),
        file: "reference.py".to_owned(),
        reference: "mine_reference".to_owned(),
        part: Part::Alone,
    }
}

fn written(division: &Division) -> Whole {
    emit_whole(division, &project()).expect("files")
}

/// The reader of op.toml takes the description of the whole, and those of the regions.
#[track_caller]
fn sound(whole: &Whole) {
    let regions = whole.regions.iter().map(|(name, emitted)| (name.as_str(), &emitted.op));
    for (name, text) in regions.chain([("op", &whole.op)]) {
        let (op, problems) = parse_op(SourceFile::new(name, text.clone()));
        assert!(op.is_some() && !has_errors(&problems), "{name}: {}\n{text}", render(&problems));
    }
}

#[test]
fn a_function_is_divided_around_its_products() {
    let whole = written(&divide(&graph("gated_mlp"), &Choices::default()).expect("a division"));
    sound(&whole);
    insta::assert_snapshot!("parts_gated_mlp_forward", whole.forward);
    insta::assert_snapshot!("parts_gated_mlp_references", whole.references);
    insta::assert_snapshot!("parts_gated_mlp_contract", whole.op);
    insta::assert_snapshot!("parts_gated_mlp_plan", whole.plan);
}

/// Behind a convolution with a stride no length is an axis of the call; the region has axes of its own.
#[test]
fn a_region_has_the_lengths_of_its_own_tensors() {
    let whole = written(&divide(&graph("strided_tail"), &Choices::default()).expect("a division"));
    sound(&whole);
    let (_, region) = &whole.regions[1];
    let input =
        "convolution_last = { shape = [\"batch\", \"height_2\", \"width_2\", \"of_12\"], dtype = \"T\" }";
    assert!(region.op.contains(input), "{}", region.op);
    // What the convolution sums are its channels and the places of its window, 8 * 3 * 3.
    assert!(whole.op.contains("length = \"1 + 72 + "), "{}", whole.op);
    // Its input, which a region writes channels-last, is counted as rounded, as are its result and that of the region behind it.
    assert!(whole.op.contains("roundings = 3"), "{}", whole.op);
}

/// Windows are views of what is before them, and a bias is added behind its convolution. Large windows stay PyTorch's.
#[test]
fn small_windows_belong_to_a_region() {
    let mut graph = graph("pooled_tail");
    let division = loop {
        let division = divide(&graph, &Choices::default()).expect("a division");
        match emit_whole(&division, &project()) {
            Ok(_) => break division,
            Err(refusal) => graph.fix(&FixedAxis::after(&refusal, &graph).expect("an axis")),
        }
    };
    let stays: Vec<String> = division.stays().into_iter().map(|(op, _)| op).collect();
    assert_eq!(stays, ["convolution", "convolution", "max_pool2d_with_indices"]);
    let whole = written(&division);
    sound(&whole);
    insta::assert_snapshot!("parts_pooled_tail_forward", whole.forward);
    insta::assert_snapshot!("parts_pooled_tail_references", whole.references);
    insta::assert_snapshot!("parts_pooled_tail_device", whole.regions[0].1.cuda);
    insta::assert_snapshot!("parts_pooled_tail_plan", whole.plan);
}

/// The graph `strided_tail` with channels that fill the tiles of a convolution, and the mean of each channel taken off.
fn centered(groups: i64) -> TracedGraph {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/translate/strided_tail.json");
    let text = std::fs::read_to_string(path).expect("a readable file");
    let mut graph: Value = serde_json::from_str(&text).expect("the form of a graph");
    let [float, width, kernel] = [json!("float32"), json!([[64, []]]), json!([[32, []]])];
    graph["inputs"][0]["tensor"]["shape"][1] = kernel.clone();
    graph["inputs"][1]["tensor"]["shape"] = json!([width, kernel, [[3, []]], [[3, []]]]);
    graph["inputs"][2]["tensor"]["shape"] = json!([width]);
    let mut convolution = graph["nodes"][0].clone();
    convolution["results"][0]["shape"][1] = width.clone();
    convolution["arguments"][8] = json!(groups);
    let shape = convolution["results"][0]["shape"].clone();
    let node = |name: &str, op: &str, arguments: Value, shape: Value| {
        json!({
            "name": name, "op": op, "arguments": arguments, "keywords": {},
            "results": [{ "shape": shape, "dtype": float }], "line": 87, "text": "return y - y.mean(dim=(2, 3), keepdim=True)",
        })
    };
    let mut mean = shape.clone();
    (mean[2], mean[3]) = (json!([[1, []]]), json!([[1, []]]));
    let wide = json!([{ "node": "convolution" }]);
    let mut copy = node("wide", "aten._to_copy.default", wide, shape.clone());
    copy["keywords"]["dtype"] = float.clone();
    graph["nodes"] = json!([
        convolution,
        copy,
        node("mean", "aten.mean.dim", json!([{ "node": "wide" }, [2, 3], true]), mean),
        node("less", "aten.sub.Tensor", json!([{ "node": "wide" }, { "node": "mean" }]), shape),
    ]);
    graph["outputs"] = json!(["less"]);
    let mut graph: TracedGraph = serde_json::from_value(graph).expect("the form of a graph");
    for (axis, length) in [("s68", 35), ("s43", 67)] {
        graph.symbols.get_mut(axis).expect("a symbol").hint = length;
    }
    for (axis, length) in [("floor_1", 16), ("floor_2", 32)] {
        graph.symbols.get_mut(axis).expect("a symbol").hint = length;
    }
    graph
}

/// The kernels around a convolution convert between layouts in passing. What is reduced is read as it lies in memory, and the
/// result, which lies otherwise, is written by a kernel of its own.
#[test]
fn convolutions_get_their_channels_last() {
    let mut graph = centered(1);
    let (division, whole) = loop {
        let division = divide(&graph, &Choices::default()).expect("a division");
        match emit_whole(&division, &project()) {
            Ok(whole) => break (division, whole),
            Err(refusal) => graph.fix(&FixedAxis::after(&refusal, &graph).expect("an axis")),
        }
    };
    sound(&whole);
    let forms: Vec<Vec<Form>> = (division.regions.iter())
        .map(|region| region.plan.kernels.iter().map(Kernel::form).collect())
        .collect();
    assert_eq!(forms, [vec![Form::Transposition], vec![Form::Column, Form::Transposition]]);
    insta::assert_snapshot!("parts_centered_forward", whole.forward);
    insta::assert_snapshot!("parts_centered_references", whole.references);
    // Convolutions in groups are left as they are.
    let division = divide(&centered(2), &Choices::default()).expect("a division");
    assert_eq!(division.regions.len(), 1);
}

/// op.toml cannot say `(height - 3) / 2 + 1`, but it can say 3.
#[test]
fn an_axis_that_a_computed_length_depends_on_is_fixed_at_its_length_in_the_example() {
    let mut graph = graph("strided_tail");
    let last =
        graph.nodes.iter().position(|node| node.name == "add_22").expect("the last node of the region");
    graph.nodes.truncate(last + 1);
    graph.outputs = vec!["add_22".to_owned()];
    let mut fixed = Vec::new();
    let whole = loop {
        match emit_whole(&divide(&graph, &Choices::default()).expect("a division"), &project()) {
            Ok(whole) => break whole,
            Err(refusal) => {
                let axis = FixedAxis::after(&refusal, &graph).expect("an axis");
                graph.fix(&axis);
                fixed.push((axis.axis, axis.length));
            }
        }
    };
    assert_eq!(fixed, [("height".to_owned(), 7), ("width".to_owned(), 11)]);
    sound(&whole);
    for tensor in [
        "x = { shape = [\"batch\", \"of_8\", \"of_7\", \"of_11\"]",
        "out = { shape = [\"batch\", \"of_12\", \"of_3\", \"of_5\"]",
    ] {
        assert!(whole.op.contains(tensor), "{}", whole.op);
    }
    // A refusal for another reason is none that this helps with.
    assert_eq!(FixedAxis::after(&Refusal::new("no"), &graph), None);
}

/// A graph on a matrix `x` and a matrix `w`, of operators with a result of the shape of `x` each.
fn chain(nodes: &[(&str, &str, &[&str])], outputs: &[&str]) -> TracedGraph {
    let tensor = json!({ "shape": [[[16, []]], [[16, []]]], "dtype": "bfloat16" });
    let input = |name: &str| json!({ "value": name, "name": name, "tensor": tensor });
    let node = |(line, (name, op, arguments)): (usize, &(&str, &str, &[&str]))| {
        let arguments: Vec<Value> = arguments.iter().map(|one| json!({ "node": one })).collect();
        json!({
            "name": name, "op": op, "arguments": arguments, "keywords": {}, "results": [tensor],
            "line": line + 1, "text": format!("{name} = {op}()"),
        })
    };
    let graph = json!({
        "function": "f",
        "inputs": [input("x"), input("w")],
        "nodes": nodes.iter().enumerate().map(node).collect::<Vec<_>>(),
        "outputs": outputs,
        "symbols": {},
        "variable": true,
    });
    serde_json::from_value(graph).expect("the form of a graph")
}

#[track_caller]
fn planned(nodes: &[(&str, &str, &[&str])], outputs: &[&str]) -> Vec<String> {
    let division = divide(&chain(nodes, outputs), &Choices::default()).expect("a division");
    sound(&written(&division));
    let lines = steps(&division, "f");
    lines
        .iter()
        .map(|line| line.split(", ").filter(|part| !part.ends_with(" bytes")).collect::<Vec<_>>().join("; "))
        .collect()
}

#[test]
fn a_value_that_is_used_further_on_is_computed_there() {
    // `late` has one reader, behind the product, and reads what is there anyway.
    let found = planned(
        &[
            ("late", "aten.exp.default", &["x"]),
            ("product", "aten.mm.default", &["x", "w"]),
            ("sum", "aten.add.Tensor", &["late", "product"]),
        ],
        &["sum"],
    );
    assert_eq!(
        found,
        [
            "step 0: PyTorch's `mm.default`; reads x; w; writes product",
            "step 1: f_1: 1 kernel; reads x; product; writes sum",
        ]
    );
    // What `sum` takes of the first product is made of three tensors, and storing it moves less.
    let found = planned(
        &[
            ("one", "aten.mm.default", &["x", "w"]),
            ("shifted", "aten.add.Tensor", &["one", "x"]),
            ("early", "aten.add.Tensor", &["shifted", "w"]),
            ("grown", "aten.exp.default", &["one"]),
            ("again", "aten.mm.default", &["grown", "x"]),
            ("sum", "aten.add.Tensor", &["early", "again"]),
        ],
        &["sum"],
    );
    let regions: Vec<&str> = found.iter().filter_map(|line| line.split("1 kernel; ").nth(1)).collect();
    assert_eq!(
        regions,
        ["reads one; x; w; writes early", "reads one; writes grown", "reads early; again; writes sum"]
    );
}

/// A view that PyTorch's operator takes is PyTorch's, too; one that is fused is an index.
#[test]
fn views_move_nothing() {
    let found = planned(
        &[
            ("turned", "aten.t.default", &["x"]),
            ("grown", "aten.exp.default", &["turned"]),
            ("product", "aten.mm.default", &["turned", "grown"]),
        ],
        &["product"],
    );
    assert_eq!(
        found,
        [
            "step 0: PyTorch's `t.default`; reads x; writes turned",
            "step 1: f_1: 1 kernel; reads x; writes grown",
            "step 2: PyTorch's `mm.default`; reads turned; grown; writes product",
        ]
    );
}

#[track_caller]
fn refused(nodes: &[(&str, &str, &[&str])]) -> Refusal {
    divide(&chain(nodes, &[nodes[nodes.len() - 1].0]), &Choices::default()).expect_err("a refusal")
}

#[test]
fn what_cannot_stay_is_refused_with_its_operator() {
    // Any pure operator stays.
    let nodes: &[(&str, &str, &[&str])] =
        &[("y", "aten.frobnicate.default", &["x"]), ("z", "aten.exp.default", &["y"])];
    assert_eq!(
        divide(&chain(nodes, &["z"]), &Choices::default()).expect("a division").stays(),
        [("frobnicate".to_owned(), Some(1))]
    );
    let random = refused(&[("y", "aten.bernoulli.default", &["x"]), ("z", "aten.exp.default", &["y"])]);
    assert_eq!((random.op.as_deref(), random.line), (Some("aten.bernoulli.default"), Some(1)));
    // Memory that is filled with random numbers is not the reason.
    let filled = &[
        ("y", "aten.empty_permuted.default", [].as_slice()),
        ("z", "aten.uniform.default", &["y"]),
        ("v", "aten.exp.default", &["z"]),
    ];
    assert_eq!(refused(filled).op.as_deref(), Some("aten.uniform.default"));
    let attention = [
        ("y", "aten.scaled_dot_product_attention.default", ["x", "x", "x"].as_slice()),
        ("z", "aten.exp.default", &["y"]),
    ];
    let mut graph = chain(&attention, &["z"]);
    assert!(divide(&graph, &Choices::default()).is_ok());
    graph.nodes[0].keywords.insert("dropout_p".to_owned(), json!(0.1));
    let refusal = divide(&graph, &Choices::default()).expect_err("a refusal");
    assert_eq!((refusal.line, refusal.what.as_str()), (Some(1), "it draws random numbers"));
    assert!(refused(&[("y", "aten.mm.default", &["x", "w"])]).what.contains("nothing is left"));
    // As a whole it is refused for the product.
    let whole = lower(&chain(&[("y", "aten.mm.default", &["x", "w"])], &["y"])).expect_err("a refusal");
    assert_eq!(whole.op.as_deref(), Some("aten.mm.default"));
}
