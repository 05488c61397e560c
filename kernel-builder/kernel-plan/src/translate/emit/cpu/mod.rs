//! Code for the processor: pieces of a row at a time, which the compiler makes vectors of.
//!
//! Owns: the file, and the order of kernels. Never: a loop over elements; the files beside this one have them.

mod kernel;
mod loops;
mod reduction;
mod scan;
mod work;
mod writer;

use super::super::length::Length;
use super::super::plan::Plan;
use super::super::program::{Element, Program};
use super::project::Project;
use super::words::Lines;
use crate::host::camel;
use crate::units::Dtype;

pub(super) use work::pieces;
use work::{lengths, over, workspaces};
use writer::Writer;

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
