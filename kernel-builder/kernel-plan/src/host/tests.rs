//! What a launcher compiled ahead of time must have, held against `Launch::evaluate`.

use proptest::prelude::*;

use super::*;
use crate::diagnostic::SourceFile;
use crate::spec::expr::Value;
use crate::spec::launch::TemplateValue;
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

/// The keys that [launch] asks for under one case, as the launcher's C++ would make them.
fn asked(op: &OpSpec, rows: u64, hidden: u64, dtype: Dtype, tuning: &Tuning) -> Vec<(usize, Vec<String>)> {
    let workload = op.workloads.first().unwrap();
    let mut case = op.uncounted(workload).into_iter().next().unwrap();
    case.axes.insert(name("rows"), rows);
    case.axes.insert(name("hidden"), hidden);
    case.dtypes.insert(name("T"), dtype);
    let launch = op.launch.as_ref().unwrap().evaluate(&case, tuning).unwrap();
    let key = |values: &[TemplateValue]| {
        let numbers = values.iter().filter_map(|value| match value {
            TemplateValue::Value(Value::Integer(number)) => Some(number.to_string()),
            TemplateValue::Value(Value::Boolean(truth)) => Some(i64::from(*truth).to_string()),
            TemplateValue::Type(_) => None,
        });
        std::iter::once(format!("int64_t(Element::{})", element(dtype))).chain(numbers).collect::<Vec<_>>()
    };
    launch.kernels.iter().map(|kernel| (kernel.place, key(&kernel.template))).collect()
}

fn has(plan: &HostPlan, setting: usize, place: usize, key: &[String]) -> bool {
    let launch = plan.launch.as_ref().unwrap();
    let space = &launch.spaces[launch.settings[setting].space];
    space.instances[place].iter().any(|instance| instance.key == key)
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
            RangeSettings { dtypes: [(name("T"), Dtype::F16)].into(), axes: axes.into(), tuning: tuning.clone() };
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
