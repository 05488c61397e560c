//! Names of axes.
//!
//! Owns: which word an axis gets, by its place in the tensors. Never: two axes of one name, or a name of a tensor.

use std::collections::BTreeSet;

use super::super::traced::Traced;

/// Words for the axes of a tensor, by how many it has.
const WORDS: [&[&str]; 6] = [
    &[],
    &["count"],
    &["rows", "hidden"],
    &["batch", "tokens", "hidden"],
    &["batch", "channels", "height", "width"],
    &["batch", "channels", "depth", "height", "width"],
];

/// A name for each symbol that is an axis of an input, in the order in which the inputs have them.
pub(super) fn named(traced: &Traced) -> Vec<(String, String)> {
    let mut taken: BTreeSet<String> = traced.inputs.iter().map(|input| input.name.clone()).collect();
    taken.extend(["out".to_owned(), traced.function.clone()]);
    let mut names: Vec<(String, String)> = Vec::new();
    let mut inputs: Vec<_> = traced.inputs.iter().collect();
    inputs.sort_by_key(|input| std::cmp::Reverse(input.tensor.shape.len()));
    for input in inputs {
        let shape = input.tensor.lengths();
        for (axis, length) in shape.iter().enumerate() {
            for symbol in length.symbols() {
                // The quotient of an axis goes by the axis.
                let quotient = traced.symbols.get(symbol).and_then(|one| one.quotient.as_ref());
                let symbol = quotient.map_or(symbol, |(of, _)| of.as_str());
                if names.iter().any(|(own, _)| own == symbol) {
                    continue;
                }
                let words = WORDS.get(shape.len()).copied().unwrap_or_default();
                let word = words.get(axis).map_or_else(|| format!("axis_{axis}"), |word| (*word).to_owned());
                let free = |name: &String| !taken.contains(name);
                let others = (2..).map(|number| format!("{word}_{number}"));
                let name = std::iter::once(word.clone()).chain(others).find(free).unwrap_or(word);
                taken.insert(name.clone());
                names.push((symbol.to_owned(), name));
            }
        }
    }
    names
}
