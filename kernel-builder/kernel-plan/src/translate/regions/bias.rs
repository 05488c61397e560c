//! Convolutions whose bias is added by the kernels behind them.
//!
//! Owns: that change of a graph. Never: touches a bias that PyTorch's operators need.
//!
//! On a GPU, PyTorch reads and writes the result of a convolution once more to add a bias. The kernel behind it reads the
//! result anyway.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use super::super::traced::{TracedGraph, TracedNode, TracedTensor};
use super::graph;

/// The place of the bias among the arguments of a convolution.
const BIAS: usize = 2;

/// Adds a convolution's bias behind it, unless the result is returned, or an operator that stays takes it.
pub(super) fn apart(traced: &TracedGraph, stays: &BTreeSet<String>) -> TracedGraph {
    let mut changed = TracedGraph { nodes: Vec::new(), ..traced.clone() };
    let mut sums: BTreeMap<&str, String> = BTreeMap::new();
    for node in &traced.nodes {
        let mut own = node.clone();
        own.arguments.iter_mut().chain(own.keywords.values_mut()).for_each(|one| rename(one, &sums));
        let Some((bias, channels)) = bias(traced, node).filter(|_| is_ours(traced, &node.name, stays)) else {
            changed.nodes.push(own);
            continue;
        };
        let mut shape = channels.shape.clone();
        shape.extend(vec![vec![(1, Vec::new())]; own.results[0].shape.len().saturating_sub(2)]);
        let view = TracedNode {
            name: format!("{}_bias", node.name),
            op: "aten.view.default".to_owned(),
            arguments: vec![json!({ "node": bias }), lengths(&shape)],
            results: vec![TracedTensor { shape, dtype: channels.dtype.clone() }],
            ..node.clone()
        };
        let sum = TracedNode {
            name: format!("{}_sum", node.name),
            op: "aten.add.Tensor".to_owned(),
            arguments: vec![json!({ "node": node.name }), json!({ "node": view.name })],
            ..node.clone()
        };
        own.arguments[BIAS] = Json::Null;
        sums.insert(&node.name, sum.name.clone());
        changed.nodes.extend([own, view, sum]);
    }
    changed
}

/// Puts sums in the place of convolutions in an argument.
pub(super) fn rename(json: &mut Json, sums: &BTreeMap<&str, String>) {
    match json {
        Json::Array(all) => all.iter_mut().for_each(|one| rename(one, sums)),
        Json::Object(fields) => {
            if let Some(Json::String(name)) = fields.get_mut("node")
                && let Some(sum) = sums.get(name.as_str())
            {
                name.clone_from(sum);
            }
        }
        _ => {}
    }
}

/// The value of a convolution's bias, and its tensor.
fn bias<'t>(traced: &'t TracedGraph, node: &'t TracedNode) -> Option<(&'t str, &'t TracedTensor)> {
    let value = node.arguments.get(BIAS).filter(|_| node.base() == "convolution")?.get("node")?.as_str()?;
    Some((value, graph::tensor(traced, value).filter(|tensor| tensor.shape.len() == 1)?))
}

/// Whether kernels alone take a value.
pub(super) fn is_ours(traced: &TracedGraph, value: &str, stays: &BTreeSet<String>) -> bool {
    let mut takers = traced.nodes.iter().filter(|node| node.operands().contains(&value)).peekable();
    takers.peek().is_some()
        && !traced.outputs.iter().any(|output| output == value)
        && takers.all(|node| {
            !stays.contains(&node.name) && (!graph::is_free(node) || is_ours(traced, &node.name, stays))
        })
}

/// A list of lengths, as arguments have it.
fn lengths(shape: &[Vec<(i64, Vec<String>)>]) -> Json {
    Json::Array(shape.iter().map(|terms| json!({ "length": terms })).collect())
}
