//! A kernel in the making: what all skeletons are written with.
//!
//! Owns: names of tensors and places, the expressions that are in scope. Never: a reduction or a scan.

use std::collections::BTreeSet;

use super::super::super::index::Index;
use super::super::super::kernel::{Buffer, Kernel, NodeId, Role, Store};
use super::super::super::plan::Plan;
use super::super::super::program::{Element, Program};
use super::super::super::spell;
use super::super::project::Project;
use super::super::words::{Lines, Words};
use crate::units::Dtype;

pub(super) struct Writer<'a> {
    pub(super) words: Words<'a>,
    pub(super) project: &'a Project,
    /// The axis along which pieces are cut.
    pub(super) inner: usize,
    /// Expressions with a name in scope.
    pub(super) scalars: BTreeSet<NodeId>,
    /// Expressions with a number for each place of the piece in scope.
    pub(super) kept: BTreeSet<NodeId>,
}

fn element(element: Element) -> &'static str {
    match element {
        Element::Variable => "Type",
        Element::Fixed(Dtype::F16) => "Float16",
        Element::Fixed(Dtype::Bf16) => "BFloat16",
        Element::Fixed(Dtype::I64) => "Whole<int64_t>",
        Element::Fixed(Dtype::I32) => "Whole<int32_t>",
        Element::Fixed(Dtype::I16) => "Whole<int16_t>",
        Element::Fixed(Dtype::I8) => "Whole<int8_t>",
        Element::Fixed(Dtype::Bool) => "Whole<bool>",
        Element::Fixed(_) => "Float32",
    }
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        program: &'a Program,
        plan: &'a Plan,
        kernel: &'a Kernel,
        project: &'a Project,
    ) -> Self {
        Self {
            words: Words::new(program, plan, kernel),
            project,
            inner: kernel.axes.len() - 1,
            scalars: BTreeSet::new(),
            kept: BTreeSet::new(),
        }
    }

    pub(super) fn kernel(&self) -> &'a Kernel {
        self.words.kernel
    }

    pub(super) fn element(&self, buffer: Buffer) -> &'static str {
        element(self.words.elements[&buffer])
    }

    pub(super) fn pointer(&self, buffer: Buffer) -> String {
        match buffer {
            Buffer::Workspace(number) => format!("between_{number}"),
            _ => format!("call.{}", self.words.tensor(buffer)),
        }
    }

    /// A place with `at` along the innermost axis.
    pub(super) fn at_piece(&self, index: &Index) -> String {
        let axis =
            |axis: usize| if axis == self.inner { "at".to_owned() } else { self.words.axes[axis].clone() };
        spell::index(index, &axis, &|node| self.words.nodes[node].clone())
    }

    pub(super) fn is_inner(&self, role: Role) -> bool {
        self.kernel().axes[self.inner].role == role
    }

    /// The head of a loop over pieces that lie in the first-level cache.
    pub(super) fn chunks(&self, lines: &mut Lines, depth: usize, begin: &str, end: &str) {
        lines.add(depth, format!("for (int64_t at = {begin}; at < {end}; at += kChunk) {{"));
        lines.add(depth + 1, format!("const int64_t count = at + kChunk < {end} ? kChunk : {end} - at;"));
    }

    /// Whether there is a result for every place, and not one for all along reduced axes.
    pub(super) fn is_full(&self, store: &Store) -> bool {
        let kernel = self.kernel();
        kernel
            .axes
            .iter()
            .enumerate()
            .any(|(axis, own)| own.role != Role::Parallel && store.offset.uses(axis))
            || kernel.form().is_pointwise()
            || (kernel.nodes[store.value].varies)
    }

    /// Loops over outer axes; the depth inside.
    pub(super) fn open(&self, lines: &mut Lines, depth: usize, axes: &[usize]) -> usize {
        for (number, axis) in axes.iter().enumerate() {
            let (name, length) = (&self.words.axes[*axis], &self.kernel().axes[*axis].length);
            lines.add(depth + number, format!("for (int64_t {name} = 0; {name} < {length}; ++{name}) {{"));
        }
        depth + axes.len()
    }
}

/// Ends of the loop over pieces at a depth and those around it.
pub(super) fn close(lines: &mut Lines, depth: usize, outermost: usize) {
    for depth in (outermost..=depth).rev() {
        lines.add(depth, "}");
    }
}

/// Ends of the loops inside which the depth is this.
pub(super) fn close_loops(lines: &mut Lines, depth: usize, outermost: usize) {
    for depth in (outermost..depth).rev() {
        lines.add(depth, "}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_of_a_tensor_has_a_type() {
        assert_eq!(element(Element::Fixed(Dtype::I32)), "Whole<int32_t>");
        assert_eq!(element(Element::Variable), "Type");
    }
}
