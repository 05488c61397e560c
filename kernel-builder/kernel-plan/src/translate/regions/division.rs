//! A function as regions and operators that stay PyTorch's.
//!
//! Owns: the types of a division, and what is asked of them. Never: decides what is a region.

use std::collections::BTreeMap;

use super::super::plan::Plan;
use super::super::program::Program;
use super::super::traced::{TracedGraph, TracedTensor};
use super::graph;

/// A function as regions with kernels, and operators of PyTorch between them.
#[derive(Debug, Clone)]
pub struct Division {
    /// The tensors of a call and its results; it has no values between them.
    pub shell: Program,
    /// The graph, with what was found out about its lengths.
    pub(in crate::translate) traced: TracedGraph,
    /// The steps, in the order in which they run.
    pub steps: Vec<Step>,
    /// The regions.
    pub regions: Vec<Region>,
    /// The name of the axis that each symbol of the call's tensors is.
    pub(in crate::translate) axes: Vec<(String, String)>,
    /// The name that the code of the steps has for each value.
    pub(in crate::translate) names: BTreeMap<String, String>,
    /// Terms that are summed by operators that stay, and by regions, over the axes of the shell.
    pub(in crate::translate) summed: Vec<String>,
    /// The most roundings that follow each other.
    pub(in crate::translate) roundings: u32,
}

/// One step of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// An operator of PyTorch: its place in the graph.
    Operator(usize),
    /// The kernels of a region.
    Region(usize),
}

/// A part of a graph that is translated.
#[derive(Debug, Clone)]
pub struct Region {
    /// Its graph.
    pub(in crate::translate) traced: TracedGraph,
    /// The name of the axis that each symbol of it is.
    pub(in crate::translate) axes: Vec<(String, String)>,
    /// Its program.
    pub program: Program,
    /// Its kernels.
    pub plan: Plan,
}

impl Division {
    /// The shape of a value of the graph.
    pub(in crate::translate) fn tensor(&self, value: &str) -> Option<&TracedTensor> {
        graph::tensor(&self.traced, value)
    }

    /// The name of a value in code.
    pub(in crate::translate) fn name<'a>(&'a self, value: &'a str) -> &'a str {
        self.names.get(value).map_or(value, String::as_str)
    }

    /// Operators that stay PyTorch's and compute something, with the lines that they come from.
    pub fn stays(&self) -> Vec<(String, Option<u32>)> {
        let places = self.steps.iter().filter_map(|step| match step {
            Step::Operator(place) => Some(&self.traced.nodes[*place]),
            Step::Region(_) => None,
        });
        places
            .filter(|node| !graph::is_free(node) && node.op != "getitem")
            .map(|node| (node.base().to_owned(), node.line))
            .collect()
    }

    /// Elements of a tensor in the call that was traced.
    pub(in crate::translate) fn elements(&self, tensor: &TracedTensor) -> i64 {
        graph::elements(&self.traced, tensor)
    }
}
