//! Kernels that make one number of many elements: a row for a thread, or columns side by side.
//!
//! Owns: both skeletons. Never: a loop over a piece.

use std::collections::BTreeSet;

use super::super::super::kernel::{Expression, NodeId, Role, Store};
use super::super::words::{Lines, Words};
use super::loops::Sink;
use super::writer::{Writer, close, close_loops};

impl Writer<'_> {
    /// The reductions of a round with what they begin with.
    pub(super) fn of_round(&self, level: usize) -> Vec<usize> {
        let all = self.kernel().reductions.iter().enumerate();
        all.filter(|(_, one)| one.level == level).map(|(number, _)| number).collect()
    }

    /// The targets that are left from a round on.
    pub(super) fn left(&self, level: usize) -> Vec<NodeId> {
        let kernel = self.kernel();
        let terms = kernel.reductions.iter().filter(|one| one.level >= level).map(|one| one.of);
        terms.chain(kernel.stores.iter().map(|store| store.value)).collect()
    }

    /// Expressions that are the same for a whole row, as far as they are known.
    pub(super) fn row_scalars(&mut self, lines: &mut Lines, level: usize) {
        for node in self.words.needed(&self.left(level)) {
            let own = &self.kernel().nodes[node];
            if own.varies || own.level > level || self.scalars.contains(&node) {
                continue;
            }
            lines.quote(2, own.origin.as_ref());
            let kind = Words::kind(own.class);
            let value = match &own.expression {
                Expression::Load(buffer, index) => {
                    let place = self.words.index(index);
                    format!("element<{}>({}, {place})", self.element(*buffer), self.pointer(*buffer))
                }
                Expression::Reduced(_) | Expression::Mean(_) => {
                    format!("static_cast<{kind}>({})", self.words.value(node))
                }
                _ => self.words.value(node),
            };
            lines.add(2, format!("const {kind} {} = {value};", self.words.nodes[node]));
            self.scalars.insert(node);
        }
    }

    pub(super) fn row(&mut self, lines: &mut Lines) {
        let kernel = self.kernel();
        let outer: Vec<usize> = kernel.along(Role::Reduced).filter(|axis| *axis != self.inner).collect();
        let inner = kernel.axes[self.inner].length.clone();
        lines.begin();
        for level in 0..kernel.levels() {
            self.row_scalars(lines, level);
            for number in self.of_round(level) {
                let one = &kernel.reductions[number];
                let (join, class) = (Words::join(one.how), kernel.nodes[one.of].class);
                let sample = Words::sample(one.how, class);
                lines.add(2, format!("auto {} = {join}::start({sample});", self.words.found[number]));
            }
            let depth = self.open(lines, 2, &outer);
            self.chunks(lines, depth, "0", &inner.as_factor());
            let sinks = self
                .of_round(level)
                .into_iter()
                .map(|number| (kernel.reductions[number].of, Sink::Term(number)));
            self.loop_over(lines, depth + 1, sinks.collect());
            for number in self.of_round(level) {
                let (join, found) = (Words::join(kernel.reductions[number].how), &self.words.found[number]);
                lines
                    .add(depth + 1, format!("{found} = joined_with<{join}>({found}, {found}_terms, count);"));
            }
            close(lines, depth, 2);
        }
        self.row_scalars(lines, kernel.levels());
        let along: Vec<&Store> = kernel.stores.iter().filter(|store| self.is_full(store)).collect();
        if !along.is_empty() {
            let depth = self.open(lines, 2, &outer);
            self.chunks(lines, depth, "0", &inner.as_factor());
            let sinks = along.iter().map(|store| (store.value, Sink::Store(store))).collect();
            self.loop_over(lines, depth + 1, sinks);
            close(lines, depth, 2);
        }
        for store in kernel.stores.iter().filter(|store| !self.is_full(store)) {
            let place = self.words.index(&store.offset);
            let value = self.words.operand(store.value).0;
            let (element, pointer) = (self.element(store.buffer), self.pointer(store.buffer));
            lines.add(2, format!("keep_one<{element}>({pointer}, {place}, {value});"));
        }
    }

    pub(super) fn column(&mut self, lines: &mut Lines) {
        let kernel = self.kernel();
        let outer: Vec<usize> = kernel.along(Role::Reduced).collect();
        lines.add(2, "const int64_t at = begin;");
        lines.add(2, "const int64_t count = end - begin;");
        lines.begin();
        for level in 0..kernel.levels() {
            for number in self.of_round(level) {
                let one = &kernel.reductions[number];
                let (join, class) = (Words::join(one.how), kernel.nodes[one.of].class);
                let (sample, found) = (Words::sample(one.how, class), &self.words.found[number]);
                lines.add(2, format!("decltype({join}::start({sample})) {found}[kChunk];"));
                lines.add(2, "for (int64_t j = 0; j < count; ++j) {");
                lines.add(3, format!("{found}[j] = {join}::start({sample});"));
                lines.add(2, "}");
            }
            let depth = self.open(lines, 2, &outer);
            let sinks = self
                .of_round(level)
                .into_iter()
                .map(|number| (kernel.reductions[number].of, Sink::Term(number)));
            self.loop_over(lines, depth, sinks.collect());
            close_loops(lines, depth, 2);
            self.keep_columns(lines, level + 1);
        }
        let along: Vec<&Store> = kernel.stores.iter().filter(|store| self.is_full(store)).collect();
        if !along.is_empty() {
            let depth = self.open(lines, 2, &outer);
            let sinks = along.iter().map(|store| (store.value, Sink::Store(store))).collect();
            self.loop_over(lines, depth, sinks);
            close_loops(lines, depth, 2);
        }
        let others: Vec<&Store> = kernel.stores.iter().filter(|store| !self.is_full(store)).collect();
        if !others.is_empty() {
            lines.add(2, "{");
            let sinks = others.iter().map(|store| (store.value, Sink::Store(store))).collect();
            self.loop_over(lines, 3, sinks);
            lines.add(2, "}");
        }
    }

    /// What is known of each column after a round, for later ones.
    pub(super) fn keep_columns(&mut self, lines: &mut Lines, level: usize) {
        let left = self.words.needed(&self.left(level));
        let kernel = self.kernel();
        let is_known = |node: NodeId| {
            let own = &kernel.nodes[node];
            !own.varies && own.level == level && !matches!(own.expression, Expression::Number(_))
        };
        // Those that something else than their like uses.
        let mut wanted = BTreeSet::new();
        for node in &left {
            if is_known(*node) {
                continue;
            }
            if let Expression::Operation(_, of) = &kernel.nodes[*node].expression {
                wanted.extend(of.iter().copied().filter(|one| is_known(*one)));
            }
        }
        wanted.extend(self.left(level).into_iter().filter(|one| is_known(*one)));
        if wanted.is_empty() {
            return;
        }
        for node in &wanted {
            let kind = Words::kind(kernel.nodes[*node].class);
            lines.add(2, format!("{kind} {}_piece[kChunk];", self.words.nodes[*node]));
        }
        lines.add(2, "{");
        self.loop_over(lines, 3, wanted.iter().map(|node| (*node, Sink::Kept)).collect());
        lines.add(2, "}");
        self.kept.extend(wanted);
    }
}
