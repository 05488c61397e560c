//! Lengths of regions: what a region sees of the lengths of the function.
//!
//! Owns: which symbols a region has. Never: a shape of the function itself.

use super::super::length::Length;
use super::super::program::Program;
use super::super::refusal::{Assumed, Refusal};
use super::super::traced::{TracedGraph, TracedSymbol};

/// A region's axes are the lengths of its tensors. A length that is computed of others, as that behind a convolution, becomes an
/// axis of its own, and what it is computed of follows from it.
pub(super) fn over_own_axes(mut traced: TracedGraph) -> TracedGraph {
    for number in 1.. {
        let shapes = || traced.inputs.iter().flat_map(|input| input.tensor.lengths());
        let is_axis = |name: &str| shapes().any(|length| length.as_symbol() == Some(name));
        let is_divided = |name: &str| {
            traced.symbols.values().any(|one| one.quotient.as_ref().is_some_and(|(of, _)| of == name))
        };
        let Some(computed) = shapes().find(|length| length.value().is_none() && length.as_symbol().is_none())
        else {
            break;
        };
        let hints = traced.symbols.iter().map(|(name, symbol)| (name.clone(), symbol.hint)).collect();
        let hint = computed.at(&hints);
        let own = Length::symbol(format!("own_{number}"));
        let base = computed.symbols().find(|name| {
            let rest = &computed - &Length::symbol(*name);
            !is_axis(name) && !is_divided(name) && rest.symbols().all(|other| other != *name)
        });
        let base = base.map(|name| (name.to_owned(), &own - &(&computed - &Length::symbol(name))));
        let replaced = |length: &Length| match &base {
            Some((name, follows)) => length.replaced(&|one| (one == name).then(|| follows.clone())),
            None if *length == computed => own.clone(),
            None => length.clone(),
        };
        traced.replace_lengths(&replaced);
        let symbol = TracedSymbol { hint, min: 0, quotient: None, computed: None };
        traced.symbols.insert(format!("own_{number}"), symbol);
    }
    traced
}

/// Every length of a program is one of its tensors'.
pub(super) fn check(program: &Program) -> Result<(), Refusal> {
    let is_known = |name: &str| program.symbols.iter().any(|symbol| symbol.name == name);
    for value in &program.values {
        if let Some(unknown) = value.shape.iter().flat_map(Length::symbols).find(|name| !is_known(name)) {
            let refusal = Refusal::new(format!(
                "`{}` has the length {unknown}, which no tensor of its region has",
                value.name
            ));
            let fixed = Assumed::Fixed(Length::symbol(unknown));
            return Err(Refusal { assumed: Some(Box::new(fixed)), ..refusal });
        }
    }
    Ok(())
}

/// A length of a graph over the names of axes, with quotients as Python writes them.
pub(in crate::translate) fn over_axes(
    traced: &TracedGraph,
    axes: &[(String, String)],
    length: &Length,
) -> Length {
    let named = |name: &str| axes.iter().find(|(symbol, _)| symbol == name).map(|(_, axis)| axis.clone());
    length.replaced(&|name| {
        if let Some((of, by)) = traced.symbols.get(name).and_then(|symbol| symbol.quotient.as_ref()) {
            return Some(Length::symbol(format!("({} // {by})", named(of).unwrap_or_else(|| of.clone()))));
        }
        if let Some((of, by)) = traced.symbols.get(name).and_then(TracedSymbol::floor) {
            return Some(Length::symbol(format!("(({}) // {by})", over_axes(traced, axes, &of))));
        }
        Some(Length::symbol(named(name)?))
    })
}
