//! op.toml, format 1, after reading: the types.
//!
//! Owns: what an operation means (tensors, reference, gradient, tolerance, workloads). The fields of a definition follow
//! flashinfer-bench's `Definition`. How device code is started is in `launch`, what may be tuned in `tune`.
//! Never: runs a reference, and never invents a shape that no workload names.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::diagnostic::SourceFile;
use crate::units::{Dtype, PythonName, RelPath, WorkloadName};

use super::Spanned;
use super::expr::{BoolExpr, Definition, IntExpr, Value};
use super::flashinfer::Flashinfer;
use super::launch::Launch;
pub use super::tensor_dtype::TensorDtype;
use super::tune::Tune;

/// A whole op.toml.
#[derive(Debug, Clone, Serialize)]
pub struct OpSpec {
    /// The file; every span points into it.
    #[serde(skip)]
    pub file: Arc<SourceFile>,
    /// The operation's name.
    pub name: Spanned<PythonName>,
    /// One line for people and agents.
    pub description: Option<Spanned<String>>,
    /// `[axes]`, in file order.
    pub axes: Vec<Axis>,
    /// `[dtypes]`: the type variables with the dtypes that each ranges over, in file order.
    pub dtypes: Vec<TypeVariable>,
    /// `[inputs]`, in argument order.
    pub inputs: Vec<Input>,
    /// `[scalars]`, in argument order; keyword arguments after the inputs.
    pub scalars: Vec<Scalar>,
    /// `[outputs]`, in the order in which they are returned.
    pub outputs: Vec<Output>,
    /// `constraints`: conditions on axes, integer scalars and optional inputs that hold for every call, in file order.
    pub constraints: Vec<BoolExpr>,
    /// `[reference]`.
    pub reference: Reference,
    /// `[gradient]` with `backward = true`.
    pub gradient: Option<Gradient>,
    /// `[call]`.
    pub call: Call,
    /// `[tolerance]`.
    pub tolerance: Tolerance,
    /// `[let]`, each name after those that it uses. Where an expression is serialized, it stands in the place of its name.
    #[serde(skip)]
    pub definitions: Vec<Arc<Definition>>,
    /// `[tune]`; without tunables where the file has none.
    pub tune: Tune,
    /// `[launch]`: how device code is started without host code of its own.
    pub launch: Option<Launch>,
    /// `[cpu]`: the function that computes it on the host processor, for a host side that is generated.
    pub cpu: Option<Cpu>,
    /// `[forward]`: the operators that the package's function calls, for a function that no single kernel computes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward: Option<Forward>,
    /// `[workload.NAME]`, in file order.
    pub workloads: Vec<Workload>,
    /// `[flashinfer]`: what a definition of flashinfer-bench says besides.
    pub flashinfer: Option<Flashinfer>,
}

/// One named dimension.
#[derive(Debug, Clone, Serialize)]
pub struct Axis {
    /// Its name in shapes.
    pub name: Spanned<PythonName>,
    /// The source of its length.
    pub kind: AxisKind,
    /// Whether it stands for any number of leading axes that are walked as one.
    #[serde(skip_serializing_if = "is_false")]
    pub leading: bool,
}

/// The source of the length of an axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AxisKind {
    /// `type = "const"`: always this length.
    Const(u64),
    /// `type = "var"`: each workload says.
    Var {
        /// Lengths are multiples of this; 1 when not given.
        multiple_of: u64,
        /// Inclusive lower bound.
        min: Option<u64>,
        /// Inclusive upper bound.
        max: Option<u64>,
    },
}

impl AxisKind {
    /// Whether a workload may give the axis this length.
    pub fn allows(&self, length: u64) -> bool {
        match *self {
            Self::Const(value) => length == value,
            Self::Var { multiple_of, min, max } => {
                length.is_multiple_of(multiple_of)
                    && min.is_none_or(|min| min <= length)
                    && max.is_none_or(|max| length <= max)
            }
        }
    }
}

/// A type variable and its range.
#[derive(Debug, Clone, Serialize)]
pub struct TypeVariable {
    /// Its name in `dtype`.
    pub name: Spanned<PythonName>,
    /// The dtypes that the operation accepts for it, in file order, without duplicates.
    pub dtypes: Vec<Dtype>,
}

/// One entry of `[inputs]`.
#[derive(Debug, Clone, Serialize)]
pub struct Input {
    /// Name, shape and dtype.
    pub tensor: Tensor,
    /// Whether `None` may be passed for it.
    pub optional: bool,
    /// Whether it may have any strides; else it is dense and row-major.
    pub strided: bool,
    /// The function of the reference file that computes it from the other inputs; else it is drawn.
    pub computed: Option<Spanned<PythonName>>,
    /// Which values it may have.
    pub values: Values,
}

/// Which values an input may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Values {
    /// Any of its dtype.
    #[default]
    Any,
    /// Floating-point values that are not less than zero, such as a variance.
    NonNegative,
    /// The seed of random numbers, which the package's function draws if it is not passed: any number of 64 bits.
    Seed,
}

impl Values {
    /// Whether values are drawn without a restriction.
    fn is_any(&self) -> bool {
        *self == Self::Any
    }
}

/// One entry of `[outputs]`.
#[derive(Debug, Clone, Serialize)]
pub struct Output {
    /// Name, shape and dtype.
    pub tensor: Tensor,
    /// The input that it overwrites; it is then not among the returned values.
    pub inplace: Option<Spanned<PythonName>>,
}

/// The properties that inputs and outputs share.
#[derive(Debug, Clone, Serialize)]
pub struct Tensor {
    /// Its argument name.
    pub name: Spanned<PythonName>,
    /// Axis names, outermost first; row-major; empty for a scalar tensor.
    pub shape: Vec<Spanned<PythonName>>,
    /// A dtype or a type variable.
    pub dtype: Spanned<TensorDtype>,
}

/// A scalar argument.
#[derive(Debug, Clone, Serialize)]
pub struct Scalar {
    /// Its keyword.
    pub name: Spanned<PythonName>,
    /// The value that workloads use unless they say otherwise; its kind is the argument's type.
    pub default: Spanned<ScalarValue>,
    /// Inclusive lower bound, of the same kind.
    pub min: Option<ScalarValue>,
    /// Inclusive upper bound, of the same kind.
    pub max: Option<ScalarValue>,
}

/// The value of a scalar argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ScalarValue {
    /// A Python `float`.
    Float(f64),
    /// A Python `int`.
    Int(i64),
    /// A Python `bool`.
    Bool(bool),
}

impl ScalarValue {
    /// Its value in an expression; floats have none.
    pub(crate) fn as_expression_value(self) -> Option<Value> {
        match self {
            Self::Float(_) => None,
            Self::Int(value) => Some(Value::Integer(value)),
            Self::Bool(value) => Some(Value::Boolean(value)),
        }
    }
}

impl fmt::Display for ScalarValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // As TOML writes it, with a point or an exponent.
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Int(value) => value.fmt(f),
            Self::Bool(value) => value.fmt(f),
        }
    }
}

impl Serialize for ScalarValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Float(value) => serializer.serialize_f64(value),
            Self::Int(value) => serializer.serialize_i64(value),
            Self::Bool(value) => serializer.serialize_bool(value),
        }
    }
}

/// `[reference]`: plain PyTorch, called `f(*inputs, **scalars)`.
#[derive(Debug, Clone, Serialize)]
pub struct Reference {
    /// The Python file.
    pub file: Spanned<RelPath>,
    /// The oracle on float64, the baseline on the real dtype.
    pub function: Spanned<PythonName>,
    /// The best fused PyTorch operator, a second baseline.
    pub fused: Option<Spanned<PythonName>>,
}

/// `[gradient]`: the package's function can be differentiated by PyTorch's autograd.
#[derive(Debug, Clone, Serialize)]
pub struct Gradient {
    /// The inputs that have a gradient, in argument order: floating-point and not overwritten.
    pub inputs: Vec<Spanned<PythonName>>,
    /// A function of the reference file, called `f(*gradients_of_outputs, *inputs, **scalars)`, that returns one
    /// gradient for each of `inputs`; else autograd of the reference is the oracle.
    pub function: Option<Spanned<PythonName>>,
    /// Inputs whose gradient is that of another one of `inputs`, such as the addends of a sum.
    pub same: BTreeMap<PythonName, PythonName>,
    /// Whether gradients are computed from a result that was rounded to its dtype, such as a sum that the forward pass
    /// saved.
    pub from_rounded: bool,
}

/// `[call]`: how the built package is called, `f(*inputs, **scalars)`.
#[derive(Debug, Clone, Serialize)]
pub struct Call {
    /// Attribute of the package.
    pub function: Spanned<PythonName>,
    /// Keywords that take preallocated outputs, one for each output that is not in place; empty where the function has
    /// none.
    pub out: Vec<Spanned<PythonName>>,
}

/// `[cpu]`: `void entry(const NameCall& call, int64_t first, int64_t last)`, called from several threads with pieces of the
/// work.
#[derive(Debug, Clone, Serialize)]
pub struct Cpu {
    /// The C++ file.
    pub source: Spanned<RelPath>,
    /// The function, with C linkage.
    pub entry: Spanned<PythonName>,
    /// How many independent pieces of work a call has.
    pub over: IntExpr,
    /// How many of them are worth a thread.
    pub grain: IntExpr,
}

/// `[forward]`: Python of the project computes the function, with PyTorch's operators and those of other files.
#[derive(Debug, Clone, Serialize)]
pub struct Forward {
    /// Files like op.toml, one for each operator that the project has kernels for.
    pub regions: Vec<Spanned<RelPath>>,
}

/// `[tolerance]`: what error the arithmetic explains.
#[derive(Debug, Clone, Serialize)]
pub struct Tolerance {
    /// The dtype that sums are kept in.
    pub accumulate: Spanned<Dtype>,
    /// How many terms are summed: an axis, or an expression over axes.
    pub length: IntExpr,
    /// How often a result may be rounded to the output dtype.
    pub roundings: Spanned<u32>,
    /// Whether terms cancel, so that no row shows their size.
    pub cancels: bool,
    /// Whether values are rounded on the way, so that roundings count against the size of the terms.
    #[serde(skip_serializing_if = "is_false")]
    pub from_rounded: bool,
}

/// One `[workload.NAME]`.
#[derive(Debug, Clone, Serialize)]
pub struct Workload {
    /// `NAME`, with the place of the section's header.
    pub name: Spanned<WorkloadName>,
    /// The length of every variable axis.
    pub axes: BTreeMap<PythonName, u64>,
    /// The dtypes per type variable, already narrowed; the cases are their product.
    pub dtypes: Vec<(PythonName, Vec<Dtype>)>,
    /// The purposes.
    pub purposes: Vec<Purpose>,
    /// The devices that it runs on.
    pub devices: Vec<Device>,
    /// Its share of the score, against the other workloads' weights; positive and finite.
    pub weight: f64,
    /// Whether it is kept from agents and tuners, and used only to judge what they hand in.
    pub held_out: bool,
    /// The optional inputs for which `None` is passed, in file order.
    pub without: Vec<Spanned<PythonName>>,
    /// Values of scalars other than their defaults.
    pub scalars: BTreeMap<PythonName, ScalarValue>,
}

crate::units::named_values!(
    /// The purpose of a workload.
    Purpose, "a purpose", {
        /// Numbers are compared with the oracle.
        Verify = "verify",
        /// Times are compared with the baselines.
        Bench = "bench",
    }
);

crate::units::named_values!(
    /// The device that a workload runs on.
    Device, "a device", {
        /// The host processor.
        Cpu = "cpu",
        /// An NVIDIA GPU.
        Cuda = "cuda",
    }
);

/// One concrete call: a workload with its dtypes chosen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Case {
    /// Unique within the file: the workload, and the dtypes where there are type variables (`prefill/T=bf16`).
    pub id: String,
    /// The workload that it comes from.
    pub workload: WorkloadName,
    /// The length of every axis, constant ones included.
    pub axes: BTreeMap<PythonName, u64>,
    /// The dtype of each type variable.
    pub dtypes: BTreeMap<PythonName, Dtype>,
    /// In argument order.
    pub inputs: Vec<CaseTensor>,
    /// In argument order.
    pub scalars: Vec<CaseScalar>,
    /// In the order of return.
    pub outputs: Vec<CaseTensor>,
    /// How many terms are accumulated: the value of `tolerance.length`.
    pub accumulated: u64,
    /// The workload's share of the score.
    pub weight: f64,
    /// Whether it is kept from agents and tuners.
    #[serde(skip_serializing_if = "is_false")]
    pub held_out: bool,
    /// Whether its lengths come from [`OpSpec::at`] or [`OpSpec::call`] and not from a workload.
    #[serde(skip_serializing_if = "is_false")]
    pub drawn: bool,
}

impl Case {
    /// The tensor whose memory it is: for an output in place its input, else the tensor itself.
    pub(crate) fn memory_of<'a>(&'a self, tensor: &'a CaseTensor) -> &'a CaseTensor {
        let input = tensor.inplace.as_ref();
        input.and_then(|name| self.inputs.iter().find(|input| input.name == *name)).unwrap_or(tensor)
    }
}

/// A tensor with its lengths.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseTensor {
    /// The argument.
    pub name: PythonName,
    /// Elements per dimension, outermost first.
    pub shape: Vec<u64>,
    /// Element type.
    pub dtype: Dtype,
    /// An optional input for which `None` is passed.
    #[serde(skip_serializing_if = "is_false")]
    pub omitted: bool,
    /// An input that may have any strides; the caller chooses them.
    #[serde(skip_serializing_if = "is_false")]
    pub strided: bool,
    /// The function of the reference file that computes it from the other inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub computed: Option<PythonName>,
    /// Which values an input may have.
    #[serde(skip_serializing_if = "Values::is_any")]
    pub values: Values,
    /// Elements between neighbors, outermost dimension first; absent for a dense row-major tensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strides: Option<Vec<u64>>,
    /// For an output: the input that it overwrites.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inplace: Option<PythonName>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Elements between neighbors of a dense tensor, outermost dimension first.
pub(crate) fn row_major(shape: &[u64]) -> Vec<u64> {
    let mut step = 1u64;
    let inner_first = shape.iter().rev().map(|length| {
        let stride = step;
        step = step.saturating_mul(*length);
        stride
    });
    let mut strides: Vec<_> = inner_first.collect();
    strides.reverse();
    strides
}

impl CaseTensor {
    /// Elements between neighbors, outermost dimension first.
    pub fn strides(&self) -> Vec<u64> {
        self.strides.clone().unwrap_or_else(|| row_major(&self.shape))
    }

    /// Whether the elements lie side by side in row-major order.
    pub(crate) fn is_dense(&self) -> bool {
        self.strides.as_ref().is_none_or(|strides| *strides == row_major(&self.shape))
    }

    /// Elements in total; the largest number where it has no room.
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1, |elements: u64, length| elements.saturating_mul(*length))
    }

    /// Bytes of a dense tensor of this shape.
    pub fn bytes(&self) -> u64 {
        self.elements().saturating_mul(self.dtype.size_bytes() as u64)
    }
}

/// A scalar with its value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseScalar {
    /// The keyword.
    pub name: PythonName,
    /// The value that is passed.
    pub value: ScalarValue,
}
