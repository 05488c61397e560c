//! Reads `[inputs]`, `[scalars]` and `[outputs]` of op.toml.
//!
//! Owns: what an argument may be, which names must differ, which output overwrites which input.
//! Never: gives a tensor a length; workloads do.

use crate::diagnostic::{Problem, did_you_mean};
use crate::units::{Dtype, PythonName};

use super::defined::Defined;
use super::op::{Call, Input, Output, Scalar, ScalarValue, Tensor, TensorDtype, Values};
use super::read::{Node, Table};
use super::{Spanned, codes, values};

/// `[inputs]`, in file order; those with a problem are reported and left out.
pub(crate) fn inputs(table: Table<'_>, defined: &Defined<'_>) -> Vec<Input> {
    let entries = tensors(&table);
    entries
        .into_iter()
        .filter_map(|(key, node)| {
            let name = values::name(&key, &node, codes::NOT_AN_IDENTIFIER);
            let mut table = node.table()?;
            let tensor = tensor(name, &mut table, defined);
            let optional = table.get("optional").is_some_and(|optional| optional.value);
            let strided = table.get("strided").is_some_and(|strided| strided.value);
            let computed = table.get("computed");
            let seed = table.get("seed").is_some_and(|seed| seed.value);
            let non_negative = table.get("non-negative").is_some_and(|non_negative| non_negative.value);
            table.finish();
            let values = match (seed, non_negative) {
                (_, true) => Values::NonNegative,
                (true, false) => Values::Seed,
                (false, false) => Values::Any,
            };
            Some(Input { tensor: tensor?, optional, strided, computed, values })
        })
        .collect()
}

/// `[outputs]`, in file order; those with a problem are reported and left out.
pub(crate) fn outputs(table: Table<'_>, defined: &Defined<'_>) -> Vec<Output> {
    let entries = tensors(&table);
    entries
        .into_iter()
        .filter_map(|(key, node)| {
            let name = values::name(&key, &node, codes::NOT_AN_IDENTIFIER);
            let mut table = node.table()?;
            let tensor = tensor(name, &mut table, defined);
            let inplace = table.get::<String>("inplace").and_then(|text| {
                known_input(&table, &text, defined)?;
                Some(Spanned::new(text.value.parse().ok()?, text.span))
            });
            table.finish();
            Some(Output { tensor: tensor?, inplace })
        })
        .collect()
}

/// The entries of a section that must have one.
fn tensors<'t>(table: &Table<'t>) -> Vec<(Spanned<String>, Node<'t>)> {
    let entries = table.entries();
    if entries.is_empty() {
        let problem = Problem::error(codes::EMPTY_LIST, "an operation needs an input and an output")
            .help("for example: out = { shape = [\"rows\"], dtype = \"f32\" }");
        table.report(problem, &table.place(), "no tensor in this section");
    }
    entries
}

fn tensor(name: Option<Spanned<PythonName>>, table: &mut Table<'_>, defined: &Defined<'_>) -> Option<Tensor> {
    let shape = table.require_node("shape", "shape = [\"rows\", \"hidden\"]").and_then(|node| node.items());
    let dtype =
        table.require::<String>("dtype", "dtype = \"T\"").and_then(|text| dtype(table, text, defined));
    let shape = shape.map(|list| {
        list.iter().filter_map(|node| axis_name(table, axis_text(node)?, defined)).collect::<Vec<_>>()
    });
    Some(Tensor { name: name?, shape: shape?, dtype: dtype? })
}

/// A name; a length in its place becomes an axis, not a name in quotes.
fn axis_text(node: &Node<'_>) -> Option<Spanned<String>> {
    if node.value().as_integer().is_none() {
        return node.read();
    }
    let message = format!("`{}` lists axes, but this is a length", node.path());
    let problem = Problem::error(codes::WRONG_TYPE, message).help(format!(
        "define an axis in [axes], as in n = {{ type = \"const\", value = {} }}, and write \"n\" here",
        &node.file().text[node.span()]
    ));
    node.report(problem, &node.span(), "this is an integer");
    None
}

/// The name of a defined axis.
fn axis_name(table: &Table<'_>, text: Spanned<String>, defined: &Defined<'_>) -> Option<Spanned<PythonName>> {
    if !defined.axis_names.contains(&text.value) {
        unknown_axis(table, &text, defined);
    }
    text.value.parse().ok().map(|name| Spanned::new(name, text.span))
}

/// Reports an axis that `[axes]` does not define.
pub(crate) fn unknown_axis(table: &Table<'_>, text: &Spanned<String>, defined: &Defined<'_>) {
    let names = defined.axis_names.iter().map(String::as_str);
    let label = did_you_mean(&text.value, names, "not defined");
    let known = defined.axis_names.join(", ");
    let problem = Problem::error(codes::UNKNOWN_AXIS, format!("`[axes]` does not define `{}`", text.value))
        .help(format!("the axes are {known}"));
    table.report(problem, &text.span, label);
}

/// A dtype, or a type variable that `[dtypes]` defines.
pub(crate) fn dtype(
    table: &Table<'_>,
    text: Spanned<String>,
    defined: &Defined<'_>,
) -> Option<Spanned<TensorDtype>> {
    if defined.dtype_names.contains(&text.value) {
        let name = text.value.parse().ok()?;
        return Some(Spanned::new(TensorDtype::Variable(name), text.span));
    }
    if let Ok(dtype) = text.value.parse() {
        return Some(Spanned::new(TensorDtype::Fixed(dtype), text.span));
    }
    let variables = defined.dtype_names.iter().map(String::as_str);
    let choices: Vec<_> = variables.chain(Dtype::ALL.iter().map(|dtype| dtype.as_str())).collect();
    let label = match Dtype::named_elsewhere(&text.value) {
        Some(dtype) => format!("did you mean `{dtype}`?"),
        None => did_you_mean(&text.value, choices.iter().copied(), "not defined"),
    };
    let message = format!("`{}` is neither a type variable nor a dtype", text.value);
    let problem =
        Problem::error(codes::UNKNOWN_DTYPE, message).help(format!("valid values: {}", choices.join(", ")));
    table.report(problem, &text.span, label);
    None
}

/// An input that is defined; reports one that is not.
pub(crate) fn known_input(table: &Table<'_>, text: &Spanned<String>, defined: &Defined<'_>) -> Option<()> {
    if defined.input_names.contains(&text.value) {
        return Some(());
    }
    let names = defined.input_names.iter().map(String::as_str);
    let label = did_you_mean(&text.value, names, "not an input");
    let message = format!("`[inputs]` does not define `{}`", text.value);
    let problem = Problem::error(codes::UNKNOWN_TENSOR, message)
        .help(format!("the inputs are {}", defined.input_names.join(", ")));
    table.report(problem, &text.span, label);
    None
}

/// Every output in place is as its input, and no input is overwritten twice.
pub(crate) fn in_place(root: &Table<'_>, defined: &Defined<'_>) {
    let mut taken: Vec<&Spanned<PythonName>> = Vec::new();
    for output in defined.outputs {
        let Some(place) = &output.inplace else { continue };
        if let Some(earlier) = taken.iter().find(|earlier| earlier.value == place.value) {
            let problem = Problem::error(codes::INPLACE, format!("two outputs overwrite `{}`", place.value))
                .help("each in-place output needs its own input")
                .at(root.file(), &place.span, "the second")
                .at(root.file(), &earlier.span, "the first");
            root.push(problem);
        }
        taken.push(place);
        let Some(input) = defined.inputs.iter().find(|input| input.tensor.name.value == place.value) else {
            continue;
        };
        let (is, was) = (&output.tensor, &input.tensor);
        let names =
            |tensor: &Tensor| -> Vec<_> { tensor.shape.iter().map(|axis| axis.value.clone()).collect() };
        let (reason, help) = if names(is) != names(was) {
            ("has a different shape", "an in-place output must have the axes of its input, in the same order")
        } else if is.dtype.value != was.dtype.value {
            ("has a different dtype", "an in-place output must have the dtype of its input")
        } else if input.optional {
            ("may be None", "an input that is overwritten must always be passed: remove `optional`")
        } else {
            continue;
        };
        let message = format!("`{}` cannot overwrite `{}`, which {reason}", is.name.value, place.value);
        let problem = Problem::error(codes::INPLACE, message)
            .help(help)
            .at(root.file(), &place.span, "overwritten")
            .at(root.file(), &was.name.span, "the input");
        root.push(problem);
    }
}

/// `[scalars]`, in file order; those with a problem are reported and left out.
pub(crate) fn scalars(table: Table<'_>) -> Vec<Scalar> {
    let entries = table.entries();
    entries
        .into_iter()
        .filter_map(|(key, node)| {
            let name = values::name(&key, &node, codes::NOT_AN_IDENTIFIER);
            scalar(name, node.table()?)
        })
        .collect()
}

fn scalar(name: Option<Spanned<PythonName>>, mut table: Table<'_>) -> Option<Scalar> {
    let kind = table.require::<String>("type", "{ type = \"float\", default = 1e-6 }");
    let default = table.require_node("default", "{ type = \"float\", default = 1e-6 }");
    let (min, max) = (table.node("min"), table.node("max"));
    let like = kind.and_then(|kind| match kind.value.as_str() {
        "float" => Some(ScalarValue::Float(0.0)),
        "int" => Some(ScalarValue::Int(0)),
        "bool" => Some(ScalarValue::Bool(false)),
        other => {
            let problem = Problem::error(codes::BAD_VALUE, format!("`{other}` is not a scalar type"))
                .help("valid values: float, int, bool");
            table.report(problem, &kind.span, "here");
            None
        }
    });
    table.finish();
    let (like, default) = (like?, default?);
    if let (ScalarValue::Bool(_), Some(bound)) = (like, min.as_ref().or(max.as_ref())) {
        let problem = Problem::error(codes::BAD_VALUE, "a bool cannot have a range")
            .help("remove `min` and `max`; both values are allowed");
        bound.report(problem, &bound.span(), "a bound of a bool");
        return None;
    }
    let read = |node: Option<Node<'_>>| node.and_then(|node| scalar_value(like, &node));
    let (value, min, max) = (scalar_value(like, &default), read(min), read(max));
    if let (Some(least), Some(most)) = (&min, &max)
        && below(most.value, least.value)
    {
        let message = format!("the range of values is empty: {} is above {}", least.value, most.value);
        let problem = Problem::error(codes::EMPTY_RANGE, message)
            .help("`max` is inclusive and must not be below `min`");
        default.report(problem, &most.span, "below `min`");
        return None;
    }
    let (min, max) = (min.map(|min| min.value), max.map(|max| max.value));
    let scalar = Scalar { name: name?, default: value?, min, max };
    if let Some(problem) = refuse_scalar(&scalar, scalar.default.value) {
        default.report(problem, &scalar.default.span, "outside its own range");
    }
    Some(scalar)
}

/// A value of the same kind as `like`.
pub(crate) fn scalar_value(like: ScalarValue, node: &Node<'_>) -> Option<Spanned<ScalarValue>> {
    let value = match like {
        ScalarValue::Float(_) => ScalarValue::Float(node.read::<f64>()?.value),
        ScalarValue::Int(_) => ScalarValue::Int(node.read::<i64>()?.value),
        ScalarValue::Bool(_) => ScalarValue::Bool(node.read::<bool>()?.value),
    };
    Some(Spanned::new(value, node.span()))
}

/// Why a scalar does not take `value`, if so; the place is the caller's.
pub(crate) fn refuse_scalar(scalar: &Scalar, value: ScalarValue) -> Option<Problem> {
    let name = &scalar.name.value;
    let (message, help) = match (scalar.min, scalar.max) {
        (Some(min), _) if below(value, min) => {
            (format!("{value} is below {min}, the minimum of `{name}`"), "choose a larger value")
        }
        (_, Some(max)) if below(max, value) => {
            (format!("{value} is above {max}, the maximum of `{name}`"), "choose a smaller value")
        }
        _ => return None,
    };
    Some(Problem::error(codes::SCALAR_VALUE, message).help(help))
}

fn below(left: ScalarValue, right: ScalarValue) -> bool {
    match (left, right) {
        (ScalarValue::Float(left), ScalarValue::Float(right)) => left < right,
        (ScalarValue::Int(left), ScalarValue::Int(right)) => left < right,
        _ => false,
    }
}

/// Argument names are unique, output names are unique, and output keywords match the outputs in number.
pub(crate) fn distinct_arguments(root: &Table<'_>, defined: &Defined<'_>, call: Option<&Call>) {
    let out = call.map(|call| call.out.as_slice()).unwrap_or_default();
    let inputs = defined.inputs.iter().map(|input| &input.tensor.name);
    let arguments = inputs.chain(defined.scalars.iter().map(|scalar| &scalar.name));
    distinct(root, arguments.chain(out), "argument");
    distinct(root, defined.outputs.iter().map(|output| &output.tensor.name), "output");
    let returned = defined.outputs.iter().filter(|output| output.inplace.is_none()).count();
    if let (Some(first), Some(last)) = (out.first(), out.last())
        && defined.outputs.len() == defined.output_names.len()
        && out.len() != returned
    {
        let in_place = if returned == defined.outputs.len() { "" } else { " that are not in place" };
        let message = format!("`call.out` has {} keyword(s) for {returned} output(s){in_place}", out.len());
        let problem = Problem::error(codes::OUT_COUNT, message)
            .help("name one keyword per output, in the order of [outputs], or remove `out`");
        root.report(problem, &(first.span.start..last.span.end), "one per output");
    }
}

fn distinct<'s>(root: &Table<'_>, names: impl Iterator<Item = &'s Spanned<PythonName>>, what: &str) {
    let mut seen: Vec<&Spanned<PythonName>> = Vec::new();
    for name in names {
        match seen.iter().find(|earlier| earlier.value == name.value) {
            Some(earlier) => {
                let problem =
                    Problem::error(codes::DUPLICATE_NAME, format!("two {what}s are named `{}`", name.value))
                        .help("every argument and every output needs its own name")
                        .at(root.file(), &name.span, "the second")
                        .at(root.file(), &earlier.span, "the first");
                root.push(problem);
            }
            None => seen.push(name),
        }
    }
}
