//! The signature of an operation in Python, and how its backward operator hangs on it.
//!
//! Owns: expressions of the generated package over its arguments. Never: renders a file.

use serde::Serialize;

use crate::spec::OpSpec;
use crate::spec::op::AxisKind;

use super::error::HostError;
use super::types::{HostPlan, PythonPlan, ScalarPlan, TensorPlan, VariablePlan};

/// How the backward operator is called by autograd.
#[derive(Debug, Clone, Serialize)]
pub struct BackwardPlan {
    /// The operator.
    pub op: String,
    /// What the forward saves: names of its arguments and results.
    pub saved: String,
    /// Whether a result is among them.
    pub saved_outputs: bool,
    /// The scalars that it needs.
    pub scalars: Vec<String>,
    /// A parameter for the gradient of each result.
    pub gradients: String,
    /// The arguments of the backward operator.
    pub arguments: String,
    /// How many results the backward operator has.
    pub returned: usize,
    /// The gradient of each argument of the forward.
    pub returns: String,
}

fn list<T: AsRef<str>>(parts: impl IntoIterator<Item = T>, between: &str) -> String {
    parts.into_iter().map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join(between)
}

/// The dtypes of a tensor in words: `float32, float16 or bfloat16`.
pub(super) fn dtypes(tensor: &TensorPlan, variables: &[VariablePlan]) -> String {
    let names: Vec<&str> = match (tensor.variable, &tensor.dtype) {
        (Some(place), _) => variables[place].dtypes.iter().map(|dtype| dtype.torch.as_str()).collect(),
        (None, Some(dtype)) => vec![&dtype.torch],
        (None, None) => vec![],
    };
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// Where an axis is found among the arguments: the length of one, or the leading ones of a tensor.
fn length_of(axis: usize, op: &OpSpec, inputs: &[TensorPlan]) -> Option<String> {
    if let AxisKind::Const(length) = op.axes[axis].kind {
        return Some(length.to_string());
    }
    inputs.iter().filter(|input| !input.optional).find_map(|input| {
        let place = input.axes.iter().position(|known| *known == axis)?;
        let rank = input.axes.len();
        Some(match (place, op.axes[axis].leading) {
            (0, true) => format!("math.prod({})", leading(input)),
            _ => format!("{}.shape[-{}]", input.name, rank - place),
        })
    })
}

/// The sizes of the leading axes of a tensor that has some.
fn leading(input: &TensorPlan) -> String {
    match input.axes.len() {
        1 => format!("{}.shape", input.name),
        rank => format!("{0}.shape[: {0}.dim() - {1}]", input.name, rank - 1),
    }
}

/// Completes the tensors, and makes the texts.
///
/// # Errors
/// An axis that no input has, so that a length of an output is known to nobody.
pub(super) fn plan(
    op: &OpSpec,
    inputs: &mut [TensorPlan],
    outputs: &mut [TensorPlan],
    scalars: &[ScalarPlan],
    variables: &[VariablePlan],
) -> Result<PythonPlan, HostError> {
    let unknown = |axis: usize| HostError::Unsupported {
        what: format!(
            "the length of `{}` follows from no input that is always given",
            op.axes[axis].name.value
        ),
    };
    let mut last = true;
    for input in inputs.iter_mut().rev() {
        last &= input.optional || input.seed;
        input.defaulted = last;
        input.dtypes = dtypes(input, variables);
        input.flattened = format!("{0}.reshape(math.prod(leading), *{0}.shape[len(leading) :])", input.name);
    }
    let first = inputs
        .iter()
        .find(|input| !input.optional)
        .map(|input| input.name.clone())
        .ok_or_else(|| HostError::Unsupported { what: "every input is optional".to_owned() })?;
    let leading_of = inputs.iter().find(|input| input.leading && !input.optional).map(leading);
    for output in outputs.iter_mut() {
        output.dtypes = dtypes(output, variables);
        let mut sizes = vec![];
        for axis in &output.axes {
            if op.axes[*axis].leading {
                sizes.push("*leading".to_owned());
            } else {
                sizes.push(length_of(*axis, op, inputs).ok_or_else(|| unknown(*axis))?);
            }
        }
        let dtype = match (&output.dtype, output.variable) {
            (Some(dtype), _) => format!("torch.{}", dtype.torch),
            (None, variable) => {
                let same = inputs.iter().find(|input| !input.optional && input.variable == variable);
                let same = same.ok_or_else(|| HostError::Unsupported {
                    what: format!(
                        "the dtype of `{}` follows from no input that is always given",
                        output.name
                    ),
                })?;
                format!("{}.dtype", same.name)
            }
        };
        let comma = if sizes.len() == 1 { "," } else { "" };
        output.fake = format!("{first}.new_empty(({}{comma}), dtype={dtype})", sizes.join(", "));
    }
    let returned: Vec<&TensorPlan> = outputs.iter().filter(|output| !output.inplace).collect();
    // Like an input is faster than from lengths, which become objects of Python first.
    let allocation = |output: &&TensorPlan| {
        let alike = inputs.iter().find(|input| {
            let name = |tensor: &TensorPlan| tensor.dtype.as_ref().map(|dtype| dtype.torch.clone());
            let same_dtype = input.variable == output.variable && name(input) == name(output);
            !input.optional && input.axes == output.axes && same_dtype
        });
        alike.map_or_else(|| output.fake.clone(), |input| format!("torch.empty_like({})", input.name))
    };
    let mut varying: Vec<usize> =
        (0..op.axes.len()).filter(|axis| matches!(op.axes[*axis].kind, AxisKind::Var { .. })).collect();
    varying.sort_by_key(|axis| op.axes[*axis].name.value.to_string());
    let mut lengths = vec![];
    for axis in &varying {
        lengths.push(length_of(*axis, op, inputs).ok_or_else(|| unknown(*axis))?);
    }
    let comma = if lengths.len() == 1 { "," } else { "" };
    let tensors = inputs.iter().map(|input| {
        let optional = if input.optional { " | None" } else { "" };
        format!("{}: torch.Tensor{optional}", input.name)
    });
    let parameters: Vec<String> =
        tensors.chain(scalars.iter().map(|scalar| format!("{}: {}", scalar.name, scalar.python))).collect();
    let brought = returned.iter().map(|output| format!("{}: torch.Tensor", output.name));
    let floats: Vec<&TensorPlan> = inputs.iter().filter(|input| input.is_float).collect();
    let wants = floats.iter().map(|input| match input.optional {
        true => format!("({0} is not None and {0}.requires_grad)", input.name),
        false => format!("{}.requires_grad", input.name),
    });
    let out = op.call.out.iter().map(|name| name.value.to_string()).collect::<Vec<_>>();
    let gradient = op.gradient.iter().flat_map(|gradient| &gradient.inputs);
    Ok(PythonPlan {
        returns: match returned.len() {
            0 => "None".to_owned(),
            1 => "torch.Tensor".to_owned(),
            several => format!("tuple[{}]", vec!["torch.Tensor"; several].join(", ")),
        },
        first,
        lengths: format!("({}{comma})", lengths.join(", ")),
        axes: varying.iter().map(|axis| op.axes[*axis].name.value.to_string()).collect(),
        arguments: list(
            inputs.iter().map(|input| &input.name).chain(scalars.iter().map(|scalar| &scalar.name)),
            ", ",
        ),
        out_parameters: list(brought.chain(parameters.iter().cloned()), ", "),
        parameters: parameters.join(", "),
        no_out: list(out.iter().map(|name| format!("{name} is None")), " and "),
        some_out: list(out.iter().map(|name| format!("{name} is None")), " or "),
        wants_gradient: list(wants, " or "),
        float_inputs: !floats.is_empty(),
        leading_of: leading_of.unwrap_or_default(),
        allocations: returned.iter().map(allocation).collect(),
        returned: match returned.as_slice() {
            [] => "None".to_owned(),
            some => list(some.iter().map(|output| &output.name), ", "),
        },
        differentiable: list(gradient.map(|name| format!("`{}`", name.value)), ", "),
    })
}

/// How autograd calls `backward`, whose names tie it to `forward`: `grad_x` among its inputs is the gradient of the output
/// `x`, among its outputs that of the input `x`; everything else has its name in the forward.
///
/// # Errors
/// A name that the forward does not have.
pub fn backward(forward: &HostPlan, backward: &HostPlan) -> Result<BackwardPlan, HostError> {
    let unsupported = |what: String| HostError::Unsupported { what };
    let returned: Vec<&TensorPlan> = forward.returned.iter().map(|place| &forward.outputs[*place]).collect();
    let (mut saved, mut saved_outputs, mut arguments) = (vec![], false, vec![]);
    for input in &backward.inputs {
        let name = &input.name;
        let gradient =
            name.strip_prefix("grad_").filter(|name| returned.iter().any(|output| output.name == *name));
        if gradient.is_some() {
            arguments.push(format!("{name}.contiguous()"));
            continue;
        }
        let is_input = forward.inputs.iter().any(|known| known.name == *name);
        let is_output = returned.iter().any(|known| known.name == *name);
        if !is_input && !is_output {
            return Err(unsupported(format!(
                "`{}` takes `{name}`, which is neither the gradient of an output of `{}` nor one of its tensors",
                backward.op, forward.op
            )));
        }
        saved_outputs |= !is_input;
        saved.push(name.clone());
        arguments.push(name.clone());
    }
    let mut scalars = vec![];
    for scalar in &backward.scalars {
        if !forward.scalars.iter().any(|known| known.name == scalar.name) {
            return Err(unsupported(format!(
                "`{}` takes `{}`, which `{}` does not",
                backward.op, scalar.name, forward.op
            )));
        }
        arguments.push(format!("ctx.{}", scalar.name));
        scalars.push(scalar.name.clone());
    }
    let results: Vec<&TensorPlan> = backward.returned.iter().map(|place| &backward.outputs[*place]).collect();
    for result in &results {
        let of = result.name.strip_prefix("grad_");
        if !of.is_some_and(|of| forward.inputs.iter().any(|input| input.name == of)) {
            return Err(unsupported(format!(
                "`{}` returns `{}`, the gradient of no input",
                backward.op, result.name
            )));
        }
    }
    let of_input = forward.inputs.iter().enumerate().map(|(number, input)| {
        let name = forward.same_gradients.get(&input.name).unwrap_or(&input.name);
        let place = results.iter().position(|result| result.name.strip_prefix("grad_") == Some(name));
        match place {
            None => "None".to_owned(),
            // PyTorch takes no gradient of what was left out.
            Some(place) if input.optional => {
                format!("results[{place}] if ctx.needs_input_grad[{number}] else None")
            }
            Some(place) => format!("results[{place}]"),
        }
    });
    let returns = of_input.chain(forward.scalars.iter().map(|_| "None".to_owned()));
    Ok(BackwardPlan {
        op: backward.op.clone(),
        returns: list(returns, ", "),
        saved: saved.join(", "),
        saved_outputs,
        scalars,
        gradients: list(returned.iter().map(|output| format!("grad_{}", output.name)), ", "),
        arguments: arguments.join(", "),
        returned: results.len(),
    })
}
