//! Kernels in which threads make one number of elements that are not neighbors: a thread has neighboring columns.
//!
//! Owns: the skeleton and its launches. Never: divides a column among blocks; parts.rs does.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::super::kernel::{Expression, NodeId, Role, Store};
use super::super::super::length::Length;
use super::super::words::{Lines, Words};
use super::launches::Launches;
use super::writer::{Work, Writer};

impl Writer<'_> {
    /// A kernel of columns, each of which is one instance.
    pub(super) fn column(mut self, lines: &mut Lines, launches: &mut Launches) {
        let kernel = self.kernel();
        let (instances, elements) = (kernel.length(Role::Parallel), kernel.length(Role::Reduced));
        self.by_column();
        let parameters = self.parameters("Index");
        let rounds = self.rounds();
        let holds = rounds.iter().any(|round| !round.held.packs.is_empty());
        self.column_head(lines, &self.name, &parameters, holds);
        self.columns(lines, &instances, "blockIdx.x");
        lines.add(1, format!("const Index end = is_one ? {elements} : 0;"));
        lines.add(1, "const Index first = Own::lane();");
        lines.add(1, "const Index step = Own::lanes();");
        self.hold(lines, &rounds, holds);
        if holds {
            self.read_held(lines, &rounds);
        }
        lines.begin();
        let mut known = BTreeSet::new();
        for (level, round) in rounds.iter().enumerate() {
            self.column_values(lines, level, &mut known, &kernel.stores);
            self.round(lines, round, &known, holds);
        }
        self.column_results(lines);
        lines.add(0, "}");
        if self.is_divided() {
            self.column_parts(lines);
            // The parts of a column are one column's.
            self.plain().join_parts(lines);
        }
        self.launch_columns(launches, &instances, &elements, holds);
    }

    /// Gives values of a column the names of elements of arrays.
    fn by_column(&mut self) {
        for (node, is_of_column) in self.of_columns().into_iter().enumerate() {
            if is_of_column {
                self.words.nodes[node] += "[j]";
            }
        }
        self.words.found.iter_mut().for_each(|found| *found += "[j]");
    }

    /// For each value whether it is the same along a column, and another in the next one.
    fn of_columns(&self) -> Vec<bool> {
        let mut found: Vec<bool> = Vec::new();
        for own in &self.kernel().nodes {
            let differs = match &own.expression {
                Expression::Load(_, index) | Expression::Place(index) => {
                    index.uses(self.inner) || index.computed().iter().any(|one| found[*one])
                }
                Expression::Reduced(_) | Expression::Mean(_) => true,
                Expression::Operation(_, of) => of.iter().any(|one| found[*one]),
                _ => false,
            };
            found.push(differs && !own.varies);
        }
        found
    }

    pub(super) fn column_head(&self, lines: &mut Lines, name: &str, parameters: &str, holds: bool) {
        let held = if holds { "int kHeld, " } else { "" };
        lines
            .add(0, format!("template <{}int kBlock, int kElements, {held}typename Index>", self.template()));
        lines.add(0, format!("__global__ void __launch_bounds__(kBlock) {name}({parameters}) {{"));
        lines.add(1, "// A thread has kElements neighboring columns, and neighbors have neighboring ones.");
        lines.add(1, "using Own = Team<kWarp, 0>;");
    }

    /// The columns of a thread, if it has some.
    pub(super) fn columns(&self, lines: &mut Lines, instances: &Length, block: &str) {
        lines.add(1, format!("const Index instances = {instances};"));
        lines.add(1, format!("const long long own = Own::instance({block}) * kElements;"));
        lines.add(1, "const bool is_one = own < instances;");
        lines.add(1, "// Threads that have none go along, for the others wait for them.");
        lines.add(1, "const Index instance = is_one ? static_cast<Index>(own) : 0;");
        let parallel: Vec<usize> = self.kernel().along(Role::Parallel).collect();
        self.decode(lines, 1, &parallel, "instance", "Index");
        lines.begin();
    }

    /// Values that are the same for all elements of a column, as far as they are known after some rounds.
    pub(super) fn column_values(
        &self,
        lines: &mut Lines,
        level: usize,
        known: &mut BTreeSet<NodeId>,
        stores: &[Store],
    ) {
        let kernel = self.kernel();
        let terms = kernel.reductions.iter().filter(|one| one.level >= level).map(|one| one.of);
        let targets: Vec<NodeId> = terms.chain(stores.iter().map(|store| store.value)).collect();
        let now = |node: &NodeId| !kernel.nodes[*node].varies && kernel.nodes[*node].level <= level;
        let values: Vec<NodeId> = self.needed(&targets, known).into_iter().filter(now).collect();
        known.extend(&values);
        let is_of_column = self.of_columns();
        let (of_columns, others): (Vec<NodeId>, Vec<NodeId>) =
            values.into_iter().partition(|node| is_of_column[*node]);
        for node in others {
            self.statement(lines, 1, node);
        }
        if of_columns.is_empty() {
            return;
        }
        for node in &of_columns {
            let (kind, name) = (Words::kind(kernel.nodes[*node].class), &self.words.nodes[*node]);
            lines.add(1, format!("{kind} {};", name.replace("[j]", "[kElements]")));
        }
        for node in &of_columns {
            if let Expression::Load(buffer, index) = &kernel.nodes[*node].expression
                && self.is_packed(index)
            {
                let (name, pointer) = (self.words.nodes[*node].replace("[j]", ""), self.pointer(*buffer));
                let place = self.index(index);
                lines.add(1, format!("const auto {name}_pack = load<kElements>({pointer} + {place});"));
            }
        }
        lines.add(0, "#pragma unroll");
        lines.add(1, "for (int j = 0; j < kElements; ++j) {");
        for node in &of_columns {
            let own = &kernel.nodes[*node];
            let name = &self.words.nodes[*node];
            let value = match &own.expression {
                Expression::Load(_, index) if self.is_packed(index) => {
                    format!("number({}_pack.elements[j])", name.replace("[j]", ""))
                }
                Expression::Load(buffer, index) => {
                    format!("number({}[{}])", self.pointer(*buffer), self.moved(index, true))
                }
                Expression::Place(index) => self.moved(index, true),
                _ => self.words.value(*node),
            };
            lines.quote(2, own.origin.as_ref());
            lines.add(2, format!("{name} = {value};"));
        }
        lines.add(1, "}");
        lines.begin();
    }

    /// The results of columns, by one of the threads of each.
    pub(super) fn column_results(&self, lines: &mut Lines) {
        let kernel = self.kernel();
        let others: Vec<&Store> = kernel.stores.iter().filter(|store| !self.is_full(store)).collect();
        if others.is_empty() {
            return;
        }
        lines.add(1, "if (is_one && Own::lane() == 0) {");
        let known: BTreeSet<NodeId> = (0..kernel.nodes.len()).collect();
        self.places(lines, 2, &known, &Work { stores: &others, ..Work::default() }, true);
        lines.add(1, "}");
    }

    fn launch_columns(&self, launches: &mut Launches, instances: &Length, elements: &Length, holds: bool) {
        let suffix = &self.suffix;
        let program = self.words.program;
        let (instances, elements) = (program.over_axes(instances), program.over_axes(elements));
        let first = if program.is_variable() { "\"T\", " } else { "" };
        let inner = program.over_axes(&self.kernel().axes[self.inner].length);
        let _ = writeln!(
            launches.lets,
            "# Neighboring columns of a thread: a pack, or one where a row has no whole number of packs.\n\
             pack{suffix} = \"max(1, column_bytes / {})\"\n\
             columns{suffix} = \"max(1, pack{suffix} * (1 - min(1, ({inner}) % pack{suffix})))\"\n\
             # Blocks of 32 threads' columns.\n\
             blocks{suffix} = \"ceil_div({instances}, 32 * columns{suffix})\"",
            self.widest()
        );
        let held = if holds {
            let _ = writeln!(
                launches.lets,
                "# Packs of a thread, which holds 8 at most.\nper_column{suffix} = \"ceil_div({elements}, column_threads / 32)\"\n\
                 held_columns{suffix} = \"per_column{suffix} * min(1, 8 / max(per_column{suffix}, 1))\""
            );
            format!("\"held_columns{suffix}\", ")
        } else {
            String::new()
        };
        let mut whole = String::new();
        if self.is_divided() {
            let _ = writeln!(
                launches.lets,
                "# Blocks that share a result: several if there are few results of many elements.\n\
                 parts{suffix} = \"max(1, min(min(spread * 128 / column_threads / max(blocks{suffix}, 1), ({elements}) * 4 / column_threads), 1024))\""
            );
            whole = format!(" and parts{suffix} == 1");
            self.launch_parts(launches, false, first, &instances, &format!("blocks{suffix}"));
        }
        launches.uses_few = true;
        for (index, condition) in [("i32", "few"), ("i64", "not few")] {
            let _ = write!(
                launches.kernels,
                "\n[[launch.kernel]]\nentry = \"{}::{}\"\n\
                 template = [{first}\"column_threads\", \"columns{suffix}\", {held}\"{index}\"]\ngrid = [\"blocks{suffix}\"]\n\
                 block = [\"column_threads\"]\nargs = [{}]\nwhen = \"{condition}{whole}\"\n",
                self.space,
                self.name,
                self.arguments(index),
            );
        }
    }
}
