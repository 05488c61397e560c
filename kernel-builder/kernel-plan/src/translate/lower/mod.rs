//! Makes a program of an exported graph.
//!
//! Owns: the walk over the graph, and what is assumed of lengths. Never: an operator's meaning; the files beside this one
//! have them.

use std::collections::BTreeSet;

use super::length::Length;
use super::program::{Element, Kind, Origin, Program, Tensor, Value, ValueId};
use super::refusal::{Assumed, Refusal};
use super::split::split;
use super::traced::{Traced, TracedNode, TracedSymbol};

mod axes;
mod call;
mod composite;
mod lowering;
mod pointwise;
mod reductions;
mod views;

use call::Call;
use lowering::{Lowering, written};

/// Makes a program of a graph.
///
/// # Errors
/// An operator, a dtype or a form of them that has no translation, with its line.
pub fn lower(traced: &Traced) -> Result<Program, Refusal> {
    let mut traced = traced.clone();
    let mut same: Vec<(String, Length)> = Vec::new();
    loop {
        let refusal = match of_graph(&traced, &same) {
            Err(refusal) => refusal,
            found => return found,
        };
        match refusal.assumed.as_deref() {
            Some(Assumed::Multiple(axis, by)) => {
                let names = axes::named(&traced);
                let symbol = names.into_iter().find(|(_, name)| name == axis).map(|(symbol, _)| symbol);
                let Some(symbol) = symbol.filter(|symbol| divides(&traced, symbol, *by)) else {
                    return Err(refusal);
                };
                let hint = traced.symbols[&symbol].hint / by;
                let own = TracedSymbol { hint, min: 0, quotient: Some((symbol.clone(), *by)) };
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
fn divides(traced: &Traced, symbol: &str, by: i64) -> bool {
    let is_divided = |one: &TracedSymbol| one.quotient.as_ref().is_some_and(|(of, _)| of == symbol);
    traced.symbols.get(symbol).is_some_and(|one| one.hint % by == 0)
        && !traced.symbols.values().any(is_divided)
}

fn of_graph(traced: &Traced, same: &[(String, Length)]) -> Result<Program, Refusal> {
    let mut lowering = Lowering::new(traced, same)?;
    for node in &traced.nodes {
        lowering.node(node)?;
    }
    lowering.finish(traced).map(|program| split(&program))
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
                .ok_or_else(|| Refusal::new("an item that is not used"));
        }
        let name = call.name.clone();
        if let Some(found) = views::meaning(self, &name, &call)? {
            return Ok(vec![found]);
        }
        if let Some(found) = views::parts(self, &name, &call)? {
            return Ok(found);
        }
        if let Some(found) = pointwise::meaning(self, &name, &call)? {
            return Ok(vec![found]);
        }
        if let Some(found) = reductions::meaning(self, &name, &call)? {
            return Ok(found);
        }
        if let Some(found) = composite::meaning(self, &name, &call)? {
            return Ok(found);
        }
        Err(Refusal::operator(&name))
    }

    fn finish(self, traced: &Traced) -> Result<Program, Refusal> {
        let mut outputs = Vec::new();
        for (place, output) in traced.outputs.iter().enumerate() {
            let found = self.results.get(output).and_then(|all| all.first());
            let (value, element) =
                *found.ok_or_else(|| Refusal::new("it returns something that is not a tensor"))?;
            if matches!(self.values[value].kind, Kind::Input(_)) {
                return Err(Refusal::new(format!(
                    "it returns its argument `{}` unchanged",
                    self.values[value].name
                )));
            }
            let name = if traced.outputs.len() == 1 { "out".to_owned() } else { format!("out_{place}") };
            outputs.push((Tensor { name, shape: self.values[value].shape.clone(), element }, value));
        }
        if outputs.is_empty() {
            return Err(Refusal::new("it returns no tensor"));
        }
        let used: BTreeSet<&str> =
            self.inputs.iter().flat_map(|input| &input.shape).flat_map(Length::symbols).collect();
        let symbols = self.symbols.iter();
        let symbols = symbols.filter(|symbol| used.contains(symbol.name.as_str()));
        let mut values = self.values;
        name_by_assignment(&mut values);
        Ok(Program {
            function: traced.function.clone(),
            symbols: symbols.cloned().collect(),
            inputs: self.inputs,
            outputs,
            values,
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
        let Some((name, rest)) = origin.text.split_once('=') else { continue };
        let name = name.trim();
        let is_name = !name.is_empty() && name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
        if is_name && !rest.starts_with('=') && !name.starts_with(|one: char| one.is_ascii_digit()) {
            value.name = name.to_owned();
        }
    }
}
