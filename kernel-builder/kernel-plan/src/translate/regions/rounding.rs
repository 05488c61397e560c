//! What a division does to the numbers: how many terms are summed, how often values are rounded.
//!
//! Owns: both counts. Never: a bound.

use std::collections::BTreeMap;

use super::super::length::Length;
use super::super::precision::terms;
use super::super::program::Program;
use super::super::traced::TracedNode;
use super::cut::Cut;
use super::division::{Region, Step};
use super::graph::{Graph, Kind, is_free};
use super::lengths;

/// The terms of each step, over the axes of the shell; lengths that are not axes of it have their length in the call that was
/// traced.
pub(super) fn summed(
    graph: &Graph<'_>,
    cut: &Cut,
    shell: &Program,
    regions: &[Region],
    axes: &[(String, String)],
) -> Vec<String> {
    let known = |length: &Length| {
        let hints: BTreeMap<String, i64> =
            graph.traced.symbols.iter().map(|(name, symbol)| (name.clone(), symbol.hint)).collect();
        let text = lengths::over_axes(graph.traced, axes, length);
        let is_axis = |name: &str| shell.symbols.iter().any(|symbol| symbol.axis() == name);
        if text.symbols().all(is_axis) { text.to_string() } else { length.at(&hints).to_string() }
    };
    let mut found: Vec<String> = Vec::new();
    let mut add = |text: String| {
        if !found.contains(&text) {
            found.push(text);
        }
    };
    for step in &cut.steps {
        match step {
            Step::Operator(place) => {
                let length = of_operator(graph, &graph.traced.nodes[*place]);
                length.iter().for_each(|length| add(known(length)));
            }
            Step::Region(number) => {
                let Region { program, plan, .. } = &regions[*number];
                let of_shell = |name: &str| shell.symbols.iter().any(|symbol| symbol.name == name);
                for length in terms(program, plan) {
                    let is_known = length.symbols().all(of_shell);
                    let hints = program.symbols.iter().map(|one| (one.name.clone(), one.hint)).collect();
                    let text =
                        if is_known { program.over_axes(&length) } else { length.at(&hints).to_string() };
                    add(text);
                }
            }
        }
    }
    found
}

/// The terms of a sum that an operator makes.
fn of_operator(graph: &Graph<'_>, node: &TracedNode) -> Option<Length> {
    let operands = node.operands();
    let shape = |place: usize| Some(graph.tensor(operands.get(place)?)?.lengths());
    match node.base() {
        "mm" | "bmm" | "matmul" | "linear" => shape(0)?.last().cloned(),
        "addmm" | "baddbmm" => shape(1)?.last().cloned(),
        "convolution" => {
            let weight = shape(1)?;
            // The weight of a transposed convolution begins with the channels that are summed.
            let transposed = node.arguments.get(6).and_then(serde_json::Value::as_bool).unwrap_or(false);
            let summed = (0..weight.len()).filter(|axis| *axis != usize::from(transposed));
            Some(Length::product(summed.map(|axis| &weight[axis])))
        }
        "scaled_dot_product_attention" => {
            let (query, key) = (shape(0)?, shape(1)?);
            Some(query.last()? + key.get(key.len().checked_sub(2)?)?)
        }
        _ => None,
    }
}

/// The most values on a path that are rounded to the dtype of a tensor.
pub(super) fn most(graph: &Graph<'_>, cut: &Cut) -> u32 {
    let mut after: BTreeMap<&str, u32> = BTreeMap::new();
    let mut most = 1;
    for step in &cut.steps {
        let (values, results, own): (Vec<&str>, Vec<&str>, u32) = match step {
            Step::Operator(place) => {
                let node = &graph.traced.nodes[*place];
                let rounds = match graph.kinds[*place] {
                    Kind::Stays if node.op != "getitem" && !is_free(node) => 1,
                    _ => 0,
                };
                // Attention rounds its weights as well; on a GPU, a convolution is rounded before its bias is added.
                let has_bias = || node.arguments.get(2).is_some_and(|bias| !bias.is_null());
                let own = match node.base() {
                    "scaled_dot_product_attention" => 2,
                    "convolution" if has_bias() => 2,
                    _ => rounds,
                };
                (node.operands(), vec![&node.name], own)
            }
            Step::Region(number) => {
                let (inside, results) = &cut.regions[*number];
                let values = inside.iter().flat_map(|place| graph.traced.nodes[*place].operands());
                (values.collect(), results.iter().map(String::as_str).collect(), 1)
            }
        };
        let before = values.into_iter().filter_map(|value| after.get(value)).max().copied().unwrap_or(0);
        most = most.max(before + own);
        for name in results {
            let name =
                graph.traced.nodes.iter().find(|node| node.name == *name).map(|node| node.name.as_str());
            if let Some(name) = name {
                after.insert(name, before + own);
            }
        }
    }
    most
}
