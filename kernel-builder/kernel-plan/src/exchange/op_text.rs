//! Writes op.toml and reference.py for a definition.
//!
//! Owns: the text with its comments, and what is assumed where a definition says nothing.
//! Never: judges a definition; by now it is sound.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::diagnostic::{Problem, SourceFile};
use crate::spec::dialect::quoted;
use crate::spec::op::ScalarValue;
use crate::units::{Dtype, PythonName, WorkloadName};

use super::bounds::Bounds;
use super::codes;
use super::definition::{Argument, Definition};
use super::python::{self, Passed};
use super::workload::{Workload, kind_of};

/// The files that an import makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The operation's name.
    pub name: String,
    /// The text of op.toml.
    pub op_toml: String,
    /// The text of the file that op.toml calls `reference.py`.
    pub reference: String,
    /// How many workloads op.toml has.
    pub workloads: usize,
}

/// The files, and what was assumed for them.
pub(super) fn write(
    file: &Arc<SourceFile>,
    definition: &Definition,
    workloads: &[Workload],
) -> (Imported, Vec<Problem>) {
    let mut writer = Writer {
        file,
        definition,
        workloads,
        name: operation_name(&definition.name.value),
        told: Vec::new(),
    };
    let (reference, function) = writer.reference();
    let bounds = Bounds::infer(definition, workloads);
    let names = workload_names(workloads);
    let defaults = writer.defaults();
    let parts = [
        writer.head(),
        writer.axes(&bounds),
        writer.tensors("inputs", &definition.inputs),
        writer.scalars(&defaults),
        writer.tensors("outputs", &definition.outputs),
        format!("[reference]\nfile = \"reference.py\"\nfunction = \"{function}\"\n"),
        writer.call(),
        writer.tolerance(),
        writer.flashinfer(&bounds, &names),
        writer.workloads(&names, &defaults),
    ];
    let filled: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let op_toml = filled.join("\n");
    let imported = Imported { name: writer.name, op_toml, reference, workloads: workloads.len() };
    (imported, writer.told)
}

struct Writer<'w> {
    file: &'w Arc<SourceFile>,
    definition: &'w Definition,
    workloads: &'w [Workload],
    name: String,
    told: Vec<Problem>,
}

/// What a scalar is where a workload does not say.
type Defaults<'d> = Vec<(&'d PythonName, ScalarValue, Origin)>;

#[derive(Clone, Copy, PartialEq)]
enum Origin {
    FirstWorkload,
    Assumed,
}

impl<'w> Writer<'w> {
    fn assume(&mut self, message: impl Into<String>, help: &str) {
        let name = &self.definition.name.span;
        let note = Problem::note(codes::ASSUMED, message);
        self.told.push(note.at(self.file, name, "this definition does not say").help(help));
    }

    fn head(&self) -> String {
        let mut text = "# Imported from a definition of flashinfer-bench. What it does not say is marked \"Assumed\": check those lines.\n\
            format = 1\n"
            .to_owned();
        text += &format!("name = {}\n", quoted(&self.name));
        if let Some(description) = &self.definition.description {
            text += &format!("description = {}\n", quoted(description));
        }
        text
    }

    fn axes(&self, bounds: &Bounds) -> String {
        let mut text = "[axes]\n".to_owned();
        for axis in &self.definition.axes {
            let name = &axis.name.value;
            text += &match axis.length {
                Some(length) => format!("{name} = {{ type = \"const\", value = {length} }}\n"),
                None => format!("{name} = {{ type = \"var\"{} }}\n", bounds.keys(name.as_str())),
            };
        }
        text
    }

    fn tensors(&self, section: &str, arguments: &[Argument]) -> String {
        let mut text = format!("[{section}]\n");
        for argument in arguments {
            // An output that is a Python number is a tensor without axes here.
            let shape = match &argument.shape {
                Some(shape) => shape.as_slice(),
                None if section == "outputs" => &[],
                None => continue,
            };
            let shape: Vec<_> = shape.iter().map(|axis| quoted(axis.as_str())).collect();
            let name = &argument.name.value;
            let optional = if argument.optional { ", optional = true" } else { "" };
            let (shape, dtype) = (shape.join(", "), argument.dtype);
            text += &format!("{name} = {{ shape = [{shape}], dtype = \"{dtype}\"{optional} }}\n");
        }
        text
    }

    /// The value of each scalar where a workload does not say: that of the first workload that does.
    fn defaults(&mut self) -> Defaults<'w> {
        let scalars = self.definition.inputs.iter().filter(|argument| argument.shape.is_none());
        let mut found = Vec::new();
        for argument in scalars {
            let name = &argument.name.value;
            let given = self.workloads.iter().find_map(|workload| scalar_of(workload, name));
            if given.is_none() {
                self.assume(
                    format!(
                        "no workload sets the scalar `{name}`, so its default is assumed to be {}",
                        kind_of(argument.dtype)
                    ),
                    "write the value that callers use as its default in op.toml",
                );
            }
            let origin = if given.is_some() { Origin::FirstWorkload } else { Origin::Assumed };
            found.push((name, given.unwrap_or(kind_of(argument.dtype)), origin));
        }
        found
    }

    fn scalars(&self, defaults: &Defaults<'_>) -> String {
        if defaults.is_empty() {
            return String::new();
        }
        let mut text = "[scalars]\n".to_owned();
        for (name, value, origin) in defaults {
            let kind = match value {
                ScalarValue::Float(_) => "float",
                ScalarValue::Int(_) => "int",
                ScalarValue::Bool(_) => "bool",
            };
            text += match origin {
                Origin::FirstWorkload => "# Assumed: the default is what the first workload passes.\n",
                Origin::Assumed => "# Assumed: the default, as nobody gives a value.\n",
            };
            text += &format!("{name} = {{ type = \"{kind}\", default = {value} }}\n");
        }
        text
    }

    /// reference.py, and the function in it that is called as op.toml says.
    fn reference(&self) -> (String, String) {
        let source = &self.definition.reference;
        let passed = |argument: &'w Argument| Passed {
            name: argument.name.value.as_str(),
            dtype: argument.dtype,
            number: argument.shape.is_none(),
        };
        let inputs: Vec<_> = self.definition.inputs.iter().map(passed).collect();
        let outputs: Vec<_> = self.definition.outputs.iter().map(passed).collect();
        let names: Vec<_> = inputs.iter().map(|input| input.name).collect();
        let by_keyword = inputs.iter().any(|input| input.number);
        let ready = python::parameters(source, "run").is_some_and(|found| found == names);
        let fits = !by_keyword || (ready && !numbers_between(&inputs));
        if fits && !outputs.iter().any(|output| output.number) {
            return (source.clone(), "run".to_owned());
        }
        let mut function = format!("{}_by_keyword", self.name);
        while source.contains(&function) || names.contains(&function.as_str()) {
            function.push('_');
        }
        (source.clone() + &python::by_keyword(&function, &inputs, &outputs), function)
    }

    fn call(&mut self) -> String {
        self.assume(
            format!("the package's function is `{}`, and takes no preallocated outputs", self.name),
            "change `[call]` in op.toml to what your package has",
        );
        format!(
            "# Assumed: what the built package calls it. Add `out` where it takes preallocated outputs.\n[call]\nfunction = {}\n",
            quoted(&self.name)
        )
    }

    /// Sums over the axes that go in and do not come out, else over the last axis of the first input.
    fn tolerance(&mut self) -> String {
        let definition = self.definition;
        let shapes =
            |arguments: &'w [Argument]| arguments.iter().filter_map(|argument| argument.shape.as_ref());
        let kept: BTreeSet<_> = shapes(&definition.outputs).flatten().collect();
        let rounded = definition.inputs.iter().filter(|input| input.dtype.is_float());
        let mut summed: Vec<&PythonName> = Vec::new();
        for axis in rounded.filter_map(|input| input.shape.as_ref()).flatten() {
            if !kept.contains(axis) && !summed.contains(&axis) {
                summed.push(axis);
            }
        }
        if summed.is_empty() {
            summed.extend(shapes(&definition.inputs).find_map(|shape| shape.last()));
        }
        // Whatever the lengths are, the sum is a number of 64 bits.
        let lengths = |workload: &Workload| {
            let of = |axis: &&PythonName| {
                let constant = definition
                    .axes
                    .iter()
                    .find(|known| known.name.value == **axis)
                    .and_then(|axis| axis.length);
                constant.or(workload.axes.iter().find(|(name, _)| name == *axis).map(|(_, length)| *length))
            };
            summed.iter().filter_map(of).fold(0u64, u64::saturating_add)
        };
        if self.workloads.iter().any(|workload| i64::try_from(lengths(workload)).is_err()) {
            summed.truncate(1);
        }
        let names: Vec<_> = summed.iter().map(|axis| axis.as_str()).collect();
        let length = if names.is_empty() { "1".to_owned() } else { names.join(" + ") };
        self.assume(
            format!("sums are kept in f32, have `{length}` terms, and results are rounded once"),
            "the error that `verify` allows follows from `[tolerance]` in op.toml: set it to what the operation does",
        );
        format!(
            "# Assumed: in what sums are kept, how many terms they have, how often a result is rounded to its dtype.\n\
             [tolerance]\naccumulate = \"f32\"\nlength = {}\nroundings = 1\n",
            quoted(&length)
        )
    }

    fn flashinfer(&mut self, bounds: &Bounds, names: &[WorkloadName]) -> String {
        let definition = self.definition;
        let mut lines = Vec::new();
        if definition.name.value != self.name {
            lines.push(format!("name = {}", quoted(&definition.name.value)));
        }
        if definition.op_type != self.name {
            lines.push(format!("op-type = {}", quoted(&definition.op_type)));
        }
        let mut list = |key: &str, texts: Vec<&str>| {
            if !texts.is_empty() {
                let texts: Vec<_> = texts.into_iter().map(quoted).collect();
                lines.push(format!("{key} = [{}]", texts.join(", ")));
            }
        };
        list("tags", definition.tags.iter().map(String::as_str).collect());
        let left =
            definition.constraints.iter().enumerate().filter(|(place, _)| !bounds.taken.contains(place));
        list("constraints", left.map(|(_, text)| text.as_str()).collect());
        let inputs: Vec<_> = definition.inputs.iter().map(|argument| argument.name.value.as_str()).collect();
        let is_number = |argument: &&Argument| argument.shape.is_none();
        let (numbers, tensors): (Vec<_>, Vec<_>) = definition.inputs.iter().partition(is_number);
        let ours = tensors.iter().chain(&numbers).map(|argument| argument.name.value.as_str());
        if !ours.eq(inputs.iter().copied()) {
            list("arguments", inputs);
        }
        let outputs = definition.outputs.iter().filter(is_number);
        list("numbers", outputs.map(|argument| argument.name.value.as_str()).collect());
        let axes =
            definition.axes.iter().filter_map(|axis| Some((&axis.name.value, axis.description.as_ref()?)));
        lines.extend(table("axes", axes.map(|(name, text)| (name.as_str(), text.as_str()))));
        let arguments = definition.inputs.iter().chain(&definition.outputs);
        let described = arguments
            .filter_map(|argument| Some((argument.name.value.as_str(), argument.description.as_deref()?)));
        lines.extend(table("tensors", described));
        let dtypes =
            numbers.iter().filter(|argument| default_dtype(kind_of(argument.dtype)) != argument.dtype);
        let dtypes = dtypes.map(|argument| (argument.name.value.as_str(), argument.dtype.torch_name()));
        lines.extend(table("scalars", dtypes));
        let renamed =
            self.workloads.iter().zip(names).filter(|(workload, name)| workload.uuid.value != name.as_str());
        lines.extend(table(
            "uuids",
            renamed.map(|(workload, name)| (name.as_str(), workload.uuid.value.as_str())),
        ));
        lines.extend(self.stored(names));
        if lines.is_empty() {
            return String::new();
        }
        format!(
            "# For `export` alone; the operation is the same without.\n[flashinfer]\n{}\n",
            lines.join("\n")
        )
    }

    /// The inputs that flashinfer-bench reads from files; here they are drawn.
    fn stored(&mut self, names: &[WorkloadName]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut tensors: BTreeSet<&str> = BTreeSet::new();
        for (workload, name) in
            self.workloads.iter().zip(names).filter(|(workload, _)| !workload.stored.is_empty())
        {
            lines.push(format!("\n[flashinfer.stored.{}]", key(name.as_str())));
            for (input, place) in &workload.stored {
                tensors.insert(input.as_str());
                let (path, key) = (quoted(&place.path), quoted(&place.key));
                lines.push(format!("{input} = {{ path = {path}, key = {key} }}"));
            }
        }
        if !tensors.is_empty() {
            let names: Vec<_> = tensors.into_iter().map(|name| format!("`{name}`")).collect();
            let message = format!(
                "values of {} come from safetensors files, which op.toml does not read; `verify` draws others",
                names.join(", ")
            );
            let problem = Problem::warning(codes::DROPPED, message)
                .at(self.file, &self.definition.name.span, "in workloads of this definition")
                .help("an operation whose inputs have a structure (offsets, indices) cannot be judged like that; the files' names are kept for `export`");
            self.told.push(problem);
        }
        lines
    }

    fn workloads(&mut self, names: &[WorkloadName], defaults: &Defaults<'_>) -> String {
        let mut text = "# Assumed: judged and measured on NVIDIA GPUs alone.\n".to_owned();
        if self.workloads.is_empty() {
            let help = "write [workload.NAME] sections, or import again with --workloads FILE.jsonl";
            self.assume("the operation has no workload, so nothing can be verified", help);
            let variable = self.definition.axes.iter().filter(|axis| axis.length.is_none());
            let axes: Vec<_> = variable.map(|axis| format!("{} = ...", axis.name.value)).collect();
            return format!(
                "# Without a workload nothing is verified. For example:\n#\n# [workload.small]\n# axes = {{ {} }}\n# devices = [\"cuda\"]\n",
                axes.join(", ")
            );
        }
        self.assume(
            "workloads are judged and measured only on NVIDIA GPUs",
            "change `devices` if that is wrong",
        );
        for (workload, name) in self.workloads.iter().zip(names) {
            let axes: Vec<_> =
                workload.axes.iter().map(|(axis, length)| format!("{axis} = {length}")).collect();
            text += &format!("[workload.{}]\n", key(name.as_str()));
            text += &if axes.is_empty() {
                "axes = {}\n".to_owned()
            } else {
                format!("axes = {{ {} }}\n", axes.join(", "))
            };
            text += "devices = [\"cuda\"]\n";
            let other = defaults.iter().filter_map(|(name, default, _)| {
                scalar_of(workload, name)
                    .filter(|value| value != default)
                    .map(|value| format!("{name} = {value}"))
            });
            let other: Vec<_> = other.collect();
            if !other.is_empty() {
                text += &format!("scalars = {{ {} }}\n", other.join(", "));
            }
            text.push('\n');
        }
        text.truncate(text.trim_end().len());
        text + "\n"
    }
}

/// Whether a number comes before a tensor.
fn numbers_between(inputs: &[Passed<'_>]) -> bool {
    inputs.iter().skip_while(|input| !input.number).any(|input| !input.number)
}

fn scalar_of(workload: &Workload, name: &PythonName) -> Option<ScalarValue> {
    workload.scalars.iter().find(|(scalar, _)| scalar == name).map(|(_, value)| *value)
}

/// The dtype that a scalar has in a definition where op.toml does not say.
pub(super) fn default_dtype(value: ScalarValue) -> Dtype {
    match value {
        ScalarValue::Float(_) => Dtype::F32,
        ScalarValue::Int(_) => Dtype::I64,
        ScalarValue::Bool(_) => Dtype::Bool,
    }
}

/// A Python name for the operation.
fn operation_name(text: &str) -> String {
    if text.parse::<PythonName>().is_ok() {
        return text.to_owned();
    }
    let name: String =
        text.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
    if name.parse::<PythonName>().is_ok() { name } else { format!("op_{name}") }
}

/// A name for each workload: its uuid as far as the grammar goes, and unique.
fn workload_names(workloads: &[Workload]) -> Vec<WorkloadName> {
    let mut taken = BTreeSet::new();
    let mut names = Vec::new();
    for workload in workloads {
        let lower = workload.uuid.value.to_lowercase();
        let fit = |letter: char| {
            if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' }
        };
        let mut base: String = lower.chars().map(fit).collect();
        if !base.starts_with(|first: char| first.is_ascii_alphanumeric()) {
            base.insert(0, 'w');
        }
        let numbered = (2u64..).map(|number| format!("{base}-{number}"));
        let mut free = std::iter::once(base.clone()).chain(numbered).filter(|name| !taken.contains(name));
        if let Some(name) = free.next().and_then(|name| name.parse::<WorkloadName>().ok()) {
            taken.insert(name.to_string());
            names.push(name);
        }
    }
    names
}

/// `[flashinfer.NAME]` with texts; nothing where there are none.
fn table<'t>(name: &str, entries: impl Iterator<Item = (&'t str, &'t str)>) -> Vec<String> {
    let lines: Vec<_> = entries.map(|(name, text)| format!("{} = {}", key(name), quoted(text))).collect();
    if lines.is_empty() { lines } else { [vec![format!("\n[flashinfer.{name}]")], lines].concat() }
}

/// A key, quoted where a dot would split it.
fn key(name: &str) -> String {
    if name.contains('.') { quoted(name) } else { name.to_owned() }
}
