//! op.toml of a translation.
//!
//! Owns: axes, tensors, tolerance, workloads. Never: how kernels are started; cuda.rs says that.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::kernel::{Kernel, Role};
use super::super::least::least;
use super::super::length::Length;
use super::super::plan::Plan;
use super::super::precision;
use super::super::program::{Element, Program, Symbol, Tensor};
use super::super::refusal::{Assumed, Refusal};
use super::super::regions::Division;
use super::cpu;
use super::cuda::Launches;
use super::project::{Part, Project};
use crate::spec::op::Values;
use crate::units::Dtype;

/// Lengths that are tried, by the number of axes: one, few and odd, more than a vector, several blocks.
const TRIED: [&[[i64; 5]]; 2] =
    [&[[3, 5, 7, 2, 3], [37, 13, 19, 11, 5]], &[[13, 1192, 29, 17, 6], [131_077, 7, 5, 3, 2]]];

/// A condition that holds where all tensors are counted in 31 bits.
fn few(program: &Program, plan: &Plan) -> String {
    let results = program.outputs.iter().map(|(tensor, _)| tensor);
    let tensors = program.inputs.iter().chain(results).chain(&plan.workspaces);
    let mut sizes: Vec<String> = Vec::new();
    let mut add = |length: &Length| {
        let text = program.over_axes(length);
        if length.value().is_none() && !sizes.contains(&text) {
            sizes.push(text);
        }
    };
    tensors.for_each(|tensor| add(&Length::product(&tensor.shape)));
    for kernel in &plan.kernels {
        add(&Length::product(kernel.axes.iter().map(|axis| &axis.length)));
    }
    let conditions: Vec<String> = sizes.iter().map(|size| format!("{size} < 2000000000")).collect();
    if conditions.is_empty() { "true".to_owned() } else { conditions.join(" and ") }
}

/// Writes op.toml.
pub(super) fn op(
    program: &Program,
    plan: &Plan,
    project: &Project,
    launches: &Launches,
) -> Result<String, Refusal> {
    let mut text = String::new();
    let _ = writeln!(text, "format = 1\nname = \"{}\"", project.op);
    let of = match project.part {
        Part::Gradient => format!("The gradient of a function of {}, translated", project.file),
        Part::Alone | Part::Differentiable { .. } => {
            format!("`{}` of {}, translated", program.function, project.file)
        }
    };
    let _ = writeln!(text, "description = \"{of}\"\n");
    text += &signature(program, plan, project, &[Dtype::Bf16, Dtype::F16, Dtype::F32])?;
    text += &gradient(&project.part);
    let names: Vec<String> = program.outputs.iter().map(|(one, _)| format!("\"{}\"", one.name)).collect();
    let _ = writeln!(text, "[call]\nfunction = \"{}\"\nout = [{}]\n", project.op, names.join(", "));
    let length: Vec<String> =
        precision::terms(program, plan).iter().map(|one| program.over_axes(one)).collect();
    text += "# All steps are in float32, and results are rounded once.\n";
    let _ = writeln!(
        text,
        "[tolerance]\naccumulate = \"f32\"\nlength = \"{}\"\nroundings = 1",
        length.join(" + ")
    );
    if precision::cancels(program) {
        text += "# Terms cancel on the way.\ncancels = true\n";
    }
    let _ = write!(text, "\n[let]\n");
    if launches.uses_few {
        let _ = writeln!(text, "# Elements can be counted in 32 bits.\nfew = \"{}\"", few(program, plan));
    }
    text += &launches.lets;
    let _ = write!(text, "\n{}\n", launches.tune.trim_end());
    let _ = writeln!(text, "\n[launch]\nsource = \"{}_cuda/{}.cuh\"", project.module, project.op);
    for workspace in plan.workspaces.iter().chain(&launches.partial) {
        let shape: Vec<String> =
            workspace.shape.iter().map(|one| format!("\"{}\"", program.over_axes(one))).collect();
        let shape = if shape.is_empty() { "1".to_owned() } else { shape.join(", ") };
        let _ = writeln!(
            text,
            "\n[launch.workspace.{}]\ndtype = \"{}\"\nshape = [{shape}]",
            workspace.name,
            workspace.element.word()
        );
    }
    text += &launches.kernels;
    text += &cpu_section(program, plan, project);
    text += &workloads(program, plan);
    Ok(text)
}

/// The axes, the tensors and the reference.
fn signature(program: &Program, plan: &Plan, project: &Project, dtypes: &[Dtype]) -> Result<String, Refusal> {
    let mut text = String::new();
    let mut constants = BTreeMap::new();
    let mut tensors = String::new();
    for input in &program.inputs {
        let _ = writeln!(tensors, "{}", tensor(program, input, &mut constants)?);
    }
    let mut outputs = String::new();
    for (output, _) in &program.outputs {
        let _ = writeln!(outputs, "{}", tensor(program, output, &mut constants)?);
    }
    if !program.symbols.is_empty() || !constants.is_empty() {
        text += "[axes]\n";
        for symbol in &program.symbols {
            text += &axis(program, plan, symbol);
        }
        for (name, value) in &constants {
            let _ = writeln!(text, "{name} = {{ type = \"const\", value = {value} }}");
        }
        text += "\n";
    }
    if program.is_variable() {
        let dtypes: Vec<String> = dtypes.iter().map(|dtype| format!("\"{dtype}\"")).collect();
        let _ = writeln!(text, "[dtypes]\nT = [{}]\n", dtypes.join(", "));
    }
    let _ = write!(text, "[inputs]\n{tensors}\n[outputs]\n{outputs}\n");
    let _ = writeln!(text, "[reference]\nfile = \"reference.py\"\nfunction = \"{}\"\n", project.reference);
    Ok(text)
}

/// Writes op.toml of a function that is divided: `files` have its regions.
pub(super) fn whole(division: &Division, project: &Project, files: &[String]) -> Result<String, Refusal> {
    let (program, plan) =
        (&division.shell, Plan { kernels: Vec::new(), workspaces: Vec::new(), held: Vec::new() });
    let mut text = String::new();
    let _ = writeln!(text, "format = 1\nname = \"{}\"", project.op);
    let _ = writeln!(text, "description = \"`{}` of {}, in parts\"\n", program.function, project.file);
    // Values between the steps overflow in float16 where results need not.
    text += &signature(program, &plan, project, &[Dtype::Bf16, Dtype::F32])?;
    let _ = writeln!(text, "[call]\nfunction = \"{}\"\n", project.op);
    text += "# Results of regions, and of PyTorch's operators between them, are rounded on the way.\n";
    let _ = writeln!(
        text,
        "[tolerance]\naccumulate = \"f32\"\nlength = \"{}\"\nroundings = {}\ncancels = true\nfrom-rounded = true\n",
        division.summed.join(" + "),
        division.roundings
    );
    let files: Vec<String> = files.iter().map(|file| format!("\"{file}\"")).collect();
    let _ = writeln!(text, "[forward]\nregions = [{}]", files.join(", "));
    text += &workloads(program, &plan);
    Ok(text)
}

/// `[gradient]`, which backward.toml computes.
fn gradient(part: &Part) -> String {
    let Part::Differentiable { inputs, same } = part else { return String::new() };
    let inputs: Vec<String> = inputs.iter().map(|name| format!("\"{name}\"")).collect();
    let mut text = format!("[gradient]\nbackward = true\ninputs = [{}]\n", inputs.join(", "));
    if !same.is_empty() {
        let same: Vec<String> = same.iter().map(|(name, twin)| format!("{name} = \"{twin}\"")).collect();
        let _ = writeln!(text, "same = {{ {} }}", same.join(", "));
    }
    text + "\n"
}

fn axis(program: &Program, plan: &Plan, symbol: &Symbol) -> String {
    let multiple = match symbol.factor() {
        1 => String::new(),
        factor => format!(", multiple-of = {factor}"),
    };
    let least = match least(program, plan, symbol) {
        0 => String::new(),
        least => format!(", min = {least}"),
    };
    format!("{} = {{ type = \"var\"{multiple}{least} }}\n", symbol.axis())
}

fn tensor(
    program: &Program,
    tensor: &Tensor,
    constants: &mut BTreeMap<String, i64>,
) -> Result<String, Refusal> {
    if let Element::Fixed(Dtype::F8e4m3 | Dtype::F8e5m2 | Dtype::F64) = tensor.element {
        return Err(Refusal::new(format!("`{}` has the dtype {}", tensor.name, tensor.element.word())));
    }
    let mut axes = Vec::new();
    for length in &tensor.shape {
        let symbol = program
            .symbols
            .iter()
            .find(|symbol| *length == Length::term(symbol.factor(), vec![symbol.name.clone()]));
        let name = match (length.value(), symbol) {
            (Some(value), _) => {
                let name = format!("of_{value}");
                constants.insert(name.clone(), value);
                name
            }
            (None, Some(symbol)) => symbol.axis().to_owned(),
            (None, None) => {
                let refusal = Refusal::new(format!(
                    "`{}` has an axis of the length {}, and op.toml has no axis for a length that is computed",
                    tensor.name,
                    program.over_axes(length)
                ));
                return Err(Refusal { assumed: Some(Box::new(Assumed::Fixed(length.clone()))), ..refusal });
            }
        };
        axes.push(format!("\"{name}\""));
    }
    Ok(format!(
        "{} = {{ shape = [{}], dtype = \"{}\"{} }}",
        tensor.name,
        axes.join(", "),
        tensor.element.word(),
        match tensor.values {
            Values::Any => "",
            Values::NonNegative => ", non-negative = true",
            Values::Seed => ", seed = true",
        }
    ))
}

fn cpu_section(program: &Program, plan: &Plan, project: &Project) -> String {
    let (over, grain) = match plan.kernels.as_slice() {
        [kernel] => {
            let (outer, cut) = cpu::pieces(kernel);
            let outer_text = program.over_axes(&outer);
            let rest = elements_of_piece(program, kernel);
            match cut {
                Some((length, piece)) => {
                    let inner = format!("ceil_div({}, {piece})", program.over_axes(&length));
                    let over = if outer.is(1) { inner } else { format!("({outer_text}) * {inner}") };
                    (
                        over,
                        format!(
                            "max(1, 16384 / max(1, min({}, {piece}) * ({rest})))",
                            program.over_axes(&length)
                        ),
                    )
                }
                None => (outer_text, format!("max(1, 16384 / max(1, {rest}))")),
            }
        }
        // What a kernel needs is complete only when the one before has ended.
        _ => ("1".to_owned(), "1".to_owned()),
    };
    format!(
        "\n[cpu]\nsource = \"{}_cpu/{}.cpp\"\nentry = \"{}_cpu\"\nover = \"{over}\"\ngrain = \"{grain}\"\n",
        project.module, project.op, project.op
    )
}

/// Elements that a piece of work reads for each of its places.
fn elements_of_piece(program: &Program, kernel: &Kernel) -> String {
    let others = kernel.axes.iter().filter(|axis| axis.role != Role::Parallel);
    program.over_axes(&Length::product(others.map(|axis| &axis.length)))
}

fn workloads(program: &Program, plan: &Plan) -> String {
    let symbols = &program.symbols;
    let mut text = String::new();
    let fitting = |symbol: &Symbol, length: i64| {
        let least = least(program, plan, symbol).max(1);
        (length.max(1) * symbol.factor()).max(least)
    };
    let mut seen: Vec<Vec<i64>> = Vec::new();
    let mut add = |name: &str, lengths: Vec<i64>, more: &str| {
        if seen.contains(&lengths) && more.contains("verify") {
            return;
        }
        seen.push(lengths.clone());
        let axes: Vec<String> = symbols
            .iter()
            .zip(&lengths)
            .map(|(symbol, length)| format!("{} = {length}", symbol.axis()))
            .collect();
        let axes = if axes.is_empty() {
            "axes = {}".to_owned()
        } else {
            format!("axes = {{ {} }}", axes.join(", "))
        };
        let _ = write!(text, "\n[workload.{name}]\n{axes}\n{more}");
    };
    let verify = "for = [\"verify\"]\n";
    add("one", symbols.iter().map(|symbol| fitting(symbol, 1)).collect(), verify);
    let words = [["few", "odd"], ["more", "long"]];
    for (rows, names) in TRIED.iter().zip(words) {
        for (lengths, name) in rows.iter().zip(names) {
            let lengths: Vec<i64> =
                symbols.iter().enumerate().map(|(n, symbol)| fitting(symbol, tried(lengths, n))).collect();
            let (axes, elements) = (lengths.iter().product::<i64>(), elements(program, &lengths));
            if axes <= 2_000_000 && elements <= 16_000_000 {
                add(name, lengths, verify);
            }
        }
    }
    if symbols.iter().all(|symbol| least(program, plan, symbol) == 0) && !symbols.is_empty() {
        add("none", symbols.iter().map(|_| 0).collect(), verify);
    }
    if symbols.is_empty() {
        return text.replace("for = [\"verify\"]\n", "");
    }
    let sizes = |own: &[i64], most: i64| {
        let length = |(n, one): (usize, &Symbol)| fitting(one, *own.get(n).unwrap_or(&2) / one.factor());
        let mut lengths: Vec<i64> = symbols.iter().enumerate().map(length).collect();
        // Constant axes come on top of these.
        while elements(program, &lengths) > most {
            let Some(longest) = (0..lengths.len()).max_by_key(|n| lengths[*n]) else { break };
            let less = fitting(&symbols[longest], lengths[longest] / symbols[longest].factor() / 2);
            if less == lengths[longest] {
                break;
            }
            lengths[longest] = less;
        }
        lengths
    };
    let small: [&[i64]; 5] = [&[262_144], &[256, 1024], &[4, 64, 1024], &[4, 16, 64, 64], &[2, 4, 8, 32, 32]];
    let small = small[symbols.len().clamp(1, 5) - 1];
    add("large", sizes(&program.large(), 1 << 27), "dtypes = [\"bf16\"]\ndevices = [\"cuda\"]\n");
    add("small", sizes(small, 1 << 22), "devices = [\"cpu\"]\n");
    if program.is_variable() { text } else { text.replace("dtypes = [\"bf16\"]\n", "") }
}

/// Elements of the largest tensor of a call with these lengths of the axes.
fn elements(program: &Program, lengths: &[i64]) -> i64 {
    let of_symbols: BTreeMap<String, i64> = program
        .symbols
        .iter()
        .zip(lengths)
        .map(|(symbol, length)| (symbol.name.clone(), length / symbol.factor()))
        .collect();
    let results = program.outputs.iter().map(|(tensor, _)| tensor);
    let count = |tensor: &Tensor| Length::product(&tensor.shape).at(&of_symbols);
    program.inputs.iter().chain(results).map(count).max().unwrap_or(0)
}

fn tried(lengths: &[i64; 5], axis: usize) -> i64 {
    lengths.get(axis).copied().unwrap_or(2)
}
