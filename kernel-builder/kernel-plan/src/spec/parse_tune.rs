//! Reads `[tune]` of op.toml.
//!
//! Owns: that values are of one kind, and that the default is one of them.
//! Never: judges a default against constraints; `across_op` does, when everything has been read.

use std::collections::BTreeMap;

use toml::de::DeValue;

use crate::diagnostic::{Problem, did_you_mean};
use crate::units::{Capability, CapabilitySuffix, PythonName};

use super::defined::Defined;
use super::expr::{self, BoolExpr, Scope, Type, Value};
use super::read::{Node, Table};
use super::tune::Tunable;
use super::{Spanned, codes, values};

/// The key that is no tunable.
const CONSTRAINTS: &str = "constraints";

impl Tunable {
    /// What it is in an expression.
    pub(crate) fn kind(&self) -> Type {
        match self.default.value {
            Value::Integer(_) => Type::Integer,
            Value::Boolean(_) => Type::Boolean,
        }
    }
}

/// The names of all tunables, readable or not.
pub(crate) fn names(table: Option<&Table<'_>>) -> Vec<String> {
    let entries = table.map(Table::entries).unwrap_or_default();
    entries.into_iter().map(|(name, _)| name.value).filter(|name| name != CONSTRAINTS).collect()
}

/// Every `[tune.NAME]`, in file order, with what it has for `when`, which may use other tunables; those with a problem are
/// reported and left out.
pub(crate) fn tunables<'a>(
    table: &Table<'a>,
    defined: &Defined<'_>,
) -> (Vec<Tunable>, Vec<Option<Node<'a>>>) {
    let entries = table.entries();
    entries
        .into_iter()
        .filter(|(key, _)| key.value != CONSTRAINTS)
        .filter_map(|(key, node)| {
            let name = values::name(&key, &node, codes::NOT_AN_IDENTIFIER);
            let taken = [
                (&defined.axis_names, "an axis"),
                (&defined.scalar_names, "a scalar"),
                (&defined.dtype_names, "a type variable"),
            ];
            if let Some((_, what)) = taken.iter().find(|(names, _)| names.contains(&key.value)) {
                let message = format!("the tunable `{}` has the same name as {what}", key.value);
                let problem = Problem::error(codes::DUPLICATE_NAME, message)
                    .help("give it another name: expressions need to tell them apart");
                node.report(problem, &key.span, format!("{what} already"));
            }
            if !node.value().is_table() {
                let label = did_you_mean(&key.value, [CONSTRAINTS], "no such key");
                let message = format!("`{}` is neither `constraints` nor a tunable", key.value);
                let problem = Problem::error(codes::UNKNOWN_KEY, message)
                    .help(format!("a tunable is a table: [tune.{}] with values and default", key.value));
                node.report(problem, &key.span, label);
                return None;
            }
            tunable(name, node.table()?)
        })
        .unzip()
}

/// The tunables with `when`, now that all names are defined.
pub(crate) fn with_conditions(
    tunables: &[Tunable],
    nodes: &[Option<Node<'_>>],
    scope: &Scope,
) -> Vec<Tunable> {
    let read = |(tunable, node): (&Tunable, &Option<Node<'_>>)| {
        let when = node.as_ref().and_then(|node| expr::boolean(node, scope));
        Tunable { when, ..tunable.clone() }
    };
    tunables.iter().zip(nodes).map(read).collect()
}

fn tunable<'a>(
    name: Option<Spanned<PythonName>>,
    mut table: Table<'a>,
) -> Option<(Tunable, Option<Node<'a>>)> {
    let example = "values = [128, 256, 512]";
    let list = table.require_node("values", example);
    let default = table.require_node("default", "default = 256");
    let others = table.node("default-for");
    let when = table.node("when");
    table.finish();
    let (list, default) = (list?, default?);
    if !list.value().is_array() {
        return list.wrong_type("a list", "[128, 256, 512]");
    }
    let items = list.items()?;
    let Some(first) = items.first() else {
        let problem = Problem::error(codes::EMPTY_LIST, format!("`{}` is empty", list.path()))
            .help(format!("for example: {example}"));
        list.report(problem, &list.span(), "at least one entry is needed");
        return None;
    };
    let like = value(first, None)?;
    let mut choice: Vec<Value> = Vec::new();
    for item in &items {
        let read = value(item, Some(like))?;
        if choice.contains(&read) {
            let problem = Problem::error(codes::DUPLICATE_NAME, format!("{read} is listed twice"))
                .help("remove one of them");
            list.report(problem, &item.span(), "again");
        } else {
            choice.push(read);
        }
    }
    let default = Spanned::new(value(&default, Some(like))?, default.span());
    if !choice.contains(&default.value) {
        let texts: Vec<_> = choice.iter().map(ToString::to_string).collect();
        let problem = Problem::error(
            codes::TUNE_DEFAULT,
            format!("the default {} is not one of the values", default.value),
        )
        .help(format!("choose one of {}, or add it to `values`", texts.join(", ")));
        list.report(problem, &default.span, "not among the values");
    }
    let default_for = others.map(|node| defaults_of(&node, &choice, like)).unwrap_or_default();
    Some((Tunable { name: name?, values: choice, default, default_for, when: None }, when))
}

/// The defaults of compute capabilities: `{ "9.0" = true }`.
fn defaults_of(node: &Node<'_>, choice: &[Value], like: Value) -> BTreeMap<u32, Value> {
    let entries = node.table().map(|table| table.entries()).unwrap_or_default();
    let read = |(key, node): (Spanned<String>, Node<'_>)| {
        let number = key.value.parse::<Capability>().ok();
        let number = number.filter(|number| number.suffix == CapabilitySuffix::None && !number.ptx);
        if number.is_none() {
            let message = format!("`{}` is not a compute capability", key.value);
            let problem =
                Problem::error(codes::TUNE_DEFAULT, message).help("write it as in \"9.0\", without a letter");
            node.report(problem, &key.span, "not a capability");
        }
        let given = value(&node, Some(like))?;
        if !choice.contains(&given) {
            let message = format!("the default {given} is not one of the values");
            let problem = Problem::error(codes::TUNE_DEFAULT, message).help("choose one of `values`");
            node.report(problem, &node.span(), "not among the values");
        }
        let number = number?;
        Some((number.major * 10 + number.minor, given))
    };
    entries.into_iter().filter_map(read).collect()
}

/// A number or a truth, of the kind of `like` where there is one.
fn value(node: &Node<'_>, like: Option<Value>) -> Option<Value> {
    match (node.value(), like) {
        (DeValue::Integer(_), None) | (_, Some(Value::Integer(_))) => {
            node.read::<i64>().map(|number| Value::Integer(number.value))
        }
        (DeValue::Boolean(_), None) | (_, Some(Value::Boolean(_))) => {
            node.read::<bool>().map(|truth| Value::Boolean(truth.value))
        }
        _ => node.wrong_type("integers, or true and false", "[128, 256, 512]"),
    }
}

/// `constraints`, in file order; those with a problem are reported and left out.
pub(crate) fn constraints(mut table: Table<'_>, scope: &Scope) -> Vec<BoolExpr> {
    let Some(node) = table.node(CONSTRAINTS) else { return Vec::new() };
    let items = node.items().unwrap_or_default();
    items.iter().filter_map(|item| expr::boolean(item, scope)).collect()
}
