//! Makes a program of an exported graph.
//!
//! Owns: the walk over the graph, and what is assumed of lengths. Never: an operator's meaning; the files beside this one
//! have them.

use std::collections::BTreeSet;

use super::length::Length;
use super::program::{Element, Kind, Origin, Program, Tensor, Value, ValueId};
use super::refusal::{Assumed, Refusal};
use super::split::split;
use super::traced::{TracedGraph, TracedNode, TracedSymbol};
use crate::spec::op::Values;

mod alike;
pub(super) mod axes;
mod call;
mod composite;
mod concatenation;
mod lowering;
mod pointwise;
mod pooling;
mod random;
mod reductions;
mod scatters;
mod views;

use alike::alike;
use call::Call;
use lowering::{Lowering, written};

/// A graph as it was translated in the end.
pub(super) struct Settled {
    pub(super) program: Program,
    /// The graph with the quotients that were found to be whole.
    pub(super) traced: TracedGraph,
    /// Axes that are as long as something else.
    pub(super) same: Vec<(String, Length)>,
}

/// Makes a program of a graph.
///
/// # Errors
/// An operator, a dtype or a form of them that has no translation, with its line.
pub fn lower(traced: &TracedGraph) -> Result<Program, Refusal> {
    let program = settle(traced.clone(), Vec::new(), &axes::named(traced))?.program;
    sums_are_known(&program)?;
    Ok(program)
}

/// What is added up is as long as axes of tensors say.
fn sums_are_known(program: &Program) -> Result<(), Refusal> {
    let is_known = |name: &str| program.symbols.iter().any(|symbol| symbol.name == name);
    for value in &program.values {
        let (Kind::Reduce(_, of, _) | Kind::Scan(_, of, _)) = &value.kind else { continue };
        let shape = &program.values[*of].shape;
        if let Some(unknown) = shape.iter().find(|length| !length.symbols().all(is_known)) {
            let refusal = Refusal::new(format!(
                "`{}` has {unknown} terms, and op.toml has no axis for a length that is computed",
                value.name
            ));
            return Err(Refusal { assumed: Some(Box::new(Assumed::Fixed(unknown.clone()))), ..refusal });
        }
    }
    Ok(())
}

/// Makes a program of the gradient of a graph, whose axes have the names and the lengths of those of the graph.
///
/// # Errors
/// As `lower`; or it holds for fewer lengths than the graph.
pub fn lower_gradient(gradient: &TracedGraph, of: &TracedGraph) -> Result<Program, Refusal> {
    let names = axes::named(of);
    let forward = settle(of.clone(), Vec::new(), &names)?;
    let mut traced = gradient.clone();
    for (name, symbol) in &forward.traced.symbols {
        let own = traced.symbols.entry(name.clone()).or_insert_with(|| symbol.clone());
        own.min = own.min.max(symbol.min);
    }
    let known: BTreeSet<String> = traced.symbols.keys().cloned().collect();
    let settled = settle(traced, forward.same.clone(), &names)?;
    if settled.same != forward.same || settled.traced.symbols.keys().any(|name| !known.contains(name)) {
        return Err(Refusal::new("it holds for fewer lengths than the function"));
    }
    Ok(settled.program)
}

/// The tensors of a graph and its results, without the values between them.
///
/// # Errors
/// A tensor whose dtype has no translation.
pub(super) fn shell(traced: &TracedGraph, names: &[(String, String)]) -> Result<Program, Refusal> {
    let mut lowering = Lowering::new(traced, &[], names)?;
    for name in &traced.outputs {
        let node = traced.nodes.iter().find(|node| node.name == *name);
        // What the function returns unchanged is an input, and `finish` refuses it.
        let Some((node, result)) = node.and_then(|node| Some((node, node.results.first()?))) else {
            continue;
        };
        let element = lowering.element(&result.dtype);
        let element = element
            .ok_or_else(|| Refusal::new(format!("a result has the dtype {}", result.dtype)).at(node))?;
        let shape = lowering.lengths(result);
        let value = lowering.value(Kind::Number(0.0), shape, element.class());
        lowering.results.insert(name.clone(), vec![(value, element)]);
    }
    lowering.finish(traced)
}

/// Translates a graph, with more and more that is assumed of lengths.
pub(super) fn settle(
    mut traced: TracedGraph,
    mut same: Vec<(String, Length)>,
    names: &[(String, String)],
) -> Result<Settled, Refusal> {
    loop {
        let refusal = match of_graph(&traced, &same, names) {
            Err(refusal) => refusal,
            Ok(program) => return Ok(Settled { program, traced, same }),
        };
        match refusal.assumed.as_deref() {
            Some(Assumed::Multiple(axis, by)) => {
                let symbol = names.iter().find(|(_, name)| name == axis).map(|(symbol, _)| symbol.clone());
                let Some(symbol) = symbol.filter(|symbol| divides(&traced, symbol, *by)) else {
                    return Err(refusal);
                };
                let hint = traced.symbols[&symbol].hint / by;
                let own =
                    TracedSymbol { hint, min: 0, quotient: Some((symbol.clone(), *by)), computed: None };
                traced.symbols.insert(format!("{symbol}_by_{by}"), own);
            }
            Some(Assumed::Same(axis, length)) if same.iter().all(|(known, _)| known != axis) => {
                same.push((axis.clone(), length.clone()));
            }
            _ => return Err(refusal),
        }
    }
}

/// Whether a symbol can be held to be a multiple of a number.
fn divides(traced: &TracedGraph, symbol: &str, by: i64) -> bool {
    let is_divided = |one: &TracedSymbol| one.quotient.as_ref().is_some_and(|(of, _)| of == symbol);
    traced.symbols.get(symbol).is_some_and(|one| one.hint % by == 0)
        && !traced.symbols.values().any(is_divided)
}

fn of_graph(
    traced: &TracedGraph,
    same: &[(String, Length)],
    names: &[(String, String)],
) -> Result<Program, Refusal> {
    let mut lowering = Lowering::new(traced, same, names)?;
    for node in &traced.nodes {
        lowering.node(node)?;
    }
    lowering.finish(traced).map(|program| split(&alike(program)))
}

impl Lowering {
    fn node(&mut self, node: &TracedNode) -> Result<(), Refusal> {
        self.origin = node.line.map(|line| Origin { line, text: node.text.clone().unwrap_or_default() });
        self.name.clone_from(&node.name);
        let values = self.meaning(node).map_err(|refusal| refusal.at(node))?;
        let elements: Vec<_> = node.results.iter().map(|result| self.element(&result.dtype)).collect();
        let mut found = Vec::new();
        for ((value, element), result) in values.into_iter().zip(elements).zip(&node.results) {
            let refused = || Refusal::new(format!("its result has the dtype {}", result.dtype)).at(node);
            let element = element.ok_or_else(refused)?;
            let converted = self.convert(value, element.class());
            let (own, traced) = (&self.values[converted].shape, self.lengths(result));
            if *own != traced {
                let refusal = Refusal::new(format!(
                    "its shape is [{}], and PyTorch's [{}]",
                    written(own),
                    written(&traced)
                ));
                return Err(refusal.at(node));
            }
            found.push((converted, element));
        }
        self.results.insert(node.name.clone(), found);
        Ok(())
    }

    /// The values that a node gives.
    fn meaning(&mut self, node: &TracedNode) -> Result<Vec<ValueId>, Refusal> {
        let shapes = node.results.iter().map(|result| self.lengths(result)).collect();
        let classes =
            node.results.iter().filter_map(|result| self.element(&result.dtype)).map(Element::class);
        let call = Call::read(node, shapes, classes.collect())?;
        if node.op == "getitem" {
            let (source, place) = (call.node(0)?, call.whole(1)?);
            let found = self.results.get(&source).and_then(|all| all.get(usize::try_from(place).ok()?));
            return found
                .map(|(value, _)| vec![*value])
                .ok_or_else(|| Refusal::new(format!("result {place} of `{source}` has no translation")));
        }
        let name = call.name.clone();
        if let Some(found) = views::meaning(self, &name, &call)? {
            return Ok(vec![found]);
        }
        if let Some(found) = concatenation::meaning(self, &name, &call)? {
            return Ok(vec![found]);
        }
        if let Some(found) = scatters::meaning(self, &name, &call)? {
            return Ok(vec![found]);
        }
        if let Some(found) = views::parts(self, &name, &call)? {
            return Ok(found);
        }
        if let Some(found) = pointwise::meaning(self, &name, &call)? {
            return Ok(vec![found]);
        }
        if let Some(found) = random::meaning(self, &name, &call)? {
            return Ok(vec![found]);
        }
        if let Some(found) = reductions::meaning(self, &name, &call)? {
            return Ok(found);
        }
        if let Some(found) = composite::meaning(self, &name, &call)? {
            return Ok(found);
        }
        if let Some(found) = pooling::meaning(self, &name, &call)? {
            return Ok(vec![found]);
        }
        Err(Refusal::operator(&name))
    }

    fn finish(self, traced: &TracedGraph) -> Result<Program, Refusal> {
        let mut outputs = Vec::new();
        for (place, output) in traced.outputs.iter().enumerate() {
            let found = self.results.get(output).and_then(|all| all.first());
            let (value, element) =
                *found.ok_or_else(|| Refusal::new("it returns something that is not a tensor"))?;
            if traced.results.is_empty() && matches!(self.values[value].kind, Kind::Input(_)) {
                return Err(Refusal::new(format!(
                    "it returns its argument `{}` unchanged",
                    self.values[value].name
                )));
            }
            let name = match traced.results.get(place) {
                Some(name) => name.clone(),
                None if traced.outputs.len() == 1 => "out".to_owned(),
                None => format!("out_{place}"),
            };
            let shape = self.values[value].shape.clone();
            outputs.push((Tensor { name, shape, element, values: Values::Any }, value));
        }
        if outputs.is_empty() {
            return Err(Refusal::new("it returns no tensor"));
        }
        let used: BTreeSet<&str> =
            self.inputs.iter().flat_map(|input| &input.shape).flat_map(Length::symbols).collect();
        let symbols = self.symbols.iter();
        let symbols = symbols.filter(|symbol| used.contains(symbol.name.as_str()));
        let mut values = self.values;
        // The lines of a gradient are those of the function, whose names its values are not.
        if traced.results.is_empty() {
            name_by_assignment(&mut values);
        }
        Ok(Program {
            function: traced.function.clone(),
            symbols: symbols.cloned().collect(),
            inputs: self.inputs,
            outputs,
            values,
            concatenations: self.concatenations,
        })
    }
}

/// The last value of a line that assigns a name gets that name.
fn name_by_assignment(values: &mut [Value]) {
    let mut seen = BTreeSet::new();
    for value in values.iter_mut().rev() {
        let Some(origin) = value.origin.as_ref().filter(|_| !matches!(value.kind, Kind::Input(_))) else {
            continue;
        };
        if !seen.insert(origin.line) {
            continue;
        }
        if let Some(name) = assigned(&origin.text) {
            value.name = name.to_owned();
        }
    }
}

/// The name that a line assigns its value to.
pub(super) fn assigned(text: &str) -> Option<&str> {
    let (name, rest) = text.split_once('=')?;
    let name = name.trim();
    let is_name = !name.is_empty() && name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
    (is_name && !rest.starts_with('=') && !name.starts_with(|one: char| one.is_ascii_digit())).then_some(name)
}
