//! Names of axes.
//!
//! Owns: which word an axis gets, by its place in the tensors. Never: two axes of one name, or a name of a tensor.

use std::collections::BTreeSet;

use super::super::traced::TracedGraph;

/// Words for the axes of a tensor, by how many it has.
const WORDS: [&[&str]; 6] = [
    &[],
    &["length"],
    &["rows", "hidden"],
    &["batch", "tokens", "hidden"],
    &["batch", "channels", "height", "width"],
    &["batch", "channels", "depth", "height", "width"],
];

/// Names of settings, of `[let]` and of code, which no tensor and no axis has.
const TAKEN: &str = "\
T bytes block unroll threads narrow column_threads spread few out piece pieces first last begin end at count call count_of \
access even by_warp parts tiles \
alignas alignof and asm auto bool break case catch char class concept const continue default delete do double else enum \
explicit export extern false float for friend goto if inline int long mutable namespace new not nullptr operator or \
private protected public register requires return short signed sizeof static struct switch template this throw true try \
typedef typename union unsigned using virtual void volatile while xor";

/// A name for a tensor that nothing else has.
pub(in crate::translate) fn of_tensor(name: &str) -> String {
    let is_taken = TAKEN.split_whitespace().any(|taken| taken == name)
        || ["between_", "partial_", "parts_", "access_", "even_", "by_warp_", "tile_", "tiles_", "few_tiles"]
            .iter()
            .any(|word| name.starts_with(word));
    if is_taken { format!("{name}_input") } else { name.to_owned() }
}

/// A name for each symbol that is an axis of an input, in the order in which the inputs have them.
pub(in crate::translate) fn named(traced: &TracedGraph) -> Vec<(String, String)> {
    let mut taken: BTreeSet<String> = traced.inputs.iter().map(|input| of_tensor(&input.name)).collect();
    taken.extend(TAKEN.split_whitespace().map(str::to_owned));
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
                // The channels are the last axis, and the others come one place earlier.
                let place = match axis {
                    1.. if input.channels_last => {
                        if axis + 1 == shape.len() {
                            1
                        } else {
                            axis + 1
                        }
                    }
                    _ => axis,
                };
                let word = words.get(place).map_or_else(|| format!("axis_{axis}"), |word| (*word).to_owned());
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
