//! What a kernel may be given: inputs, outputs, workspaces and tensor maps by name, values with a type.
//!
//! Owns: that every such name is defined and means one thing.
//! Never: reads a whole section.

use std::ops::Range;

use toml::de::DeValue;

use crate::diagnostic::{Problem, did_you_mean};
use crate::spec::defined::{Defined, names};
use crate::spec::expr::{self, Kind, Scope};
use crate::spec::launch::KernelArgument;
use crate::spec::op::{Output, ScalarValue};
use crate::spec::read::{Node, Table};
use crate::spec::{Spanned, codes};
use crate::units::PythonName;

/// What a kernel's arguments may name.
pub(super) struct Memory<'a> {
    pub(super) defined: &'a Defined<'a>,
    pub(super) scope: Scope,
    workspaces: Vec<String>,
    maps: Vec<String>,
}

impl<'a> Memory<'a> {
    /// What the file defines, with the sections of workspaces and tensor maps.
    pub(super) fn new(
        defined: &'a Defined<'a>,
        workspaces: Option<&Table<'_>>,
        maps: Option<&Table<'_>>,
    ) -> Self {
        Self { defined, scope: defined.scope(), workspaces: names(workspaces), maps: names(maps) }
    }

    /// Reports what has the name of something else that a kernel may be given.
    pub(super) fn distinct(
        &self,
        table: &Table<'_>,
        workspaces: Option<&Table<'_>>,
        maps: Option<&Table<'_>>,
    ) {
        let inputs = self.defined.inputs.iter().map(|input| &input.tensor.name);
        let mut taken: Vec<(String, Range<usize>, &str)> =
            inputs.map(|name| (name.value.to_string(), name.span.clone(), "an input")).collect();
        // An output in the place of an input of its own name is the same memory.
        let is_same = |output: &Output| {
            output.inplace.as_ref().is_some_and(|place| place.value == output.tensor.name.value)
        };
        let outputs = self.defined.outputs.iter().filter(|output| !is_same(output));
        let outputs = outputs.map(|output| &output.tensor.name);
        let mut named: Vec<_> =
            outputs.map(|name| (name.value.to_string(), name.span.clone(), "an output")).collect();
        for (section, what) in [(workspaces, "a workspace"), (maps, "a tensor map")] {
            let entries = section.map(Table::entries).unwrap_or_default();
            named.extend(entries.into_iter().map(|(key, _)| (key.value, key.span, what)));
        }
        for (name, span, what) in named {
            if let Some((_, first, earlier)) = taken.iter().find(|(known, ..)| *known == name) {
                let problem =
                    Problem::error(codes::DUPLICATE_NAME, format!("`{name}` is both {earlier} and {what}"))
                        .help("kernel arguments use both by name, so each needs its own name")
                        .at(table.file(), &span, what)
                        .at(table.file(), first, *earlier);
                table.push(problem);
            }
            taken.push((name, span, what));
        }
    }

    /// The tensor or workspace that a tensor map is of.
    pub(super) fn described(&self, table: &Table<'_>, text: &Spanned<String>) -> Option<Spanned<PythonName>> {
        if self.is_tensor(&text.value) || self.workspaces.contains(&text.value) {
            return Some(Spanned::new(text.value.parse().ok()?, text.span.clone()));
        }
        let known: Vec<_> = self.tensors().chain(self.workspaces.iter().map(String::as_str)).collect();
        let problem = unknown(&text.value, "input, output or workspace", &known);
        table.report(problem.0, &text.span, problem.1);
        None
    }

    /// How many dimensions an input or output has; a workspace tells when it is evaluated.
    pub(super) fn rank(&self, name: &PythonName) -> Option<usize> {
        self.scope.tensors.iter().find(|tensor| tensor.name == name.as_str()).and_then(|tensor| tensor.rank)
    }

    fn is_tensor(&self, name: &str) -> bool {
        self.tensors().any(|tensor| tensor == name)
    }

    fn tensors(&self) -> impl Iterator<Item = &str> {
        self.scope.tensors.iter().map(|tensor| tensor.name.as_str())
    }

    /// A name in memory, or `{ TYPE = value }`.
    pub(super) fn argument(&self, node: &Node<'_>) -> Option<KernelArgument> {
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
                let problem =
                    Problem::error(codes::KERNEL_ARGUMENT, "a value needs a type to be passed to a kernel")
                        .help("write it as in { i32 = 4 } or { f32 = \"eps\" }");
                node.report(problem, &node.span(), "no type");
                None
            }
        }
    }

    /// Says what a text that names nothing in memory should be.
    fn refuse(&self, node: &Node<'_>, text: &Spanned<String>) {
        let name = &text.value;
        let example = match self.scope.kind(name) {
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
        let problem =
            Problem::error(codes::KERNEL_ARGUMENT, format!("`{name}` needs a type to be passed to a kernel"))
                .help(format!("write {example}, with the type that the kernel declares"));
        node.report(problem, &text.span, "no type");
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
            let problem = Problem::error(
                codes::KERNEL_ARGUMENT,
                format!("an argument must have exactly one type, not {entries}"),
            )
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
                let label = did_you_mean(&text.value, known.iter().copied(), "not a float");
                let help = match known.as_slice() {
                    [] => "a floating-point argument must be a scalar of [scalars] with type = \"float\""
                        .to_owned(),
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
    let label = did_you_mean(name, known.iter().copied(), "not defined");
    let problem = Problem::error(codes::UNKNOWN_TENSOR, format!("`{name}` is not an {what}"))
        .help(format!("valid names: {}", known.join(", ")));
    (problem, label)
}
