//! What the figures depend on: the machine, the candidate, the baselines.
//!
//! Owns: those three sections. Never: repeats a figure of the results.

use std::collections::BTreeSet;

use serde::Serialize;

use super::super::record::{Clocks, Measurement};
use super::super::render::counted;
use super::html::{Table, Term, terms};
use super::name;

/// Different values of one field, separated by semicolons; `None` when no measurement has one.
fn every(measurements: &[Measurement], of: impl Fn(&Measurement) -> Option<String>) -> Option<String> {
    let mut found: Vec<String> = Vec::new();
    for text in measurements.iter().filter_map(of) {
        if !found.contains(&text) {
            found.push(text);
        }
    }
    (!found.is_empty()).then(|| found.join("; "))
}

/// Where it was measured, and what the GPU did meanwhile.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    terms: Vec<Term>,
    clocks: Option<Table>,
}

/// What was measured, as it was made.
#[derive(Debug, Serialize)]
pub(super) struct Candidate {
    terms: Vec<Term>,
    /// The heading of `kernels`.
    summary: String,
    kernels: Option<Table>,
}

pub(super) fn machine(measurements: &[Measurement]) -> Machine {
    let terms = terms([
        ("device", every(measurements, |it| Some(it.device.clone()))),
        ("driver", every(measurements, |it| it.driver.clone())),
        ("processor", every(measurements, |it| Some(it.cpu.model.clone()))),
        ("threads", every(measurements, |it| Some(it.cpu.threads.to_string()))),
        ("governor", every(measurements, |it| it.cpu.governor.clone())),
        ("torch", every(measurements, |it| Some(it.torch.clone()))),
        ("Python", every(measurements, |it| Some(it.python.clone()))),
        ("protocol", every(measurements, |it| Some(it.protocol.to_string()))),
    ]);
    Machine { terms, clocks: clocks(measurements) }
}

fn clocks(measurements: &[Measurement]) -> Option<Table> {
    let known: Vec<(String, &Clocks)> =
        measurements.iter().filter_map(|it| Some((name(it), it.clocks.as_ref()?))).collect();
    if known.is_empty() {
        return None;
    }
    let headers = [
        "measurement",
        "clock",
        "lowest",
        "highest possible",
        "memory",
        "temperature",
        "power",
        "held down by",
    ];
    let mut table = Table::new("The GPU while it was timed", headers.map(str::to_owned).to_vec());
    let figure = |number: Option<f64>, unit: &str| {
        number.map_or_else(|| "-".to_owned(), |it| format!("{it:.0} {unit}"))
    };
    for (name, clocks) in known {
        table.row(&name);
        table.cell("number", &figure(clocks.sm_mhz, "MHz"));
        table.cell("number", &figure(clocks.sm_lowest_mhz, "MHz"));
        table.cell("number", &figure(clocks.sm_most_mhz, "MHz"));
        table.cell("number", &figure(clocks.memory_mhz, "MHz"));
        table.cell("number", &figure(clocks.celsius, "\u{b0}C"));
        table.cell("number", &figure(clocks.watts, "W"));
        table.cell("", &if clocks.throttle.is_empty() { "-".to_owned() } else { clocks.throttle.join(", ") });
    }
    Some(table)
}

pub(super) fn candidate(measurements: &[Measurement]) -> Candidate {
    let joined = |flags: &[String]| (!flags.is_empty()).then(|| flags.join(" "));
    let terms = terms([
        ("variant", every(measurements, |it| Some(it.variant.clone()))),
        ("artifact", every(measurements, |it| Some(it.artifact.short(16)))),
        ("commit", every(measurements, |it| it.commit.clone())),
        ("sources", every(measurements, |it| Some(it.candidate.as_ref()?.source?.short(16)))),
        ("host compiler", every(measurements, |it| it.candidate.as_ref()?.compiler.clone())),
        ("flags", every(measurements, |it| joined(&it.candidate.as_ref()?.flags))),
        ("assembler", every(measurements, |it| it.candidate.as_ref()?.code.first()?.compiler.clone())),
    ]);
    let mut seen = BTreeSet::new();
    let mut rows = Vec::new();
    for code in
        measurements.iter().filter_map(|it| it.candidate.as_ref()).flat_map(|candidate| &candidate.code)
    {
        for kernel in &code.kernels {
            if seen.insert((&code.arch, &kernel.kernel)) {
                rows.push((&code.arch, kernel));
            }
        }
    }
    let summary = format!("Registers and memory of {}", counted(rows.len() as u64, "kernel"));
    if rows.is_empty() {
        return Candidate { terms, summary, kernels: None };
    }
    let headers = [
        "kernel",
        "architecture",
        "registers",
        "local bytes",
        "shared bytes",
        "instructions",
        "matrix instructions",
    ];
    let mut table = Table::new("Kernels", headers.map(str::to_owned).to_vec());
    for (arch, kernel) in &rows {
        table.row(&kernel.kernel);
        table.cell("", arch);
        table.cell("number", &kernel.registers.to_string());
        table.cell(if kernel.local > 0 { "number spills" } else { "number" }, &kernel.local.to_string());
        table.cell("number", &kernel.shared.to_string());
        let sass = kernel.sass.as_ref();
        table.cell("number", &sass.map_or_else(|| "-".to_owned(), |sass| sass.instructions.to_string()));
        let mma = sass.map(|sass| {
            sass.mma.iter().map(|(opcode, count)| format!("{count} {opcode}")).collect::<Vec<_>>()
        });
        table.cell(
            "",
            &mma.filter(|mma| !mma.is_empty()).map_or_else(|| "-".to_owned(), |mma| mma.join(", ")),
        );
    }
    Candidate { terms, summary, kernels: Some(table) }
}

/// What the auditor states, and which baselines are missing.
pub(super) fn baselines(measurements: &[Measurement]) -> Vec<String> {
    let notes: BTreeSet<&String> = measurements.iter().flat_map(|it| &it.notes).collect();
    let skipped: BTreeSet<String> = measurements
        .iter()
        .flat_map(|it| &it.skipped)
        .map(|skipped| format!("No {}: {}", skipped.name, skipped.reason))
        .collect();
    let mut rows: Vec<String> = notes.into_iter().cloned().collect();
    rows.extend(skipped);
    rows
}
