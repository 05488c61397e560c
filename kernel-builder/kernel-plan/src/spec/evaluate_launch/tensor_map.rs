//! Makes numbers of a tensor map.
//!
//! Owns: the limits of `cuTensorMapEncodeTiled` that hold on every GPU.
//! Never: knows an address; that it is aligned to 16 bytes (32 with interleave 32b) is for the one who allocates.

use crate::spec::expr::IntExpr;
use crate::spec::launch::{ConcreteTensorMap, ConcreteWorkspace, Interleave, OobFill, Swizzle, TensorMap};
use crate::spec::op::row_major;
use crate::units::Dtype;

use super::Context;
use super::error::LaunchError;
use super::geometry::number;

/// Dimensions.
const RANK: usize = 5;
/// Dimensions of an interleaved tensor at least.
const INTERLEAVED: usize = 3;
/// Elements in a dimension of the tensor.
const LENGTH: u64 = 1 << 32;
/// Bytes between neighbors.
const STRIDE: u64 = 1 << 40;
/// Elements in a dimension of the box.
const BOX: i64 = 256;
/// Elements from one that is copied to the next.
const ELEMENT_STRIDE: i64 = 8;

/// The tensor that a map is of, outermost dimension first.
struct Described {
    dtype: Dtype,
    shape: Vec<u64>,
    strides: Vec<u64>,
    dense: bool,
}

impl Context<'_> {
    pub(super) fn tensor_map(
        &self,
        map: &TensorMap,
        workspaces: &[ConcreteWorkspace],
    ) -> Result<ConcreteTensorMap, LaunchError> {
        let name = &map.name.value;
        let fail = |message: String, help: &str| LaunchError::limit(message, help, &map.name.span);
        let described = self.described(map, workspaces)?;
        let rank = described.shape.len();
        if rank == 0 || rank > RANK {
            let message = format!("the tensor map `{name}` has {rank} dimensions");
            return Err(fail(message, "tensor maps have 1 to 5; `shape` merges or splits them"));
        }
        if map.interleave != Interleave::None && rank < INTERLEAVED {
            let message = format!("the interleaved tensor map `{name}` has {rank} dimension(s)");
            return Err(fail(message, "interleaved tensor maps have 3 to 5; `shape` splits dimensions"));
        }
        if map.interleave == Interleave::B32 && map.swizzle != Swizzle::B32 {
            let message =
                format!("the tensor map `{name}` is interleaved by 32 bytes, but not swizzled by 32 bytes");
            return Err(fail(message, "interleave = \"32b\" needs swizzle = \"32b\""));
        }
        if let Some(length) = described.shape.iter().find(|length| !(1..=LENGTH).contains(*length)) {
            let message = format!("the tensor map `{name}` has a dimension of {length}");
            return Err(fail(message, "it must be between 1 and 4294967296; exclude others with `when`"));
        }
        let size = described.dtype.size_bytes() as u64;
        let mut strides: Vec<u64> =
            described.strides.iter().map(|stride| stride.saturating_mul(size)).collect();
        if strides.pop() != Some(size) {
            let message = format!("the innermost dimension of `{}` is not dense", map.tensor.value);
            return Err(fail(message, "a tensor map needs its elements side by side"));
        }
        strides.reverse();
        let unit = if map.interleave == Interleave::B32 { 32 } else { 16 };
        if let Some(stride) = strides.iter().find(|stride| !stride.is_multiple_of(unit) || **stride >= STRIDE)
        {
            let message = format!("rows of `{}` are {stride} bytes apart", map.tensor.value);
            let help =
                format!("a tensor map needs a multiple of {unit}, below 2^40; see multiple-of of [axes]");
            return Err(fail(message, &help));
        }
        let box_lengths = self.inner_first(&map.box_shape, BOX, "a length of the box")?;
        let element_strides = match &map.element_strides {
            Some(strides) => self.inner_first(strides, ELEMENT_STRIDE, "an element stride")?,
            None => vec![1; rank],
        };
        if box_lengths.len() != rank || element_strides.len() != rank {
            let message =
                format!("the box of `{name}` has {} dimension(s), its tensor {rank}", box_lengths.len());
            return Err(fail(message, "one length for each dimension, outermost first"));
        }
        if map.interleave == Interleave::None && element_strides.first().is_some_and(|stride| *stride != 1) {
            let message = format!("the tensor map `{name}` skips elements of the innermost dimension");
            let help = "this has no effect without an interleave; set the last of `element-strides` to 1";
            return Err(fail(message, help));
        }
        let inner = box_lengths.first().map_or(0, |length| u64::from(*length)) * size;
        if map.interleave == Interleave::None {
            if !inner.is_multiple_of(16) {
                let message = format!("the innermost dimension of the box of `{name}` is {inner} bytes");
                return Err(fail(message, "it must be a multiple of 16 bytes"));
            }
            if let Some(most) = map.swizzle.inner_bytes().filter(|most| inner > *most) {
                let message = format!("the innermost dimension of the box of `{name}` is {inner} bytes");
                let help = format!("with swizzle = \"{}\" it must be at most {most}", map.swizzle);
                return Err(fail(message, &help));
            }
        }
        // Floating-point numbers of 8 bits travel as bytes.
        if map.oob_fill == OobFill::Nan && (!described.dtype.is_float() || size == 1) {
            let message = format!(
                "`oob-fill` cannot be NaN for `{}`: its dtype is {}",
                map.tensor.value, described.dtype
            );
            let help = "remove `oob-fill` to read zeros; NaN requires bf16, f16, f32 or f64";
            return Err(fail(message, help));
        }
        Ok(ConcreteTensorMap {
            name: name.clone(),
            tensor: map.tensor.value.clone(),
            dtype: described.dtype,
            lengths: described.shape.into_iter().rev().collect(),
            strides,
            box_lengths,
            element_strides,
            swizzle: map.swizzle,
            interleave: map.interleave,
            l2_promotion: map.l2_promotion,
            oob_fill: map.oob_fill,
        })
    }

    /// Small numbers from 1, innermost dimension first.
    fn inner_first(&self, exprs: &[IntExpr], most: i64, what: &str) -> Result<Vec<u32>, LaunchError> {
        exprs.iter().rev().map(|expr| Ok(number(expr, &self.bindings, 1, most, what)? as u32)).collect()
    }

    /// The tensor, in the shape that the map gives it.
    fn described(&self, map: &TensorMap, workspaces: &[ConcreteWorkspace]) -> Result<Described, LaunchError> {
        let name = &map.tensor.value;
        let fail = |message: String, help: &str| LaunchError::limit(message, help, &map.tensor.span);
        let mut tensors = self.case.inputs.iter().chain(&self.case.outputs);
        let tensor = tensors.find(|tensor| tensor.name == *name);
        let own = if let Some(tensor) = tensor.map(|tensor| self.case.memory_of(tensor)) {
            if tensor.omitted {
                let message = format!("`{name}` is not passed, but a kernel takes a tensor map of it");
                return Err(fail(message, "start that kernel with when = \"given(...)\""));
            }
            let (strides, dense) = (tensor.strides(), tensor.is_dense());
            Described { dtype: tensor.dtype, shape: tensor.shape.clone(), strides, dense }
        } else if let Some(workspace) = workspaces.iter().find(|workspace| workspace.name == *name) {
            let strides = row_major(&workspace.shape);
            Described { dtype: workspace.dtype, shape: workspace.shape.clone(), strides, dense: true }
        } else {
            return Err(fail(
                format!("`{name}` is not a tensor of the case"),
                "name an input, output or workspace",
            ));
        };
        let Some(exprs) = &map.shape else { return Ok(own) };
        let mut shape = Vec::new();
        for expr in exprs {
            shape.push(number(expr, &self.bindings, 0, i64::MAX, "a length")?.unsigned_abs());
        }
        let count = |shape: &[u64]| shape.iter().try_fold(1u64, |count, length| count.checked_mul(*length));
        if !own.dense || count(&shape) != count(&own.shape) {
            let message = format!("`{name}` of shape {:?} cannot be viewed as shape {shape:?}", own.shape);
            return Err(fail(
                message,
                "both shapes must have the same number of elements, and the tensor must be dense",
            ));
        }
        let strides = row_major(&shape);
        Ok(Described { shape, strides, ..own })
    }
}
