//! What the files of a host side are rendered from.
//!
//! Owns: the plan's types. Never: decides anything.

use std::collections::BTreeMap;

use serde::Serialize;

/// What the files of one operator are rendered from.
#[derive(Debug, Clone, Serialize)]
pub struct HostPlan {
    /// The operator: `rms_norm`.
    pub op: String,
    /// As a type's name: `RmsNorm`.
    pub camel: String,
    /// One line on what it does.
    pub description: String,
    /// All axes, in file order.
    pub axes: Vec<AxisPlan>,
    /// The type variables.
    pub variables: Vec<VariablePlan>,
    /// Whether an axis stands for any number of leading ones.
    pub has_leading: bool,
    /// The signature in Python.
    pub python: PythonPlan,
    /// In argument order.
    pub inputs: Vec<TensorPlan>,
    /// In the order of return.
    pub outputs: Vec<TensorPlan>,
    /// In argument order.
    pub scalars: Vec<ScalarPlan>,
    /// The places of the outputs that are not in place.
    pub returned: Vec<usize>,
    /// The schema's arguments, without those for outputs: `Tensor input, float eps`.
    pub schema: String,
    /// What it returns: `Tensor`, `(Tensor, Tensor)`, `()`.
    pub schema_returns: String,
    /// The arguments where the caller brings the outputs.
    pub schema_out: String,
    /// The signature in C++ with torch's tensors.
    pub cpp: CppPlan,
    /// With those of tvm-ffi.
    pub ffi: CppPlan,
    /// The function of reference.py.
    pub reference: String,
    /// The fused one.
    pub fused: Option<String>,
    /// The package's function.
    pub function: String,
    /// Keywords that take outputs.
    pub out: Vec<String>,
    /// Inputs that have a gradient.
    pub gradients: Vec<String>,
    /// Inputs whose gradient is that of another one.
    pub same_gradients: BTreeMap<String, String>,
    /// How device code is started.
    pub launch: Option<LaunchPlan>,
    /// What runs on the processor.
    pub cpu: Option<CpuPlan>,
    /// Whether Python of the project computes it, with the operators of other files and PyTorch's.
    pub forward: bool,
    /// Shapes for tests: name, lengths by axis, bytes at most; those for verifying.
    pub cases: Vec<CasePlan>,
    /// Shapes that are measured.
    pub measured: Vec<CasePlan>,
}

/// A signature in C++.
#[derive(Debug, Clone, Serialize)]
pub struct CppPlan {
    /// What the function returns.
    pub returns: String,
    /// Its parameters.
    pub parameters: String,
    /// Its parameters that are tensors.
    pub inputs: String,
    /// The parameters where the caller brings the outputs.
    pub out_parameters: String,
    /// The names of those.
    pub arguments: String,
    /// The names of the tensors.
    pub input_names: String,
    /// The names of what it returns.
    pub returned_names: String,
}

/// An axis.
#[derive(Debug, Clone, Serialize)]
pub struct AxisPlan {
    /// Its name.
    pub name: String,
    /// Its length where it is constant.
    pub constant: Option<u64>,
    /// The least length.
    pub least: i64,
    /// The greatest length, in C++.
    pub greatest: String,
    /// Lengths are multiples of this.
    pub multiple: u64,
    /// Whether it stands for any number of leading axes.
    pub leading: bool,
}

/// A type variable.
#[derive(Debug, Clone, Serialize)]
pub struct VariablePlan {
    /// Its name.
    pub name: String,
    /// Its dtypes: enumerators of `Element`, attributes of `torch`.
    pub dtypes: Vec<DtypePlan>,
}

/// A dtype in its spellings.
#[derive(Debug, Clone, Serialize)]
pub struct DtypePlan {
    /// Ours.
    pub name: String,
    /// `kBF16`.
    pub element: String,
    /// `bfloat16`.
    pub torch: String,
    /// Whether it is a floating-point type.
    pub is_float: bool,
}

/// A tensor argument.
#[derive(Debug, Clone, Serialize)]
pub struct TensorPlan {
    /// Its name.
    pub name: String,
    /// The places of its axes.
    pub axes: Vec<usize>,
    /// Its shape in words: `[rows, hidden]`.
    pub shape: String,
    /// The place of its type variable.
    pub variable: Option<usize>,
    /// Its dtype where that is fixed.
    pub dtype: Option<DtypePlan>,
    /// Whether None may be passed.
    pub optional: bool,
    /// Whether the package's function draws it if it is not passed.
    pub seed: bool,
    /// For an input: whether an output overwrites it. For an output: whether it is in place.
    pub inplace: bool,
    /// For an output in place: the input.
    pub overwrites: Option<String>,
    /// Whether the first axis is the leading one.
    pub leading: bool,
    /// Whether its values are rounded: of floating point, for every dtype.
    pub is_float: bool,
    /// What the binding is told of it, in C++.
    pub spec: String,
    /// Its size in C++, from the members of a call.
    pub bytes: String,
    /// Its dtypes in words.
    pub dtypes: String,
    /// For an input: whether it may be left out of a call in Python.
    pub defaulted: bool,
    /// For an input with leading axes: with them as one, in Python.
    pub flattened: String,
    /// For an output: one without values, in Python.
    pub fake: String,
    /// Its place among the inputs or outputs.
    pub place: usize,
}

/// A scalar argument.
#[derive(Debug, Clone, Serialize)]
pub struct ScalarPlan {
    /// Its name.
    pub name: String,
    /// `double`, `int64_t`, `bool`.
    pub cpp: String,
    /// `float`, `int`, `bool`.
    pub python: String,
    /// As Python writes it.
    pub default: String,
}

/// `[launch]` in C++.
#[derive(Debug, Clone, Serialize)]
pub struct LaunchPlan {
    /// The file of the device code, without folders.
    pub source: String,
    /// Members of the settings.
    pub tunables: Vec<String>,
    /// Values of the members, with the set of macros that the code for them has; the defaults first.
    pub settings: Vec<SettingPlan>,
    /// Sets of macros.
    pub spaces: Vec<SpacePlan>,
    /// Devices with settings of their own.
    pub devices: Vec<DevicePlan>,
    /// Constraints of `[tune]` that depend on the call. A call that breaks one gets the defaults.
    pub conditions: Vec<String>,
    /// Names of `[let]` that the conditions use.
    pub condition_constants: Vec<ConstantPlan>,
    /// Scratch memory.
    pub workspaces: Vec<WorkspacePlan>,
    /// Names of `[let]` that the sizes of scratch memory use.
    pub workspace_constants: Vec<ConstantPlan>,
    /// Names of `[let]` that the start of kernels uses.
    pub constants: Vec<ConstantPlan>,
    /// Whether a kernel takes a tensor map.
    pub has_tensor_maps: bool,
    /// What is started, in order.
    pub kernels: Vec<KernelPlan>,
}

/// A name of `[let]` as a constant.
#[derive(Debug, Clone, Serialize)]
pub struct ConstantPlan {
    /// Its type.
    pub kind: String,
    /// Its name in C++.
    pub name: String,
    /// What it is.
    pub value: String,
}

/// One setting.
#[derive(Debug, Clone, Serialize)]
pub struct SettingPlan {
    /// In the order of the tunables; truths are 0 and 1.
    pub values: Vec<i64>,
    /// The place of the set of macros.
    pub space: usize,
}

/// A set of macros, and the instances compiled with it.
#[derive(Debug, Clone, Serialize)]
pub struct SpacePlan {
    /// Name and value.
    pub defines: Vec<(String, String)>,
    /// For each kernel: key and C++ of every instance.
    pub instances: Vec<Vec<InstancePlan>>,
}

/// An instance.
#[derive(Debug, Clone, Serialize)]
pub struct InstancePlan {
    /// What it is found by: `Element::kF32`, then numbers.
    pub key: Vec<String>,
    /// `softmax::held<float, 128>`.
    pub function: String,
}

/// A device with settings.
#[derive(Debug, Clone, Serialize)]
pub struct DevicePlan {
    /// Its name.
    pub device: String,
    /// 90.
    pub capability: u32,
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// What a call must be for each setting, and the setting's place.
    pub ranges: Vec<RangePlan>,
}

/// A condition on a call, and the place of the setting for it.
#[derive(Debug, Clone, Serialize)]
pub struct RangePlan {
    /// C++.
    pub when: String,
    /// The place among the settings.
    pub setting: usize,
}

/// Scratch memory.
#[derive(Debug, Clone, Serialize)]
pub struct WorkspacePlan {
    /// Its name.
    pub name: String,
    /// Its place among them.
    pub place: usize,
    /// Its size in C++.
    pub bytes: String,
    /// Whether it begins as zeros.
    pub zero: bool,
}

/// One `[[launch.kernel]]`.
#[derive(Debug, Clone, Serialize)]
pub struct KernelPlan {
    /// The function.
    pub entry: String,
    /// When it runs.
    pub when: Option<String>,
    /// What its instance is found by.
    pub key: Vec<String>,
    /// Blocks in x, y, z.
    pub grid: String,
    /// Threads in x, y, z.
    pub block: String,
    /// Blocks of a cluster in x, y, z; zeros for none.
    pub cluster: String,
    /// Bytes of dynamic shared memory.
    pub shared: String,
    /// Percent of a multiprocessor's memory that are to be shared memory; nothing where `[launch]` does not say.
    pub carveout: Option<String>,
    /// Whether all blocks run at once.
    pub cooperative: bool,
    /// Its arguments, in order.
    pub arguments: Vec<ArgumentPlan>,
}

/// An argument of a kernel.
#[derive(Debug, Clone, Serialize)]
pub struct ArgumentPlan {
    /// Its type in C++.
    pub kind: String,
    /// Its value in C++; a 64-bit one if it is narrowed.
    pub value: String,
    /// The name in messages of an argument of 32 bits, which a value may exceed.
    pub narrowed: Option<String>,
    /// The tensor map, if the argument is one. `value` is then the address of its tensor.
    pub map: Option<MapPlan>,
}

/// A tensor map.
#[derive(Debug, Clone, Serialize)]
pub struct MapPlan {
    /// Its name.
    pub name: String,
    /// The tensor's dtype in C++.
    pub element: String,
    /// Dimensions.
    pub rank: usize,
    /// Their lengths, outermost first.
    pub lengths: String,
    /// Elements of one copy, outermost first.
    pub box_lengths: String,
    /// Distances between the elements that are copied, outermost first.
    pub element_strides: String,
    /// The enumerators of interleave, swizzle, L2 promotion and fill.
    pub modes: String,
}

/// `[cpu]` in C++.
#[derive(Debug, Clone, Serialize)]
pub struct CpuPlan {
    /// The file, without folders.
    pub source: String,
    /// The function.
    pub entry: String,
    /// Pieces of work.
    pub over: String,
    /// Pieces worth a thread.
    pub grain: String,
}

/// Lengths to try.
#[derive(Debug, Clone, Serialize)]
pub struct CasePlan {
    /// The workload.
    pub name: String,
    /// By axis, in file order.
    pub axes: BTreeMap<String, u64>,
    /// Elements of the largest tensor.
    pub elements: u64,
    /// The optional inputs that are left out.
    pub without: Vec<String>,
    /// The scalars that are not their defaults, as Python writes them.
    pub scalars: BTreeMap<String, String>,
    /// The dtypes of each type variable, as attributes of `torch`.
    pub dtypes: BTreeMap<String, Vec<String>>,
    /// `cpu`, `cuda`.
    pub devices: Vec<String>,
}

/// Texts of the generated package.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PythonPlan {
    /// What the function returns.
    pub returns: String,
    /// The argument that says where a call runs.
    pub first: String,
    /// The lengths of the axes that vary, by name, as a tuple.
    pub lengths: String,
    /// Those axes.
    pub axes: Vec<String>,
    /// All arguments by place.
    pub arguments: String,
    /// All parameters of the operator.
    pub parameters: String,
    /// The same, after the outputs.
    pub out_parameters: String,
    /// Whether no output is given.
    pub no_out: String,
    /// Whether some output is not given.
    pub some_out: String,
    /// Whether an argument asks for a gradient.
    pub wants_gradient: String,
    /// Whether there is one that could.
    pub float_inputs: bool,
    /// The leading axes.
    pub leading_of: String,
    /// New memory for each output that is returned.
    pub allocations: Vec<String>,
    /// What is returned.
    pub returned: String,
    /// The arguments that have a gradient, in words.
    pub differentiable: String,
}
