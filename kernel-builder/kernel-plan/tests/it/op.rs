//! op.toml: optional, strided and in-place tensors, gradients, tunables, launches.

use std::collections::BTreeMap;

use kernel_plan::diagnostic::{Severity, SourceFile};
use kernel_plan::spec::expr::{Bindings, Value};
use kernel_plan::spec::launch::{Argument, ConcreteLaunch};
use kernel_plan::spec::op::{Case, Device, Purpose, ScalarValue};
use kernel_plan::spec::tune::{Count, Tuning};
use kernel_plan::spec::{self, LaunchError, OpSpec};
use proptest::prelude::*;

use crate::project::render;

const RESIDUAL_NORM: &str = include_str!("../spec/ok/residual_norm.toml");

/// A spec that has no problem.
#[track_caller]
fn good(text: &str) -> OpSpec {
    let (op, problems) = spec::parse_op(SourceFile::new("op.toml", text));
    assert_eq!(render(&problems), "");
    op.expect("a spec")
}

fn cases(op: &OpSpec) -> Vec<Case> {
    op.cases(Purpose::Verify, Device::Cuda)
}

/// The case of this name.
#[track_caller]
fn case(op: &OpSpec, id: &str) -> Case {
    cases(op).into_iter().find(|case| case.id == id).expect("a case of this name")
}

fn launch(op: &OpSpec, case: &Case, tuning: &Tuning) -> Result<ConcreteLaunch, LaunchError> {
    op.launch.as_ref().expect("[launch]").evaluate(case, tuning)
}

#[test]
fn a_case_has_what_its_workload_says() {
    let op = good(RESIDUAL_NORM);
    let small = case(&op, "small/T=bf16");
    assert_eq!(small.accumulated, 64 * 4);
    assert_eq!((small.weight, small.held_out), (2.0, false));
    let scalars: Vec<_> = small.scalars.iter().map(|scalar| scalar.value).collect();
    assert_eq!(scalars, [ScalarValue::Float(1e-5), ScalarValue::Int(4), ScalarValue::Bool(true)]);
    assert!(small.inputs[0].strided && !small.inputs[1].strided);
    assert_eq!(small.outputs[1].inplace.as_ref().map(|name| name.as_str()), Some("residual"));
    let none = case(&op, "none/T=f8e4m3");
    assert_eq!((none.weight, none.held_out), (1.0, true));
    let omitted: Vec<_> = none.inputs.iter().map(|input| input.omitted).collect();
    assert_eq!(omitted, [false, false, false, true]);
    assert_eq!(none.scalars[0].value, ScalarValue::Float(1e-6));
}

/// The operation with this list of constraints.
fn constrained(list: &str) -> String {
    RESIDUAL_NORM.replacen("\n[axes]", &format!("\nconstraints = {list}\n\n[axes]"), 1)
}

#[test]
fn a_workload_that_breaks_a_constraint_is_told_once() {
    let op = good(&constrained("[\"given(bias) or hidden >= 8\", \"hidden % 8 == 0\"]"));
    assert_eq!(op.constraints.len(), 2);
    let (_, problems) = spec::parse_op(SourceFile::new("op.toml", constrained("[\"given(bias)\"]")));
    let [problem] = problems.as_slice() else { panic!("{}", render(&problems)) };
    assert_eq!((problem.code, problem.severity), (spec::codes::AXIS_VALUE, Severity::Error));
    assert!(problem.message.contains("`none`"), "{}", problem.message);
    let codes = |list: &str| -> Vec<_> {
        let (_, problems) = spec::parse_op(SourceFile::new("op.toml", constrained(list)));
        problems.iter().map(|problem| problem.code).collect()
    };
    // Tunables and numbers are no properties of a call.
    assert_eq!(codes("[\"block > 64\"]"), [spec::codes::EXPRESSION_NAME]);
    assert_eq!(codes("[\"hidden\"]"), [spec::codes::EXPRESSION_TYPE]);
    assert_eq!(codes("[\"1 / (hidden - hidden) == 1\"]"), [spec::codes::EXPRESSION_VALUE]);
}

#[test]
fn a_case_at_other_lengths_is_within_bounds_and_constraints() {
    let op = good(&constrained("[\"rows <= hidden\"]"));
    let like = case(&op, "small/T=bf16");
    let at = |rows: u64, hidden: u64| {
        let name = |name: &str| name.parse().expect("a name");
        op.at(&like, &BTreeMap::from([(name("rows"), rows), (name("hidden"), hidden)]))
    };
    let case = at(24, 40).expect("a case");
    assert_eq!((case.id.as_str(), case.accumulated, case.drawn), ("drawn-24x40/T=bf16", 40 * 4, true));
    assert_eq!(case.scalars, like.scalars);
    assert_eq!(case.inputs[0].shape, [24, 40]);
    assert!(at(48, 40).is_none() && at(24, 41).is_none() && at(0, 1 << 40).is_none());
    assert!(op.at(&like, &BTreeMap::new()).is_none());
}

#[test]
fn what_is_not_used_is_not_in_the_case_for_the_harness() {
    let text = toml::to_string(&case(&good(RESIDUAL_NORM), "small/T=f16")).expect("plain data");
    let weight = text.split("[[inputs]]").nth(3).expect("the third input");
    assert_eq!(weight.trim(), "name = \"weight\"\nshape = [64]\ndtype = \"f16\"");
}

#[test]
fn a_gradient_may_be_computed_from_a_rounded_result() {
    let is = |key: &str| {
        let text = include_str!("../spec/ok/sum_norm.toml").replace("same = {", &format!("{key}\nsame = {{"));
        let (op, problems) = spec::parse_op(SourceFile::new("op.toml", text));
        (op.and_then(|op| op.gradient).is_some_and(|gradient| gradient.from_rounded), render(&problems))
    };
    assert_eq!(is(""), (false, String::new()));
    assert_eq!(is("from-rounded = true"), (true, String::new()));
    assert!(is("from-rounded = 1").1.contains("from-rounded"));
}

#[test]
fn an_input_may_have_the_gradient_of_another_one() {
    let same = |same: &str| {
        let text = include_str!("../spec/ok/sum_norm.toml").replace("{ residual = \"input\" }", same);
        spec::parse_op(SourceFile::new("op.toml", text))
    };
    let (op, problems) = same("{ residual = \"input\" }");
    assert_eq!(render(&problems), "");
    let gradient = op.expect("a spec").gradient.expect("[gradient]");
    let pairs: Vec<_> = gradient.same.iter().map(|(one, of)| (one.as_str(), of.as_str())).collect();
    assert_eq!(pairs, [("residual", "input")]);
    // Another shape, no input, no gradient of its own, itself.
    for wrong in [
        "{ weight = \"input\" }",
        "{ residual = \"other\" }",
        "{ residual = \"input\", input = \"residual\" }",
        "{ input = \"input\" }",
    ] {
        let (_, problems) = same(wrong);
        let codes: Vec<_> = problems.iter().map(|problem| problem.code).collect();
        assert!(
            !codes.is_empty() && codes.iter().all(|code| *code == spec::codes::GRADIENT),
            "{wrong}: {codes:?}"
        );
    }
}

#[test]
fn gradients_are_of_the_chosen_inputs_in_argument_order() {
    let op = good(RESIDUAL_NORM);
    let gradient = op.gradient.expect("[gradient]");
    let inputs: Vec<_> = gradient.inputs.iter().map(|name| name.as_str()).collect();
    assert_eq!(inputs, ["input", "weight"]);
    let all = good(&RESIDUAL_NORM.replace("inputs = [\"weight\", \"input\"]\n", ""));
    let inputs: Vec<_> =
        all.gradient.iter().flat_map(|gradient| &gradient.inputs).map(|name| name.as_str()).collect();
    assert_eq!(inputs, ["input", "weight", "bias"], "residual is overwritten");
    assert!(good(&RESIDUAL_NORM.replace("backward = true", "backward = false")).gradient.is_none());
}

#[test]
fn a_launch_becomes_numbers() {
    let op = good(RESIDUAL_NORM);
    let concrete = launch(&op, &case(&op, "small/T=f16"), &op.tune.default_tuning()).expect("numbers");
    insta::assert_snapshot!("launch", toml::to_string(&concrete).expect("plain data"));
    let names: Vec<_> = concrete.kernels.iter().map(|kernel| kernel.name_expression()).collect();
    assert_eq!(names, ["norm::partial<__half, 256, true, true>", "norm_finish"]);
}

#[test]
fn a_carveout_is_a_percentage_or_the_drivers_choice() {
    let of = |expression: &str| {
        let op = good(&RESIDUAL_NORM.replace("vector * 12 - 1", expression));
        let concrete = launch(&op, &case(&op, "small/T=f16"), &op.tune.default_tuning()).expect("numbers");
        [concrete.kernels[0].carveout, concrete.kernels[1].carveout]
    };
    assert_eq!(of("0 - vector / 4"), [Some(-1), None]);
    assert_eq!(of("25 * vector"), [Some(100), None]);
    for more in ["25 * vector + 1", "101"] {
        let text = RESIDUAL_NORM.replace("vector * 12 - 1", more);
        let (_, problems) = spec::parse_op(SourceFile::new("op.toml", text));
        assert!(render(&problems).contains("the carveout of shared memory cannot be 101"), "{more}");
    }
}

#[test]
fn an_empty_grid_or_a_condition_leaves_kernels_out() {
    let op = good(RESIDUAL_NORM);
    let tuning = op.tune.default_tuning();
    let concrete = launch(&op, &case(&op, "none/T=f16"), &tuning).expect("numbers");
    assert!(concrete.kernels.is_empty() && concrete.tensor_maps.is_empty());
    let one = good(&RESIDUAL_NORM.replace("rows = 3", "rows = 1"));
    let concrete = launch(&one, &case(&one, "small/T=f16"), &tuning).expect("numbers");
    let places: Vec<_> = concrete.kernels.iter().map(|kernel| kernel.place).collect();
    assert_eq!(places, [1], "`when` of the first asks for more than one row");
    assert!(concrete.tensor_maps.is_empty(), "only the first takes it");
}

#[test]
fn an_input_that_is_left_out_is_a_null_pointer() {
    let op = good(&RESIDUAL_NORM.replace("rows = 0, hidden = 8", "rows = 4, hidden = 16"));
    let concrete = launch(&op, &case(&op, "none/T=f16"), &op.tune.default_tuning()).expect("numbers");
    assert_eq!(concrete.kernels[1].arguments[3], Argument::Null);
    assert_eq!(concrete.kernels[0].name_expression(), "norm::partial<__half, 256, true, false>");
}

#[test]
fn strides_are_those_that_the_caller_chose() {
    let op = good(&RESIDUAL_NORM.replace("shape = [\"rows\", \"hidden\"]\nbox", "box"));
    let mut case = case(&op, "small/T=f16");
    case.inputs[0].strides = Some(vec![128, 1]);
    let concrete = launch(&op, &case, &op.tune.default_tuning()).expect("numbers");
    assert_eq!(concrete.kernels[0].arguments[3], Argument::I64(128));
    assert_eq!(concrete.tensor_maps[0].strides, [256], "bytes");
    case.inputs[0].strides = Some(vec![1, 3]);
    let error = launch(&op, &case, &op.tune.default_tuning()).expect_err("columns are not dense");
    assert_eq!(error.to_string(), "the innermost dimension of `input` is not dense");
}

#[test]
fn an_output_in_place_lies_where_its_input_lies() {
    let text = RESIDUAL_NORM
        .replace(
            "residual = { shape = [\"rows\", \"hidden\"], dtype = \"T\" }",
            "residual = { shape = [\"rows\", \"hidden\"], dtype = \"T\", strided = true }",
        )
        .replace("stride(input, 0)", "stride(residual_out, 0)");
    let op = good(&text);
    let mut case = case(&op, "small/T=f16");
    case.inputs[1].strides = Some(vec![72, 1]);
    let concrete = launch(&op, &case, &op.tune.default_tuning()).expect("numbers");
    assert_eq!(concrete.kernels[0].arguments[3], Argument::I64(72));
}

#[test]
fn a_tuning_is_judged_like_the_defaults() {
    let op = good(RESIDUAL_NORM);
    let case = case(&op, "small/T=f16");
    let mut tuning = op.tune.default_tuning();
    assert_eq!(op.tune.admits(&Bindings::new(&case, &tuning)), Ok(true));
    tuning.insert("block".parse().expect("a name"), Value::Integer(512));
    tuning.insert("vector".parse().expect("a name"), Value::Integer(8));
    assert_eq!(op.tune.admits(&Bindings::new(&case, &tuning)), Ok(false));
    tuning.insert("block".parse().expect("a name"), Value::Integer(4096));
    let error = launch(&op, &case, &tuning).expect_err("too many threads");
    assert_eq!(error.to_string(), "the block in x cannot be 4096");
    assert_eq!(&RESIDUAL_NORM[error.span()], "block");
}

#[test]
fn settings_are_counted_without_going_through_all() {
    let op = good(RESIDUAL_NORM);
    // Of 3 x 4 x 2, without block = 512 and vector = 8.
    assert_eq!(op.tune.count(&Bindings::default(), 100, 1000), Count::Exactly(22));
    let odd = Bindings {
        names: BTreeMap::from([("hidden".parse().expect("a name"), Value::Integer(9))]),
        ..Bindings::default()
    };
    // A length of 9 has no vectors: three blocks with vector 1 either way, the rest of 11 with vectorised = false.
    assert_eq!(op.tune.count(&odd, 100, 1000), Count::Exactly(3 * 2 + 8));
    assert_eq!(op.tune.count(&Bindings::default(), 100, 21), Count::MoreThan(21));
    assert_eq!(op.tune.count(&Bindings::default(), 5, 1000), Count::MoreThan(1000), "out of visits");
}

#[test]
fn thousands_of_millions_of_settings_are_fine_where_constraints_leave_few() {
    let names: Vec<_> = (0..12).map(|place| format!("a{place}")).collect();
    let equal: Vec<_> = names.windows(2).map(|pair| format!("\"{} == {}\"", pair[0], pair[1])).collect();
    let tunables =
        names.iter().map(|name| format!("[tune.{name}]\nvalues = [1, 2, 3, 4, 5, 6, 7, 8]\ndefault = 1\n"));
    let tune = format!("[tune]\nconstraints = [{}]\n{}", equal.join(", "), tunables.collect::<String>());
    // Without [launch], which has other tunables.
    let head = &RESIDUAL_NORM[..RESIDUAL_NORM.find("[tune]").expect("the section")];
    let tail = &RESIDUAL_NORM[RESIDUAL_NORM.find("[workload.small]").expect("the section")..];
    let op = good(&format!("{head}{tune}{tail}"));
    assert_eq!(op.tune.count(&Bindings::default(), 10_000, 1000), Count::Exactly(8));
}

#[test]
fn an_example_of_the_documentation_reads_without_a_problem() {
    let docs = include_str!("../../../../docs/reference/op-toml.md");
    let examples: Vec<_> = docs
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split_once("```").expect("the end of a block").0)
        .filter(|text| text.starts_with("format = 1"))
        .collect();
    assert!(!examples.is_empty(), "no example begins with `format = 1`");
    for text in examples {
        let op = good(text);
        assert!(op.launch.is_some() && op.gradient.is_some() && !op.tune.tunables.is_empty());
        for case in cases(&op) {
            launch(&op, &case, &op.tune.default_tuning()).expect("numbers");
        }
    }
}

#[test]
fn warnings_alone_leave_a_usable_spec() {
    let text = RESIDUAL_NORM.replace("[dtypes]", "depth = { type = \"const\", value = 2 }\n[dtypes]");
    let (op, problems) = spec::parse_op(SourceFile::new("op.toml", text.as_str()));
    assert!(op.is_some() && problems.iter().all(|problem| problem.severity == Severity::Warning));
    assert_eq!(problems.len(), 1, "{}", render(&problems));
}

#[test]
fn defaults_of_capabilities_are_values_of_the_tunable() {
    let with = |line: &str| {
        let text =
            RESIDUAL_NORM.replacen("[tune.block]\n", &format!("[tune.block]\ndefault-for = {line}\n"), 1);
        spec::parse_op(SourceFile::new("op.toml", text.as_str()))
    };
    let (op, problems) = with("{ \"9.0\" = 512, \"12.0\" = 128 }");
    assert_eq!(render(&problems), "");
    let tune = op.expect("a spec").tune;
    assert_eq!(tune.capabilities().into_iter().collect::<Vec<_>>(), [90, 120]);
    let block = |tuning: &Tuning| tuning[&"block".parse().expect("a name")];
    assert_eq!(
        tune.all_defaults().iter().map(block).collect::<Vec<_>>(),
        [256, 512, 128].map(Value::Integer)
    );
    assert_eq!(block(&tune.default_tuning_for(80)), Value::Integer(256));
    for (line, said) in [
        ("{ \"9.0\" = 500 }", "the default 500 is not one of the values"),
        ("{ \"9.0a\" = 512 }", "`9.0a` is not a compute capability"),
        ("{ nine = 512 }", "`nine` is not a compute capability"),
        ("{ \"9.0\" = true }", "must be an integer"),
    ] {
        let (_, problems) = with(line);
        let text = render(&problems);
        assert!(text.contains(said) && text.contains("spec::"), "{line}: {text}");
    }
}

/// `[tune]` with four tunables, and these constraints.
fn tuned(constraints: &[&str]) -> OpSpec {
    let head = &RESIDUAL_NORM[..RESIDUAL_NORM.find("[tune]").expect("the section")];
    let tail = &RESIDUAL_NORM[RESIDUAL_NORM.find("[workload.small]").expect("the section")..];
    let tunables =
        ["a", "b", "c", "d"].map(|name| format!("[tune.{name}]\nvalues = [0, 1, 2, 3]\ndefault = 0\n"));
    let text = format!("{head}[tune]\nconstraints = {constraints:?}\n{}{tail}", tunables.concat());
    let (op, problems) = spec::parse_op(SourceFile::new("op.toml", text.as_str()));
    // The constraints are drawn, so that the defaults need not satisfy them.
    let expected = [spec::codes::TUNE_DEFAULT, spec::codes::EXPRESSION_VALUE, spec::codes::UNUSED_NAME];
    assert!(problems.iter().all(|problem| expected.contains(&problem.code)), "{}", render(&problems));
    op.expect("a spec")
}

proptest! {
    #[test]
    fn a_count_is_that_of_going_through_all(
        constraints in prop::collection::vec(
            prop::sample::select(&["a < b", "stride(input, 0) > a", "b * c == 2", "a + b + c <= 3", "d != 1", "c / d == 1", "2 > 1", "heads < 4"][..]),
            0..4,
        ),
    ) {
        let op = tuned(&constraints);
        let heads = ("heads".parse().expect("a name"), Value::Integer(4));
        let known = Bindings { names: BTreeMap::from([heads]), ..Bindings::default() };
        let names = op.tune.tunables.iter().map(|tunable| tunable.name.value.clone()).collect::<Vec<_>>();
        let mut count = 0;
        for setting in 0..4i64.pow(4) {
            let mut bindings = known.clone();
            let digits = (0..).map(|place| Value::Integer(setting / 4i64.pow(place) % 4));
            bindings.names.extend(names.iter().cloned().zip(digits));
            // What asks for a tensor is for the workload to decide.
            let mut decided = op.tune.constraints.iter().filter(|constraint| !constraint.tree().asks_for_tensors());
            count += u64::from(decided.all(|constraint| constraint.evaluate(&bindings) == Ok(true)));
        }
        prop_assert_eq!(op.tune.count(&known, 10_000, 10_000), Count::Exactly(count));
    }

    /// Whatever the lengths, a launch is an error or within what CUDA starts.
    #[test]
    fn a_launch_keeps_its_limits(
        rows in prop_oneof![0u64..9, any::<u64>()],
        hidden in prop_oneof![0u64..9000, any::<u64>()],
        groups in any::<i64>(),
        block in prop_oneof![0i64..2000, any::<i64>()],
        stride in any::<u64>(),
    ) {
        let op = good(&RESIDUAL_NORM.replace("block = [\"block\"]", "block = [\"block\", 2]"));
        let mut case = case(&op, "small/T=f16");
        for (name, length) in [("rows", rows), ("hidden", hidden)] {
            case.axes.insert(name.parse().expect("a name"), length);
        }
        for tensor in case.inputs.iter_mut().chain(&mut case.outputs) {
            tensor.shape = if tensor.shape.len() == 2 { vec![rows, hidden] } else { vec![hidden] };
        }
        case.inputs[0].strides = Some(vec![stride, 1]);
        case.scalars[1].value = ScalarValue::Int(groups);
        let mut tuning = op.tune.default_tuning();
        tuning.insert("block".parse().expect("a name"), Value::Integer(block));
        if let Ok(concrete) = launch(&op, &case, &tuning) {
            for kernel in &concrete.kernels {
                let threads: u64 = kernel.block.iter().map(|length| u64::from(*length)).product();
                prop_assert!((1..=1024).contains(&threads));
                prop_assert!(kernel.grid.iter().all(|length| *length >= 1 && *length <= 0x7fff_ffff));
                prop_assert!(kernel.shared <= 227 * 1024);
                prop_assert!(kernel.carveout.is_none_or(|percent| (-1..=100).contains(&percent)));
            }
        }
    }

    /// Whatever is cut out of a good file or put into it, reading it ends with labels inside of the text.
    #[test]
    fn reading_never_panics(
        start in 0usize..2600,
        length in 0usize..40,
        put in "|\"|\\[|\\]|=|0|-1|é|\\{|\\(|\\)|not |rows|999999999999|\\\\u0041|\"\"\"|, |f64|true",
    ) {
        let (start, end) = (start.min(RESIDUAL_NORM.len()), (start + length).min(RESIDUAL_NORM.len()));
        let text = format!("{}{put}{}", &RESIDUAL_NORM[..start], &RESIDUAL_NORM[end..]);
        let (_, problems) = spec::parse_op(SourceFile::new("op.toml", text.as_str()));
        for problem in &problems {
            prop_assert!(problem.labels.iter().all(|(span, _)| text.get(span.clone()).is_some()), "{problem}");
        }
        render(&problems);
    }
}

/// A function in parts has kernels in other files, and none here.
#[test]
fn a_function_in_parts_names_the_files_of_its_operators() {
    let text = |section: &str| {
        let text =
            include_str!("../spec/ok/every_key.toml").split("# --- op.toml ---").nth(1).expect("the part");
        let text = text.split("# --- files ---").next().expect("the text");
        format!("{text}{section}")
    };
    let parsed = |section: &str| {
        let (op, problems) = spec::parse_op(SourceFile::new("op.toml", text(section)));
        (op.and_then(|op| op.forward), render(&problems))
    };
    assert!(parsed("").0.is_none());
    let (forward, problems) = parsed("\n[forward]\nregions = [\"a.toml\", \"b.toml\"]\n");
    assert_eq!((forward.map(|forward| forward.regions.len()), problems), (Some(2), String::new()));
    assert!(parsed("\n[forward]\nregions = []\n").1.contains("`forward.regions` is empty"));
    let both = "\n[forward]\nregions = [\"a.toml\"]\n[gradient]\nbackward = true\n";
    assert!(parsed(both).1.contains("[forward] and [gradient] cannot be used together"));
    let out = text("\n[forward]\nregions = [\"a.toml\"]\n")
        .replace("[call]\n", "[call]\nout = [\"out\", \"scale\"]\n");
    let (_, problems) = spec::parse_op(SourceFile::new("op.toml", out));
    assert!(render(&problems).contains("`call.out` is not supported with [forward]"));
    // Values may be rounded on the way.
    let rounded = text("").replace("[tolerance]\n", "[tolerance]\nfrom-rounded = true\n");
    let (op, problems) = spec::parse_op(SourceFile::new("op.toml", rounded));
    assert!(op.is_some_and(|op| op.tolerance.from_rounded) && problems.is_empty());
}
