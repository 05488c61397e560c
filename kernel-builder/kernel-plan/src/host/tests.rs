//! What a launcher compiled ahead of time must have, held against `Launch::evaluate`.

use proptest::prelude::*;

use super::*;
use crate::diagnostic::SourceFile;
use crate::spec::expr::Value;
use crate::spec::launch::TemplateValue;
use crate::spec::op::{AxisKind, Case};
use crate::spec::parse_op;
use crate::spec::tune::Tuning;
use crate::units::PythonName;

fn rms_norm() -> OpSpec {
    let text = include_str!("../../../../examples/rms-norm-device/op.toml");
    parse_op(SourceFile::new("op.toml", text)).0.unwrap()
}

/// The text of an op.toml with a line changed.
fn changed(from: &str, to: &str) -> OpSpec {
    let text = include_str!("../../../../examples/rms-norm-device/op.toml");
    assert!(text.contains(from), "{from}");
    parse_op(SourceFile::new("op.toml", text.replace(from, to))).0.unwrap()
}

fn name(text: &str) -> PythonName {
    text.parse().unwrap()
}

/// The keys that [launch] asks for in a case, as the launcher's C++ would make them; `None` for a call that cannot be started.
fn keys_of(op: &OpSpec, case: &Case, tuning: &Tuning) -> Option<Vec<(usize, Vec<String>)>> {
    let launch = op.launch.as_ref().unwrap().evaluate(case, tuning).ok()?;
    let key = |values: &[TemplateValue]| -> Vec<String> {
        let numbers = values.iter().filter_map(|value| match value {
            TemplateValue::Value(Value::Integer(number)) => Some(number.to_string()),
            TemplateValue::Value(Value::Boolean(truth)) => Some(i64::from(*truth).to_string()),
            TemplateValue::Type(_) => None,
        });
        let dtypes = op
            .dtypes
            .iter()
            .map(|variable| format!("int64_t(Element::{})", element(case.dtypes[&variable.name.value])));
        dtypes.chain(numbers).collect()
    };
    Some(launch.kernels.iter().map(|kernel| (kernel.place, key(&kernel.template))).collect())
}

/// The keys that a call of `rms_norm` asks for.
fn asked(op: &OpSpec, rows: u64, hidden: u64, dtype: Dtype, tuning: &Tuning) -> Vec<(usize, Vec<String>)> {
    let workload = op.workloads.first().unwrap();
    let mut case = op.uncounted(workload).into_iter().next().unwrap();
    case.axes.insert(name("rows"), rows);
    case.axes.insert(name("hidden"), hidden);
    case.dtypes.insert(name("T"), dtype);
    keys_of(op, &case, tuning).unwrap()
}

fn has(plan: &HostPlan, setting: usize, place: usize, key: &[String]) -> bool {
    let launch = plan.launch.as_ref().unwrap();
    let space = &launch.spaces[launch.settings[setting].space];
    space.instances[place].iter().any(|instance| instance.key == key)
}

#[test]
fn a_rule_asks_for_multiples_and_constraints_of_tune() {
    let op = changed(
        "[tune.block]",
        "[tune]\nconstraints = [\"block <= 1024\", \"hidden >= bytes\"]\n\n[tune.block]",
    );
    let mut tuning = op.tune.default_tuning();
    let bytes = op.tune.tunables.iter().find(|tunable| tunable.name.as_str() == "bytes").unwrap();
    tuning.insert(name("bytes"), *bytes.values.iter().find(|value| **value != bytes.default.value).unwrap());
    let range = RangeSettings {
        dtypes: [(name("T"), Dtype::Bf16)].into(),
        axes: [(name("hidden"), [8, 4096])].into(),
        multiples: [(name("hidden"), 8)].into(),
        tuning: tuning.clone(),
    };
    let device = DeviceSettings {
        device: "a GPU".to_owned(),
        capability: 90,
        multiprocessors: 132,
        ranges: vec![range],
    };
    let plan = plan(&op, &[device]).unwrap();
    let launch = plan.launch.as_ref().unwrap();
    let when = &launch.devices[0].ranges[0].when;
    assert!(when.ends_with("call.hidden >= 8 && call.hidden <= 4096 && call.hidden % 8 == 0"), "{when}");
    assert_eq!(launch.conditions, ["call.hidden >= s.bytes"], "the other one holds for every call");
    for hidden in [8, 1024, 4096] {
        for (place, key) in asked(&op, 4096, hidden, Dtype::Bf16, &tuning) {
            assert!(has(&plan, 1, place, &key), "{hidden}: {key:?}");
        }
    }
}

#[test]
fn a_capability_has_defaults_of_its_own_and_so_have_tuned_devices_of_it() {
    let op = changed("[tune.block]\n", "[tune.block]\ndefault-for = { \"9.0\" = 512 }\n");
    let block = |plan: &HostPlan, setting: usize| {
        let launch = plan.launch.as_ref().unwrap();
        let place = launch.tunables.iter().position(|tunable| tunable == "block").unwrap();
        launch.settings[setting].values[place]
    };
    let of_default = plan(&op, &[]).unwrap();
    let devices = &of_default.launch.as_ref().unwrap().devices;
    assert_eq!(devices.len(), 1);
    assert_eq!((devices[0].capability, devices[0].ranges[0].when.as_str()), (90, "true"));
    let setting = devices[0].ranges[0].setting;
    assert_eq!((block(&of_default, 0), block(&of_default, setting)), (256, 512));
    for (place, key) in asked(&op, 4096, 4096, Dtype::Bf16, &op.tune.default_tuning_for(90)) {
        assert!(has(&of_default, setting, place, &key), "{key:?}");
    }
    // Measured settings are asked before the defaults.
    let range = RangeSettings {
        dtypes: [].into(),
        axes: [(name("hidden"), [8, 4096])].into(),
        multiples: [].into(),
        tuning: op.tune.default_tuning(),
    };
    let measured = |capability| DeviceSettings {
        device: "a GPU".to_owned(),
        capability,
        multiprocessors: 132,
        ranges: vec![range.clone()],
    };
    let tuned = plan(&op, &[measured(90), measured(80)]).unwrap();
    let devices = &tuned.launch.as_ref().unwrap().devices;
    let ranges: Vec<usize> = devices.iter().map(|device| device.ranges.len()).collect();
    assert_eq!(ranges, [2, 1]);
    assert_eq!(block(&tuned, devices[0].ranges[1].setting), 512);
}

#[test]
fn a_tensor_map_is_made_of_what_the_call_says() {
    let map =
        "[launch.tensor-map.rows_of]\ntensor = \"input\"\nbox = [\"block / 32\", 64]\nswizzle = \"128b\"\n";
    let text = include_str!("../../../../examples/rms-norm-device/op.toml");
    let text = text.replacen("[[launch.kernel]]", &format!("{map}\n[[launch.kernel]]"), 1);
    let op = parse_op(SourceFile::new("op.toml", text.replacen("args = [", "args = [\"rows_of\", ", 1)))
        .0
        .unwrap();
    let plan = plan(&op, &[]).unwrap();
    let launch = plan.launch.unwrap();
    assert!(launch.has_tensor_maps);
    let argument = &launch.kernels[0].arguments[0];
    assert_eq!((argument.kind.as_str(), argument.value.as_str()), ("CUtensorMap", "call.input"));
    let map = argument.map.as_ref().unwrap();
    assert_eq!((map.rank, map.element.as_str()), (2, "call.T"));
    assert_eq!(
        (map.lengths.as_str(), map.box_lengths.as_str()),
        ("call.rows, call.hidden", "floor_div(s.block, 32), 64")
    );
    assert_eq!(
        map.modes,
        "CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, \
         CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the lengths, the instance that the launcher looks for was compiled.
    #[test]
    fn every_call_has_its_instance(rows in 1u64..100_000, hidden in 1u64..300_000, by in 0u32..8, dtype in 0usize..3) {
        let op = rms_norm();
        let plan = PLAN.with(Clone::clone);
        let dtype = [Dtype::Bf16, Dtype::F16, Dtype::F32][dtype];
        let hidden = (hidden >> by << by).max(1);
        for (place, key) in asked(&op, rows, hidden, dtype, &op.tune.default_tuning()) {
            prop_assert!(has(&plan, 0, place, &key), "{rows} x {hidden} {dtype}: kernel {place} {key:?}");
        }
    }
}

/// A number below `end`.
fn below(end: u64, state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % end
}

/// A length of an axis: of any size, and often one that powers of two divide, or beside one.
fn length(axis: &AxisKind, state: &mut u64) -> u64 {
    let AxisKind::Var { multiple_of, min, max } = axis else { unreachable!("only these are drawn") };
    let (least, most) = (min.unwrap_or(1).max(1), max.unwrap_or(u64::MAX));
    let size = 1 << below(18, state);
    let any = size + below(size, state);
    let by = below(8, state);
    let near = match below(3, state) {
        0 => any,
        1 => any >> by << by,
        _ => (any >> by << by) + below(3, state),
    };
    (near.clamp(least, most) / multiple_of * multiple_of).max(least.next_multiple_of(*multiple_of))
}

/// With the defaults, calls of all templates have the instances that they ask for.
#[test]
#[expect(clippy::disallowed_methods, reason = "kernel-plan reads no files; this test reads the templates")]
fn calls_of_templates_have_their_instances() {
    let templates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../templates");
    let mut checked = 0;
    for template in std::fs::read_dir(templates).unwrap().flatten() {
        let texts = ["op.toml.j2", "op.toml", "backward.toml.j2", "backward.toml"]
            .map(|file| template.path().join(file));
        for text in texts.iter().filter_map(|file| std::fs::read_to_string(file).ok()) {
            let text = text.replace("{{ module }}", "module");
            let Some(op) = parse_op(SourceFile::new("op.toml", text)).0 else { continue };
            if op.launch.is_none() {
                continue;
            }
            let Ok(plan) = plan(&op, &[]) else { continue };
            let state = &mut 7;
            let first = op.uncounted(op.workloads.first().unwrap()).into_iter().next().unwrap();
            for _ in 0..4_000 {
                let mut case = first.clone();
                for axis in op.axes.iter().filter(|axis| matches!(axis.kind, AxisKind::Var { .. })) {
                    case.axes.insert(axis.name.value.clone(), length(&axis.kind, state));
                }
                for variable in &op.dtypes {
                    let dtype = variable.dtypes[below(variable.dtypes.len() as u64, state) as usize];
                    case.dtypes.insert(variable.name.value.clone(), dtype);
                }
                for (place, key) in keys_of(&op, &case, &op.tune.default_tuning()).unwrap_or_default() {
                    let (axes, dtypes) = (&case.axes, &case.dtypes);
                    assert!(
                        has(&plan, 0, place, &key),
                        "{}: {axes:?} {dtypes:?}: kernel {place} {key:?}",
                        op.name.value
                    );
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 50_000, "{checked}");
}

thread_local! {
    static PLAN: HostPlan = plan(&rms_norm(), &[]).unwrap();
}

#[test]
fn a_setting_of_a_device_has_its_own_macros_and_instances() {
    let op = rms_norm();
    let mut tuning = op.tune.default_tuning();
    let unroll = op.tune.tunables.iter().find(|tunable| tunable.name.as_str() == "unroll").unwrap();
    let other = *unroll.values.iter().find(|value| **value != unroll.default.value).unwrap();
    tuning.insert(name("unroll"), other);
    let range = RangeSettings {
        dtypes: [(name("T"), Dtype::Bf16)].into(),
        axes: [(name("hidden"), [4096, 4096])].into(),
        multiples: [].into(),
        tuning: tuning.clone(),
    };
    let device = DeviceSettings {
        device: "NVIDIA H200".to_owned(),
        capability: 90,
        multiprocessors: 132,
        ranges: vec![range],
    };
    let plan = plan(&op, &[device]).unwrap();
    let launch = plan.launch.as_ref().unwrap();
    assert_eq!(launch.settings.len(), 2);
    assert_eq!(launch.spaces.len(), 2);
    assert_ne!(launch.spaces[0].defines, launch.spaces[1].defines);
    assert_eq!(launch.devices[0].ranges[0].setting, 1);
    assert_eq!(
        launch.devices[0].ranges[0].when,
        "call.T == Element::kBF16 && call.hidden >= 4096 && call.hidden <= 4096"
    );
    for (place, key) in asked(&op, 4096, 4096, Dtype::Bf16, &tuning) {
        assert!(has(&plan, 1, place, &key), "{key:?}");
    }
    let others = launch.spaces[1].instances.iter().flatten();
    let keys: Vec<&str> = others.map(|instance| instance.key[0].as_str()).collect();
    assert!(!keys.is_empty() && keys.iter().all(|key| *key == "int64_t(Element::kBF16)"), "{keys:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_range_has_an_instance_for_each_of_its_calls(
        least in 1u64..70_000,
        more in 0u64..3_000,
        part in 0.0f64..=1.0,
        rows in 0u64..100_000,
        spread in 0u64..3,
        unit in 0usize..4,
    ) {
        let op = rms_norm();
        let mut tuning = op.tune.default_tuning();
        let of = |called: &str| op.tune.tunables.iter().find(|tunable| tunable.name.as_str() == called).unwrap();
        let (unroll, bytes) = (of("unroll"), of("bytes"));
        let other = *unroll.values.iter().find(|value| **value != unroll.default.value).unwrap();
        tuning.insert(name("unroll"), other);
        tuning.insert(name("bytes"), bytes.values[unit % bytes.values.len()]);
        let hidden = least + (more as f64 * part) as u64;
        let axes = [(name("hidden"), [least, least + more]), (name("rows"), [rows, rows + spread])];
        let range =
            RangeSettings { dtypes: [(name("T"), Dtype::F16)].into(), axes: axes.into(), multiples: [].into(), tuning: tuning.clone() };
        let device =
            DeviceSettings { device: "a GPU".to_owned(), capability: 90, multiprocessors: 132, ranges: vec![range] };
        let plan = plan(&op, &[device]).unwrap();
        for (place, key) in asked(&op, rows, hidden, Dtype::F16, &tuning) {
            prop_assert!(has(&plan, 1, place, &key), "{rows} x {hidden}: kernel {place} {key:?}");
        }
    }
}

#[test]
fn what_cannot_be_compiled_ahead_of_time_is_refused() {
    let refused = |op: &OpSpec| plan(op, &[]).unwrap_err().to_string();
    let op = changed("UNROLL = \"unroll\"", "UNROLL = \"hidden\"");
    assert_eq!(refused(&op), "the macro `UNROLL` of [launch.define] is `hidden`, which lengths decide");
    let op = changed("template = [\"T\",", "template = [\"T\", \"hidden\",");
    assert!(refused(&op).contains("more than 512 instances over all lengths"), "{}", refused(&op));
    let op = changed(
        "input = { shape = [\"rows\", \"hidden\"]",
        "input = { strided = true, shape = [\"rows\", \"hidden\"]",
    );
    assert!(refused(&op).contains("may have any strides"), "{}", refused(&op));
}

#[test]
fn a_backward_operator_hangs_on_names() {
    let forward = plan(&rms_norm(), &[]).unwrap();
    let mut back = forward.clone();
    back.op = "rms_norm_backward".to_owned();
    let mut gradient = back.inputs[0].clone();
    gradient.name = "grad_out".to_owned();
    back.inputs.insert(0, gradient);
    back.outputs[0].name = "grad_input".to_owned();
    let mut second = back.outputs[0].clone();
    second.name = "grad_weight".to_owned();
    back.outputs.push(second);
    back.returned = vec![0, 1];
    let hung = backward(&forward, &back).unwrap();
    assert_eq!(hung.saved, "input, weight");
    assert_eq!(hung.arguments, "grad_out.contiguous(), input, weight, ctx.eps");
    assert_eq!(hung.returns, "results[0], results[1], None");
    let mut optional = forward.clone();
    optional.inputs[1].optional = true;
    let returns = backward(&optional, &back).unwrap().returns;
    assert_eq!(returns, "results[0], results[1] if ctx.needs_input_grad[1] else None, None");
    let mut sum = forward.clone();
    let mut residual = sum.inputs[0].clone();
    residual.name = "residual".to_owned();
    sum.inputs.insert(1, residual);
    assert_eq!(backward(&sum, &back).unwrap().returns, "results[0], None, results[1], None");
    sum.same_gradients = [("residual".to_owned(), "input".to_owned())].into();
    assert_eq!(backward(&sum, &back).unwrap().returns, "results[0], results[0], results[1], None");
    back.outputs[1].name = "grad_bias".to_owned();
    assert!(backward(&forward, &back).unwrap_err().to_string().contains("the gradient of no input"));
    back.outputs.truncate(1);
    back.returned = vec![0];
    back.inputs[1].name = "other".to_owned();
    assert!(backward(&forward, &back).unwrap_err().to_string().contains("neither the gradient"));
}

/// The plan of the launcher for an op.toml with this `[let]`, used in its first kernel.
fn named(lets: &str, when: &str, argument: &str) -> LaunchPlan {
    let text = include_str!("../../../../examples/rms-norm-device/op.toml");
    let first = text.find("[[launch.kernel]]").unwrap();
    let second = text[first + 1..].find("[[launch.kernel]]").unwrap() + first + 1;
    let kernel = format!(
        "[[launch.kernel]]\nentry = \"rms::held\"\ngrid = [\"rows\"]\nblock = [256]\n\
         args = [\"out\", {{ i32 = \"{argument}\" }}]\nwhen = \"{when}\"\n\n"
    );
    let launch = text.find("\n[launch]\n").unwrap() + 1;
    let (before, section, rest) = (&text[..launch], &text[launch..first], &text[second..]);
    let text = format!("{before}[let]\n{lets}\n{section}{kernel}{rest}");
    let (op, problems) = parse_op(SourceFile::new("op.toml", text));
    plan(&op.unwrap_or_else(|| panic!("{problems:?}")), &[]).unwrap().launch.unwrap()
}

#[test]
fn a_name_of_let_is_a_constant_of_the_launcher() {
    let lets = "held = \"row_bytes <= 65536 and not reread\"\nrow_bytes = \"hidden * sizeof(T)\"\n\
                short = \"row_bytes / bytes\"\nstream_ = \"rows + 1\"\n";
    let launch = named(lets, "held and short < 9", "short");
    let constants: Vec<String> = launch
        .constants
        .iter()
        .map(|constant| format!("{} {} = {}", constant.kind, constant.name, constant.value))
        .collect();
    assert_eq!(
        constants,
        [
            "int64_t row_bytes = call.hidden * size_of(call.T)",
            "bool held = row_bytes <= 65536 && !s.reread",
            // A word of C++.
            "int64_t short_ = floor_div(row_bytes, s.bytes)",
        ]
    );
    let kernel = &launch.kernels[0];
    assert_eq!(kernel.when.as_deref(), Some("held && short_ < 9"));
    let argument = &kernel.arguments[1];
    assert_eq!(argument.value, "short_");
    assert_eq!(argument.narrowed.as_deref(), Some("`short`, which the kernel takes as 32 bits,"));
}

#[test]
fn names_that_scratch_memory_needs_are_constants_where_it_is_sized() {
    let text = include_str!("../../../../examples/rms-norm-device/op.toml");
    let workspace = "[let]\nparts = \"ceil_div(rows, 8)\"\n\n[launch.workspace.found]\ndtype = \"f32\"\nshape = [\"parts\"]\n";
    let first = text.find("[[launch.kernel]]").unwrap();
    let with = |zero: &str| {
        let text = format!("{}{workspace}{zero}\n{}", &text[..first], &text[first..]);
        let op = parse_op(SourceFile::new("op.toml", text)).0.unwrap();
        let launch = plan(&op, &[]).unwrap().launch.unwrap();
        let names =
            |constants: &[ConstantPlan]| constants.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
        (names(&launch.workspace_constants), names(&launch.constants), launch.workspaces[0].bytes.clone())
    };
    let (sized, started, bytes) = with("");
    assert_eq!((sized, started, bytes.as_str()), (vec!["parts".to_owned()], vec![], "parts * 4"));
    // The launch fills it with zeros, and needs its size.
    assert_eq!(with("zero = true").1, ["parts"]);
}

#[test]
fn expressions_have_the_parentheses_that_they_need_in_cpp() {
    let op = rms_norm();
    let names = Names { op: &op, call: "call", settings: "s" };
    for (text, cpp) in [
        ("rows + 2 * hidden - 1", "call.rows + 2 * call.hidden - 1"),
        ("rows - (hidden - 1)", "call.rows - (call.hidden - 1)"),
        ("(rows + 1) * hidden / 4 % 3", "floor_mod(floor_div((call.rows + 1) * call.hidden, 4), 3)"),
        ("rows / 2 * 4", "floor_div(call.rows, 2) * 4"),
        ("-(rows + 1) * -2", "-(call.rows + 1) * -2"),
        ("rows > 1 and hidden > 2 and reread", "call.rows > 1 && call.hidden > 2 && s.reread"),
        ("rows > 1 and reread or not stream", "(call.rows > 1 && s.reread) || !s.stream"),
        ("not (rows > 1 or reread) and stream", "!(call.rows > 1 || s.reread) && s.stream"),
        ("reread or (stream or rows > 1)", "s.reread || (s.stream || call.rows > 1)"),
        ("reread or stream or rows > 1", "s.reread || s.stream || call.rows > 1"),
        ("not rows > 1", "!(call.rows > 1)"),
        (
            "max(rows + 1, 2) < ceil_div(hidden, 8 * bytes)",
            "std::max<int64_t>({call.rows + 1, 2}) < ceil_div(call.hidden, 8 * s.bytes)",
        ),
    ] {
        let tree = crate::spec::expr::parse_expression(text).unwrap();
        assert_eq!(names.bare(&tree), cpp, "{text}");
    }
    let sum = crate::spec::expr::parse_expression("rows + 1").unwrap();
    assert_eq!(names.text(&sum), "(call.rows + 1)", "as a factor");
}
