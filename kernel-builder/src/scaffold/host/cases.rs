//! What tests, benchmarks and examples of a generated project try.
//!
//! Owns: which shapes and dtypes those are, as Python writes them. Never: knows more of a workload than op.toml says.

use std::collections::BTreeMap;

use kernel_plan::host::{CasePlan, HostPlan};
use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::{Tensor, TensorDtype};
use kernel_plan::units::Dtype;
use minijinja::value::Serde;
use minijinja::{Value, context};
use serde_json::json;

/// Elements of the largest tensor that a test makes.
const MOST_ELEMENTS: u64 = 1 << 22;
/// Shapes that `kernels benchmark` runs.
const BENCHED: usize = 12;

/// A value that serde knows how to write.
pub(in crate::scaffold) fn to_value(value: impl serde::Serialize) -> Value {
    Value::from(Serde(value))
}

/// The operation, with what Python's files ask of it.
pub(super) fn completed(plan: &HostPlan) -> Value {
    let mut op = json!(plan);
    let places = |keep: &dyn Fn(usize) -> bool| -> Vec<usize> {
        (0..plan.inputs.len()).filter(|place| keep(*place)).collect()
    };
    let returned = |place: usize| plan.returned.iter().position(|known| *known == place);
    if let Some(outputs) = op["outputs"].as_array_mut() {
        for (place, output) in outputs.iter_mut().enumerate() {
            let overwrites = plan.outputs[place].overwrites.as_ref();
            let input = overwrites.and_then(|name| plan.inputs.iter().position(|input| input.name == *name));
            output["input_place"] = json!(input.unwrap_or_default());
            output["returned_place"] = json!(returned(place).unwrap_or_default());
        }
    }
    let first = plan.inputs.iter().position(|input| !input.optional).unwrap_or_default();
    op["overwritten"] = json!(places(&|place| plan.inputs[place].inplace));
    op["leading_axis"] = json!(plan.axes.iter().find(|axis| axis.leading).map_or("", |axis| &axis.name));
    op["leading_places"] = json!(places(&|place| plan.inputs[place].leading));
    op["gradient_places"] = json!(places(&|place| plan.gradients.contains(&plan.inputs[place].name)));
    op["first_place"] = json!(first);
    op["first_leading"] = json!(plan.inputs[first].leading);
    op["out_list"] = json!(plan.out);
    let names: Vec<&str> = plan.returned.iter().map(|place| plan.outputs[*place].name.as_str()).collect();
    op["returned_names_list"] = json!(names);
    let example = example(plan);
    if let Some(inputs) = op["inputs"].as_array_mut() {
        for (input, tensor) in inputs.iter_mut().zip(&plan.inputs) {
            let lengths: Vec<u64> = tensor
                .axes
                .iter()
                .map(|axis| example.axes.get(&plan.axes[*axis].name).copied().unwrap_or(1))
                .collect();
            input["example"] = json!(python_tuple(&lengths));
            let dtype = match (tensor.variable, &tensor.dtype) {
                (Some(place), _) => {
                    let variable = &plan.variables[place];
                    let first = variable.dtypes.first().map_or("float32", |dtype| dtype.torch.as_str());
                    let chosen = example.dtypes.get(&variable.name).and_then(|dtypes| dtypes.first());
                    format!("torch.{}", chosen.map_or(first, String::as_str))
                }
                (None, Some(dtype)) => format!("torch.{}", dtype.torch),
                (None, None) => "torch.float32".to_owned(),
            };
            input["example_dtype"] = json!(dtype);
        }
    }
    to_value(op)
}

/// What tests and benchmarks are rendered with besides.
pub(super) fn tests(op: &OpSpec, plan: &HostPlan) -> Value {
    let fits = |case: &&CasePlan| case.elements <= MOST_ELEMENTS;
    let tried = plan.cases.iter().filter(fits).map(case_value).collect::<Vec<_>>();
    let benched: Vec<_> = plan
        .measured
        .iter()
        .filter(|case| case.without.is_empty())
        .flat_map(|case| {
            choices(plan, case).into_iter().map(|choice| {
                let words: Vec<_> = choice.iter().map(|(_, dtype)| dtype.as_str()).collect();
                let label = format!("{}_{}", words.join("_"), case.name).replace(['-', '.'], "_");
                let label = label.trim_start_matches('_').to_owned();
                json!({ "label": label, "lengths": lengths(case), "dtypes": dtypes(&choice) })
            })
        })
        .take(BENCHED)
        .collect();
    let every = CasePlan {
        name: String::new(),
        axes: BTreeMap::new(),
        elements: 0,
        without: vec![],
        scalars: BTreeMap::new(),
        dtypes: BTreeMap::new(),
        devices: vec![],
    };
    let all = choices(plan, &every);
    context! {
        cases => to_value(tried),
        benched => to_value(benched),
        dtype_choices => all.iter().map(|choice| dtypes(choice)).collect::<Vec<_>>(),
        small => to_value(case_value(&small(plan))),
        eight_bits => has_eight_bit_floats(op),
        roundings => op.tolerance.roundings.value.max(1),
    }
}

/// Whether a tensor may have 8-bit floats, on which PyTorch has no arithmetic.
fn has_eight_bit_floats(op: &OpSpec) -> bool {
    let is = |dtype: &Dtype| dtype.is_float() && dtype.size_bytes() == 1;
    let tensors =
        op.inputs.iter().map(|input| &input.tensor).chain(op.outputs.iter().map(|output| &output.tensor));
    let fixed = |tensor: &Tensor| matches!(&tensor.dtype.value, TensorDtype::Fixed(dtype) if is(dtype));
    tensors.into_iter().any(fixed) || op.dtypes.iter().any(|variable| variable.dtypes.iter().any(is))
}

/// One choice of dtypes for each case: variable and attribute of torch.
fn choices(plan: &HostPlan, case: &CasePlan) -> Vec<Vec<(String, String)>> {
    plan.variables.iter().fold(vec![vec![]], |partial, variable| {
        let all: Vec<String> = variable.dtypes.iter().map(|dtype| dtype.torch.clone()).collect();
        let chosen = case.dtypes.get(&variable.name).cloned().unwrap_or(all);
        partial
            .iter()
            .flat_map(|choice| {
                chosen.iter().map(|dtype| {
                    let mut choice = choice.clone();
                    choice.push((variable.name.clone(), dtype.clone()));
                    choice
                })
            })
            .collect()
    })
}

fn dtypes(choice: &[(String, String)]) -> String {
    let entries: Vec<_> = choice.iter().map(|(name, dtype)| format!("\"{name}\": torch.{dtype}")).collect();
    format!("{{{}}}", entries.join(", "))
}

fn lengths(case: &CasePlan) -> String {
    let entries: Vec<_> = case.axes.iter().map(|(name, length)| format!("\"{name}\": {length}")).collect();
    format!("{{{}}}", entries.join(", "))
}

fn case_value(case: &CasePlan) -> serde_json::Value {
    let without: Vec<_> = case.without.iter().map(|name| format!("\"{name}\"")).collect();
    let scalars: Vec<_> = case.scalars.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
    json!({
        "name": case.name,
        "lengths": lengths(case),
        "without": format!("[{}]", without.join(", ")),
        "scalars": format!("{{{}}}", scalars.join(", ")),
    })
}

fn python_tuple(lengths: &[u64]) -> String {
    let texts: Vec<_> = lengths.iter().map(ToString::to_string).collect();
    let comma = if texts.len() == 1 { "," } else { "" };
    format!("({}{comma})", texts.join(", "))
}

/// The smallest shape for verifying with two elements in each axis that varies, and everything given.
fn small(plan: &HostPlan) -> CasePlan {
    let wide = |case: &&CasePlan| {
        case.without.is_empty() && case.elements > 0 && case.axes.values().all(|length| *length >= 2)
    };
    let found = plan.cases.iter().filter(wide).min_by_key(|case| case.elements);
    found
        .or_else(|| plan.cases.iter().find(|case| case.elements > 0))
        .cloned()
        .unwrap_or_else(|| example(plan))
}

/// A shape that is measured, of a moderate size; else one for verifying.
fn example(plan: &HostPlan) -> CasePlan {
    let moderate = |case: &&CasePlan| case.without.is_empty() && case.elements <= MOST_ELEMENTS;
    let measured = plan.measured.iter().filter(moderate).max_by_key(|case| case.elements);
    let any = plan.cases.iter().filter(moderate).max_by_key(|case| case.elements);
    measured.or(any).or_else(|| plan.cases.first()).cloned().unwrap_or_else(|| CasePlan {
        name: "one".to_owned(),
        axes: plan.axes.iter().map(|axis| (axis.name.clone(), axis.constant.unwrap_or(1))).collect(),
        elements: 1,
        without: vec![],
        scalars: BTreeMap::new(),
        dtypes: BTreeMap::new(),
        devices: vec![],
    })
}
