//! Reads `[gradient]` of op.toml.
//!
//! Owns: which inputs can have a gradient.
//! Never: looks into the reference file.

use std::collections::BTreeMap;

use crate::diagnostic::Problem;
use crate::units::PythonName;

use super::defined::Defined;
use super::op::{Gradient, Tensor, TensorDtype};
use super::parse_signature::known_input;
use super::read::Table;
use super::{Spanned, codes};

/// `[gradient]`; `None` where `backward = false`, or where it could not be read.
pub(crate) fn gradient(mut table: Table<'_>, defined: &Defined<'_>) -> Option<Gradient> {
    let backward = table.require::<bool>("backward", "backward = true");
    let listed = table.get::<Vec<Spanned<String>>>("inputs");
    let function = table.get("function");
    let (inputs, complete) = match listed {
        Some(listed) => {
            let count = listed.value.len();
            let inputs = chosen(&table, listed.value, defined);
            let complete = inputs.len() == count;
            (inputs, complete)
        }
        None => {
            let fit = defined.inputs.iter().map(|input| &input.tensor);
            let fit = fit.filter(|tensor| refuse(tensor, defined).is_none());
            // Tensors that could not be read might be the ones.
            (
                fit.map(|tensor| tensor.name.clone()).collect(),
                defined.inputs.len() == defined.input_names.len(),
            )
        }
    };
    let from_rounded = table.get("from-rounded").is_some_and(|from_rounded| from_rounded.value);
    let same = table.table("same").map(|same| alike(&same, &inputs, defined)).unwrap_or_default();
    let is_on = backward.as_ref().is_some_and(|backward| backward.value);
    let outputs = || defined.outputs.iter().any(|output| is_float(&output.tensor, defined));
    let missing = if !is_on {
        None
    } else if inputs.is_empty() && complete {
        Some("no input has a gradient")
    } else if !outputs() && defined.outputs.len() == defined.output_names.len() {
        Some("no output has a gradient")
    } else {
        None
    };
    if let Some(message) = missing {
        let problem = Problem::error(codes::GRADIENT, message).help(
            "a gradient needs a floating-point output and a floating-point input that is not overwritten",
        );
        table.report(problem, &table.place(), "nothing to differentiate");
    }
    table.finish();
    is_on.then_some(Gradient { inputs, function, same, from_rounded })
}

/// The inputs that have the gradient of another one: both are differentiated, and have one shape and one dtype.
fn alike(
    table: &Table<'_>,
    inputs: &[Spanned<PythonName>],
    defined: &Defined<'_>,
) -> BTreeMap<PythonName, PythonName> {
    let entries = table.entries();
    let named = |text: &str| inputs.iter().find(|input| input.value.as_str() == text);
    let tensor = |name: &PythonName| {
        let mut tensors = defined.inputs.iter().map(|input| &input.tensor);
        tensors.find(|tensor| tensor.name.value == *name)
    };
    let mut found = BTreeMap::new();
    for (key, node) in &entries {
        let Some(other) = node.read::<String>() else { continue };
        let both = named(&key.value).zip(named(&other.value));
        let is_key = entries.iter().any(|(key, _)| key.value == other.value);
        let fits = both.and_then(|(one, of)| {
            let (first, second) = tensor(&one.value).zip(tensor(&of.value))?;
            let axes =
                |tensor: &Tensor| tensor.shape.iter().map(|axis| axis.value.clone()).collect::<Vec<_>>();
            (axes(first) == axes(second) && first.dtype.value == second.dtype.value).then_some((one, of))
        });
        match fits.filter(|_| !is_key) {
            Some((one, of)) => {
                found.insert(one.value.clone(), of.value.clone());
            }
            None => {
                let message =
                    format!("`same`: `{}` cannot reuse the gradient of `{}`", key.value, other.value);
                let problem = Problem::error(codes::GRADIENT, message).help(format!(
                    "list both in `inputs`, with the same shape and dtype; `{}` must not be a key of `same`",
                    other.value
                ));
                table.report(problem, &other.span, "here");
            }
        }
    }
    found
}

/// The inputs that a list names, in the order of arguments, as autograd returns their gradients.
fn chosen(
    table: &Table<'_>,
    listed: Vec<Spanned<String>>,
    defined: &Defined<'_>,
) -> Vec<Spanned<PythonName>> {
    let mut inputs: Vec<(usize, Spanned<PythonName>)> = Vec::new();
    for text in listed {
        if known_input(table, &text, defined).is_none() {
            continue;
        }
        let place = defined.inputs.iter().position(|input| input.tensor.name.as_str() == text.value);
        let Some((place, input)) = place.and_then(|place| Some((place, defined.inputs.get(place)?))) else {
            continue;
        };
        let name = &input.tensor.name.value;
        if let Some((reason, help)) = refuse(&input.tensor, defined) {
            let message = format!("`{name}` has no gradient: it {reason}");
            table.report(Problem::error(codes::GRADIENT, message).help(help), &text.span, "here");
        } else if inputs.iter().any(|(earlier, _)| *earlier == place) {
            let problem = Problem::error(codes::DUPLICATE_NAME, format!("`{name}` is listed twice"))
                .help("remove one of them");
            table.report(problem, &text.span, "again");
        } else {
            inputs.push((place, Spanned::new(name.clone(), text.span)));
        }
    }
    inputs.sort_by_key(|(place, _)| *place);
    inputs.into_iter().map(|(_, name)| name).collect()
}

/// Why an input has no gradient, if so, and what to know about it.
fn refuse(tensor: &Tensor, defined: &Defined<'_>) -> Option<(&'static str, &'static str)> {
    let mut places = defined.outputs.iter().filter_map(|output| output.inplace.as_ref());
    if !is_float(tensor, defined) {
        Some(("is not floating-point", "only inputs that are floating-point in every case have a gradient"))
    } else if places.any(|place| place.value == tensor.name.value) {
        Some(("is overwritten", "autograd needs the values that an in-place output replaces"))
    } else {
        None
    }
}

/// Whether the dtype is floating-point in every case.
fn is_float(tensor: &Tensor, defined: &Defined<'_>) -> bool {
    match &tensor.dtype.value {
        TensorDtype::Fixed(dtype) => dtype.is_float(),
        TensorDtype::Variable(name) => {
            let variable = defined.dtypes.iter().find(|variable| variable.name.value == *name);
            variable.is_none_or(|variable| variable.dtypes.iter().all(|dtype| dtype.is_float()))
        }
    }
}
