//! Reads `[launch]` of op.toml.
//!
//! Owns: its keys, and that every name in it is defined.
//! Never: computes a grid; `evaluate_launch` does, for each workload.

use toml::de::DeValue;

use crate::diagnostic::{Problem, closest};
use crate::units::{PythonName, RelPath};

use super::expr::{self, IntExpr, Kind, Scope};
use super::launch::{
    Define, Interleave, Kernel, KernelArgument, L2Promotion, Launch, OobFill, Swizzle, TemplateArgument,
    TensorMap, Workspace,
};
use super::op::{ScalarValue, TensorDtype};
use super::parse_op::{Defined, names};
use super::parse_signature::dtype;
use super::read::{Node, Table};
use super::{Spanned, codes, values};

/// What a kernel's arguments may name.
struct Memory<'a> {
    defined: &'a Defined<'a>,
    scope: Scope,
    workspaces: Vec<String>,
    maps: Vec<String>,
}

/// `[launch]`; `None` where a part of it could not be read.
pub(crate) fn launch(mut table: Table<'_>, defined: &Defined<'_>) -> Option<Launch> {
    let source = source(&mut table);
    let define_table = table.table("define");
    let workspace_table = table.table("workspace");
    let map_table = table.table("tensor-map");
    let memory = Memory {
        defined,
        scope: defined.scope(),
        workspaces: names(workspace_table.as_ref()),
        maps: names(map_table.as_ref()),
    };
    memory.distinct(&[workspace_table.as_ref(), map_table.as_ref()]);
    let defines = define_table.map_or_else(|| Some(Vec::new()), |table| defines(&table, &memory.scope));
    let workspaces = all(workspace_table.as_ref(), |name, table| workspace(name, table, &memory));
    let tensor_maps = all(map_table.as_ref(), |name, table| tensor_map(name, table, &memory));
    let kernels = table.require_node("kernel", "[[launch.kernel]] with entry, grid, block and args");
    let kernels = kernels.and_then(|node| kernels_of(&node, &memory));
    table.finish();
    Some(Launch {
        source: source?,
        defines: defines?,
        workspaces: workspaces?,
        tensor_maps: tensor_maps?,
        kernels: kernels?,
    })
}

fn source(table: &mut Table<'_>) -> Option<Spanned<RelPath>> {
    let source = table.require::<RelPath>("source", "source = \"rms_norm_cuda/rms_norm.cu\"")?;
    if source.extension() != Some("cu") {
        let message = format!("`{}` is not a CUDA C++ file", source.value);
        let problem = Problem::error(codes::BAD_VALUE, message)
            .help("[launch] starts kernels of one `.cu` file, which may include headers");
        table.report(problem, &source.span, "does not end in `.cu`");
    }
    Some(source)
}

/// Every entry of a table of tables, in file order; `None` where one could not be read.
fn all<T>(
    table: Option<&Table<'_>>,
    read: impl Fn(Option<Spanned<PythonName>>, Table<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let entries = table.map(Table::entries).unwrap_or_default();
    let read: Vec<_> = entries
        .into_iter()
        .map(|(key, node)| read(values::name(&key, &node, codes::NOT_AN_IDENTIFIER), node.table()?))
        .collect();
    read.into_iter().collect()
}

fn defines(table: &Table<'_>, scope: &Scope) -> Option<Vec<Define>> {
    let read: Vec<_> = table
        .entries()
        .into_iter()
        .map(|(key, node)| {
            let name = values::name(&key, &node, codes::NOT_AN_IDENTIFIER);
            let value = expr::value(&node, scope);
            Some(Define { name: name?, value: value? })
        })
        .collect();
    read.into_iter().collect()
}

fn workspace(
    name: Option<Spanned<PythonName>>,
    mut table: Table<'_>,
    memory: &Memory<'_>,
) -> Option<Workspace> {
    let dtype = table
        .require::<String>("dtype", "dtype = \"f32\"")
        .and_then(|text| dtype(&table, text, memory.defined));
    let shape = table.require_node("shape", "shape = [\"rows\", \"splits\"]");
    let shape = shape.and_then(|node| expr::integers(&node, &memory.scope));
    let zero = table.get("zero").is_some_and(|zero| zero.value);
    table.finish();
    Some(Workspace { name: name?, dtype: dtype?, shape: shape?, zero })
}

fn tensor_map(
    name: Option<Spanned<PythonName>>,
    mut table: Table<'_>,
    memory: &Memory<'_>,
) -> Option<TensorMap> {
    let tensor = table
        .require::<String>("tensor", "tensor = \"input\"")
        .and_then(|text| memory.described(&table, &text));
    let shape = optional(table.node("shape"), |node| expr::integers(node, &memory.scope));
    let box_shape = table.require_node("box", "box = [64, 128]");
    let box_shape = box_shape.and_then(|node| expr::integers(&node, &memory.scope));
    let element_strides = optional(table.node("element-strides"), |node| expr::integers(node, &memory.scope));
    let swizzle = table.get("swizzle").map_or(Swizzle::None, |swizzle| swizzle.value);
    let interleave = table.get("interleave").map_or(Interleave::None, |interleave| interleave.value);
    let l2_promotion = table.get("l2-promotion").map_or(L2Promotion::None, |promotion| promotion.value);
    let oob_fill = table.get("oob-fill").map_or(OobFill::Zero, |fill| fill.value);
    let ranks = [
        ("box", box_shape.as_ref().map(Vec::len)),
        ("element-strides", element_strides.as_ref().and_then(|strides| strides.as_ref()).map(Vec::len)),
    ];
    let own = tensor.as_ref().and_then(|tensor| memory.rank(tensor));
    let rank = match &shape {
        Some(Some(shape)) => Some(shape.len()),
        Some(None) => own,
        None => None,
    };
    for (what, length) in ranks {
        if let (Some(rank), Some(length)) = (rank, length)
            && rank != length
        {
            let message = format!("`{what}` has {length} entries for {rank} dimension(s)");
            let problem = Problem::error(codes::LAUNCH_LIMIT, message)
                .help("one entry for each dimension, outermost first; `shape` merges or splits dimensions");
            table.report(problem, &table.place(), "the dimensions differ");
        }
    }
    table.finish();
    Some(TensorMap {
        name: name?,
        tensor: tensor?,
        shape: shape?,
        box_shape: box_shape?,
        element_strides: element_strides?,
        swizzle,
        interleave,
        l2_promotion,
        oob_fill,
    })
}

/// What is read where a key is there: `Some(None)` where it is not, `None` where it could not be read.
fn optional<T>(node: Option<Node<'_>>, read: impl Fn(&Node<'_>) -> Option<T>) -> Option<Option<T>> {
    match node {
        Some(node) => read(&node).map(Some),
        None => Some(None),
    }
}

fn kernels_of(node: &Node<'_>, memory: &Memory<'_>) -> Option<Vec<Kernel>> {
    let items = node.items()?;
    if items.is_empty() {
        let problem = Problem::error(codes::EMPTY_LIST, "`launch.kernel` is empty")
            .help("add [[launch.kernel]] with entry, grid, block and args");
        node.report(problem, &node.span(), "at least one kernel is needed");
    }
    let read: Vec<_> = items.iter().map(|item| kernel(item.table()?, memory)).collect();
    read.into_iter().collect()
}

fn kernel(mut table: Table<'_>, memory: &Memory<'_>) -> Option<Kernel> {
    let entry = entry(&mut table);
    let template = match table.node("template") {
        Some(node) => template(&node, memory),
        None => Some(Vec::new()),
    };
    let grid = table.require_node("grid", "grid = [\"ceil_div(rows, 4)\"]");
    let grid = grid.and_then(|node| dimensions(&node, memory));
    let block = table.require_node("block", "block = [256]").and_then(|node| dimensions(&node, memory));
    let cluster = optional(table.node("cluster"), |node| dimensions(node, memory));
    let shared = optional(table.node("shared"), |node| expr::integer(node, &memory.scope));
    let cooperative = table.get("cooperative").is_some_and(|cooperative| cooperative.value);
    let arguments = table.require_node("args", "args = [\"out\", \"input\", { i32 = \"hidden\" }]");
    let arguments = arguments.and_then(|node| {
        let read: Vec<_> = node.items()?.iter().map(|item| memory.argument(item)).collect();
        read.into_iter().collect::<Option<Vec<_>>>()
    });
    let when = optional(table.node("when"), |node| expr::boolean(node, &memory.scope));
    table.finish();
    Some(Kernel {
        entry: entry?,
        template: template?,
        grid: grid?,
        block: block?,
        cluster: cluster?,
        shared: shared?,
        cooperative,
        arguments: arguments?,
        when: when?,
    })
}

/// A C++ name: identifiers with `::` between them.
fn entry(table: &mut Table<'_>) -> Option<Spanned<String>> {
    let entry = table.require::<String>("entry", "entry = \"rms_norm_kernel\"")?;
    let is_name = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if !entry.value.split("::").all(is_name) {
        let problem = Problem::error(
            codes::BAD_VALUE,
            format!("`{}` is not the name of a function", entry.value),
        )
        .help(
            "write it as in \"rms_norm_kernel\" or \"norm::forward\"; template arguments go into `template`",
        );
        table.report(problem, &entry.span, "not a C++ name");
        return None;
    }
    Some(entry)
}

fn template(node: &Node<'_>, memory: &Memory<'_>) -> Option<Vec<TemplateArgument>> {
    let argument = |item: &Node<'_>| {
        if let DeValue::String(text) = item.value() {
            if memory.defined.dtype_names.iter().any(|name| name == text) {
                return Some(TemplateArgument::Type(TensorDtype::Variable(text.parse().ok()?)));
            }
            if let Ok(dtype) = text.parse() {
                return Some(TemplateArgument::Type(TensorDtype::Fixed(dtype)));
            }
        }
        expr::value(item, &memory.scope).map(TemplateArgument::Value)
    };
    let read: Vec<_> = node.items()?.iter().map(argument).collect();
    read.into_iter().collect()
}

/// One to three lengths, x first.
fn dimensions(node: &Node<'_>, memory: &Memory<'_>) -> Option<Spanned<Vec<IntExpr>>> {
    let read = expr::integers(node, &memory.scope)?;
    if !(1..=3).contains(&read.len()) {
        let message = format!("`{}` has {} dimensions", node.path(), read.len());
        let problem = Problem::error(codes::LAUNCH_LIMIT, message).help("write one to three: x, y, z");
        node.report(problem, &node.span(), "one to three are possible");
        return None;
    }
    Some(Spanned::new(read, node.span()))
}

impl Memory<'_> {
    /// Everything in memory that a kernel may be given has a name of its own.
    fn distinct(&self, tables: &[Option<&Table<'_>>]) {
        let in_place = |name: &str| {
            let output = self.defined.outputs.iter().find(|output| output.tensor.name.as_str() == name);
            output.and_then(|output| output.inplace.as_ref()).is_some_and(|place| place.as_str() == name)
        };
        let mut taken: Vec<(&str, &str)> = Vec::new();
        taken.extend(self.defined.input_names.iter().map(|name| (name.as_str(), "an input")));
        taken.extend(self.defined.output_names.iter().map(|name| (name.as_str(), "an output")));
        for output in self.defined.outputs {
            let name = &output.tensor.name;
            if self.defined.input_names.iter().any(|input| input == name.as_str()) && !in_place(name.as_str())
            {
                self.report_twice(tables, name.as_str(), &name.span, "an input");
            }
        }
        let workspaces = tables.first().copied().flatten();
        for (table, what) in tables.iter().zip(["a workspace", "a tensor map"]) {
            for (key, _) in table.map(Table::entries).unwrap_or_default() {
                let tensor = taken.iter().find(|(name, _)| *name == key.value).map(|(_, what)| *what);
                let earlier = tensor.or_else(|| {
                    let is_map = what == "a tensor map" && workspaces.is_some();
                    (is_map && self.workspaces.contains(&key.value)).then_some("a workspace")
                });
                if let Some(earlier) = earlier {
                    self.report_twice(tables, &key.value, &key.span, earlier);
                }
            }
        }
    }

    fn report_twice(
        &self,
        tables: &[Option<&Table<'_>>],
        name: &str,
        span: &std::ops::Range<usize>,
        what: &str,
    ) {
        let Some(table) = tables.iter().copied().flatten().next() else { return };
        let message = format!("`{name}` is the name of {what} too");
        let problem = Problem::error(codes::DUPLICATE_NAME, message).help(
            "a kernel's arguments name tensors, workspaces and tensor maps: each needs a name of its own",
        );
        table.report(problem, span, "a second meaning");
    }

    /// The tensor or workspace that a tensor map is of.
    fn described(&self, table: &Table<'_>, text: &Spanned<String>) -> Option<Spanned<PythonName>> {
        if self.is_tensor(&text.value) || self.workspaces.contains(&text.value) {
            return Some(Spanned::new(text.value.parse().ok()?, text.span.clone()));
        }
        let known: Vec<_> = self.tensors().chain(self.workspaces.iter().map(String::as_str)).collect();
        let problem = unknown(&text.value, "input, output or workspace", &known);
        table.report(problem.0, &text.span, problem.1);
        None
    }

    /// How many dimensions an input or output has; a workspace tells when it is evaluated.
    fn rank(&self, name: &PythonName) -> Option<usize> {
        self.scope.tensors.iter().find(|tensor| tensor.name == name.as_str()).and_then(|tensor| tensor.rank)
    }

    fn is_tensor(&self, name: &str) -> bool {
        self.tensors().any(|tensor| tensor == name)
    }

    fn tensors(&self) -> impl Iterator<Item = &str> {
        self.scope.tensors.iter().map(|tensor| tensor.name.as_str())
    }

    /// A name in memory, or `{ TYPE = value }`.
    fn argument(&self, node: &Node<'_>) -> Option<KernelArgument> {
        match node.value() {
            DeValue::String(_) => {
                let text = node.read::<String>()?;
                if self.is_tensor(&text.value) || self.workspaces.contains(&text.value) {
                    return Some(KernelArgument::Pointer(Spanned::new(text.value.parse().ok()?, text.span)));
                }
                if self.maps.contains(&text.value) {
                    return Some(KernelArgument::TensorMap(Spanned::new(
                        text.value.parse().ok()?,
                        text.span,
                    )));
                }
                self.refuse(node, &text);
                None
            }
            DeValue::Table(_) => self.typed(node),
            _ => {
                let problem = Problem::error(codes::KERNEL_ARGUMENT, "a value is passed with its type")
                    .help("write it as in { i32 = 4 } or { f32 = \"eps\" }");
                node.report(problem, &node.span(), "of which type?");
                None
            }
        }
    }

    /// Says what a text that names nothing in memory should be.
    fn refuse(&self, node: &Node<'_>, text: &Spanned<String>) {
        let name = &text.value;
        let kind = self.scope.names.iter().find(|(known, _)| known == name).map(|(_, kind)| *kind);
        let example = match kind {
            Some(Kind::Broken) => return,
            Some(Kind::Float) => format!("{{ f32 = \"{name}\" }} or {{ f64 = \"{name}\" }}"),
            Some(Kind::Value(expr::Type::Boolean)) => format!("{{ bool = \"{name}\" }}"),
            Some(Kind::Value(expr::Type::Integer)) => {
                format!("{{ i32 = \"{name}\" }} or {{ i64 = \"{name}\" }}")
            }
            None if expr::parse_expression(name).is_ok() && name.parse::<PythonName>().is_err() => {
                format!("{{ i32 = \"{name}\" }} or {{ i64 = \"{name}\" }}")
            }
            None => {
                let workspaces = self.workspaces.iter().chain(&self.maps).map(String::as_str);
                let known: Vec<_> = self.tensors().chain(workspaces).collect();
                let (problem, label) = unknown(name, "input, output, workspace or tensor map", &known);
                node.report(problem, &text.span, label);
                return;
            }
        };
        let problem = Problem::error(codes::KERNEL_ARGUMENT, format!("`{name}` is passed with its type"))
            .help(format!("write {example}, as the kernel declares it"));
        node.report(problem, &text.span, "of which type?");
    }

    /// `{ TYPE = value }`.
    fn typed(&self, node: &Node<'_>) -> Option<KernelArgument> {
        let mut table = node.table()?;
        let integers = ["i32", "i64"].map(|key| table.node(key));
        let truth = table.node("bool");
        let floats = ["f32", "f64"].map(|key| table.node(key));
        let place = table.place();
        let entries = table.entries().len();
        if entries != 1 {
            let problem =
                Problem::error(codes::KERNEL_ARGUMENT, format!("an argument has one type, not {entries}"))
                    .help("write it as in { i32 = \"hidden\" }; the types are i32, i64, bool, f32, f64");
            table.report(problem, &place, "here");
            return None;
        }
        table.finish();
        match (integers, truth, floats) {
            ([Some(node), _], ..) => expr::integer(&node, &self.scope).map(KernelArgument::I32),
            ([_, Some(node)], ..) => expr::integer(&node, &self.scope).map(KernelArgument::I64),
            (_, Some(node), _) => expr::boolean(&node, &self.scope).map(KernelArgument::Bool),
            (.., [Some(node), _]) => self.float(&node).map(KernelArgument::F32),
            (.., [_, Some(node)]) => self.float(&node).map(KernelArgument::F64),
            _ => None,
        }
    }

    /// The name of a scalar of type float.
    fn float(&self, node: &Node<'_>) -> Option<Spanned<PythonName>> {
        let text = node.read::<String>()?;
        let scalar = self.defined.scalars.iter().find(|scalar| scalar.name.as_str() == text.value);
        match scalar {
            Some(scalar) if matches!(scalar.default.value, ScalarValue::Float(_)) => {
                Some(Spanned::new(scalar.name.value.clone(), text.span))
            }
            // Its definition has been reported.
            None if self.defined.scalar_names.contains(&text.value) => None,
            _ => {
                let floats = self.defined.scalars.iter();
                let known: Vec<_> = floats
                    .filter(|scalar| matches!(scalar.default.value, ScalarValue::Float(_)))
                    .map(|scalar| scalar.name.as_str())
                    .collect();
                let label = closest(&text.value, known.iter().copied())
                    .map_or_else(|| "no float".to_owned(), |known| format!("did you mean `{known}`?"));
                let help = match known.as_slice() {
                    [] => {
                        "a floating-point argument is a scalar of [scalars] with type = \"float\"".to_owned()
                    }
                    known => format!("the floats are {}", known.join(", ")),
                };
                let message = format!("`{}` is not a scalar of type float", text.value);
                node.report(Problem::error(codes::KERNEL_ARGUMENT, message).help(help), &text.span, label);
                None
            }
        }
    }
}

/// What to say of a name that is none of `known`.
fn unknown(name: &str, what: &str, known: &[&str]) -> (Problem, String) {
    let label = closest(name, known.iter().copied())
        .map_or_else(|| "not defined".to_owned(), |known| format!("did you mean `{known}`?"));
    let problem = Problem::error(codes::UNKNOWN_TENSOR, format!("`{name}` is no {what}"))
        .help(format!("the choice is {}", known.join(", ")));
    (problem, label)
}
