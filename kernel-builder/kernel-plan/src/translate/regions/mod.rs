//! Divides a graph into regions, each a program of its own, and operators between them that stay PyTorch's.
//!
//! Owns: which operators stay, and the division that results. Never: fuses within a region; plan.rs does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::choices::Choices;
use super::least::least;
use super::lower::{self, Settled};
use super::plan::plan;
use super::refusal::{RANDOM, Refusal};
use super::traced::{TracedGraph, TracedInput, TracedNode, TracedSymbol};

mod bias;
mod cut;
mod division;
mod graph;
mod layout;
mod lengths;
mod rounding;

use graph::Graph;

pub use division::{Division, Region, Step};
pub(super) use graph::is_free;
pub(super) use lengths::over_axes;

/// Operators that libraries do better: products, convolutions, attention, sorting, pooling with windows of many lengths.
const LIBRARY: &str = "\
mm addmm bmm baddbmm matmul linear convolution scaled_dot_product_attention sort topk _adaptive_avg_pool2d \
_adaptive_avg_pool3d";
/// Operators that stay nobody's: values that decide shapes, complex numbers.
const NEVER: &str = "nonzero masked_select _local_scalar_dense unique view_as_complex view_as_real complex";

/// Why a division does not work as it is.
enum Obstacle {
    /// This operator has to stay.
    Stays(String),
    /// The graph holds for multiples of a length alone: a symbol of the quotient.
    Lengths(String, TracedSymbol),
    /// There is no way.
    Refused(Refusal),
}

impl From<Refusal> for Obstacle {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Divides a graph: what has no translation stays an operator of PyTorch.
///
/// # Errors
/// Nothing is left to translate, or something can neither be translated nor stay.
pub fn divide(traced: &TracedGraph, choices: &Choices) -> Result<Division, Refusal> {
    if let Some(node) = traced.nodes.iter().find(|node| is_random(node)) {
        return Err(Refusal::random().at(node));
    }
    let mut traced = traced.clone();
    let is_library = |node: &&TracedNode| {
        LIBRARY.split_whitespace().any(|name| name == node.base()) || gives_places(&traced, node)
    };
    let mut stays: BTreeSet<String> =
        traced.nodes.iter().filter(is_library).map(|node| node.name.clone()).collect();
    loop {
        let mut staying = stays.clone();
        let changed = layout::channels_last(&bias::apart(&traced, &stays), &mut staying);
        match attempt(&changed, &staying, choices) {
            Ok(division) => return Ok(division),
            Err(Obstacle::Stays(name)) => {
                stays.insert(name);
            }
            Err(Obstacle::Lengths(name, symbol)) => {
                traced.symbols.insert(name, symbol);
            }
            Err(Obstacle::Refused(refusal)) => return Err(refusal),
        }
    }
}

/// Whether something takes the places of the largest elements of windows.
fn gives_places(traced: &TracedGraph, node: &TracedNode) -> bool {
    let takes = |taker: &TracedNode| {
        taker.op == "getitem"
            && taker.operands() == [node.name.as_str()]
            && taker.arguments.get(1).and_then(Json::as_i64) == Some(1)
    };
    node.base().ends_with("_with_indices") && traced.nodes.iter().any(takes)
}

/// Whether an operator draws random numbers.
fn is_random(node: &TracedNode) -> bool {
    let drops = || node.arguments.get(4).or_else(|| node.keywords.get("dropout_p"));
    RANDOM.split_whitespace().any(|name| name == node.base())
        || (node.base() == "scaled_dot_product_attention" && drops().is_some_and(|p| p.as_f64() != Some(0.0)))
}

/// Whether an operator computes new tensors of its arguments alone.
fn may_stay(node: &TracedNode) -> bool {
    let base = node.base();
    node.op.starts_with("aten.") && !base.ends_with('_') && !NEVER.split_whitespace().any(|name| name == base)
}

fn attempt(traced: &TracedGraph, stays: &BTreeSet<String>, choices: &Choices) -> Result<Division, Obstacle> {
    let graph = Graph::new(traced, stays);
    let cut = cut::cut(&graph);
    if cut.regions.is_empty() {
        return Err(Refusal::new("nothing is left to translate beside what stays PyTorch's").into());
    }
    let axes = lower::axes::named(traced);
    let names = names(traced, &axes);
    let mut regions = Vec::new();
    for (inside, results) in &cut.regions {
        let own = region(&graph, inside, results, &names);
        let own = lengths::over_own_axes(own);
        let mut of_region = axes.clone();
        for (symbol, name) in lower::axes::named(&own) {
            if of_region.iter().all(|(known, _)| *known != symbol) {
                let is_taken = |name: &str| {
                    of_region.iter().any(|(_, known)| known == name)
                        || names.values().any(|known| known == name)
                };
                let others = (2..).map(|number| format!("{name}_{number}"));
                let free = std::iter::once(name.clone()).chain(others).find(|name| !is_taken(name));
                of_region.push((symbol, free.unwrap_or(name)));
            }
        }
        let settled = lower::settle(own, Vec::new(), &of_region).map_err(|refusal| kept(traced, refusal))?;
        let Settled { program, traced: found, same } = settled;
        if !same.is_empty() {
            return Err(Refusal::new("a part of it holds for fewer lengths than the function").into());
        }
        let quotient = found
            .symbols
            .iter()
            .find(|(name, symbol)| symbol.quotient.is_some() && !traced.symbols.contains_key(*name));
        if let Some((name, symbol)) = quotient {
            return Err(Obstacle::Lengths(name.clone(), symbol.clone()));
        }
        lengths::check(&program)?;
        let plan = plan(&program, choices)?;
        regions.push(Region { traced: found, axes: of_region, program, plan });
    }
    let mut shell = lower::shell(traced, &axes)?;
    for symbol in &mut shell.symbols {
        // A call with fewer would be refused by a region in the middle.
        let needed = regions.iter().flat_map(|Region { program, plan, .. }| {
            let same = program.symbols.iter().filter(|one| one.name == symbol.name);
            same.map(|one| least(program, plan, one))
        });
        symbol.min = needed.max().unwrap_or(0).max(symbol.min);
    }
    let summed = rounding::summed(&graph, &cut, &shell, &regions, &axes);
    let roundings = rounding::most(&graph, &cut);
    let steps = cut.steps.clone();
    Ok(Division { shell, traced: traced.clone(), steps, regions, axes, names, summed, roundings })
}

/// The operator of a refusal stays PyTorch's, if it can.
fn kept(traced: &TracedGraph, refusal: Refusal) -> Obstacle {
    let node = refusal.node.as_ref().and_then(|name| traced.nodes.iter().find(|node| node.name == **name));
    match node {
        Some(node) if may_stay(node) => Obstacle::Stays(node.name.clone()),
        _ => Obstacle::Refused(refusal),
    }
}

/// The graph of a region: its operators in order, what they take from elsewhere, what others take of them.
fn region(
    graph: &Graph<'_>,
    inside: &BTreeSet<usize>,
    results: &[String],
    names: &BTreeMap<String, String>,
) -> TracedGraph {
    let traced = graph.traced;
    let nodes: Vec<TracedNode> = inside.iter().map(|place| traced.nodes[*place].clone()).collect();
    let own: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let mut inputs: Vec<TracedInput> = Vec::new();
    for value in nodes.iter().flat_map(TracedNode::operands) {
        if own.contains(value) || inputs.iter().any(|input| input.value == value) {
            continue;
        }
        let Some(tensor) = graph.tensor(value) else { continue };
        let name = names.get(value).cloned().unwrap_or_else(|| value.to_owned());
        let non_negative = traced.inputs.iter().any(|input| input.value == value && input.non_negative);
        let channels_last = layout::is_last(traced, value);
        let value = value.to_owned();
        inputs.push(TracedInput { value, name, tensor: tensor.clone(), non_negative, channels_last });
    }
    TracedGraph {
        function: traced.function.clone(),
        inputs,
        nodes,
        outputs: results.to_vec(),
        results: Vec::new(),
        symbols: traced.symbols.clone(),
        variable: traced.variable,
        seed: traced.seed.clone(),
    }
}

/// Names of values in code: those that the person's file assigns them to, else the graph's.
fn names(traced: &TracedGraph, axes: &[(String, String)]) -> BTreeMap<String, String> {
    let mut taken: BTreeSet<String> = axes.iter().map(|(_, axis)| axis.clone()).collect();
    taken.extend(["ops", "torch", "out", "T"].map(str::to_owned));
    taken.insert(traced.function.clone());
    let mut found = BTreeMap::new();
    for input in &traced.inputs {
        let name = lower::axes::of_tensor(&input.name);
        taken.insert(name.clone());
        found.insert(input.value.clone(), name);
    }
    let mut assigned: BTreeMap<&str, &str> = BTreeMap::new();
    for node in &traced.nodes {
        let name = node.text.as_deref().and_then(lower::assigned);
        if let Some(name) = name {
            // The last one of the line wins.
            assigned.retain(|_, known| *known != name);
            assigned.insert(&node.name, name);
        }
    }
    for node in &traced.nodes {
        let wanted = assigned.get(node.name.as_str()).map_or(node.name.clone(), |name| (*name).to_owned());
        let wanted = lower::axes::of_tensor(&wanted);
        let others = (2..).map(|number| format!("{wanted}_{number}"));
        let free = std::iter::once(wanted.clone()).chain(others).find(|name| !taken.contains(name));
        let name = free.unwrap_or(wanted);
        taken.insert(name.clone());
        found.insert(node.name.clone(), name);
    }
    found
}
