//! The plan of a Rust module that starts the device code of an operation.
//!
//! Owns: which operations such a module can be generated for, its signature, the numbers that it computes for a call.
//! Never: renders text of a file; compiles.

use std::collections::BTreeMap;

use crate::spec::OpSpec;
use crate::spec::expr::{IntExpr, Value, ValueExpr};
use crate::spec::launch::{Kernel, KernelArgument, Launch, TemplateArgument};
use crate::spec::op::{Axis, AxisKind, ScalarValue, Tensor, TensorDtype};
use crate::units::{Dtype, PythonName};

use super::error::{HostError, unsupported};
use super::instances::{self, Instance, bounds};
use super::launch::{Choices, choices, namespace, narrowed_name};
use super::settings::{DeviceSettings, RangeSettings, with_defaults};

mod mangled;
mod signature;
mod spelling;
mod types;

use spelling::{Names, dtype_path, identifier};

pub use mangled::is_name_of;
pub use types::*;

/// The plan of an operation, with the settings that devices have beside the defaults.
///
/// # Errors
/// What op.toml asks for and a generated Rust module does not do.
pub fn plan(op: &OpSpec, devices: &[DeviceSettings]) -> Result<RustPlan, HostError> {
    grouped(op, devices, TOGETHER)
}

/// The same for code that a generated host side in C++ was compiled with: each set of macros is one part, and its functions
/// are in the namespace of [`PartPlan::names`].
///
/// # Errors
/// As [`plan`].
pub fn of_library(op: &OpSpec, devices: &[DeviceSettings]) -> Result<RustPlan, HostError> {
    grouped(op, devices, usize::MAX)
}

fn grouped(op: &OpSpec, devices: &[DeviceSettings], together: usize) -> Result<RustPlan, HostError> {
    let Some(launch) = &op.launch else { return Err(HostError::NoLaunch) };
    if let Some(strided) = op.inputs.iter().find(|input| input.strided) {
        return Err(unsupported(format!("`{}` of [inputs] has strided = true", strided.tensor.name.value)));
    }
    if let Some(map) = launch.tensor_maps.first() {
        return Err(unsupported(format!("[launch.tensor-map.{}] describes a tensor map", map.name.value)));
    }
    let devices = &with_defaults(op, devices);
    let names = Names { op };
    let choices = choices(op, launch, devices)?;
    let mut parts = vec![];
    let spaces = choices.spaces.iter().enumerate().map(|(place, defines)| SpacePlan {
        defines: defines.clone(),
        kernels: instances_of(op, launch, &choices, (place, together), &mut parts),
    });
    let spaces = spaces.collect();
    let mut parameters: Vec<ParameterPlan> = vec![];
    parameters.extend(
        op.outputs
            .iter()
            .filter(|output| output.inplace.is_none())
            .map(|output| ParameterPlan { access: Access::Output, ..parameter(op, &output.tensor) }),
    );
    parameters.extend(op.inputs.iter().map(|input| {
        let name = &input.tensor.name.value;
        let is_over = op.outputs.iter().any(|it| it.inplace.as_ref().is_some_and(|over| over.value == *name));
        let access = if is_over { Access::Both } else { Access::Input };
        ParameterPlan { access, optional: input.optional, ..parameter(op, &input.tensor) }
    }));
    let workspaces = launch.workspaces.iter().map(|workspace| {
        let factors = workspace.shape.iter().map(|length| names.spell(length.tree()));
        WorkspacePlan {
            name: workspace.name.value.to_string(),
            bytes: names.product(factors.chain([names.size(&workspace.dtype.value)])),
            zero: workspace.zero,
        }
    });
    Ok(RustPlan {
        op: op.name.value.to_string(),
        module: identifier(op.name.value.as_str()),
        description: op
            .description
            .as_ref()
            .map(|text| text.value.split_whitespace().collect::<Vec<_>>().join(" "))
            .unwrap_or_default(),
        source: launch.source.value.to_string(),
        axes: op.axes.iter().map(axis).collect(),
        variables: op
            .dtypes
            .iter()
            .map(|variable| variable_plan(&variable.name.value, &variable.dtypes))
            .collect(),
        parameters,
        scalars: op.scalars.iter().map(scalar).collect(),
        constraints: op
            .constraints
            .iter()
            .map(|condition| Named { name: condition.to_string(), value: names.spell(condition.tree()) })
            .collect(),
        definitions: op
            .definitions
            .iter()
            .map(|definition| DefinitionPlan {
                name: definition.name.value.to_string(),
                kind: match definition.value {
                    ValueExpr::Integer(_) => "i64",
                    ValueExpr::Boolean(_) => "bool",
                },
                value: names.spell(definition.value.tree()),
            })
            .collect(),
        tunables: op
            .tune
            .tunables
            .iter()
            .map(|tunable| Named {
                name: identifier(tunable.name.value.as_str()),
                value: match tunable.default.value {
                    Value::Integer(_) => "i64".to_owned(),
                    Value::Boolean(_) => "bool".to_owned(),
                },
            })
            .collect(),
        settings: choices
            .settings
            .iter()
            .map(|(tuning, space)| SettingPlan {
                space: *space,
                values: op
                    .tune
                    .tunables
                    .iter()
                    .map(|tunable| {
                        let value = tuning.get(&tunable.name.value).copied().unwrap_or(tunable.default.value);
                        Named { name: identifier(tunable.name.value.as_str()), value: value.to_string() }
                    })
                    .collect(),
            })
            .collect(),
        conditions: op.tune.of_calls().map(|one| names.spell(one.tree())).collect(),
        devices: devices
            .iter()
            .map(|device| DevicePlan {
                name: device.device.clone(),
                capability: device.capability,
                multiprocessors: device.multiprocessors,
                ranges: device.ranges.iter().map(|range| range_plan(&names, &choices, range)).collect(),
            })
            .collect(),
        spaces,
        parts,
        workspaces: workspaces.collect(),
        kernels: launch
            .kernels
            .iter()
            .map(|kernel| kernel_plan(op, launch, kernel, &names))
            .collect::<Result<_, _>>()?,
    })
}

/// Instances that are compiled together: a compiler takes seconds for them, and parts are compiled side by side.
const TOGETHER: usize = 16;

/// The instances of every kernel in one set of macros, so many `together` in a part. Their expressions are added to `parts`.
fn instances_of(
    op: &OpSpec,
    launch: &Launch,
    choices: &Choices,
    (space, together): (usize, usize),
    parts: &mut Vec<PartPlan>,
) -> Vec<Vec<InstancePlan>> {
    let first = parts.len();
    let defines = &choices.spaces[space];
    let mut known: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut plan = |kernel: &Kernel, instance: &Instance| {
        let expression = instances::spelled(kernel, op, instance, "");
        // Two entries of [launch] may start the same function.
        let (part, function) = *known.entry(expression.clone()).or_insert_with(|| {
            if parts.len() == first || parts.last().is_none_or(|part| part.expressions.len() >= together) {
                parts.push(PartPlan {
                    defines: defines.clone(),
                    namespace: namespace(op, space),
                    expressions: vec![],
                });
            }
            let part = parts.len() - 1;
            parts[part].expressions.push(expression.clone());
            (part, parts[part].expressions.len() - 1)
        });
        let dtypes = instance.dtypes.iter().map(|dtype| format!("{} as i64", dtype_path(*dtype)));
        let key = dtypes.chain(instance.values.iter().map(ToString::to_string)).collect();
        InstancePlan { key, part, function, expression }
    };
    let kernels = launch.kernels.iter().zip(&choices.instances).map(|(kernel, instances)| {
        // Ascending by key, since dtypes are in the order of their numbers.
        instances
            .iter()
            .filter(|instance| instance.space == space)
            .map(|instance| plan(kernel, instance))
            .collect()
    });
    kernels.collect()
}

fn axis(axis: &Axis) -> AxisPlan {
    let [least, greatest] = bounds(axis);
    let (constant, multiple) = match axis.kind {
        AxisKind::Const(length) => (Some(length), 1),
        AxisKind::Var { multiple_of, .. } => (None, multiple_of),
    };
    AxisPlan {
        name: axis.name.value.to_string(),
        field: identifier(axis.name.value.as_str()),
        constant,
        least,
        greatest: if greatest == i64::MAX { "i64::MAX".to_owned() } else { greatest.to_string() },
        multiple,
        leading: axis.leading,
    }
}

fn variable_plan(name: &PythonName, dtypes: &[Dtype]) -> VariablePlan {
    VariablePlan {
        name: name.to_string(),
        generic: identifier(name.as_str()),
        types: dtypes.iter().map(|dtype| rust_type(*dtype).to_owned()).collect(),
        dtypes: dtypes.iter().map(ToString::to_string).collect(),
    }
}

fn parameter(op: &OpSpec, tensor: &Tensor) -> ParameterPlan {
    let place =
        |name: &PythonName| op.axes.iter().position(|axis| axis.name.value == *name).unwrap_or_default();
    let axes: Vec<usize> = tensor.shape.iter().map(|axis| place(&axis.value)).collect();
    let words = tensor.shape.iter().enumerate().map(|(at, axis)| {
        if at == 0 && op.axes[axes[0]].leading { "...".to_owned() } else { axis.value.to_string() }
    });
    ParameterPlan {
        name: tensor.name.value.to_string(),
        argument: argument_name(&tensor.name.value),
        field: identifier(tensor.name.value.as_str()),
        access: Access::Input,
        optional: false,
        element: match &tensor.dtype.value {
            TensorDtype::Fixed(dtype) => rust_type(*dtype).to_owned(),
            TensorDtype::Variable(name) => identifier(name.as_str()),
        },
        dtype: match &tensor.dtype.value {
            TensorDtype::Fixed(dtype) => dtype.to_string(),
            TensorDtype::Variable(name) => name.to_string(),
        },
        shape: format!("[{}]", words.collect::<Vec<_>>().join(", ")),
        axes,
    }
}

fn scalar(scalar: &crate::spec::op::Scalar) -> ScalarPlan {
    let literal = |value: ScalarValue| match value {
        ScalarValue::Float(value) if value.is_nan() => "f64::NAN".to_owned(),
        ScalarValue::Float(value) if value.is_infinite() => {
            if value > 0.0 { "f64::INFINITY" } else { "f64::NEG_INFINITY" }.to_owned()
        }
        ScalarValue::Float(value) => format!("{value:?}"),
        other => other.to_string(),
    };
    ScalarPlan {
        name: scalar.name.value.to_string(),
        argument: argument_name(&scalar.name.value),
        field: identifier(scalar.name.value.as_str()),
        kind: match scalar.default.value {
            ScalarValue::Float(_) => "f64",
            ScalarValue::Int(_) => "i64",
            ScalarValue::Bool(_) => "bool",
        },
        default: literal(scalar.default.value),
        least: scalar.min.map(literal),
        greatest: scalar.max.map(literal),
    }
}

/// What generated functions call something else.
const TAKEN: &[&str] = &["call", "enqueue", "lengths", "loaded", "s", "step", "stream"];

/// The name of a parameter: `stream` is `stream_`, and a number after `a` or `w` is that of a generated variable.
fn argument_name(name: &PythonName) -> String {
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let numbered = name.as_str().strip_prefix(['a', 'w']).is_some_and(is_number);
    if numbered || TAKEN.contains(&name.as_str()) { format!("{name}_") } else { identifier(name.as_str()) }
}

fn range_plan(names: &Names<'_>, choices: &Choices, range: &RangeSettings) -> RangePlan {
    let dtypes =
        range.dtypes.iter().map(|(name, dtype)| format!("{} == {}", names.member(name), dtype_path(*dtype)));
    let axes = range.axes.iter().map(|(name, [least, greatest])| {
        let most = i64::try_from(*greatest).unwrap_or(i64::MAX);
        format!("({least}..={most}).contains(&{})", names.member(name))
    });
    let multiples = range.multiples.iter().map(|(name, of)| format!("{} % {of} == 0", names.member(name)));
    let all: Vec<String> = dtypes.chain(axes).chain(multiples).collect();
    RangePlan {
        when: if all.is_empty() { "true".to_owned() } else { all.join(" && ") },
        setting: choices.tunings.iter().position(|tuning| *tuning == range.tuning).unwrap_or_default(),
    }
}

fn kernel_plan(
    op: &OpSpec,
    launch: &Launch,
    kernel: &Kernel,
    names: &Names<'_>,
) -> Result<KernelPlan, HostError> {
    let values = kernel.template.iter().filter_map(|argument| match argument {
        TemplateArgument::Value(value) => Some(names.number(value)),
        TemplateArgument::Type(_) => None,
    });
    let variables = op.dtypes.iter().map(|variable| format!("{} as i64", names.member(&variable.name.value)));
    // Three numbers, the last ones filled up.
    let three = |list: &[IntExpr]| {
        let given = list.iter().map(|it| names.spell(it.tree()));
        given.chain(std::iter::repeat("1".to_owned())).take(3).collect::<Vec<_>>().join(", ")
    };
    let spelled = |expr: &IntExpr| names.spell(expr.tree());
    let mut computed = 0;
    let arguments = kernel.arguments.iter().enumerate();
    let arguments = arguments.map(|(place, given)| argument(op, launch, names, place, given, &mut computed));
    Ok(KernelPlan {
        entry: kernel.entry.value.clone(),
        when: kernel.when.as_ref().map(|when| names.spell(when.tree())),
        key: variables.chain(values).collect(),
        grid: three(&kernel.grid.value),
        block: three(&kernel.block.value),
        cluster: kernel.cluster.as_ref().map(|cluster| three(&cluster.value)),
        shared: kernel.shared.as_ref().map_or_else(|| "0".to_owned(), spelled),
        carveout: kernel.carveout.as_ref().map(spelled),
        cooperative: kernel.cooperative,
        arguments: arguments.collect::<Result<_, _>>()?,
    })
}

fn argument(
    op: &OpSpec,
    launch: &Launch,
    names: &Names<'_>,
    place: usize,
    given: &KernelArgument,
    computed: &mut usize,
) -> Result<ArgumentPlan, HostError> {
    let mut number = || {
        *computed += 1;
        *computed - 1
    };
    Ok(match given {
        KernelArgument::Pointer(name) => pointer(op, launch, &name.value),
        KernelArgument::TensorMap(name) => {
            return Err(unsupported(format!("`{}` is a tensor map", name.value)));
        }
        KernelArgument::I32(expr) => ArgumentPlan::Narrowed {
            number: number(),
            value: names.spell(expr.tree()),
            name: narrowed_name(expr.tree(), place),
        },
        KernelArgument::I64(expr) => {
            ArgumentPlan::Computed { number: number(), kind: "i64", value: names.spell(expr.tree()) }
        }
        KernelArgument::Bool(expr) => {
            ArgumentPlan::Computed { number: number(), kind: "bool", value: names.spell(expr.tree()) }
        }
        KernelArgument::F32(name) => ArgumentPlan::Float { kind: "f32", scalar: names.member(&name.value) },
        KernelArgument::F64(name) => ArgumentPlan::Float { kind: "f64", scalar: names.member(&name.value) },
    })
}

fn pointer(op: &OpSpec, launch: &Launch, name: &PythonName) -> ArgumentPlan {
    if let Some(place) = launch.workspaces.iter().position(|workspace| workspace.name.value == *name) {
        return ArgumentPlan::Workspace { place };
    }
    // An output in place has the memory of its input.
    let output = op.outputs.iter().find(|output| output.tensor.name.value == *name);
    let over = output.and_then(|output| output.inplace.as_ref()).map_or(name, |input| &input.value);
    let optional = op.inputs.iter().any(|input| input.tensor.name.value == *over && input.optional);
    ArgumentPlan::Tensor { argument: argument_name(over), optional }
}

/// The type of an element in Rust.
const fn rust_type(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bf16 => "half::bf16",
        Dtype::F16 => "half::f16",
        Dtype::F32 => "f32",
        Dtype::F64 => "f64",
        Dtype::F8e4m3 => "F8E4M3",
        Dtype::F8e5m2 => "F8E5M2",
        Dtype::I8 => "i8",
        Dtype::I16 => "i16",
        Dtype::I32 => "i32",
        Dtype::I64 => "i64",
        Dtype::Bool => "bool",
    }
}

#[cfg(test)]
mod tests;
