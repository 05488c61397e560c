//! `[launch]` as a launcher that is compiled ahead of time.
//!
//! Owns: settings, sets of macros, kernels with their C++. Never: searches for instances; `instances` does.

use std::collections::BTreeSet;

use crate::spec::OpSpec;
use crate::spec::expr::{Bindings, Expr, ExprKind, IntExpr, Value};
use crate::spec::launch::{
    Define, Interleave, Kernel, KernelArgument, L2Promotion, Launch, OobFill, Swizzle, TemplateArgument,
    TensorMap, Workspace,
};
use crate::spec::op::TensorDtype;
use crate::spec::tune::Tuning;
use crate::units::PythonName;

use super::cpp::{Names, element};
use super::error::{HostError, unsupported};
use super::instances::{self, Instance, Setting};
use super::settings::{DeviceSettings, RangeSettings};
use super::types::{
    ArgumentPlan, DevicePlan, InstancePlan, KernelPlan, LaunchPlan, MapPlan, RangePlan, SettingPlan,
    SpacePlan, WorkspacePlan,
};

/// The plan of a launcher.
///
/// # Errors
/// What a launcher that is compiled ahead of time cannot do.
pub(super) fn plan(
    op: &OpSpec,
    launch: &Launch,
    devices: &[DeviceSettings],
    names: &Names<'_>,
) -> Result<LaunchPlan, HostError> {
    let Choices { tunings, settings, spaces, instances: found } = choices(op, launch, devices)?;
    let space_plan = |place: usize, defines: Vec<(String, String)>| {
        let of_kernel = |(kernel, instances): (&Kernel, &BTreeSet<Instance>)| {
            let here = instances.iter().filter(|instance| instance.space == place);
            here.map(|instance| instance_plan(op, kernel, instance, place)).collect()
        };
        SpacePlan { defines, instances: launch.kernels.iter().zip(&found).map(of_kernel).collect() }
    };
    let value = |value: &Value| match value {
        Value::Integer(number) => *number,
        Value::Boolean(truth) => i64::from(*truth),
    };
    let tunables: Vec<&PythonName> = op.tune.tunables.iter().map(|tunable| &tunable.name.value).collect();
    let setting_plan = |(tuning, space): &(Tuning, usize)| SettingPlan {
        values: tunables.iter().map(|name| tuning.get(*name).map(value).unwrap_or_default()).collect(),
        space: *space,
    };
    let range_plan = |range: &RangeSettings| {
        let dtypes =
            range.dtypes.iter().map(|(name, dtype)| format!("call.{name} == Element::{}", element(*dtype)));
        let axes = range
            .axes
            .iter()
            .map(|(name, [least, greatest])| format!("call.{name} >= {least} && call.{name} <= {greatest}"));
        let multiples = range.multiples.iter().map(|(name, of)| format!("call.{name} % {of} == 0"));
        let all: Vec<String> = dtypes.chain(axes).chain(multiples).collect();
        RangePlan {
            when: if all.is_empty() { "true".to_owned() } else { all.join(" && ") },
            setting: tunings.iter().position(|tuning| *tuning == range.tuning).unwrap_or_default(),
        }
    };
    let device_plan = |device: &DeviceSettings| DevicePlan {
        device: device.device.clone(),
        capability: device.capability,
        multiprocessors: device.multiprocessors,
        ranges: device.ranges.iter().map(range_plan).collect(),
    };
    let workspaces = launch.workspaces.iter().enumerate().map(|(place, workspace)| {
        let lengths = workspace.shape.iter().map(|length| names.text(length.tree()));
        let factors: Vec<_> = lengths.chain([names.size(&workspace.dtype.value)]).collect();
        let bytes = factors.join(" * ");
        let conditions = needing(launch, workspace).map(|all| {
            all.into_iter().map(|when| format!("({})", names.bare(when))).collect::<Vec<_>>().join(" || ")
        });
        WorkspacePlan {
            name: workspace.name.value.to_string(),
            place,
            bytes: conditions.map_or_else(|| bytes.clone(), |needed| format!("{needed} ? {bytes} : 0")),
            zero: workspace.zero,
        }
    });
    let kernels = launch.kernels.iter().map(|kernel| kernel_plan(op, kernel, names));
    let sizes = |workspace| lengths(workspace).chain(needing(launch, workspace).into_iter().flatten());
    let zeroed = launch.workspaces.iter().filter(|workspace| workspace.zero);
    let started = launch.kernels.iter().flat_map(Kernel::expressions).chain(zeroed.flat_map(sizes));
    let mapped = launch.tensor_maps.iter().flat_map(TensorMap::expressions);
    Ok(LaunchPlan {
        source: super::file_name(launch.source.value.as_str()),
        tunables: tunables.iter().map(ToString::to_string).collect(),
        settings: settings.iter().map(setting_plan).collect(),
        spaces: spaces.into_iter().enumerate().map(|(place, defines)| space_plan(place, defines)).collect(),
        devices: devices.iter().map(device_plan).collect(),
        conditions: op.tune.of_calls().map(|one| names.bare(one.tree())).collect(),
        condition_constants: names.constants(op.tune.of_calls().map(|one| one.tree())),
        workspaces: workspaces.collect(),
        workspace_constants: names.constants(launch.workspaces.iter().flat_map(sizes)),
        constants: names.constants(started.chain(mapped)),
        has_tensor_maps: !launch.tensor_maps.is_empty(),
        kernels: kernels.collect::<Result<_, _>>()?,
    })
}

/// The namespace of the kernels that were compiled with a set of macros.
pub(super) fn namespace(op: &OpSpec, space: usize) -> String {
    format!("{}_macros_{space}", op.name.value)
}

/// What a launcher chooses between: settings, sets of macros, instances of every kernel.
pub(super) struct Choices {
    /// Every setting once; the defaults first.
    pub(super) tunings: Vec<Tuning>,
    /// The same with the place of its set of macros.
    pub(super) settings: Vec<(Tuning, usize)>,
    /// Sets of macros: name and value.
    pub(super) spaces: Vec<Vec<(String, String)>>,
    /// The instances of every kernel, of all sets.
    pub(super) instances: Vec<BTreeSet<Instance>>,
}

/// Finds them.
///
/// # Errors
/// What a launcher that is compiled ahead of time cannot do.
pub(super) fn choices(
    op: &OpSpec,
    launch: &Launch,
    devices: &[DeviceSettings],
) -> Result<Choices, HostError> {
    let mut tunings = vec![op.tune.default_tuning()];
    for range in devices.iter().flat_map(|device| &device.ranges) {
        if !tunings.contains(&range.tuning) {
            tunings.push(range.tuning.clone());
        }
    }
    let mut spaces: Vec<Vec<(String, String)>> = vec![];
    let mut settings = vec![];
    for tuning in &tunings {
        let defines = defines(launch, tuning)?;
        let space = spaces.iter().position(|known| *known == defines).unwrap_or_else(|| {
            spaces.push(defines);
            spaces.len() - 1
        });
        settings.push((tuning.clone(), space));
    }
    let ranges = |tuning: &Tuning| {
        let all = devices.iter().flat_map(|device| &device.ranges);
        all.filter(|range| range.tuning == *tuning).collect::<Vec<_>>()
    };
    // The defaults, which come first, are for every call; the others for those of their ranges alone.
    let with_calls = settings.iter().enumerate().map(|(place, (tuning, space))| Setting {
        tuning,
        space: *space,
        ranges: (place > 0).then(|| ranges(tuning)),
    });
    let found = instances::instances(op, launch, &with_calls.collect::<Vec<_>>())?;
    // One that these settings do not start stays in the launcher, which would say so if a call asked for it.
    if found.iter().all(BTreeSet::is_empty) {
        return Err(HostError::Never);
    }
    Ok(Choices { tunings, settings, spaces, instances: found })
}

/// The conditions of the kernels that take a workspace; `None` if it is always needed, or no kernel takes it.
fn needing<'a>(launch: &'a Launch, workspace: &Workspace) -> Option<Vec<&'a Expr>> {
    let takes = |kernel: &&Kernel| {
        let is_it = |argument: &KernelArgument| matches!(argument, KernelArgument::Pointer(name) if name.value == workspace.name.value);
        kernel.arguments.iter().any(is_it)
    };
    let all = launch.kernels.iter().filter(takes).map(|kernel| Some(kernel.when.as_ref()?.tree()));
    all.collect::<Option<Vec<_>>>().filter(|conditions| !conditions.is_empty())
}

fn lengths(workspace: &Workspace) -> impl Iterator<Item = &Expr> {
    workspace.shape.iter().map(IntExpr::tree)
}

/// The macros under one setting.
fn defines(launch: &Launch, tuning: &Tuning) -> Result<Vec<(String, String)>, HostError> {
    let mut bindings = Bindings::default();
    bindings.names.extend(tuning.iter().map(|(name, value)| (name.clone(), *value)));
    let of = |define: &Define| {
        let value = define.value.evaluate(&bindings).map_err(|_| HostError::Define {
            name: define.name.value.to_string(),
            expression: define.value.to_string(),
        })?;
        let text = match value {
            Value::Integer(number) => number.to_string(),
            Value::Boolean(truth) => i64::from(truth).to_string(),
        };
        Ok((define.name.value.to_string(), text))
    };
    launch.defines.iter().map(of).collect()
}

fn instance_plan(op: &OpSpec, kernel: &Kernel, instance: &Instance, space: usize) -> InstancePlan {
    let elements = instance.dtypes.iter().map(|dtype| format!("int64_t(Element::{})", element(*dtype)));
    let key = elements.chain(instance.values.iter().map(ToString::to_string)).collect();
    InstancePlan {
        key,
        function: instances::spelled(kernel, op, instance, &format!("{}::", namespace(op, space))),
    }
}

fn kernel_plan(op: &OpSpec, kernel: &Kernel, names: &Names<'_>) -> Result<KernelPlan, HostError> {
    let elements = op.dtypes.iter().map(|variable| format!("int64_t(call.{})", variable.name.value));
    let values = kernel.template.iter().filter_map(|argument| match argument {
        TemplateArgument::Value(value) => Some(names.bare(value.tree())),
        TemplateArgument::Type(_) => None,
    });
    // Three numbers, the last ones filled up.
    let texts = |list: &[IntExpr], rest: &str| {
        let given = list.iter().map(|it| names.bare(it.tree()));
        given.chain(std::iter::repeat(rest.to_owned())).take(3).collect::<Vec<_>>().join(", ")
    };
    let arguments =
        kernel.arguments.iter().enumerate().map(|(place, given)| argument(op, names, kernel, place, given));
    Ok(KernelPlan {
        entry: kernel.entry.value.clone(),
        when: kernel.when.as_ref().map(|when| names.bare(when.tree())),
        key: elements.chain(values).collect(),
        grid: texts(&kernel.grid.value, "1"),
        block: texts(&kernel.block.value, "1"),
        cluster: match &kernel.cluster {
            Some(cluster) => texts(&cluster.value, "1"),
            None => texts(&[], "0"),
        },
        shared: kernel.shared.as_ref().map_or_else(|| "0".to_owned(), |shared| names.bare(shared.tree())),
        carveout: kernel.carveout.as_ref().map(|carveout| names.bare(carveout.tree())),
        cooperative: kernel.cooperative,
        arguments: arguments.collect::<Result<_, HostError>>()?,
    })
}

fn argument(
    op: &OpSpec,
    names: &Names<'_>,
    kernel: &Kernel,
    place: usize,
    given: &KernelArgument,
) -> Result<ArgumentPlan, HostError> {
    let plain = |kind: &str, value| ArgumentPlan { kind: kind.to_owned(), value, narrowed: None, map: None };
    Ok(match given {
        KernelArgument::Pointer(name) => plain("const void*", pointer(op, &name.value)),
        KernelArgument::TensorMap(name) => {
            let maps = op.launch.iter().flat_map(|launch| &launch.tensor_maps);
            let map = maps.into_iter().find(|map| map.name.value == name.value);
            let map = map.ok_or_else(|| unsupported(format!("`{}` is an unknown tensor map", name.value)))?;
            ArgumentPlan {
                map: Some(map_plan(op, names, kernel, map)?),
                ..plain("CUtensorMap", pointer(op, &map.tensor.value))
            }
        }
        KernelArgument::I32(expr) => {
            let named = narrowed_name(expr.tree(), place);
            let value = names.bare(expr.tree());
            ArgumentPlan { narrowed: Some(named), ..plain("int32_t", value) }
        }
        KernelArgument::I64(expr) => plain("int64_t", names.bare(expr.tree())),
        KernelArgument::Bool(expr) => plain("bool", names.bare(expr.tree())),
        KernelArgument::F32(name) => plain("float", format!("static_cast<float>(call.{})", name.value)),
        KernelArgument::F64(name) => plain("double", format!("call.{}", name.value)),
    })
}

/// Describes a dense tensor for its tensor map.
fn map_plan(op: &OpSpec, names: &Names<'_>, kernel: &Kernel, map: &TensorMap) -> Result<MapPlan, HostError> {
    let wanted = &map.tensor.value;
    let launch = op.launch.iter();
    let mut workspaces = launch.flat_map(|launch| &launch.workspaces);
    let inputs = op.inputs.iter().map(|input| &input.tensor);
    let mut tensors = inputs.chain(op.outputs.iter().map(|output| &output.tensor));
    let (dtype, own): (&TensorDtype, Vec<String>) =
        if let Some(tensor) = tensors.find(|tensor| tensor.name.value == *wanted) {
            let axes = tensor.shape.iter().map(|axis| names.name(&axis.value));
            (&tensor.dtype.value, axes.collect())
        } else if let Some(workspace) = workspaces.find(|workspace| workspace.name.value == *wanted) {
            (&workspace.dtype.value, lengths(workspace).map(|length| names.bare(length)).collect())
        } else {
            return Err(unsupported(format!("the tensor map `{}` is of an unknown tensor", map.name.value)));
        };
    let texts = |list: &[IntExpr]| list.iter().map(|it| names.bare(it.tree())).collect::<Vec<_>>();
    let shape = map.shape.as_ref().map_or(own, |shape| texts(shape));
    let box_lengths = texts(&map.box_shape);
    let element_strides =
        map.element_strides.as_ref().map_or_else(|| vec!["1".to_owned(); shape.len()], |them| texts(them));
    // As `check` has it for every workload.
    if !(1..=5).contains(&shape.len())
        || box_lengths.len() != shape.len()
        || element_strides.len() != shape.len()
    {
        return Err(unsupported(format!(
            "the tensor map `{}` of `{}` has {} dimensions, with a box of {}",
            map.name.value,
            kernel.entry.value,
            shape.len(),
            box_lengths.len()
        )));
    }
    let interleave = match map.interleave {
        Interleave::None => "NONE",
        Interleave::B16 => "16B",
        Interleave::B32 => "32B",
    };
    let swizzle = match map.swizzle {
        Swizzle::None => "NONE",
        Swizzle::B32 => "32B",
        Swizzle::B64 => "64B",
        Swizzle::B128 => "128B",
    };
    let promotion = match map.l2_promotion {
        L2Promotion::None => "NONE",
        L2Promotion::B64 => "L2_64B",
        L2Promotion::B128 => "L2_128B",
        L2Promotion::B256 => "L2_256B",
    };
    let fill = match map.oob_fill {
        OobFill::Zero => "NONE",
        OobFill::Nan => "NAN_REQUEST_ZERO_FMA",
    };
    let modes = [
        format!("CU_TENSOR_MAP_INTERLEAVE_{interleave}"),
        format!("CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
        format!("CU_TENSOR_MAP_L2_PROMOTION_{promotion}"),
        format!("CU_TENSOR_MAP_FLOAT_OOB_FILL_{fill}"),
    ];
    Ok(MapPlan {
        name: map.name.value.to_string(),
        element: match dtype {
            TensorDtype::Fixed(dtype) => format!("Element::{}", element(*dtype)),
            TensorDtype::Variable(name) => format!("{}.{name}", names.call),
        },
        rank: shape.len(),
        lengths: shape.join(", "),
        box_lengths: box_lengths.join(", "),
        element_strides: element_strides.join(", "),
        modes: modes.join(", "),
    })
}

/// What messages call an argument of 32 bits, which its value may exceed.
pub(super) fn narrowed_name(expr: &Expr, place: usize) -> String {
    match &expr.kind {
        ExprKind::Named(definition) => {
            format!("`{}`, which the kernel takes as 32 bits,", definition.name.value)
        }
        ExprKind::Name(name) => format!("`{name}`, which the kernel takes as 32 bits,"),
        _ => format!("argument {place} of the kernel, which has 32 bits,"),
    }
}

/// The address of a tensor, or of scratch memory.
fn pointer(op: &OpSpec, name: &PythonName) -> String {
    let workspaces = op.launch.iter().flat_map(|launch| &launch.workspaces);
    match workspaces.map(|workspace| &workspace.name.value).position(|known| known == name) {
        Some(place) => format!("workspaces[{place}]"),
        None => format!("call.{name}"),
    }
}

/// The name of a file without its folder.
pub(super) fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}
