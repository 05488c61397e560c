//! A kernel in the making: its parameters, and statements for some places.
//!
//! Owns: what all skeletons are written with. Never: a skeleton.

use std::collections::BTreeSet;

use super::super::super::index::{self, Index, Part};
use super::super::super::kernel::{Buffer, Expression, Form, Kernel, NodeId, Role, Store};
use super::super::super::length::Length;
use super::super::super::plan::Plan;
use super::super::super::program::{Element, Program};
use super::super::super::spell;
use super::super::words::{Lines, Words};

pub(super) struct Writer<'a> {
    pub(super) words: Words<'a>,
    pub(super) space: String,
    pub(super) name: String,
    pub(super) suffix: String,
    pub(super) inner: usize,
}

/// Parameters on one line, or one on each.
pub(super) fn wrapped(list: &[String]) -> String {
    let line = list.join(", ");
    if line.len() < 80 { line } else { format!("\n    {}", list.join(",\n    ")) }
}

/// The type of an element in memory.
pub(super) fn stored(element: Element) -> &'static str {
    match element {
        Element::Variable => "T",
        Element::Fixed(dtype) => dtype.cuda_name(),
    }
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        program: &'a Program,
        plan: &'a Plan,
        kernel: &'a Kernel,
        space: String,
        name: String,
        suffix: String,
    ) -> Self {
        let words = Words::new(program, plan, kernel);
        Self { words, space, name, suffix, inner: kernel.axes.len() - 1 }
    }

    pub(super) fn kernel(&self) -> &'a Kernel {
        self.words.kernel
    }

    pub(super) fn pointer(&self, buffer: Buffer) -> String {
        let (_, written) = self.words.plan.moved(self.kernel());
        let word = if written.contains(&buffer) { "to" } else { "from" };
        format!("{}_{word}", self.words.tensor(buffer))
    }

    pub(super) fn template(&self) -> &'static str {
        if self.words.program.is_variable() { "typename T, " } else { "" }
    }

    pub(super) fn tensors(&self) -> Vec<Buffer> {
        let (read, written) = self.words.plan.moved(self.kernel());
        let mut all = written;
        all.dedup();
        all.extend(read);
        all
    }

    /// The parameters of the kernel.
    pub(super) fn parameters(&self, index: &str) -> String {
        let (_, written) = self.words.plan.moved(self.kernel());
        let mut list: Vec<String> = self
            .tensors()
            .iter()
            .map(|buffer| {
                let word = if written.contains(buffer) { "" } else { "const " };
                format!(
                    "{word}{}* __restrict__ {}",
                    stored(self.words.elements[buffer]),
                    self.pointer(*buffer)
                )
            })
            .collect();
        list.extend(self.words.symbols().iter().map(|name| format!("{index} {name}")));
        wrapped(&list)
    }

    /// The arguments of the launch.
    pub(super) fn arguments(&self, index: &str) -> String {
        let mut list: Vec<String> =
            self.tensors().iter().map(|buffer| format!("\"{}\"", self.words.tensor(*buffer))).collect();
        list.extend(self.lengths(index));
        list.join(", ")
    }

    /// The lengths among the arguments of the launch.
    pub(super) fn lengths(&self, index: &str) -> Vec<String> {
        let length = |name: String| {
            let length = self.words.program.over_axes(&Length::symbol(name));
            format!("{{ {index} = \"{}\" }}", length.trim_start_matches('(').trim_end_matches(')'))
        };
        self.words.symbols().into_iter().map(length).collect()
    }

    /// The largest element of tensors that are moved in packs.
    pub(super) fn widest(&self) -> String {
        let mut fixed = 0;
        let mut variable = false;
        for buffer in self.tensors() {
            match self.words.elements[&buffer] {
                Element::Variable => variable = true,
                Element::Fixed(dtype) => fixed = fixed.max(dtype.size_bytes()),
            }
        }
        match (variable, fixed) {
            (true, 0..=2) => "sizeof(T)".to_owned(),
            (true, fixed) => format!("max(sizeof(T), {fixed})"),
            (false, fixed) => fixed.to_string(),
        }
    }

    /// An index, which is `place` where that counts all places of the iteration.
    pub(super) fn index(&self, index: &Index) -> String {
        let kernel = self.kernel();
        let lengths: Vec<Length> = kernel.axes.iter().map(|axis| axis.length.clone()).collect();
        let places: Vec<Index> = (0..lengths.len()).map(Index::axis).collect();
        let is_whole = kernel.form() == Form::Pointwise && lengths.len() > 1;
        if is_whole && *index == index::offset(&lengths, &places) {
            return "place".to_owned();
        }
        self.words.index(index)
    }

    /// Whether neighboring elements along the innermost axis lie together, at a multiple of a pack where the axis is one.
    pub(super) fn is_packed(&self, index: &Index) -> bool {
        let length = &self.kernel().axes[self.inner].length;
        let even = |factor: &Length| {
            factor.divided(length).is_some() || factor.value().is_some_and(|one| one % 16 == 0)
        };
        let others = index.parts.iter().all(|(part, factor)| match part {
            Part::Axis(axis) if *axis == self.inner => true,
            _ => even(factor),
        });
        index.step(self.inner).is_some_and(|step| step.is(1)) && others && even(&index.constant)
    }

    /// Places along axes, of a number that counts them all.
    pub(super) fn decode(&self, lines: &mut Lines, depth: usize, axes: &[usize], whole: &str, kind: &str) {
        let lengths: Vec<Length> = axes.iter().map(|axis| self.kernel().axes[*axis].length.clone()).collect();
        for (number, axis) in axes.iter().enumerate() {
            let inner = Length::product(&lengths[number + 1..]);
            let divided =
                if inner.is(1) { whole.to_owned() } else { format!("{whole} / {}", inner.as_factor()) };
            let value =
                if number == 0 { divided } else { format!("{divided} % {}", lengths[number].as_factor()) };
            if self.is_used(*axis) {
                lines.add(depth, format!("const {kind} {} = {value};", self.words.axes[*axis]));
            }
        }
    }

    /// Whether something names the place along an axis.
    pub(super) fn is_used(&self, axis: usize) -> bool {
        let named = |index: &Index| index.uses(axis) && self.index(index) != "place";
        let nodes = self.kernel().nodes.iter().any(|node| match &node.expression {
            Expression::Load(_, index) | Expression::Place(index) => named(index),
            _ => false,
        });
        nodes || self.kernel().stores.iter().any(|store| named(&store.offset))
    }

    /// The statement that stores a value at its place.
    pub(super) fn put(&self, lines: &mut Lines, depth: usize, store: &Store) {
        let (value, pointer) = (self.words.operand(store.value).0, self.pointer(store.buffer));
        lines.add(depth, format!("put({value}, {pointer}[{}]);", self.words.index(&store.offset)));
    }

    /// Statements for `kElements` places from those of the axes on, without what is in `known`.
    pub(super) fn places(
        &self,
        lines: &mut Lines,
        depth: usize,
        known: &BTreeSet<NodeId>,
        terms: &[usize],
        stores: &[&Store],
        packs: bool,
    ) {
        let kernel = self.kernel();
        let mut targets: Vec<NodeId> = terms.iter().map(|number| kernel.reductions[*number].of).collect();
        targets.extend(stores.iter().map(|store| store.value));
        let needed = self.needed(&targets, known);
        let mut inside: Vec<NodeId> = Vec::new();
        for node in needed {
            let own = &kernel.nodes[node];
            if let Expression::Load(buffer, index) = &own.expression {
                let (pointer, name) = (self.pointer(*buffer), &self.words.nodes[node]);
                if packs && self.is_packed(index) {
                    let place = self.index(index);
                    lines.add(
                        depth,
                        format!("const auto {name}_pack = load<kElements>({pointer} + {place});"),
                    );
                } else if index.computed().is_empty() && !index.uses(self.inner) {
                    let place = self.words.index(index);
                    lines.add(
                        depth,
                        format!("const {} {name} = number({pointer}[{place}]);", Words::kind(own.class)),
                    );
                    continue;
                }
            }
            inside.push(node);
        }
        for store in stores.iter().filter(|store| packs && self.is_packed(&store.offset)) {
            let element = stored(self.words.elements[&store.buffer]);
            lines.add(depth, format!("Pack<{element}, kElements> {}_pack;", self.words.tensor(store.buffer)));
        }
        let depth_inside = if packs { depth + 1 } else { depth };
        let name = &self.words.axes[self.inner];
        let at = if packs { format!("{name} + j") } else { name.clone() };
        let moved = |index: &Index| {
            let axis = |axis: usize| {
                if axis == self.inner && packs {
                    format!("({name} + j)")
                } else {
                    self.words.axes[axis].clone()
                }
            };
            spell::index(index, &axis, &|node| self.words.nodes[node].clone())
        };
        if packs {
            lines.add(0, "#pragma unroll");
            lines.add(depth, "for (int j = 0; j < kElements; ++j) {");
        }
        for node in &inside {
            let own = &kernel.nodes[*node];
            let value = match &own.expression {
                Expression::Load(_, index) if packs && self.is_packed(index) => {
                    format!("number({}_pack.elements[j])", self.words.nodes[*node])
                }
                Expression::Load(buffer, index) => {
                    format!("number({}[{}])", self.pointer(*buffer), moved(index))
                }
                Expression::Place(index) => moved(index),
                _ => self.words.value(*node),
            };
            lines.quote(depth_inside, own.origin.as_ref());
            lines.add(
                depth_inside,
                format!("const {} {} = {value};", Words::kind(own.class), self.words.nodes[*node]),
            );
        }
        for number in terms {
            let one = &kernel.reductions[*number];
            let (join, found) = (Words::join(one.how), &self.words.found[*number]);
            let value = self.words.operand(one.of).0;
            let term =
                if one.how.is_place() { format!("Found{{{value}, {}}}", self.flat(&at)) } else { value };
            lines.add(depth_inside, format!("{found} = {join}::of({found}, {term});"));
        }
        for store in stores {
            let value = self.words.operand(store.value).0;
            let to = if packs && self.is_packed(&store.offset) {
                format!("{}_pack.elements[j]", self.words.tensor(store.buffer))
            } else {
                format!("{}[{}]", self.pointer(store.buffer), moved(&store.offset))
            };
            lines.add(depth_inside, format!("put({value}, {to});"));
        }
        if packs {
            lines.add(depth, "}");
        }
        for store in stores.iter().filter(|store| packs && self.is_packed(&store.offset)) {
            let (pointer, place) = (self.pointer(store.buffer), self.index(&store.offset));
            lines
                .add(depth, format!("store({pointer} + {place}, {}_pack);", self.words.tensor(store.buffer)));
        }
    }

    /// The place along all reduced axes, `at` along the innermost one.
    pub(super) fn flat(&self, at: &str) -> String {
        let kernel = self.kernel();
        let axes: Vec<usize> = kernel.along(Role::Reduced).collect();
        let lengths: Vec<Length> = axes.iter().map(|axis| kernel.axes[*axis].length.clone()).collect();
        let places: Vec<Index> = axes.iter().map(|axis| Index::axis(*axis)).collect();
        let offset = index::offset(&lengths, &places);
        let axis = |axis: usize| {
            if axis == self.inner { format!("({at})") } else { self.words.axes[axis].clone() }
        };
        spell::index(&offset, &axis, &|_| String::new())
    }

    pub(super) fn needed(&self, targets: &[NodeId], known: &BTreeSet<NodeId>) -> Vec<NodeId> {
        let mut found = BTreeSet::new();
        let mut pending = targets.to_vec();
        while let Some(node) = pending.pop() {
            if known.contains(&node) || !found.insert(node) {
                continue;
            }
            match &self.kernel().nodes[node].expression {
                Expression::Operation(_, of) => pending.extend(of),
                Expression::Load(_, index) | Expression::Place(index) => pending.extend(index.computed()),
                _ => {}
            }
        }
        let is_number =
            |node: &NodeId| matches!(self.kernel().nodes[*node].expression, Expression::Number(_));
        found.into_iter().filter(|node| !is_number(node)).collect()
    }

    /// Values that are the same for all elements of an instance, as far as they are known after some rounds.
    pub(super) fn instance_values(
        &self,
        lines: &mut Lines,
        level: usize,
        known: &mut BTreeSet<NodeId>,
        stores: &[Store],
    ) {
        let kernel = self.kernel();
        let terms = kernel.reductions.iter().filter(|one| one.level >= level).map(|one| one.of);
        let targets: Vec<NodeId> = terms.chain(stores.iter().map(|store| store.value)).collect();
        for node in self.needed(&targets, known) {
            let own = &kernel.nodes[node];
            if own.varies || own.level > level {
                continue;
            }
            let value = match &own.expression {
                Expression::Load(buffer, index) => {
                    format!("number({}[{}])", self.pointer(*buffer), self.words.index(index))
                }
                _ => self.words.value(node),
            };
            lines.quote(1, own.origin.as_ref());
            lines.add(1, format!("const {} {} = {value};", Words::kind(own.class), self.words.nodes[node]));
            known.insert(node);
        }
    }

    pub(super) fn is_full(&self, store: &Store) -> bool {
        let kernel = self.kernel();
        let axes = kernel.axes.iter().enumerate();
        kernel.nodes[store.value].varies
            || axes.filter(|(_, axis)| axis.role != Role::Parallel).any(|(axis, _)| store.offset.uses(axis))
    }

    pub(super) fn statement(&self, lines: &mut Lines, depth: usize, node: NodeId) {
        let own = &self.kernel().nodes[node];
        let value = match &own.expression {
            Expression::Load(buffer, index) => {
                format!("number({}[{}])", self.pointer(*buffer), self.words.index(index))
            }
            Expression::Scanned => "scanned".to_owned(),
            _ => self.words.value(node),
        };
        lines.quote(depth, own.origin.as_ref());
        lines.add(depth, format!("const {} {} = {value};", Words::kind(own.class), self.words.nodes[node]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::Class;
    use crate::units::Dtype;

    #[test]
    fn elements_have_cudas_types() {
        assert_eq!(stored(Element::Variable), "T");
        assert_eq!(stored(Element::Fixed(Dtype::I64)), "long long");
        assert_eq!(Words::kind(Class::Boolean), "bool");
    }
}
