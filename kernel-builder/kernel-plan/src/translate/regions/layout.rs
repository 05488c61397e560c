//! Convolutions in channels-last layout.
//!
//! Owns: that change of a graph, and which convolutions gain by it. Never: changes what a kernel computes.
//!
//! NVIDIA's libraries compute convolutions with the channels of a place side by side. Given another layout they convert the
//! tensors before and after, which takes as long as the convolution itself. The kernels around it read and write either layout,
//! and convert in passing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use super::super::traced::{TracedGraph, TracedNode, TracedTensor};
use super::{bias, graph};

/// The place of the number of groups among the arguments of a convolution.
const GROUPS: usize = 8;
/// With fewer channels, a convolution over two axes may be slower. With 8 it is 1.0 to 1.7 times as fast on an H100, in float32 and
/// at batches of 64 and more; at smaller batches 0.5 to 2 times, as cuDNN's choice of an algorithm changes there. With 16 and more,
/// those of KernelBench's level 2 are 1.4 to 2.2 times as fast; over three axes 1.0 to 2.9 times, whatever the channels.
const FEWEST_CHANNELS: i64 = 8;

/// Gives convolutions their tensors in channels-last layout where kernels alone take the results. A view of each such result stays
/// PyTorch's, so that the kernels behind it read the layout that it has; `stays` gets the names of these views.
pub(super) fn channels_last(traced: &TracedGraph, stays: &mut BTreeSet<String>) -> TracedGraph {
    let mut changed = TracedGraph { nodes: Vec::new(), ..traced.clone() };
    let mut renamed: BTreeMap<&str, String> = BTreeMap::new();
    for node in &traced.nodes {
        let mut own = node.clone();
        own.arguments.iter_mut().chain(own.keywords.values_mut()).for_each(|one| bias::rename(one, &renamed));
        let given = node.operands().first().and_then(|value| graph::tensor(traced, value));
        let value = own.arguments.first().and_then(|one| one.get("node")?.as_str().map(str::to_owned));
        let pays =
            |tensor: &&TracedTensor| gains(traced, node, tensor) && bias::is_ours(traced, &node.name, stays);
        let (Some(value), Some(tensor)) = (value, given.filter(pays)) else {
            changed.nodes.push(own);
            continue;
        };
        let (name, rank) = (&node.name, tensor.shape.len());
        let last: Vec<usize> = std::iter::once(0).chain(2..rank).chain([1]).collect();
        let first: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
        let converted = permuted(node, &format!("{name}_input_view"), &value, &last, tensor);
        let copied = TracedNode {
            name: format!("{name}_input_last"),
            op: "aten.clone.default".to_owned(),
            arguments: vec![json!({ "node": converted.name })],
            keywords: BTreeMap::from([("memory_format".to_owned(), json!("contiguous_format"))]),
            ..converted.clone()
        };
        let taken = permuted(node, &format!("{name}_input"), &copied.name, &first, &converted.results[0]);
        own.arguments[0] = json!({ "node": taken.name });
        let result = permuted(node, &format!("{name}_last"), name, &last, &node.results[0]);
        let back = permuted(node, &format!("{name}_first"), &result.name, &first, &result.results[0]);
        stays.insert(result.name.clone());
        renamed.insert(name, back.name.clone());
        changed.nodes.extend([converted, copied, taken, own, result, back]);
    }
    changed
}

/// Whether a value is a view that [`channels_last`] makes of the result of a convolution.
pub(super) fn is_last(traced: &TracedGraph, value: &str) -> bool {
    let named = |name: &str| traced.nodes.iter().find(|node| node.name == name);
    let of = named(value)
        .filter(|node| node.base() == "permute")
        .and_then(|node| node.operands().first().and_then(|of| named(of)));
    of.is_some_and(|node| node.base() == "convolution" && value == format!("{}_last", node.name))
}

/// Whether a convolution is faster in channels-last layout.
fn gains(traced: &TracedGraph, node: &TracedNode, given: &TracedTensor) -> bool {
    let hints = traced.symbols.iter().map(|(name, symbol)| (name.clone(), symbol.hint)).collect();
    let channels = given.lengths().get(1).map_or(0, |length| length.at(&hints));
    let is_alone = node.arguments.get(GROUPS).and_then(Json::as_i64) == Some(1);
    node.base() == "convolution"
        && is_alone
        && match given.shape.len() {
            4 => channels >= FEWEST_CHANNELS,
            5 => true,
            _ => false,
        }
}

/// A view of a value with its axes in another order.
fn permuted(of: &TracedNode, name: &str, value: &str, order: &[usize], tensor: &TracedTensor) -> TracedNode {
    TracedNode {
        name: name.to_owned(),
        op: "aten.permute.default".to_owned(),
        arguments: vec![json!({ "node": value }), json!(order)],
        keywords: BTreeMap::new(),
        results: vec![TracedTensor {
            shape: order.iter().map(|axis| tensor.shape[*axis].clone()).collect(),
            dtype: tensor.dtype.clone(),
        }],
        ..of.clone()
    }
}
