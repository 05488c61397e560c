//! What a generated Rust module is rendered from.
//!
//! Owns: the plan's types. Never: decides anything.

use serde::Serialize;

/// What the module of one operation is rendered from. Every expression is Rust over `call` and `s`, the values of tunables.
#[derive(Debug, Clone, Serialize)]
pub struct RustPlan {
    /// The operation: `rms_norm`.
    pub op: String,
    /// The same as an identifier.
    pub module: String,
    /// One line on what it does.
    pub description: String,
    /// The file of the device code, relative to op.toml.
    pub source: String,
    /// All axes, in file order.
    pub axes: Vec<AxisPlan>,
    /// The type variables.
    pub variables: Vec<VariablePlan>,
    /// Tensors in the order of the function's parameters: outputs, then inputs.
    pub parameters: Vec<ParameterPlan>,
    /// Scalars, after the tensors.
    pub scalars: Vec<ScalarPlan>,
    /// Conditions on every call: the text of op.toml, the condition.
    pub constraints: Vec<Named>,
    /// `[let]`, each after those that it uses.
    pub definitions: Vec<DefinitionPlan>,
    /// Tunables with their types.
    pub tunables: Vec<Named>,
    /// Settings; the defaults first.
    pub settings: Vec<SettingPlan>,
    /// Devices with settings of their own.
    pub devices: Vec<DevicePlan>,
    /// Constraints of `[tune]` that depend on the call. A call that breaks one gets the defaults.
    pub conditions: Vec<String>,
    /// Sets of macros.
    pub spaces: Vec<SpacePlan>,
    /// What is compiled at a time.
    pub parts: Vec<PartPlan>,
    /// Scratch memory.
    pub workspaces: Vec<WorkspacePlan>,
    /// What is started, in order.
    pub kernels: Vec<KernelPlan>,
}

/// A name with its value.
#[derive(Debug, Clone, Serialize)]
pub struct Named {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// An axis.
#[derive(Debug, Clone, Serialize)]
pub struct AxisPlan {
    /// Its name.
    pub name: String,
    /// The same as an identifier.
    pub field: String,
    /// Its length where it is constant.
    pub constant: Option<u64>,
    /// The least length.
    pub least: i64,
    /// The greatest length, in Rust.
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
    /// The same as an identifier.
    pub generic: String,
    /// What it may stand for, in Rust.
    pub types: Vec<String>,
    /// The same in op.toml.
    pub dtypes: Vec<String>,
}

/// What kernels do with a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// They read it.
    Input,
    /// They write it.
    Output,
    /// They read it, and an output in place overwrites it.
    Both,
}

/// A tensor parameter.
#[derive(Debug, Clone, Serialize)]
pub struct ParameterPlan {
    /// Its name in op.toml.
    pub name: String,
    /// Its name as a parameter.
    pub argument: String,
    /// Its name as a field of a call, which says whether it is given.
    pub field: String,
    /// What kernels do with it.
    pub access: Access,
    /// Whether it may be left out.
    pub optional: bool,
    /// The type of its elements in Rust.
    pub element: String,
    /// The same in op.toml: a dtype or a type variable.
    pub dtype: String,
    /// Its shape in words: `[..., hidden]`.
    pub shape: String,
    /// The places of its axes.
    pub axes: Vec<usize>,
}

/// A scalar parameter.
#[derive(Debug, Clone, Serialize)]
pub struct ScalarPlan {
    /// Its name in op.toml.
    pub name: String,
    /// Its name as a parameter.
    pub argument: String,
    /// Its name as a field of a call.
    pub field: String,
    /// `f64`, `i64`, `bool`.
    pub kind: &'static str,
    /// What workloads use.
    pub default: String,
    /// Inclusive lower bound.
    pub least: Option<String>,
    /// Inclusive upper bound.
    pub greatest: Option<String>,
}

/// A name of `[let]`.
#[derive(Debug, Clone, Serialize)]
pub struct DefinitionPlan {
    /// The name.
    pub name: String,
    /// `i64` or `bool`.
    pub kind: &'static str,
    /// The expression.
    pub value: String,
}

/// One setting.
#[derive(Debug, Clone, Serialize)]
pub struct SettingPlan {
    /// The place of the set of macros.
    pub space: usize,
    /// A value for every tunable.
    pub values: Vec<Named>,
}

/// A device with settings.
#[derive(Debug, Clone, Serialize)]
pub struct DevicePlan {
    /// Its name.
    pub name: String,
    /// Its compute capability times ten.
    pub capability: u32,
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// What a call must be for each setting, in the order in which they are asked.
    pub ranges: Vec<RangePlan>,
}

/// A condition on a call, and the place of the setting for it.
#[derive(Debug, Clone, Serialize)]
pub struct RangePlan {
    /// The condition.
    pub when: String,
    /// The place among the settings.
    pub setting: usize,
}

/// A set of macros, and the instances that are compiled with it.
#[derive(Debug, Clone, Serialize)]
pub struct SpacePlan {
    /// Name and value.
    pub defines: Vec<(String, String)>,
    /// For each kernel its instances, ascending by key.
    pub kernels: Vec<Vec<InstancePlan>>,
}

/// Some instances of one set of macros, which are compiled together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartPlan {
    /// Name and value.
    pub defines: Vec<(String, String)>,
    /// The namespace of the functions in a library that has several sets of macros: `rms_norm_macros_0`.
    pub namespace: String,
    /// The names of the functions for a compiler: `rms::held<float, 256, 4, 1>`.
    pub expressions: Vec<String>,
}

impl PartPlan {
    /// The functions as C++ in a library, in the order of the expressions: `rms_norm_macros_0::rms::held<float, 256, 4, 1>`.
    pub fn names(&self) -> Vec<String> {
        self.expressions.iter().map(|expression| format!("{}::{expression}", self.namespace)).collect()
    }
}

/// An instance.
#[derive(Debug, Clone, Serialize)]
pub struct InstancePlan {
    /// What it is found by: dtypes, then template arguments.
    pub key: Vec<String>,
    /// The place of its part.
    pub part: usize,
    /// The place among the expressions of the part.
    pub function: usize,
    /// The expression.
    pub expression: String,
}

/// Scratch memory.
#[derive(Debug, Clone, Serialize)]
pub struct WorkspacePlan {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
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
    /// Blocks of a cluster in x, y, z.
    pub cluster: Option<String>,
    /// Bytes of dynamic shared memory.
    pub shared: String,
    /// Percent of a multiprocessor's memory that are to be shared memory.
    pub carveout: Option<String>,
    /// Whether all blocks run at once.
    pub cooperative: bool,
    /// Its arguments, in order.
    pub arguments: Vec<ArgumentPlan>,
}

/// An argument of a kernel.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum ArgumentPlan {
    /// The address of a tensor.
    Tensor {
        /// The parameter.
        argument: String,
        /// Whether it may be left out; then the address is null.
        optional: bool,
    },
    /// The address of scratch memory.
    Workspace {
        /// Its place.
        place: usize,
    },
    /// A 32-bit number, which the value may exceed.
    Narrowed {
        /// Its place among the computed arguments of the kernel.
        number: usize,
        /// The value.
        value: String,
        /// Its name in messages.
        name: String,
    },
    /// A number or a truth.
    Computed {
        /// Its place among the computed arguments of the kernel.
        number: usize,
        /// Its type.
        kind: &'static str,
        /// The value.
        value: String,
    },
    /// A scalar of type float.
    Float {
        /// Its type.
        kind: &'static str,
        /// The scalar.
        scalar: String,
    },
}
