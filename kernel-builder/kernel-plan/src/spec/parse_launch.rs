//! Reads `[launch]` of op.toml.
//!
//! Owns: its keys; what the arguments of kernels may be is in `memory`.
//! Never: computes a grid; `evaluate_launch` does, for each workload.

use toml::de::DeValue;

use crate::diagnostic::Problem;
use crate::units::{PythonName, RelPath};

use super::defined::Defined;
use super::expr::{self, IntExpr, Scope};
use super::launch::{
    Define, Interleave, Kernel, L2Promotion, Launch, OobFill, Swizzle, TemplateArgument, TensorMap, Workspace,
};
use super::op::TensorDtype;
use super::parse_signature::dtype;
use super::read::{Node, Table};
use super::{Spanned, codes, values};

mod memory;

use memory::Memory;

/// `[launch]`; `None` where a part of it could not be read.
pub(crate) fn launch(mut table: Table<'_>, defined: &Defined<'_>) -> Option<Launch> {
    let source = source(&mut table);
    let define_table = table.table("define");
    let workspace_table = table.table("workspace");
    let map_table = table.table("tensor-map");
    let memory = Memory::new(defined, workspace_table.as_ref(), map_table.as_ref());
    memory.distinct(&table, workspace_table.as_ref(), map_table.as_ref());
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
    if !matches!(source.extension(), Some("cu" | "cuh")) {
        let message = format!("`{}` is not a CUDA C++ file", source.value);
        let problem = Problem::error(codes::BAD_VALUE, message)
            .help("[launch] starts kernels of one `.cu` or `.cuh` file, which may include headers");
        table.report(problem, &source.span, "does not end in `.cu` or `.cuh`");
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
            let message = format!("`{what}` has {length} length(s) for {rank} dimension(s)");
            let problem = Problem::error(codes::LAUNCH_LIMIT, message).help(
                "write one length for each dimension, outermost first; `shape` merges or splits dimensions",
            );
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
    if node.value().is_table() {
        let problem =
            Problem::error(codes::WRONG_TYPE, "`launch.kernel` must be a list of tables, but is one table")
                .help("write the section with two brackets, [[launch.kernel]], once for each kernel");
        node.report(problem, &node.key(), "this is a table");
        return None;
    }
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
    let carveout = optional(table.node("carveout"), |node| expr::integer(node, &memory.scope));
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
        carveout: carveout?,
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
        node.report(problem, &node.span(), "must be one to three");
        return None;
    }
    Some(Spanned::new(read, node.span()))
}
