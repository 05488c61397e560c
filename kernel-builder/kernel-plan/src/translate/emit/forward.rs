//! Python of a function that is divided: the steps of the package's function, and a reference for each region.
//!
//! Owns: how operators of PyTorch are spelled. Never: decides which stay.

use std::fmt::Write as _;

use super::super::length::Length;
use super::super::regions::{Division, Region, Step, is_free, over_axes};
use super::super::traced::{Argument, Quantity, TracedGraph, TracedNode};
use super::project::Project;

/// Operators that have a function of `torch` with the same arguments.
const OF_TORCH: &str = "mm addmm bmm baddbmm matmul convolution sort topk";
/// Those of `torch.nn.functional`.
const OF_FUNCTIONAL: &str = "linear scaled_dot_product_attention";
/// Floating-point dtypes, which a reference on float64 does not cast to.
const FLOATS: &str = "bfloat16 float16 float32";
/// Dtypes as PyTorch names them.
const DTYPES: &str = "bfloat16 float16 float32 float64 bool uint8 int8 int16 int32 int64";
/// Keywords that say where a tensor lies, which follows from the others.
const PLACES: &str = "layout pin_memory";
/// More lines of the person's file than a comment quotes.
const QUOTED: usize = 6;

/// How the operators of a graph are written.
struct Spelling<'a> {
    traced: &'a TracedGraph,
    axes: &'a [(String, String)],
    /// The name of each value.
    name: &'a dyn Fn(&str) -> String,
    /// The first tensor, whose device others have.
    first: String,
    /// A tensor of the type variable, or else of a floating-point dtype.
    float: Option<String>,
    /// Whether it has to be exact on float64.
    widens: bool,
}

impl Spelling<'_> {
    fn length(&self, length: &Length) -> String {
        over_axes(self.traced, self.axes, length).to_string()
    }

    fn quantity(&self, quantity: &Quantity) -> String {
        let all = |of: &[Quantity], between: &str| {
            of.iter().map(|one| self.quantity(one)).collect::<Vec<_>>().join(between)
        };
        match quantity {
            Quantity::Length(length) => format!("({})", self.length(length)),
            Quantity::Number(value) => float(*value),
            Quantity::Sum(of) => format!("({})", all(of, " + ")),
            Quantity::Product(of) => format!("({})", all(of, " * ")),
            Quantity::Power(base, exponent) => {
                format!("({} ** {})", self.quantity(base), self.quantity(exponent))
            }
        }
    }

    fn dtype(&self, word: &str) -> String {
        match &self.float {
            Some(like) if word == "bfloat16" && self.traced.variable => format!("{like}.dtype"),
            Some(like) if self.widens && FLOATS.split_whitespace().any(|one| one == word) => {
                format!("_wide(torch.{word}, {like})")
            }
            _ => format!("torch.{word}"),
        }
    }

    fn argument(&self, argument: &Argument) -> String {
        match argument {
            Argument::Node(name) => (self.name)(name),
            Argument::Length(length) => self.length(length),
            Argument::Quantity(quantity) => self.quantity(quantity),
            Argument::Float(value) => float(*value),
            Argument::Bool(true) => "True".to_owned(),
            Argument::Bool(false) => "False".to_owned(),
            Argument::Word(word) if DTYPES.split_whitespace().any(|one| one == word) => self.dtype(word),
            Argument::Word(word) => format!("\"{word}\""),
            Argument::List(all) => {
                let all: Vec<String> = all.iter().map(|one| self.argument(one)).collect();
                format!("[{}]", all.join(", "))
            }
            Argument::Absent => "None".to_owned(),
        }
    }

    fn keyword(&self, name: &str, argument: &Argument) -> Option<String> {
        let value = match (name, argument) {
            ("device", _) => format!("{}.device", self.first),
            ("memory_format", Argument::Word(word)) => format!("torch.{word}"),
            _ if PLACES.split_whitespace().any(|one| one == name) => return None,
            _ => self.argument(argument),
        };
        Some(format!("{name}={value}"))
    }

    /// An operator as an expression.
    fn expression(&self, node: &TracedNode) -> String {
        let read = |json| Argument::read(json).unwrap_or(Argument::Absent);
        let arguments: Vec<String> = node.arguments.iter().map(|json| self.argument(&read(json))).collect();
        let keywords = node.keywords.iter().filter_map(|(name, json)| self.keyword(name, &read(json)));
        let all = || arguments.iter().cloned().chain(keywords).collect::<Vec<_>>().join(", ");
        let base = node.base();
        let is_among = |names: &str| names.split_whitespace().any(|name| name == base);
        match (base, arguments.as_slice()) {
            ("getitem", [of, place]) => format!("{of}[{place}]"),
            // Memory of another layout than in the call that was traced may have no view.
            ("view" | "_unsafe_view" | "reshape", [of, shape]) => format!("{of}.reshape({shape})"),
            ("permute", [of, order]) => format!("{of}.permute({order})"),
            ("transpose", [of, one, other]) => format!("{of}.transpose({one}, {other})"),
            ("t", [of]) => format!("{of}.t()"),
            // The operator of harness/dropout.py, which reference.py has as a function.
            ("kernelwright", [seed, shape, stream, p]) => {
                format!("_kept({seed}, torch.Size({shape}), {stream}, {p})")
            }
            _ if is_among(OF_TORCH) => format!("torch.{base}({})", all()),
            _ if is_among(OF_FUNCTIONAL) => format!("torch.nn.functional.{base}({})", all()),
            _ => format!("torch.ops.{}({})", node.op, all()),
        }
    }

    /// The lengths that some lines use, each as an axis of a tensor.
    fn lengths(&self, lines: &str) -> String {
        let mut text = String::new();
        for (symbol, axis) in self.axes.iter().filter(|(_, axis)| has_word(lines, axis)) {
            let own = Length::symbol(symbol.clone());
            let found = self.traced.inputs.iter().find_map(|input| {
                let place = input.tensor.lengths().iter().position(|length| *length == own)?;
                Some(format!("{}.shape[{place}]", (self.name)(&input.value)))
            });
            if let Some(found) = found {
                let _ = writeln!(text, "    {axis} = {found}");
            }
        }
        text
    }
}

/// A number as Python writes it.
fn float(value: f64) -> String {
    if value.is_finite() { format!("{value:?}") } else { format!("float(\"{value}\")").to_lowercase() }
}

fn has_word(text: &str, word: &str) -> bool {
    let code = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    code.flat_map(|line| line.split(|one: char| !one.is_ascii_alphanumeric() && one != '_'))
        .any(|found| found == word)
}

/// The tensor that has the type variable, else the first that is floating-point.
fn float_of(traced: &TracedGraph, name: &dyn Fn(&str) -> String) -> Option<String> {
    let of = |wanted: &dyn Fn(&str) -> bool| {
        traced.inputs.iter().find(|input| wanted(&input.tensor.dtype)).map(|input| name(&input.value))
    };
    let variable = traced.variable.then(|| of(&|dtype| dtype == "bfloat16")).flatten();
    variable.or_else(|| of(&|dtype| FLOATS.split_whitespace().any(|one| one == dtype)))
}

/// The lines of the person's file that operators come from.
fn quoted<'a>(nodes: impl Iterator<Item = &'a TracedNode>, seen: &mut Vec<u32>) -> String {
    let mut lines: Vec<(u32, &str)> = Vec::new();
    for node in nodes {
        if let (Some(line), Some(text)) = (node.line, node.text.as_deref())
            && !seen.contains(&line)
        {
            seen.push(line);
            lines.push((line, text));
        }
    }
    lines.sort_unstable();
    let mut text = String::new();
    for (_, line) in lines.iter().take(QUOTED) {
        let _ = writeln!(text, "    # {line}");
    }
    if lines.len() > QUOTED {
        let _ = writeln!(text, "    # and {} more lines", lines.len() - QUOTED);
    }
    text
}

/// The module of the package that has the steps.
pub(super) fn forward(division: &Division, project: &Project, operators: &[String]) -> String {
    let traced = &division.traced;
    let name = |value: &str| division.name(value).to_owned();
    let inputs: Vec<String> = traced.inputs.iter().map(|input| name(&input.value)).collect();
    let spelling = Spelling {
        traced,
        axes: &division.axes,
        name: &name,
        first: inputs.first().cloned().unwrap_or_default(),
        float: float_of(traced, &name),
        widens: false,
    };
    let mut body = String::new();
    let mut seen = Vec::new();
    for step in &division.steps {
        match step {
            Step::Operator(place) => {
                let node = &traced.nodes[*place];
                body += &quoted(std::iter::once(node), &mut seen);
                let _ = writeln!(body, "    {} = {}", name(&node.name), spelling.expression(node));
            }
            Step::Region(number) => {
                let region = &division.regions[*number];
                let core = region.traced.nodes.iter().filter(|node| !is_free(node));
                body += &quoted(core, &mut seen);
                let _ = writeln!(body, "    {}", called(division, region, &operators[*number]));
            }
        }
    }
    let returned: Vec<String> = traced.outputs.iter().map(|output| contiguous(division, output)).collect();
    format!(
        "\"\"\"The steps of `{}` of {}: kernels of this package, and PyTorch's own operators between them.\n\n\
         It was written once; change it as you like. `ops` has the package's operators.\n\"\"\"\n\n\
         import torch\n\n\ndef {}(ops, {}):\n{}{body}    return {}\n",
        traced.function,
        project.file,
        project.op,
        inputs.join(", "),
        spelling.lengths(&body),
        returned.join(", ")
    )
}

/// A value as a kernel takes it, and as a function returns it: what PyTorch made may have any strides.
fn contiguous(division: &Division, value: &str) -> String {
    let is_own = division.regions.iter().any(|region| region.traced.outputs.iter().any(|one| one == value));
    let is_input = division.traced.inputs.iter().any(|input| input.value == value);
    let name = division.name(value);
    if is_own || is_input { name.to_owned() } else { format!("{name}.contiguous()") }
}

/// The call of a region's operator.
fn called(division: &Division, region: &Region, operator: &str) -> String {
    let inputs = region.traced.inputs.iter().map(|input| contiguous(division, &input.value));
    let inputs: Vec<String> = inputs.collect();
    let results: Vec<&str> = region.traced.outputs.iter().map(|one| division.name(one)).collect();
    format!("{} = ops.{operator}({})", results.join(", "), inputs.join(", "))
}

/// A reference for each region, in the words of PyTorch's core operators, to be added to the person's file.
pub(super) fn references(division: &Division, functions: &[String]) -> String {
    let mut text = String::new();
    for (region, function) in division.regions.iter().zip(functions) {
        let traced = &region.traced;
        let mut names: Vec<(String, String)> = Vec::new();
        for (input, tensor) in traced.inputs.iter().zip(&region.program.inputs) {
            names.push((input.value.clone(), tensor.name.clone()));
        }
        let name = |value: &str| {
            let known = names.iter().find(|(own, _)| own == value).map(|(_, name)| name.clone());
            known.unwrap_or_else(|| division.name(value).to_owned())
        };
        let inputs: Vec<String> = traced.inputs.iter().map(|input| name(&input.value)).collect();
        let spelling = Spelling {
            traced,
            axes: &region.axes,
            name: &name,
            first: inputs.first().cloned().unwrap_or_default(),
            float: float_of(traced, &name),
            widens: true,
        };
        let mut body = String::new();
        let mut seen = Vec::new();
        for node in &traced.nodes {
            body += &quoted(std::iter::once(node), &mut seen);
            let _ = writeln!(body, "    {} = {}", name(&node.name), spelling.expression(node));
        }
        let returned: Vec<String> = traced.outputs.iter().map(|one| name(one)).collect();
        let _ = write!(
            text,
            "\n\ndef {function}({}):\n    \"\"\"A region of `{}`, in PyTorch's core operators.\"\"\"\n{}{body}    return {}\n",
            inputs.join(", "),
            traced.function,
            spelling.lengths(&body),
            returned.join(", ")
        );
    }
    let wide = if has_word(&text, "_wide") {
        "\n\ndef _wide(dtype, like):\n    \"\"\"A dtype that keeps float64.\"\"\"\n    \
         return torch.float64 if like.dtype == torch.float64 else dtype\n"
    } else {
        ""
    };
    format!("\n\n# The regions that have kernels of their own.\nimport torch  # noqa: E402\n{wide}{text}")
}
