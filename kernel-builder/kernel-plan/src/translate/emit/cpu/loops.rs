//! Loops over the pieces of a row: what is read before one, computed in it, written after it.
//!
//! Owns: these loops. Never: a skeleton.

use std::collections::BTreeSet;

use super::super::super::index;
use super::super::super::index::Index;
use super::super::super::kernel::{Expression, NodeId, Role, Store};
use super::super::super::length::Length;
use super::super::super::program::Reduction;
use super::super::words::{Lines, Words};
use super::writer::Writer;

/// What happens to a value of a loop over a piece.
pub(super) enum Sink<'a> {
    /// It is joined to what a reduction has found.
    Term(usize),
    /// It is joined to what the scan has found.
    ScanTerm,
    /// It is written.
    Store(&'a Store),
    /// It is kept for later loops over the same piece.
    Kept,
}

impl Writer<'_> {
    /// A loop over `count` places from `at` on, in a scope of its own.
    pub(super) fn loop_over(&self, lines: &mut Lines, depth: usize, sinks: Vec<(NodeId, Sink<'_>)>) {
        let kernel = self.kernel();
        let targets: Vec<NodeId> = sinks.iter().map(|(node, _)| *node).collect();
        let needed = self.needed(&targets);
        let mut in_loop: Vec<(NodeId, String)> = Vec::new();
        for node in &needed {
            let Expression::Load(buffer, index) = &kernel.nodes[*node].expression else { continue };
            let (name, kind) = (&self.words.nodes[*node], Words::kind(kernel.nodes[*node].class));
            let (element, pointer) = (self.element(*buffer), self.pointer(*buffer));
            match index.step(self.inner) {
                Some(step) if step.is(0) => {
                    let place = self.at_piece(index);
                    lines
                        .add(depth, format!("const {kind} {name} = element<{element}>({pointer}, {place});"));
                }
                Some(step) => {
                    let place = self.at_piece(index);
                    lines.add(depth, format!("{kind} {name}_piece[kChunk];"));
                    lines.add(
                        depth,
                        format!("fetch<{element}>({name}_piece, {pointer}, {place}, {step}, count);"),
                    );
                    in_loop.push((*node, format!("{name}_piece[j]")));
                }
                None => {
                    let place = self.words.index(index);
                    in_loop.push((*node, format!("element<{element}>({pointer}, {place})")));
                }
            }
        }
        for (node, sink) in &sinks {
            let kind = Words::kind(kernel.nodes[*node].class);
            match sink {
                Sink::Term(number) if self.is_inner(Role::Reduced) => {
                    let how = kernel.reductions[*number].how;
                    let kind = if how.is_place() { "Found" } else { kind };
                    lines.add(depth, format!("{kind} {}_terms[kChunk];", self.words.found[*number]));
                }
                Sink::Store(store) => {
                    lines.add(depth, format!("{kind} {}_piece[kChunk];", self.words.result(store)));
                }
                _ => {}
            }
        }
        lines.add(depth, "for (int64_t j = 0; j < count; ++j) {");
        if self.uses_place(&needed, &sinks) {
            lines.add(depth + 1, format!("const int64_t {} = at + j;", self.words.axes[self.inner]));
        }
        for node in &needed {
            let own = &kernel.nodes[*node];
            let load = in_loop.iter().find(|(of, _)| of == node).map(|(_, text)| text.clone());
            let value = match &own.expression {
                Expression::Load(..) => match load {
                    Some(text) => text,
                    None => continue,
                },
                Expression::Reduced(number) => {
                    let found = format!("{}[j]", self.words.found[*number]);
                    format!(
                        "static_cast<{}>({})",
                        Words::kind(own.class),
                        self.words.reduced(*number, &found)
                    )
                }
                Expression::Mean(number) => {
                    format!("static_cast<float>(mean_of({}[j]))", self.words.found[*number])
                }
                Expression::Scanned => "scanned[j]".to_owned(),
                _ if self.kept.contains(node) => format!("{}_piece[j]", self.words.nodes[*node]),
                _ => self.words.value(*node),
            };
            lines.quote(depth + 1, own.origin.as_ref());
            lines.add(
                depth + 1,
                format!("const {} {} = {value};", Words::kind(own.class), self.words.nodes[*node]),
            );
        }
        for (node, sink) in &sinks {
            let value = self.words.operand(*node).0;
            match sink {
                Sink::Term(number) => self.term(lines, depth + 1, *number, &value),
                Sink::ScanTerm => lines.add(depth + 1, format!("scanned[j] = {value};")),
                Sink::Store(store) => {
                    lines.add(depth + 1, format!("{}_piece[j] = {value};", self.words.result(store)));
                }
                Sink::Kept => {
                    lines.add(depth + 1, format!("{}_piece[j] = {value};", self.words.nodes[*node]))
                }
            }
        }
        lines.add(depth, "}");
        lines.begin();
        for (_, sink) in &sinks {
            let Sink::Store(store) = sink else { continue };
            let (element, pointer) = (self.element(store.buffer), self.pointer(store.buffer));
            let place = self.at_piece(&store.offset);
            let name = self.words.result(store);
            match store.offset.step(self.inner) {
                Some(step) if !step.is(1) => {
                    // Neighbors of the loop are not neighbors in memory.
                    lines.add(depth, "for (int64_t j = 0; j < count; ++j) {");
                    let to = format!("{place} + j * {}", step.as_factor());
                    lines.add(depth + 1, format!("keep_one<{element}>({pointer}, {to}, {name}_piece[j]);"));
                    lines.add(depth, "}");
                }
                _ => lines.add(depth, format!("keep<{element}>({pointer}, {place}, {name}_piece, count);")),
            }
        }
    }

    pub(super) fn term(&self, lines: &mut Lines, depth: usize, number: usize, value: &str) {
        let one = &self.kernel().reductions[number];
        let (join, found) = (Words::join(one.how), &self.words.found[number]);
        let term =
            if one.how.is_place() { format!("{{{value}, {}}}", self.flat()) } else { value.to_owned() };
        if self.is_inner(Role::Reduced) {
            lines.add(depth, format!("{found}_terms[j] = {term};"));
        } else if one.how.is_place() {
            lines.add(depth, format!("{found}[j] = {join}::of({found}[j], Found{term});"));
        } else if one.how == Reduction::Squares {
            lines.add(depth, format!("{found}[j] = {join}::of({found}[j], {term});"));
        } else {
            let sample = Words::sample(one.how, self.kernel().nodes[one.of].class);
            let known = format!("decltype({join}::start({sample}))");
            lines.add(depth, format!("{found}[j] = {join}::of({found}[j], static_cast<{known}>({term}));"));
        }
    }

    /// The place along all reduced axes.
    pub(super) fn flat(&self) -> String {
        let kernel = self.kernel();
        let axes: Vec<usize> = kernel.along(Role::Reduced).collect();
        let lengths: Vec<Length> = axes.iter().map(|axis| kernel.axes[*axis].length.clone()).collect();
        let places: Vec<Index> = axes.iter().map(|axis| Index::axis(*axis)).collect();
        self.words.index(&index::offset(&lengths, &places))
    }

    /// Whether a statement names the place along the innermost axis.
    pub(super) fn uses_place(&self, needed: &[NodeId], sinks: &[(NodeId, Sink<'_>)]) -> bool {
        let kernel = self.kernel();
        let places = sinks.iter().any(|(_, sink)| match sink {
            Sink::Term(number) => kernel.reductions[*number].how.is_place() && self.is_inner(Role::Reduced),
            _ => false,
        });
        places
            || needed.iter().any(|node| match &kernel.nodes[*node].expression {
                Expression::Place(index) => index.uses(self.inner),
                Expression::Load(_, index) => index.step(self.inner).is_none() && index.uses(self.inner),
                _ => false,
            })
    }

    /// As `Words::needed`, without what is in scope already.
    pub(super) fn needed(&self, targets: &[NodeId]) -> Vec<NodeId> {
        let mut found = BTreeSet::new();
        let mut pending = targets.to_vec();
        while let Some(node) = pending.pop() {
            if self.scalars.contains(&node) || !found.insert(node) || self.kept.contains(&node) {
                continue;
            }
            match &self.kernel().nodes[node].expression {
                Expression::Operation(_, of) => pending.extend(of),
                Expression::Load(_, index) | Expression::Place(index) => pending.extend(index.computed()),
                _ => {}
            }
        }
        let is_statement =
            |node: &NodeId| !matches!(self.kernel().nodes[*node].expression, Expression::Number(_));
        found.into_iter().filter(is_statement).collect()
    }
}
