//! `[launch]` of op.toml: how device code is started without host code of its own.
//!
//! Owns: the types after reading, and those of a launch whose expressions have become numbers.
//! Never: starts anything.

use serde::Serialize;

use crate::units::{Dtype, PythonName, RelPath};

use super::Spanned;
use super::expr::{BoolExpr, Expr, IntExpr, Value, ValueExpr};
use super::op::TensorDtype;

/// `[launch]`.
#[derive(Debug, Clone, Serialize)]
pub struct Launch {
    /// The CUDA C++ file.
    pub source: Spanned<RelPath>,
    /// `[launch.define]`: macros for the compiler, in file order.
    pub defines: Vec<Define>,
    /// `[launch.workspace.NAME]`, in file order.
    pub workspaces: Vec<Workspace>,
    /// `[launch.tensor-map.NAME]`, in file order.
    pub tensor_maps: Vec<TensorMap>,
    /// `[[launch.kernel]]`, in the order in which they run, on one stream.
    pub kernels: Vec<Kernel>,
}

/// A macro: `-DNAME=value`.
#[derive(Debug, Clone, Serialize)]
pub struct Define {
    /// Its name.
    pub name: Spanned<PythonName>,
    /// What it is replaced with; a condition is 0 or 1.
    pub value: ValueExpr,
}

/// Scratch memory that the host allocates.
#[derive(Debug, Clone, Serialize)]
pub struct Workspace {
    /// Its name in arguments.
    pub name: Spanned<PythonName>,
    /// A dtype or a type variable.
    pub dtype: Spanned<TensorDtype>,
    /// Elements per dimension, outermost first.
    pub shape: Vec<IntExpr>,
    /// Whether it is filled with zeros before the first kernel; else its content is undefined, and poisoned by the judge.
    pub zero: bool,
}

/// A `CUtensorMap`: a tensor that the tensor memory accelerator copies in boxes.
#[derive(Debug, Clone, Serialize)]
pub struct TensorMap {
    /// Its name in arguments.
    pub name: Spanned<PythonName>,
    /// The input, output or workspace that it describes.
    pub tensor: Spanned<PythonName>,
    /// Another shape of as many elements, for a dense tensor; else the tensor's own. Outermost first.
    pub shape: Option<Vec<IntExpr>>,
    /// Elements of one copy in each dimension, outermost first.
    pub box_shape: Vec<IntExpr>,
    /// Each how many elements one is copied, outermost first; absent for every one.
    pub element_strides: Option<Vec<IntExpr>>,
    /// The layout in shared memory.
    pub swizzle: Swizzle,
    /// The layout of channels in global memory.
    pub interleave: Interleave,
    /// How much a copy brings into the L2 cache.
    pub l2_promotion: L2Promotion,
    /// What is read outside of the tensor.
    pub oob_fill: OobFill,
}

impl TensorMap {
    /// Every expression in it.
    pub(crate) fn expressions(&self) -> Vec<&Expr> {
        let lists = [self.shape.as_ref(), Some(&self.box_shape), self.element_strides.as_ref()];
        lists.into_iter().flatten().flatten().map(IntExpr::tree).collect()
    }
}

crate::units::named_values!(
    /// How a tensor map permutes 16-byte units in shared memory, by the bytes of its pattern.
    Swizzle, "a swizzle", {
        /// `CU_TENSOR_MAP_SWIZZLE_NONE`.
        None = "none",
        /// `CU_TENSOR_MAP_SWIZZLE_32B`.
        B32 = "32b",
        /// `CU_TENSOR_MAP_SWIZZLE_64B`.
        B64 = "64b",
        /// `CU_TENSOR_MAP_SWIZZLE_128B`.
        B128 = "128b",
    }
);

impl Swizzle {
    /// The most bytes that the innermost dimension of a box may have; absent where there is no such limit.
    pub(crate) const fn inner_bytes(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::B32 => Some(32),
            Self::B64 => Some(64),
            Self::B128 => Some(128),
        }
    }
}

crate::units::named_values!(
    /// How channels are interleaved in global memory.
    Interleave, "an interleave", {
        /// `CU_TENSOR_MAP_INTERLEAVE_NONE`.
        None = "none",
        /// `CU_TENSOR_MAP_INTERLEAVE_16B`: groups of 8 channels of 16 bits.
        B16 = "16b",
        /// `CU_TENSOR_MAP_INTERLEAVE_32B`: groups of 16 channels of 16 bits.
        B32 = "32b",
    }
);

crate::units::named_values!(
    /// The granularity of fetches into the L2 cache.
    L2Promotion, "an L2 promotion", {
        /// `CU_TENSOR_MAP_L2_PROMOTION_NONE`.
        None = "none",
        /// `CU_TENSOR_MAP_L2_PROMOTION_L2_64B`.
        B64 = "64b",
        /// `CU_TENSOR_MAP_L2_PROMOTION_L2_128B`.
        B128 = "128b",
        /// `CU_TENSOR_MAP_L2_PROMOTION_L2_256B`.
        B256 = "256b",
    }
);

crate::units::named_values!(
    /// What a copy reads outside of the tensor.
    OobFill, "a fill", {
        /// Zeros.
        Zero = "zero",
        /// `CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA`, for floating-point dtypes.
        Nan = "nan",
    }
);

/// One `[[launch.kernel]]`.
#[derive(Debug, Clone, Serialize)]
pub struct Kernel {
    /// The function: a C++ name, with `::` where it is in a namespace, or that of an `extern "C"` function.
    pub entry: Spanned<String>,
    /// Template arguments.
    pub template: Vec<TemplateArgument>,
    /// Blocks in x, y, z; no launch where one of them is zero.
    pub grid: Spanned<Vec<IntExpr>>,
    /// Threads of a block in x, y, z.
    pub block: Spanned<Vec<IntExpr>>,
    /// Blocks of a cluster in x, y, z.
    pub cluster: Option<Spanned<Vec<IntExpr>>>,
    /// Bytes of dynamic shared memory.
    pub shared: Option<IntExpr>,
    /// Percent of a multiprocessor's memory that are to be shared memory, and not cache; -1: the driver chooses. A launch
    /// without one is written, and so named, as before there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carveout: Option<IntExpr>,
    /// Whether all blocks run at once and may wait for each other.
    pub cooperative: bool,
    /// What is passed, in order.
    pub arguments: Vec<KernelArgument>,
    /// The kernel runs where this holds.
    pub when: Option<BoolExpr>,
}

impl Kernel {
    /// Every expression in it.
    pub(crate) fn expressions(&self) -> Vec<&Expr> {
        let template = self.template.iter().filter_map(|argument| match argument {
            TemplateArgument::Type(_) => None,
            TemplateArgument::Value(value) => Some(value.tree()),
        });
        let arguments = self.arguments.iter().filter_map(|argument| match argument {
            KernelArgument::I32(expr) | KernelArgument::I64(expr) => Some(expr.tree()),
            KernelArgument::Bool(expr) => Some(expr.tree()),
            _ => None,
        });
        let cluster = self.cluster.iter().flat_map(|cluster| &cluster.value);
        let lengths = self.grid.value.iter().chain(&self.block.value).chain(cluster);
        let lengths = lengths.chain(&self.shared).chain(&self.carveout);
        let when = self.when.iter().map(BoolExpr::tree);
        template.chain(arguments).chain(lengths.map(IntExpr::tree)).chain(when).collect()
    }
}

/// A template argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TemplateArgument {
    /// A type.
    Type(TensorDtype),
    /// A number or a truth.
    Value(ValueExpr),
}

/// What is passed to a kernel.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelArgument {
    /// The address of an input, output or workspace; null for an optional input that is not given.
    Pointer(Spanned<PythonName>),
    /// A tensor map, by value (`const __grid_constant__ CUtensorMap`).
    TensorMap(Spanned<PythonName>),
    /// A 32-bit integer.
    I32(IntExpr),
    /// A 64-bit integer.
    I64(IntExpr),
    /// A truth, one byte.
    Bool(BoolExpr),
    /// A scalar of type float as `float`.
    F32(Spanned<PythonName>),
    /// A scalar of type float as `double`.
    F64(Spanned<PythonName>),
}

/// A launch in numbers, for one case and one tuning.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConcreteLaunch {
    /// Macros for the compiler, in file order.
    pub defines: Vec<(PythonName, Value)>,
    /// Memory to allocate, in file order.
    pub workspaces: Vec<ConcreteWorkspace>,
    /// The tensor maps that a kernel takes, in file order.
    pub tensor_maps: Vec<ConcreteTensorMap>,
    /// What is started, in order; kernels whose condition fails or whose grid is empty are left out.
    pub kernels: Vec<KernelLaunch>,
}

/// A workspace in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConcreteWorkspace {
    /// Its name in arguments.
    pub name: PythonName,
    /// Element type.
    pub dtype: Dtype,
    /// Elements per dimension, outermost first.
    pub shape: Vec<u64>,
    /// Bytes in total.
    pub bytes: u64,
    /// Whether it begins as zeros.
    pub zero: bool,
}

/// A tensor map in numbers, every list innermost dimension first, as `cuTensorMapEncodeTiled` takes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConcreteTensorMap {
    /// Its name in arguments.
    pub name: PythonName,
    /// The input, output or workspace.
    pub tensor: PythonName,
    /// Element type.
    pub dtype: Dtype,
    /// `globalDim`: elements, 1 to 2^32.
    pub lengths: Vec<u64>,
    /// `globalStrides`: bytes between neighbors, for all dimensions but the innermost; multiples of 16.
    pub strides: Vec<u64>,
    /// `boxDim`: elements of a copy, 1 to 256.
    pub box_lengths: Vec<u32>,
    /// `elementStrides`, 1 to 8.
    pub element_strides: Vec<u32>,
    /// The layout in shared memory.
    pub swizzle: Swizzle,
    /// The layout of channels in global memory.
    pub interleave: Interleave,
    /// How much a copy brings into the L2 cache.
    pub l2_promotion: L2Promotion,
    /// What is read outside of the tensor.
    pub oob_fill: OobFill,
}

/// One start of a kernel in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelLaunch {
    /// Its place among `[[launch.kernel]]`, counted from 0.
    pub place: usize,
    /// The function.
    pub entry: String,
    /// Template arguments.
    pub template: Vec<TemplateValue>,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Blocks of a cluster in x, y, z.
    pub cluster: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Percent of a multiprocessor's memory that are to be shared memory, and not cache; -1: the driver chooses. Nothing
    /// where `[launch]` does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carveout: Option<i32>,
    /// Whether all blocks run at once.
    pub cooperative: bool,
    /// What is passed, in order.
    pub arguments: Vec<Argument>,
}

impl KernelLaunch {
    /// The function with its template arguments, as NVRTC and the symbol table of a C++ compiler know it:
    /// `norm::forward<__nv_bfloat16, 256, true>`.
    pub fn name_expression(&self) -> String {
        if self.template.is_empty() {
            return self.entry.clone();
        }
        let arguments: Vec<_> = self
            .template
            .iter()
            .map(|argument| match argument {
                TemplateValue::Type(dtype) => dtype.cuda_name().to_owned(),
                TemplateValue::Value(value) => value.to_string(),
            })
            .collect();
        format!("{}<{}>", self.entry, arguments.join(", "))
    }
}

/// A template argument in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TemplateValue {
    /// A type.
    Type(Dtype),
    /// A number or a truth.
    Value(Value),
}

/// An argument in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Argument {
    /// The address of an input, output or workspace. That of an output in place is that of its input.
    Pointer(PythonName),
    /// A null pointer, for an optional input that is not given.
    Null,
    /// A tensor map by value.
    TensorMap(PythonName),
    /// A 32-bit integer.
    I32(i32),
    /// A 64-bit integer.
    I64(i64),
    /// A truth, one byte.
    Bool(bool),
    /// A `float`.
    F32(f32),
    /// A `double`.
    F64(f64),
}
