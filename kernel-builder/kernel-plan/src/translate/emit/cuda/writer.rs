//! A kernel in the making: its parameters, and statements for some places.
//!
//! Owns: what all skeletons are written with. Never: a skeleton.

use std::collections::BTreeSet;

use super::super::super::index::{self, Index, Part};
use super::super::super::kernel::{Buffer, Expression, Form, Kernel, NodeId, Role, Store};
use super::super::super::length::Length;
use super::super::super::plan::Plan;
use super::super::super::program::{Element, Program, Reduction};
use super::super::super::spell;
use super::super::words::{Lines, Words};

/// Values that threads keep in registers between rounds.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Loads that several rounds need.
    pub(super) packs: BTreeSet<NodeId>,
    /// Loads of which a thread has read a pack for each of its columns, with an element for each of its rows.
    pub(super) across: BTreeSet<NodeId>,
    /// Values that take long, and that a later round needs again: in the round that makes them.
    pub(super) first: BTreeSet<NodeId>,
    /// The same in a later round.
    pub(super) again: BTreeSet<NodeId>,
    /// Everything that the round makes for each element.
    pub(super) made: BTreeSet<NodeId>,
}

/// Whether it is a multiple of every pack, whatever the lengths are.
fn is_of_any_pack(factor: &Length) -> bool {
    factor.value().is_some_and(|one| one % 16 == 0)
}

/// The outputs of a loop over elements.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Work<'w> {
    /// The reductions that take them in.
    pub(super) terms: &'w [usize],
    /// The results that are written there.
    pub(super) stores: &'w [&'w Store],
    /// The value that is scanned.
    pub(super) scanned: Option<NodeId>,
    /// Values kept in registers between rounds.
    pub(super) held: Option<&'w Held>,
}

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
        let words = Words::new(program, plan, kernel).with_type();
        Self { words, space, name, suffix, inner: kernel.axes.len() - 1 }
    }

    /// The same kernel with its names as they were.
    pub(super) fn plain(&self) -> Self {
        let Words { program, plan, kernel, .. } = self.words;
        Self::new(program, plan, kernel, self.space.clone(), self.name.clone(), self.suffix.clone())
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

    /// The tensors that are moved in packs; all if there are none.
    fn in_packs(&self) -> Vec<Buffer> {
        let kernel = self.kernel();
        let of_rows = kernel.form() == Form::Row;
        let loads = kernel.nodes.iter().filter_map(|node| match &node.expression {
            Expression::Load(buffer, index)
                if (self.is_in_packs(index) && (node.varies || !of_rows)) || self.lies_across(index) =>
            {
                Some(*buffer)
            }
            _ => None,
        });
        let stores = kernel.stores.iter().filter(|store| self.is_stored_in_packs(store));
        let found: Vec<Buffer> = loads.chain(stores.map(|store| store.buffer)).collect();
        if found.is_empty() { self.tensors() } else { found }
    }

    /// The largest element of tensors that are moved in packs.
    pub(super) fn widest(&self) -> String {
        let mut fixed = 0;
        let mut variable = false;
        for buffer in self.in_packs() {
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
        self.begins_at(index, |factor| factor.divided(length).is_some() || is_of_any_pack(factor))
    }

    /// Whether packs of neighbors are whole only where the innermost axis has a whole number of packs.
    pub(super) fn is_packed_by_rows(&self, index: &Index) -> bool {
        self.is_packed_backward(index) || (self.is_packed(index) && !self.begins_at(index, is_of_any_pack))
    }

    /// Whether neighbors lie together, and the places of packs are multiples of factors that `is_even` takes.
    fn begins_at(&self, index: &Index, is_even: impl Fn(&Length) -> bool) -> bool {
        let others = index.parts.iter().all(|(part, factor)| match part {
            Part::Axis(axis) if *axis == self.inner => true,
            _ => is_even(factor),
        });
        index.step(self.inner).is_some_and(|step| step.is(1)) && others && is_even(&index.constant)
    }

    /// Whether neighboring elements lie together in one order or the other.
    fn is_in_packs(&self, index: &Index) -> bool {
        self.is_packed(index) || self.is_packed_backward(index)
    }

    /// Whether a result is written in packs. Of those that only columns have, wide ones would make packs too large.
    fn is_stored_in_packs(&self, store: &Store) -> bool {
        let is_wide = match self.words.elements[&store.buffer] {
            Element::Variable => false,
            Element::Fixed(dtype) => dtype.size_bytes() > 4,
        };
        let is_full = !matches!(self.kernel().form(), Form::Row | Form::Column) || self.is_full(store);
        let is_of_column = self.kernel().form() == Form::Column && !is_wide;
        self.is_in_packs(&store.offset) && (is_full || is_of_column)
    }

    /// The same of neighbors that lie one before the other.
    fn is_packed_backward(&self, index: &Index) -> bool {
        let axis = self.inner;
        let length = &self.kernel().axes[axis].length;
        let Some(step) = index.step(axis) else { return false };
        // Turned around, from the other end of the axis on.
        let turned = index.plus(&Index::axis(axis).times(&Length::number(2)));
        let turned = turned.plus(&Index::length(&Length::number(1) + &(&Length::number(-1) * length)));
        step.is(-1) && self.is_packed(&turned)
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
        work: &Work<'_>,
        packs: bool,
    ) {
        let kernel = self.kernel();
        let nothing = Held::default();
        let Work { terms, stores, scanned, held } = *work;
        let held = held.unwrap_or(&nothing);
        let mut targets: Vec<NodeId> = terms.iter().map(|number| kernel.reductions[*number].of).collect();
        targets.extend(stores.iter().map(|store| store.value));
        targets.extend(scanned);
        let needed = self.needed(&targets, known);
        let mut inside: Vec<NodeId> = Vec::new();
        for node in needed {
            let own = &kernel.nodes[node];
            if let Expression::Load(buffer, index) = &own.expression {
                let (pointer, name) = (self.pointer(*buffer), &self.words.nodes[node]);
                if held.packs.contains(&node) || held.across.contains(&node) {
                    // It has been read.
                    inside.push(node);
                    continue;
                }
                if packs && self.is_packed(index) {
                    let place = self.index(index);
                    lines.add(
                        depth,
                        format!("const auto {name}_pack = load<kElements>({pointer} + {place});"),
                    );
                } else if packs && self.is_packed_backward(index) {
                    // The pack ends where the first element is.
                    let place = self.index(index);
                    lines.add(
                        depth,
                        format!(
                            "const auto {name}_pack = load<kElements>({pointer} + {place} - (kElements - 1));"
                        ),
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
        let packed = |store: &Store| packs && self.is_stored_in_packs(store);
        for store in stores.iter().filter(|store| packed(store)) {
            let element = stored(self.words.elements[&store.buffer]);
            lines.add(depth, format!("Pack<{element}, kElements> {}_pack;", self.words.result(store)));
        }
        let depth_inside = if packs { depth + 1 } else { depth };
        let name = &self.words.axes[self.inner];
        let at = if packs { format!("{name} + j") } else { name.clone() };
        let moved = |index: &Index| self.moved(index, packs);
        if packs {
            lines.add(0, "#pragma unroll");
            lines.add(depth, "for (int j = 0; j < kElements; ++j) {");
        }
        for node in &inside {
            let own = &kernel.nodes[*node];
            let value = match &own.expression {
                Expression::Load(..) if held.packs.contains(node) => {
                    format!("number({}_packs[i].elements[j])", self.words.nodes[*node])
                }
                Expression::Load(..) if held.across.contains(node) => {
                    format!("number({}_packs[j].elements[row])", self.words.nodes[*node])
                }
                Expression::Load(_, index) if packs && self.is_packed(index) => {
                    format!("number({}_pack.elements[j])", self.words.nodes[*node])
                }
                Expression::Load(_, index) if packs && self.is_packed_backward(index) => {
                    format!("number({}_pack.elements[kElements - 1 - j])", self.words.nodes[*node])
                }
                Expression::Load(buffer, index) => {
                    format!("number({}[{}])", self.pointer(*buffer), moved(index))
                }
                Expression::Place(index) => moved(index),
                Expression::Scanned => "scanned[j]".to_owned(),
                _ => self.words.value(*node),
            };
            let name = &self.words.nodes[*node];
            let value = match held.again.contains(node) {
                true => format!("kKeeps ? {name}_kept[kKeeps ? i : 0][j] : {value}"),
                false => value,
            };
            lines.quote(depth_inside, own.origin.as_ref());
            lines.add(depth_inside, format!("const {} {name} = {value};", Words::kind(own.class)));
            if held.first.contains(node) {
                lines.add(depth_inside, "if constexpr (kKeeps) {");
                lines.add(depth_inside + 1, format!("{name}_kept[i][j] = {name};"));
                lines.add(depth_inside, "}");
            }
        }
        for number in terms {
            let one = &kernel.reductions[*number];
            let (join, found) = (Words::join(one.how), &self.words.found[*number]);
            let value = self.words.operand(one.of).0;
            let term = if one.how.is_place() {
                format!("Found<Index>{{{value}, {}}}", self.flat(&at))
            } else {
                value
            };
            // A thread meets places in their order.
            let how = if one.how.is_place() { "then" } else { "of" };
            lines.add(depth_inside, format!("{found} = {join}::{how}({found}, {term});"));
        }
        if let Some(of) = scanned {
            lines.add(depth_inside, format!("scanned[j] = {};", self.words.operand(of).0));
        }
        for store in stores {
            let value = self.words.operand(store.value).0;
            let to = if packed(store) {
                let j = if self.is_packed(&store.offset) { "j" } else { "kElements - 1 - j" };
                format!("{}_pack.elements[{j}]", self.words.result(store))
            } else {
                format!("{}[{}]", self.pointer(store.buffer), moved(&store.offset))
            };
            lines.add(depth_inside, format!("put({value}, {to});"));
        }
        if packs {
            lines.add(depth, "}");
        }
        for store in stores.iter().filter(|store| packed(store)) {
            let (pointer, mut place) = (self.pointer(store.buffer), self.index(&store.offset));
            if !self.is_packed(&store.offset) {
                place += " - (kElements - 1)";
            }
            lines.add(depth, format!("store({pointer} + {place}, {}_pack);", self.words.result(store)));
        }
    }

    /// The initial value of a reduction or a scan.
    pub(super) fn start(&self, how: Reduction, of: NodeId) -> String {
        let class = self.kernel().nodes[of].class;
        let sample = if how.is_place() { "Found<Index>{}" } else { Words::sample(how, class) };
        format!("{}::start({sample})", Words::join(how))
    }

    /// An index at element `j` of a pack, or at the axes' places themselves.
    pub(super) fn moved(&self, index: &Index, packs: bool) -> String {
        let whole = self.index(index);
        if whole == "place" {
            return if packs { "place + j".to_owned() } else { whole };
        }
        let axis = |axis: usize| {
            let name = &self.words.axes[axis];
            if axis == self.inner && packs { format!("({name} + j)") } else { name.clone() }
        };
        spell::index(index, &axis, &|node| self.words.nodes[node].clone())
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
            Expression::Scanned => "so_far".to_owned(),
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
