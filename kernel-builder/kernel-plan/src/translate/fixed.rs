//! Axes whose length is that of the call that was traced, in every call.
//!
//! Owns: which axis has to be one, where a result has a length that is computed, and the graph for such calls. Never: a
//! length that op.toml can say.

use std::collections::BTreeMap;

use super::length::Length;
use super::lower;
use super::refusal::{Assumed, Refusal};
use super::traced::TracedGraph;

/// An axis that always has one length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedAxis {
    /// Its symbol in the graph.
    symbol: String,
    /// Its name.
    pub axis: String,
    /// Its length.
    pub length: i64,
    /// Why, in words.
    pub reason: String,
}

impl FixedAxis {
    /// The axis of a graph that has to be fixed after a refusal, if that would help: the last one that a computed length
    /// depends on.
    pub fn after(refusal: &Refusal, graph: &TracedGraph) -> Option<Self> {
        let Some(Assumed::Fixed(length)) = refusal.assumed.as_deref() else { return None };
        let axes = lower::axes::named(graph);
        let mut symbols: Vec<String> = Vec::new();
        for name in length.symbols() {
            let symbol =
                axes.iter().find(|(_, axis)| axis == name).map_or(name, |(symbol, _)| symbol.as_str());
            depends_on(graph, symbol, &mut symbols);
        }
        let (symbol, axis) = axes.into_iter().rfind(|(symbol, _)| symbols.contains(symbol))?;
        let length = graph.symbols.get(&symbol)?.hint;
        Some(Self { symbol, axis, length, reason: refusal.what.clone() })
    }
}

/// Adds the symbols that a length is computed from.
fn depends_on(graph: &TracedGraph, name: &str, found: &mut Vec<String>) {
    // The quotient of an axis is named by the axis in a program.
    let by_axis = |(axis, number): (&str, &str)| {
        let axes = lower::axes::named(graph);
        let is_number = number.chars().all(|digit| digit.is_ascii_digit());
        axes.iter().find(|(_, known)| is_number && known == axis).map(|(symbol, _)| symbol.clone())
    };
    match graph.symbols.get(name) {
        Some(symbol) => match (&symbol.quotient, symbol.floor()) {
            (Some((of, _)), _) => found.push(of.clone()),
            (None, Some((dividend, _))) => dividend.symbols().for_each(|one| depends_on(graph, one, found)),
            (None, None) => found.push(name.to_owned()),
        },
        None => found.extend(name.rsplit_once("_by_").and_then(by_axis)),
    }
}

impl TracedGraph {
    /// The graph of the calls in which an axis has that length.
    pub fn fix(&mut self, axis: &FixedAxis) {
        let mut known = BTreeMap::from([(axis.symbol.clone(), axis.length)]);
        loop {
            let is_known = |name: &str| known.contains_key(name);
            let follows = self.symbols.iter().find(|(name, symbol)| {
                let of_quotient = symbol.quotient.as_ref().is_some_and(|(of, _)| is_known(of));
                let of_floor = symbol.floor().is_some_and(|(dividend, _)| dividend.symbols().all(is_known));
                !is_known(name) && (of_quotient || of_floor)
            });
            let Some((name, symbol)) = follows else { break };
            known.insert(name.clone(), symbol.hint);
        }
        let replaced =
            |length: &Length| length.replaced(&|name| known.get(name).copied().map(Length::number));
        self.replace_lengths(&replaced);
        self.symbols.retain(|name, _| !known.contains_key(name));
        for symbol in self.symbols.values_mut() {
            if let Some((dividend, by)) = symbol.floor() {
                symbol.computed = Some((replaced(&dividend).terms(), by));
            }
        }
    }
}
