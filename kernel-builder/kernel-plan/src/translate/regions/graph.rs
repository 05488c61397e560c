//! A graph with what takes each value, and what kind of operator gives it.
//!
//! Owns: the kinds. Never: decides what belongs together.

use std::collections::{BTreeMap, BTreeSet};

use super::super::length::Length;
use super::super::traced::{TracedGraph, TracedNode, TracedTensor};

/// Operators that only say where elements are. PyTorch computes nothing for them, and an index nothing more.
const VIEWS: &str = "\
view _unsafe_view reshape squeeze unsqueeze expand permute transpose t select slice split split_with_sizes chunk unbind alias \
detach";

/// What an operator is to a division.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It stays PyTorch's.
    Stays,
    /// It costs nothing, wherever it is: a view, or a tensor that no argument decides.
    Free,
    /// It belongs to a region.
    Core,
}

/// A graph that is to be divided.
pub(super) struct Graph<'t> {
    pub(super) traced: &'t TracedGraph,
    /// The operator that gives a value.
    producers: BTreeMap<&'t str, usize>,
    pub(super) kinds: Vec<Kind>,
}

/// Whether an operator is a view, or makes a tensor of no other.
pub(in crate::translate) fn is_free(node: &TracedNode) -> bool {
    VIEWS.split_whitespace().any(|name| name == node.base()) || node.operands().is_empty()
}

impl<'t> Graph<'t> {
    pub(super) fn new(traced: &'t TracedGraph, stays: &BTreeSet<String>) -> Self {
        let producers: BTreeMap<&str, usize> =
            traced.nodes.iter().enumerate().map(|(place, node)| (node.name.as_str(), place)).collect();
        let mut graph = Self { traced, producers, kinds: Vec::new() };
        for node in &traced.nodes {
            let sources = node.operands();
            let of: Vec<Option<Kind>> = sources
                .iter()
                .map(|value| graph.producers.get(value).and_then(|one| graph.kinds.get(*one)).copied())
                .collect();
            let is_constant = |value: &&str| {
                graph
                    .producers
                    .get(value)
                    .is_some_and(|one| graph.kinds[*one] == Kind::Free && graph.sources(*one).is_empty())
            };
            let kind = if stays.contains(&node.name) {
                Kind::Stays
            } else if node.op == "getitem" {
                of.first().copied().flatten().unwrap_or(Kind::Core)
            } else if is_free(node) || sources.iter().all(is_constant) {
                Kind::Free
            } else {
                Kind::Core
            };
            graph.kinds.push(kind);
        }
        // A view that is returned is the region's own result, so that it is written where it belongs.
        for output in &traced.outputs {
            let mut next = graph.producers.get(output.as_str()).copied();
            let mut views = Vec::new();
            while let Some(place) = next.filter(|place| graph.kinds[*place] == Kind::Free) {
                views.push(place);
                next = traced.nodes[place]
                    .operands()
                    .first()
                    .and_then(|value| graph.producers.get(value))
                    .copied();
            }
            if next.is_some_and(|place| graph.kinds[place] == Kind::Core) {
                views.into_iter().for_each(|place| graph.kinds[place] = Kind::Core);
            }
        }
        graph
    }

    /// The operator that gives a value; `None` for a tensor of the call.
    pub(super) fn producer(&self, value: &str) -> Option<usize> {
        self.producers.get(value).copied()
    }

    /// The shape of a value.
    pub(super) fn tensor(&self, value: &str) -> Option<&'t TracedTensor> {
        tensor(self.traced, value)
    }

    /// Elements of a value in the call that was traced.
    pub(super) fn elements(&self, value: &str) -> i64 {
        self.tensor(value).map_or(0, |tensor| elements(self.traced, tensor))
    }

    /// The values that an operator is made of, with what is free left out: each is a tensor of the call, or the result of an
    /// operator that is not free.
    pub(super) fn sources(&self, place: usize) -> BTreeSet<&'t str> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut pending: Vec<&'t str> = self.traced.nodes[place].operands();
        while let Some(value) = pending.pop() {
            if !seen.insert(value) {
                continue;
            }
            match self.producer(value) {
                Some(place) if self.kinds[place] == Kind::Free => {
                    pending.extend(self.traced.nodes[place].operands());
                }
                _ => {
                    found.insert(value);
                }
            }
        }
        found
    }
}

/// The shape of a value of a graph.
pub(super) fn tensor<'t>(traced: &'t TracedGraph, value: &str) -> Option<&'t TracedTensor> {
    let input = traced.inputs.iter().find(|input| input.value == value).map(|input| &input.tensor);
    input.or_else(|| traced.nodes.iter().find(|node| node.name == value)?.results.first())
}

/// Elements of a tensor in the call that was traced.
pub(super) fn elements(traced: &TracedGraph, tensor: &TracedTensor) -> i64 {
    let hints = traced.symbols.iter().map(|(name, symbol)| (name.clone(), symbol.hint)).collect();
    Length::product(&tensor.lengths()).at(&hints)
}
