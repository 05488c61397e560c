//! The shape of op.toml, format 1.
//!
//! Owns: its keys, their descriptions, and which of them exclude each other.
//! Never: is filled with values; `spec::op`, `spec::tune` and `spec::launch` have the types for those.
#![expect(dead_code, reason = "only the shape of these types is used: the derive makes the schema of it")]

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use crate::spec::launch::{Interleave, L2Promotion, OobFill, Swizzle};
use crate::spec::op::{Device, Purpose};
use crate::units::{Dtype, PythonName, RelPath, WorkloadName};

use super::flashinfer::Flashinfer;
use super::names::{
    AnyDtype, Argument, Choice, Dimensions, Either, Entry, FloatDtype, Narrowed, Number, Scalar, Setting,
    Truth,
};

/// What an operation means, and on which shapes it is judged.
#[derive(JsonSchema)]
#[schemars(title = "op.toml, format 1", deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Op {
    /// The format of this file: 1.
    #[schemars(extend("const" = 1))]
    format: u64,
    /// The operation's name, as Python would write it.
    name: PythonName,
    /// One line for people and agents.
    description: Option<String>,
    /// What holds for every call: conditions on axes, integer scalars and optional inputs.
    #[schemars(extend("examples" = [["given(positions) or table >= tokens"]]))]
    constraints: Option<Vec<Truth>>,
    /// The dimensions of tensors: constant, or chosen by each workload.
    axes: BTreeMap<PythonName, Axis>,
    /// Type variables, each with the dtypes that it ranges over.
    #[schemars(extend("examples" = [{ "T": ["bf16", "f16", "f32"] }]))]
    dtypes: Option<BTreeMap<PythonName, Dtypes>>,
    /// Tensor arguments, in order; positional.
    #[schemars(extend("minProperties" = 1))]
    inputs: BTreeMap<PythonName, Input>,
    /// Scalar arguments, in order; keywords.
    scalars: Option<BTreeMap<PythonName, ScalarArgument>>,
    /// Results, in the order of return.
    #[schemars(extend("minProperties" = 1))]
    outputs: BTreeMap<PythonName, Output>,
    /// What is right, in plain PyTorch: on float64 the oracle, on the real dtype the baseline.
    reference: Reference,
    /// That the operation can be differentiated, and by what.
    gradient: Option<Gradient>,
    /// How the built package is called: `f(*inputs, **scalars)`.
    call: Call,
    /// What error the arithmetic explains.
    tolerance: Tolerance,
    /// Names for numbers and conditions, for the expressions of `[tune]` and `[launch]`.
    #[schemars(extend("examples" = [{ "row_bytes": "hidden * sizeof(T)", "held": "row_bytes <= 65536" }]))]
    r#let: Option<BTreeMap<PythonName, Either>>,
    /// What may be varied without changing what is computed.
    tune: Option<Tune>,
    /// How device code is started without host code of its own.
    launch: Option<Launch>,
    /// What computes it on the host processor, where the host side is generated.
    cpu: Option<Cpu>,
    /// What computes it where no single kernel does: `forward.py` of the package, which calls the operators of other files
    /// and PyTorch's. Without [launch], [cpu] and [gradient].
    forward: Option<Forward>,
    /// What a definition of flashinfer-bench says and nothing else here has a place for; `import` writes it.
    flashinfer: Option<Flashinfer>,
    /// Shapes to verify and to measure: `[workload.NAME]`.
    workload: Option<BTreeMap<WorkloadName, Workload>>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case", transform = by_kind_of_axis)]
struct Axis {
    /// "const": always `value`. "var": each workload says.
    #[schemars(extend("enum" = ["const", "var"]))]
    r#type: String,
    /// A constant axis alone: its length.
    value: Option<u64>,
    /// A variable axis alone: lengths are multiples of this.
    #[schemars(range(min = 1), extend("default" = 1))]
    multiple_of: Option<u64>,
    /// A variable axis alone: the least length.
    min: Option<u64>,
    /// A variable axis alone: the greatest length.
    max: Option<u64>,
    /// A variable axis alone: whether it stands for any number of leading axes that are walked as one.
    #[schemars(extend("default" = false))]
    leading: Option<bool>,
}

fn by_kind_of_axis(schema: &mut Schema) {
    by_type(
        schema,
        &["const"],
        json!({ "required": ["value"], "properties": refused(&["multiple-of", "min", "max", "leading"]) }),
    );
    by_type(schema, &["var"], json!({ "properties": refused(&["value"]) }));
}

/// The dtypes of a type variable.
#[derive(JsonSchema)]
#[schemars(transparent, extend("minItems" = 1, "uniqueItems" = true))]
struct Dtypes(Vec<Dtype>);

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Input {
    /// Axes, outermost first; empty for a tensor of one element without dimensions.
    shape: Vec<PythonName>,
    /// A dtype or a type variable of [dtypes].
    dtype: AnyDtype,
    /// Whether None may be passed; a workload does with `without`.
    #[schemars(extend("default" = false))]
    optional: Option<bool>,
    /// Whether the tensor may have any strides; else it is dense and row-major.
    #[schemars(extend("default" = false))]
    strided: Option<bool>,
    /// The function of the reference file that computes it from the other inputs where results are compared; called as
    /// the reference, with None for what is computed itself. Without one, random values are drawn.
    computed: Option<PythonName>,
    /// Whether it is the seed of random numbers, an i64 tensor of one element: the package's function draws it with
    /// PyTorch's generator if it is not passed.
    #[schemars(extend("default" = false))]
    seed: Option<bool>,
    /// Whether no value is less than zero, as in a variance: for floating-point inputs without `computed`.
    #[schemars(extend("default" = false))]
    non_negative: Option<bool>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Output {
    /// Axes, outermost first; empty for a tensor of one element without dimensions.
    shape: Vec<PythonName>,
    /// A dtype or a type variable of [dtypes].
    dtype: AnyDtype,
    /// The input that it overwrites: of the same shape and dtype.
    inplace: Option<PythonName>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case", transform = by_kind_of_scalar)]
struct ScalarArgument {
    /// Its type in Python.
    #[schemars(extend("enum" = ["float", "int", "bool"]))]
    r#type: String,
    /// What workloads pass unless they say otherwise.
    default: Scalar,
    /// The least value, included.
    min: Option<Scalar>,
    /// The greatest value, included.
    max: Option<Scalar>,
}

fn by_kind_of_scalar(schema: &mut Schema) {
    for (kind, of) in [("float", "number"), ("int", "integer")] {
        let of = json!({ "type": of });
        by_type(schema, &[kind], json!({ "properties": { "default": of, "min": of, "max": of } }));
    }
    by_type(
        schema,
        &["bool"],
        json!({ "properties": { "default": { "type": "boolean" }, "min": false, "max": false } }),
    );
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Reference {
    /// The Python file, from the project's folder.
    #[schemars(extend("examples" = ["reference.py"]))]
    file: RelPath,
    /// The function in it, called `f(*inputs, **scalars)`.
    function: PythonName,
    /// PyTorch's best fused operator, as a function of the same file: a second baseline.
    fused: Option<PythonName>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Gradient {
    /// Whether the package's function can be differentiated by PyTorch.
    backward: bool,
    /// The inputs that have a gradient; every floating-point input that is not overwritten when absent.
    inputs: Option<Vec<PythonName>>,
    /// A function of the reference file that computes the gradients; else PyTorch differentiates the reference.
    function: Option<PythonName>,
    /// Inputs whose gradient is that of another input, such as the addends of a sum: `{ residual = "input" }`.
    #[schemars(extend("examples" = [{ "residual": "input" }]))]
    same: Option<BTreeMap<PythonName, PythonName>>,
    /// Whether gradients are computed from a result that was rounded to its dtype, such as a sum that the forward pass
    /// saved. Their roundings then count against the size of the terms, which may cancel.
    #[schemars(extend("default" = false))]
    from_rounded: Option<bool>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Call {
    /// The function of the built package.
    function: PythonName,
    /// Keywords that take preallocated outputs, one for each output that is not in place.
    out: Option<Vec<PythonName>>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Cpu {
    /// The C++ file, from the project's folder.
    #[schemars(extend("examples" = ["rms_norm_cpu/rms_norm.cpp"]))]
    source: RelPath,
    /// The function, with C linkage: `void entry(const RmsNormCall& call, int64_t first, int64_t last)`.
    entry: PythonName,
    /// How many independent pieces of work a call has.
    #[schemars(extend("examples" = ["rows"]))]
    over: Number,
    /// How many of them are worth a thread.
    #[schemars(extend("examples" = ["max(1, 32768 / hidden)"]))]
    grain: Number,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Tolerance {
    /// The dtype that sums are kept in.
    accumulate: FloatDtype,
    /// How many terms are summed: an axis, or an expression over axes.
    #[schemars(extend("examples" = ["hidden"]))]
    length: Number,
    /// How often a result may be rounded to the dtype of its output.
    roundings: u32,
    /// Whether terms cancel, as those of most gradients do: then their size is not that of the results, and the judge
    /// takes it from what the reference loses in float32, and how much its exact result changes, at values near by.
    #[schemars(extend("default" = false))]
    cancels: Option<bool>,
    /// Whether values are rounded to the dtype of the output on the way. Roundings then count against the size of the terms,
    /// which may cancel.
    #[schemars(extend("default" = false))]
    from_rounded: Option<bool>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Forward {
    /// Files like this one, from the project's folder, one for each operator that the project has kernels for.
    #[schemars(extend("minItems" = 1, "examples" = [["mlp_1.toml", "mlp_2.toml"]]))]
    regions: Vec<RelPath>,
}

#[derive(JsonSchema)]
#[schemars(extend("propertyNames" = { "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" }))]
struct Tune {
    /// What must hold between tunables, axes and integer scalars.
    constraints: Option<Vec<Truth>>,
    /// `[tune.NAME]`: what may be varied.
    #[schemars(flatten)]
    tunables: BTreeMap<String, Tunable>,
}

/// Something that may be varied; NAME stands for its value in expressions.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Tunable {
    /// The choice: integers, or true and false.
    values: Choice,
    /// What is used before anything has been tuned: one of the values.
    default: Setting,
    /// The default on GPUs of these compute capabilities.
    #[schemars(extend("examples" = [{ "9.0": true }]))]
    default_for: Option<BTreeMap<String, Setting>>,
    /// Where it matters at all; elsewhere it has its default.
    when: Option<Truth>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Launch {
    /// The CUDA C++ file, from the project's folder.
    #[schemars(extend("examples" = ["rms_norm_cuda/rms_norm.cu"]))]
    source: RelPath,
    /// Macros for the compiler: `-DNAME=value`.
    define: Option<BTreeMap<PythonName, Either>>,
    /// Scratch memory that the host allocates: `[launch.workspace.NAME]`.
    workspace: Option<BTreeMap<PythonName, Workspace>>,
    /// Tensors that are copied in boxes: `[launch.tensor-map.NAME]`.
    tensor_map: Option<BTreeMap<PythonName, TensorMap>>,
    /// What is started, in this order, on one stream: `[[launch.kernel]]`.
    #[schemars(length(min = 1))]
    kernel: Vec<Kernel>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Workspace {
    /// A dtype or a type variable of [dtypes].
    dtype: AnyDtype,
    /// Elements of each dimension, outermost first.
    shape: Vec<Number>,
    /// Whether it is zero before the first kernel; else its content is undefined.
    #[schemars(extend("default" = false))]
    zero: Option<bool>,
}

/// A `CUtensorMap`.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct TensorMap {
    /// The input, output or workspace that it describes.
    tensor: PythonName,
    /// Another shape of as many elements, outermost first; the tensor's own when absent.
    shape: Option<Vec<Number>>,
    /// Elements of one copy in each dimension, outermost first.
    r#box: Vec<Number>,
    /// Each how many elements one is copied, outermost first; every one when absent.
    element_strides: Option<Vec<Number>>,
    /// How units of 16 bytes are permuted in shared memory.
    #[schemars(extend("default" = "none"))]
    swizzle: Option<Swizzle>,
    /// How channels are interleaved in global memory.
    #[schemars(extend("default" = "none"))]
    interleave: Option<Interleave>,
    /// How much a copy brings into the L2 cache.
    #[schemars(extend("default" = "none"))]
    l2_promotion: Option<L2Promotion>,
    /// What is read outside of the tensor.
    #[schemars(extend("default" = "zero"))]
    oob_fill: Option<OobFill>,
}

/// One start of a kernel.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Kernel {
    /// The function, with `::` where it is in a namespace.
    entry: Entry,
    /// Template arguments: dtypes, type variables, expressions.
    template: Option<Vec<Either>>,
    /// Blocks in x, y, z.
    grid: Dimensions,
    /// Threads of a block in x, y, z.
    block: Dimensions,
    /// Blocks of a cluster in x, y, z.
    cluster: Option<Dimensions>,
    /// Bytes of dynamic shared memory.
    shared: Option<Number>,
    /// Percent of a multiprocessor's memory that are to be shared memory, and not cache; -1: the driver chooses.
    #[schemars(extend("examples" = [6, "carveout"]))]
    carveout: Option<Number>,
    /// Whether all blocks run at once and may wait for each other.
    #[schemars(extend("default" = false))]
    cooperative: Option<bool>,
    /// What is passed, in order: the name of a tensor, workspace or tensor map, or a value with its type.
    #[schemars(extend("examples" = [["out", "input", { "i32": "hidden" }]]))]
    args: Vec<Argument>,
    /// The kernel runs where this holds.
    when: Option<Truth>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
struct Workload {
    /// The length of every variable axis.
    #[schemars(extend("examples" = [{ "rows": 2048, "hidden": 4096 }]))]
    axes: BTreeMap<PythonName, u64>,
    /// Fewer dtypes than the type variables allow: a list where there is one variable, else a list for each.
    dtypes: Option<Narrowed>,
    /// What the workload is for; for both when absent.
    #[schemars(length(min = 1))]
    r#for: Option<Vec<Purpose>>,
    /// Where the workload runs; on every device when absent.
    #[schemars(length(min = 1))]
    devices: Option<Vec<Device>>,
    /// Its share of the score, against the other workloads' weights.
    #[schemars(extend("default" = 1, "exclusiveMinimum" = 0))]
    weight: Option<f64>,
    /// Whether it is kept from agents and tuners, and used only to judge what they hand in.
    #[schemars(extend("default" = false))]
    held_out: Option<bool>,
    /// The optional inputs for which None is passed.
    without: Option<Vec<PythonName>>,
    /// Values of scalars other than their defaults.
    scalars: Option<BTreeMap<PythonName, Scalar>>,
}

/// Adds what holds where `type` is one of `kinds`.
fn by_type(schema: &mut Schema, kinds: &[&str], then: Value) {
    let condition = json!({
        "if": { "required": ["type"], "properties": { "type": { "enum": kinds } } },
        "then": then,
    });
    let rules = schema.ensure_object().entry("allOf").or_insert_with(|| json!([]));
    if let Value::Array(rules) = rules {
        rules.push(condition);
    }
}

fn refused(keys: &[&str]) -> Value {
    keys.iter().map(|key| ((*key).to_owned(), Value::Bool(false))).collect::<serde_json::Map<_, _>>().into()
}
