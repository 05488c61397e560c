//! Code for the processor: pieces of a row at a time, which the compiler makes vectors of.
//!
//! Owns: the file, how pieces of work are counted, the order of kernels. Never: a loop over elements; the files beside this one
//! have them.

mod loops;
mod reduction;
mod scan;
mod writer;

use std::collections::BTreeSet;

use super::super::kernel::{Buffer, Form, Kernel, Role};
use super::super::length::Length;
use super::super::plan::Plan;
use super::super::program::{Element, Program};
use super::project::Project;
use super::words::Lines;
use crate::host::camel;
use crate::units::Dtype;

use writer::Writer;

/// Numbers of the workspaces that a kernel reads or writes.
fn workspaces(plan: &Plan, kernel: &Kernel) -> BTreeSet<usize> {
    let (read, written) = plan.moved(kernel);
    let number = |buffer: &Buffer| match buffer {
        Buffer::Workspace(number) => Some(*number),
        _ => None,
    };
    read.iter().chain(&written).filter_map(number).collect()
}

/// Results of a row that are worth a call, where they are independent. op.toml has it in `over`.
pub(super) const PIECE: i64 = 2048;
/// Columns that are reduced side by side; `kChunk` of steps.h.
pub(super) const CHUNK: i64 = 256;

/// The source with the entry.
pub(super) fn source(program: &Program, project: &Project) -> String {
    let element = if program.is_variable() { "call.T" } else { "Element::kF32" };
    let (op, call) = (&project.op, camel(&project.op));
    format!(
        "// {op} on the CPU. Owns: the function that the binding calls. Never: starts threads, keeps state. The arithmetic is in\n\
         // {op}_body.h, compiled for each instruction set by each_isa.h.\n\n\
         #include \"{op}_call.h\"\n\n\
         #include <vector>\n\n\
         #define KERNEL_BODY \"{op}_body.h\"\n\
         #include \"each_isa.h\"\n\n\
         extern \"C\" void {op}_cpu(const {call}Call& call, int64_t first, int64_t last) {{\n    run({element}, call, first, last);\n}}\n"
    )
}

/// The arithmetic.
pub(super) fn body(program: &Program, plan: &Plan, project: &Project) -> String {
    let mut lines = Lines::new();
    let op = &project.op;
    lines.add(
        0,
        format!(
            "// What `{}` of {} computes, included by each_isa.h once per instruction set.",
            program.function, project.file
        ),
    );
    lines.add(0, "// Owns: the arithmetic. Never: chooses the instruction set or the type. Written by `kernelwright new`; it is yours.");
    lines.add(0, "");
    lines.add(0, "#include \"steps.h\"");
    lines.add(0, "");
    lines.add(0, "namespace KERNEL_ISA {");
    for (number, kernel) in plan.kernels.iter().enumerate() {
        let name = if plan.kernels.len() == 1 { "pieces".to_owned() } else { format!("{op}_{number}") };
        lines.add(0, "");
        Writer::new(program, plan, kernel, project).write(&mut lines, &name);
    }
    if plan.kernels.len() > 1 {
        lines.add(0, "");
        several(&mut lines, program, plan, project);
    }
    lines.add(0, "");
    lines.add(0, "} // namespace KERNEL_ISA");
    lines.finish()
}

/// Several kernels one after the other, with the memory between them.
fn several(lines: &mut Lines, program: &Program, plan: &Plan, project: &Project) {
    lines.add(0, "// One after the other: each needs all of what comes before.");
    lines.add(0, "template <typename Type>");
    lines.add(
        0,
        format!(
            "KERNEL_TARGET void pieces(const {}Call& call, int64_t first, int64_t last) {{",
            camel(&project.op)
        ),
    );
    lines.add(1, "if (first >= last) {");
    lines.add(2, "return;");
    lines.add(1, "}");
    lengths(lines, program, program.symbols.iter().map(|symbol| symbol.name.as_str()));
    for (number, one) in plan.workspaces.iter().enumerate() {
        let size = Length::product(&one.shape);
        let kind = match one.element {
            Element::Fixed(Dtype::Bool) => "unsigned char",
            Element::Fixed(Dtype::I64) => "int64_t",
            _ => "float",
        };
        lines.add(1, format!("std::vector<{kind}> between_{number}(static_cast<size_t>({size}));"));
    }
    for (number, kernel) in plan.kernels.iter().enumerate() {
        let between = workspaces(plan, kernel);
        let list: Vec<String> = between.iter().map(|one| format!("between_{one}.data(), ")).collect();
        let over = over(kernel);
        lines.add(1, format!("{}_{number}<Type>(call, {}0, {over});", project.op, list.concat()));
    }
    lines.add(0, "}");
}

fn lengths<'a>(lines: &mut Lines, program: &Program, used: impl Iterator<Item = &'a str>) {
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
fn over(kernel: &Kernel) -> String {
    let (outer, inner) = pieces(kernel);
    match inner {
        Some((length, piece)) => format!("{} * (({length} + {}) / {piece})", outer.as_factor(), piece - 1),
        None => outer.to_string(),
    }
}

/// Pieces of work: the product of outer axes, and the innermost one with the size of its pieces, if that is divided.
pub(super) fn pieces(kernel: &Kernel) -> (Length, Option<(Length, i64)>) {
    let last = kernel.axes.len() - 1;
    let divided = kernel.axes[last].role == Role::Parallel;
    let outer = kernel.along(Role::Parallel).filter(|axis| !(divided && *axis == last));
    let outer = Length::product(outer.map(|axis| &kernel.axes[axis].length));
    let size = if kernel.form() == Form::Pointwise { PIECE } else { CHUNK };
    (outer, divided.then(|| (kernel.axes[last].length.clone(), size)))
}
