//! How pieces of work are counted, and the lengths and workspaces of a kernel.
//!
//! Owns: the size of a piece. Never: a loop.

use std::collections::BTreeSet;

use super::super::super::kernel::{Buffer, Kernel, Role};
use super::super::super::length::Length;
use super::super::super::plan::Plan;
use super::super::super::program::Program;
use super::super::words::Lines;

/// Numbers of the workspaces that a kernel reads or writes.
pub(super) fn workspaces(plan: &Plan, kernel: &Kernel) -> BTreeSet<usize> {
    let (read, written) = plan.moved(kernel);
    let number = |buffer: &Buffer| match buffer {
        Buffer::Workspace(number) => Some(*number),
        _ => None,
    };
    read.iter().chain(&written).filter_map(number).collect()
}

/// Results of a row that are worth a call, where they are independent. op.toml has it in `over`.
const PIECE: i64 = 2048;
/// Columns that are reduced side by side; `kChunk` of steps.h.
const CHUNK: i64 = 256;

pub(super) fn lengths<'a>(lines: &mut Lines, program: &Program, used: impl Iterator<Item = &'a str>) {
    for name in used {
        let Some(symbol) = program.symbols.iter().find(|symbol| symbol.name == name) else { continue };
        let value = match &symbol.multiple {
            Some((axis, by)) => format!("call.{axis} / {by}"),
            None => format!("call.{name}"),
        };
        lines.add(1, format!("[[maybe_unused]] const int64_t {name} = {value};"));
    }
}

/// How many pieces of work a kernel has, in C++.
pub(super) fn over(kernel: &Kernel) -> String {
    let (outer, inner) = pieces(kernel);
    match inner {
        Some((length, piece)) => format!("{} * (({length} + {}) / {piece})", outer.as_factor(), piece - 1),
        None => outer.to_string(),
    }
}

/// Pieces of work: the product of outer axes, and the innermost one with the size of its pieces, if that is divided.
pub(in super::super) fn pieces(kernel: &Kernel) -> (Length, Option<(Length, i64)>) {
    let last = kernel.axes.len() - 1;
    let divided = kernel.axes[last].role == Role::Parallel;
    let outer = kernel.along(Role::Parallel).filter(|axis| !(divided && *axis == last));
    let outer = Length::product(outer.map(|axis| &kernel.axes[axis].length));
    let size = if kernel.form().is_pointwise() { PIECE } else { CHUNK };
    (outer, divided.then(|| (kernel.axes[last].length.clone(), size)))
}
