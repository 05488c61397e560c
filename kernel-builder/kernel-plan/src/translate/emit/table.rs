//! The plan as a table.
//!
//! Owns: its text. Never: decides.

use super::super::kernel::{Buffer, Kernel};
use super::super::plan::Plan;
use super::super::program::Program;
use super::project::Project;

/// One kernel in a line.
pub(super) fn summary(program: &Program, plan: &Plan, kernel: &Kernel) -> String {
    let (read, written) = plan.moved(kernel);
    let list = |all: &[Buffer]| all.iter().map(|one| plan.name(program, *one)).collect::<Vec<_>>().join(", ");
    let form = kernel.form().words();
    let form = form[..1].to_uppercase() + &form[1..];
    format!("{form}: reads {}, writes {}", list(&read), list(&written))
}

/// All kernels, with the bytes that they move in the call that was traced.
pub(super) fn table(program: &Program, plan: &Plan, project: &Project) -> String {
    let call: Vec<String> = program
        .symbols
        .iter()
        .map(|symbol| format!("{} = {}", symbol.axis(), symbol.hint * symbol.factor()))
        .collect();
    let call = if call.is_empty() { String::new() } else { format!(" at {}", call.join(", ")) };
    let mut text = format!(
        "# The plan of {}\n\n`{}` of {} as {} kernel{}. Bytes are those that must be moved{call}, in 16-bit floats.\n\n\
         | kernel | skeleton | reads | writes | steps | bytes |\n|---|---|---|---|---|---|\n",
        project.op,
        program.function,
        project.file,
        plan.kernels.len(),
        if plan.kernels.len() == 1 { "" } else { "s" },
    );
    for (number, (kernel, bytes)) in plan.kernels.iter().zip(plan.bytes(program)).enumerate() {
        let (read, written) = plan.moved(kernel);
        let list = |all: &[Buffer]| {
            all.iter().map(|one| format!("`{}`", plan.name(program, *one))).collect::<Vec<_>>().join(", ")
        };
        let steps = kernel.nodes.len() + kernel.reductions.len();
        text += &format!(
            "| {number} | {} | {} | {} | {steps} | {bytes} |\n",
            kernel.form().words(),
            list(&read),
            list(&written),
        );
    }
    for (tensor, held) in plan.workspaces.iter().zip(&plan.held) {
        let shape: Vec<String> = tensor.shape.iter().map(ToString::to_string).collect();
        text += &format!(
            "\n`{}` is memory between kernels: {held}, [{}], {}.\n",
            tensor.name,
            shape.join(", "),
            tensor.element.word()
        );
    }
    text
}
