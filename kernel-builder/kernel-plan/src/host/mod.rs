//! What a host side needs to know that is generated from op.toml: names, types, C++ expressions, kernel instances.
//!
//! Owns: which operations a host side can be generated for, and the plan that its files are rendered from.
//! Never: renders a file, or knows what a project is called.

use std::collections::BTreeMap;

use crate::spec::OpSpec;
use crate::spec::op::{AxisKind, ScalarValue, Tensor, TensorDtype, Values};
use crate::units::{Dtype, PythonName};

mod cpp;
mod error;
mod instances;
mod launch;
mod program;
mod python;
pub mod rust;
mod settings;
mod types;

use cpp::{Names, Signatures, element};
use error::unsupported;
use instances::bounds;
use launch::file_name;

pub use error::HostError;
pub use python::{BackwardPlan, backward};
pub use settings::{DeviceSettings, RangeSettings};
pub use types::*;

/// The plan of an operator, with the settings that devices have beside the defaults.
///
/// # Errors
/// What op.toml asks for and a generated host side does not do.
pub fn plan(op: &OpSpec, devices: &[DeviceSettings]) -> Result<HostPlan, HostError> {
    if op.launch.is_none() && op.cpu.is_none() && op.forward.is_none() {
        return Err(HostError::NoCode);
    }
    plan_of_gradient(op, devices)
}

/// The same of an operator that computes gradients. It needs no code: its reference computes them, with PyTorch's operators.
///
/// # Errors
/// Its description asks for something that generated host code cannot do.
pub fn plan_of_gradient(op: &OpSpec, devices: &[DeviceSettings]) -> Result<HostPlan, HostError> {
    if let Some(strided) = op.inputs.iter().find(|input| input.strided) {
        return Err(unsupported(format!("`{}` may have any strides", strided.tensor.name.value)));
    }
    // Bindings have room for so many, in arguments.h.
    for (kind, count, most) in [("axes", op.axes.len(), 32), ("type variables", op.dtypes.len(), 8)] {
        if count > most {
            return Err(unsupported(format!("it has {count} {kind}, more than {most}")));
        }
    }
    let devices = &settings::with_defaults(op, devices);
    let names = Names { op, call: "call", settings: "s" };
    let launch = op.launch.as_ref().map(|launch| launch::plan(op, launch, devices, &names)).transpose()?;
    let cpu = op.cpu.as_ref().map(|cpu| CpuPlan {
        source: file_name(cpu.source.value.as_str()),
        entry: cpu.entry.value.to_string(),
        over: names.text(cpu.over.tree()),
        grain: names.text(cpu.grain.tree()),
    });
    let mut inputs: Vec<TensorPlan> = op
        .inputs
        .iter()
        .enumerate()
        .map(|(place, input)| {
            let name = &input.tensor.name.value;
            let over =
                op.outputs.iter().any(|it| it.inplace.as_ref().is_some_and(|place| place.value == *name));
            let (optional, seed) = (input.optional, input.values == Values::Seed);
            TensorPlan { place, optional, seed, inplace: over, ..tensor(op, &input.tensor) }
        })
        .collect();
    let mut outputs: Vec<TensorPlan> = op
        .outputs
        .iter()
        .enumerate()
        .map(|(place, output)| {
            let overwrites = output.inplace.as_ref().map(|place| place.value.to_string());
            TensorPlan { place, inplace: overwrites.is_some(), overwrites, ..tensor(op, &output.tensor) }
        })
        .collect();
    let scalars: Vec<ScalarPlan> = op
        .scalars
        .iter()
        .map(|scalar| {
            let value = scalar.default.value;
            let (cpp, python) = match value {
                ScalarValue::Float(_) => ("double", "float"),
                ScalarValue::Int(_) => ("int64_t", "int"),
                ScalarValue::Bool(_) => ("bool", "bool"),
            };
            let name = scalar.name.value.to_string();
            ScalarPlan { name, cpp: cpp.to_owned(), python: python.to_owned(), default: in_python(value) }
        })
        .collect();
    let variables: Vec<VariablePlan> = op
        .dtypes
        .iter()
        .map(|variable| VariablePlan {
            name: variable.name.value.to_string(),
            dtypes: variable.dtypes.iter().map(|dtype| dtype_plan(*dtype)).collect(),
        })
        .collect();
    let python = python::plan(op, &mut inputs, &mut outputs, &scalars, &variables)?;
    let returned: Vec<usize> =
        outputs.iter().enumerate().filter(|(_, output)| !output.inplace).map(|(place, _)| place).collect();
    let (schema, schema_returns, schema_out) = schema(&inputs, &outputs, &scalars, &returned);
    let signatures =
        Signatures { inputs: &inputs, outputs: &outputs, scalars: &scalars, returned: &returned };
    let (cpp, ffi) = (signatures.torch(), signatures.tvm_ffi());
    let gradient = op.gradient.iter().flat_map(|gradient| &gradient.inputs);
    let same = op.gradient.iter().flat_map(|gradient| &gradient.same);
    let (cases, measured) = cases(op);
    Ok(HostPlan {
        op: op.name.value.to_string(),
        camel: camel(op.name.as_str()),
        description: op.description.as_ref().map(|text| text.value.clone()).unwrap_or_default(),
        axes: op.axes.iter().map(axis).collect(),
        variables,
        has_leading: op.axes.iter().any(|axis| axis.leading),
        python,
        inputs,
        outputs,
        scalars,
        returned,
        schema,
        schema_returns,
        schema_out,
        cpp,
        ffi,
        reference: op.reference.function.value.to_string(),
        fused: op.reference.fused.as_ref().map(|name| name.value.to_string()),
        function: op.call.function.value.to_string(),
        out: op.call.out.iter().map(|name| name.value.to_string()).collect(),
        gradients: gradient.map(|name| name.value.to_string()).collect(),
        same_gradients: same.map(|(one, other)| (one.to_string(), other.to_string())).collect(),
        launch,
        cpu,
        forward: op.forward.is_some(),
        cases,
        measured,
    })
}

/// `rms_norm` → `RmsNorm`.
pub(crate) fn camel(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters
            .next()
            .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
            .unwrap_or_default()
    };
    name.split('_').map(word).collect()
}

fn axis(axis: &crate::spec::op::Axis) -> AxisPlan {
    let [least, greatest] = bounds(axis);
    let (constant, multiple) = match axis.kind {
        AxisKind::Const(length) => (Some(length), 1),
        AxisKind::Var { multiple_of, .. } => (None, multiple_of),
    };
    let greatest = if greatest == i64::MAX { "INT64_MAX".to_owned() } else { greatest.to_string() };
    AxisPlan { name: axis.name.value.to_string(), constant, least, greatest, multiple, leading: axis.leading }
}

fn dtype_plan(dtype: Dtype) -> DtypePlan {
    DtypePlan {
        name: dtype.to_string(),
        element: element(dtype),
        torch: dtype.torch_name().to_owned(),
        is_float: dtype.is_float(),
    }
}

fn tensor(op: &OpSpec, tensor: &Tensor) -> TensorPlan {
    let place =
        |name: &PythonName| op.axes.iter().position(|axis| axis.name.value == *name).unwrap_or_default();
    let axes: Vec<usize> = tensor.shape.iter().map(|axis| place(&axis.value)).collect();
    let leading = axes.first().is_some_and(|first| op.axes[*first].leading);
    let words = tensor
        .shape
        .iter()
        .enumerate()
        .map(|(at, axis)| if at == 0 && leading { "...".to_owned() } else { axis.value.to_string() });
    let (variable, dtype) = match &tensor.dtype.value {
        TensorDtype::Fixed(dtype) => (None, Some(dtype_plan(*dtype))),
        TensorDtype::Variable(name) => {
            (op.dtypes.iter().position(|variable| variable.name.value == *name), None)
        }
    };
    let is_float = match &tensor.dtype.value {
        TensorDtype::Fixed(dtype) => dtype.is_float(),
        TensorDtype::Variable(_) => {
            variable.is_some_and(|place| op.dtypes[place].dtypes.iter().all(|dtype| dtype.is_float()))
        }
    };
    let places = axes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let own = dtype.as_ref().map_or_else(
        || "{}".to_owned(),
        |dtype| format!("{{static_cast<int>(Element::{}), \"{}\"}}", dtype.element, dtype.torch),
    );
    let which = variable.map_or_else(|| "-1".to_owned(), |place| place.to_string());
    let lengths = axes.iter().map(|place| match op.axes[*place].kind {
        AxisKind::Const(length) => length.to_string(),
        AxisKind::Var { .. } => format!("call.{}", op.axes[*place].name.value),
    });
    let names = Names { op, call: "call", settings: "s" };
    let bytes = lengths.chain([names.size(&tensor.dtype.value)]).collect::<Vec<_>>().join(" * ");
    let spec = format!("{{\"{}\", {}, {{{places}}}, {which}, {own}}}", tensor.name.value, axes.len());
    TensorPlan {
        name: tensor.name.value.to_string(),
        spec,
        bytes,
        axes,
        shape: format!("[{}]", words.collect::<Vec<_>>().join(", ")),
        variable,
        dtype,
        optional: false,
        seed: false,
        inplace: false,
        overwrites: None,
        leading,
        is_float,
        dtypes: String::new(),
        defaulted: false,
        flattened: String::new(),
        fake: String::new(),
        place: 0,
    }
}

/// The arguments of the schema, what it returns, and the arguments with the outputs first.
fn schema(
    inputs: &[TensorPlan],
    outputs: &[TensorPlan],
    scalars: &[ScalarPlan],
    returned: &[usize],
) -> (String, String, String) {
    let arguments = |letters: &mut dyn Iterator<Item = char>| {
        let tensors = inputs.iter().map(|input| match (input.inplace, input.optional) {
            (true, _) => format!("Tensor({}!) {}", letters.next().unwrap_or('z'), input.name),
            (false, true) => format!("Tensor? {}", input.name),
            (false, false) => format!("Tensor {}", input.name),
        });
        let tensors: Vec<String> = tensors.collect();
        let scalars = scalars.iter().map(|scalar| format!("{} {}", scalar.python, scalar.name));
        tensors.into_iter().chain(scalars).collect::<Vec<_>>()
    };
    let plain = arguments(&mut ('a'..='z')).join(", ");
    let mut letters = 'a'..='z';
    let brought = returned
        .iter()
        .map(|place| format!("Tensor({}!) {}", letters.next().unwrap_or('z'), outputs[*place].name));
    let brought: Vec<String> = brought.collect();
    let with_outputs = brought.into_iter().chain(arguments(&mut letters)).collect::<Vec<_>>().join(", ");
    let returns = match returned.len() {
        0 => "()".to_owned(),
        1 => "Tensor".to_owned(),
        several => format!("({})", vec!["Tensor"; several].join(", ")),
    };
    (plain, returns, with_outputs)
}

/// A value as Python writes it.
fn in_python(value: ScalarValue) -> String {
    match value {
        ScalarValue::Bool(true) => "True".to_owned(),
        ScalarValue::Bool(false) => "False".to_owned(),
        other => other.to_string(),
    }
}

/// What tests try, and what is measured.
fn cases(op: &OpSpec) -> (Vec<CasePlan>, Vec<CasePlan>) {
    use crate::spec::op::Purpose;
    let (mut verified, mut measured) = (vec![], vec![]);
    for workload in op.workloads.iter().filter(|workload| !workload.held_out) {
        let mut lengths: BTreeMap<String, u64> =
            workload.axes.iter().map(|(name, length)| (name.to_string(), *length)).collect();
        for axis in &op.axes {
            if let AxisKind::Const(length) = axis.kind {
                lengths.insert(axis.name.value.to_string(), length);
            }
        }
        let elements = |tensor: &Tensor| {
            tensor.shape.iter().fold(1u64, |product, axis| {
                product.saturating_mul(lengths.get(axis.value.as_str()).copied().unwrap_or(1))
            })
        };
        let tensors = op.inputs.iter().map(|input| &input.tensor);
        let largest = tensors.chain(op.outputs.iter().map(|output| &output.tensor)).map(elements).max();
        let dtypes = workload.dtypes.iter().map(|(name, dtypes)| {
            (name.to_string(), dtypes.iter().map(|dtype| dtype.torch_name().to_owned()).collect())
        });
        let case = CasePlan {
            name: workload.name.value.to_string(),
            elements: largest.unwrap_or(0),
            axes: lengths,
            without: workload.without.iter().map(|name| name.value.to_string()).collect(),
            scalars: workload
                .scalars
                .iter()
                .map(|(name, value)| (name.to_string(), in_python(*value)))
                .collect(),
            dtypes: dtypes.collect(),
            devices: workload.devices.iter().map(ToString::to_string).collect(),
        };
        if workload.purposes.contains(&Purpose::Bench) {
            measured.push(case.clone());
        }
        if workload.purposes.contains(&Purpose::Verify) {
            verified.push(case);
        }
    }
    (verified, measured)
}

#[cfg(test)]
mod tests;
