//! Writes a divided function as the files of a project.
//!
//! Owns: which files there are, and the table of its steps. Never: writes to a disk; decides what is a region.

use super::super::refusal::Refusal;
use super::super::regions::{Division, Step, is_free};
use super::project::{Part, Project};
use super::{Emitted, contract, emit, forward};

/// The files of a divided function.
#[derive(Debug, Clone)]
pub struct Whole {
    /// op.toml.
    pub op: String,
    /// The module with the steps.
    pub forward: String,
    /// References of the regions, for the end of reference.py.
    pub references: String,
    /// The steps as a table, and the plan of each region.
    pub plan: String,
    /// The operator of each region, with its files.
    pub regions: Vec<(String, Emitted)>,
}

/// Writes a division.
///
/// # Errors
/// What op.toml cannot say.
pub fn emit_whole(division: &Division, project: &Project) -> Result<Whole, Refusal> {
    let operators = operators(division, &project.op);
    let references: Vec<String> = operators.iter().map(|name| format!("{name}_reference")).collect();
    let mut regions = Vec::new();
    for ((region, op), reference) in division.regions.iter().zip(&operators).zip(&references) {
        let own = Project {
            module: project.module.clone(),
            op: op.clone(),
            file: project.file.clone(),
            reference: reference.clone(),
            part: Part::Alone,
        };
        regions.push((op.clone(), emit(&region.program, &region.plan, &own)?));
    }
    let files: Vec<String> = operators.iter().map(|name| format!("{name}.toml")).collect();
    let mut plan = table(division, project, &operators);
    for (_, emitted) in &regions {
        plan += &format!("\n{}", emitted.plan);
    }
    Ok(Whole {
        op: contract::whole(division, project, &files)?,
        forward: forward::forward(division, project, &operators),
        references: forward::references(division, &references),
        plan,
        regions,
    })
}

/// The steps of a division, a line each.
pub fn steps(division: &Division, op: &str) -> Vec<String> {
    let lines = rows(division, &operators(division, op)).into_iter().enumerate();
    let lines = lines.map(|(number, Row { what, reads, writes, bytes })| {
        let (reads, writes) = (reads.join(", "), writes.join(", "));
        format!("step {number}: {what}, reads {reads}, writes {writes}, {bytes} bytes")
    });
    lines.collect()
}

/// The operator of each region.
fn operators(division: &Division, op: &str) -> Vec<String> {
    (1..=division.regions.len()).map(|number| format!("{op}_{number}")).collect()
}

/// The steps, with what each moves in the call that was traced.
fn table(division: &Division, project: &Project, operators: &[String]) -> String {
    let mut text = format!(
        "# The steps of {}\n\n`{}` of {} as {} regions with kernels, and PyTorch's operators between them. Bytes are those of the \
         tensors that a step reads and writes in the call that was traced, in 16-bit floats. Views move nothing.\n\n\
         | step | what runs | reads | writes | bytes |\n|---|---|---|---|---|\n",
        project.op,
        division.shell.function,
        project.file,
        operators.len(),
    );
    for (number, line) in rows(division, operators).into_iter().enumerate() {
        let list = |all: &[String]| all.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ");
        text += &format!(
            "| {number} | {} | {} | {} | {} |\n",
            line.what,
            list(&line.reads),
            list(&line.writes),
            line.bytes
        );
    }
    text
}

/// One line for each step: what runs, what it reads and writes, its bytes.
fn rows(division: &Division, operators: &[String]) -> Vec<Row> {
    let steps = division.steps.iter().map(|step| match step {
        Step::Region(number) => {
            let region = &division.regions[*number];
            let reads = region.traced.inputs.iter().map(|input| input.value.clone()).collect();
            let kernels = region.plan.kernels.len();
            let what =
                format!("{}: {kernels} kernel{}", operators[*number], if kernels == 1 { "" } else { "s" });
            (what, reads, region.traced.outputs.clone(), region.plan.bytes(&region.program).iter().sum())
        }
        Step::Operator(place) => {
            let node = &division.traced.nodes[*place];
            let reads: Vec<String> = node.operands().into_iter().map(str::to_owned).collect();
            let moves = !(is_free(node) || node.op == "getitem");
            let tensors = reads.iter().filter_map(|value| division.tensor(value)).chain(&node.results);
            let bytes: i64 = tensors.map(|tensor| division.elements(tensor) * bytes_of(&tensor.dtype)).sum();
            let what = format!("PyTorch's `{}`", node.op.trim_start_matches("aten."));
            (what, reads, vec![node.name.clone()], if moves { bytes } else { 0 })
        }
    });
    let named = |all: Vec<String>| all.iter().map(|value| division.name(value).to_owned()).collect();
    steps
        .map(|(what, reads, writes, bytes)| Row { what, reads: named(reads), writes: named(writes), bytes })
        .collect()
}

struct Row {
    what: String,
    reads: Vec<String>,
    writes: Vec<String>,
    bytes: i64,
}

/// Bytes of an element.
fn bytes_of(dtype: &str) -> i64 {
    match dtype {
        "bool" | "int8" | "uint8" => 1,
        "float32" | "int32" => 4,
        "float64" | "int64" => 8,
        _ => 2,
    }
}
