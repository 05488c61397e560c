//! Kernels in which threads make one number of neighboring elements together.
//!
//! Owns: the skeleton and its launches. Never: divides a row among blocks; parts.rs does.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::super::kernel::{Expression, Form, NodeId, Role, Store};
use super::super::super::length::Length;
use super::super::super::program::{Op, Reduction};
use super::super::words::{Lines, Words};
use super::launches::Launches;
use super::writer::{Held, Work, Writer};

/// More tensors than this are not all read before the first round.
const MOST_PACKS: usize = 4;

/// One pass over a row: the reductions that it makes, and the results that it writes.
pub(super) struct Round<'k> {
    terms: Vec<usize>,
    stores: Vec<&'k Store>,
    pub(super) held: Held,
    /// Whether it goes from the end of a row to its beginning.
    is_backward: bool,
}

impl Round<'_> {
    /// Whether it has nothing to do.
    fn is_empty(&self) -> bool {
        self.terms.is_empty() && self.stores.is_empty()
    }
}

/// Everything that is held in packs.
fn held_packs(rounds: &[Round<'_>]) -> BTreeSet<NodeId> {
    rounds.iter().flat_map(|round| round.held.packs.iter().copied()).collect()
}

impl Writer<'_> {
    /// A kernel of rows, each of which is one instance.
    pub(super) fn row(&self, lines: &mut Lines, launches: &mut Launches) {
        let kernel = self.kernel();
        let (instances, elements) = (kernel.length(Role::Parallel), kernel.length(Role::Reduced));
        let rounds = self.rounds();
        lines.add(
            0,
            format!(
                "template <{}int kBlock, int kLanes, int kElements, int kHeld, typename Index>",
                self.template()
            ),
        );
        let parameters = self.parameters("Index");
        lines.add(0, format!("__global__ void __launch_bounds__(kBlock) {}({parameters}) {{", self.name));
        lines.add(1, "using Own = Team<1, kLanes>;");
        self.instance(lines, &instances, "blockIdx.x", false);
        lines.add(1, format!("const Index end = is_one ? {elements} : 0;"));
        lines.add(1, "const Index first = Own::lane() * kElements;");
        lines.add(1, "const Index step = Own::lanes() * kElements;");
        self.decode(lines, 1, &kernel.along(Role::Parallel).collect::<Vec<_>>(), "instance", "Index");
        self.hold(lines, &rounds, true);
        self.read_held(lines, &rounds);
        lines.begin();
        let mut known = BTreeSet::new();
        for (level, round) in rounds.iter().enumerate() {
            self.instance_values(lines, level, &mut known, &kernel.stores);
            self.round(lines, round, &known, true);
        }
        self.one_each(lines, "Own::lane() == 0");
        lines.add(0, "}");
        if self.is_divided() {
            self.row_parts(lines);
            self.join_parts(lines);
        }
        self.launch_rows(launches, &instances, &elements, &rounds);
    }

    /// The instance of a thread, if it has one.
    pub(super) fn instance(&self, lines: &mut Lines, instances: &Length, block: &str, is_named: bool) {
        lines.add(1, format!("const Index instances = {instances};"));
        lines.add(1, format!("const long long own = Own::instance({block});"));
        lines.add(1, "const bool is_one = own < instances;");
        if is_named || self.kernel().along(Role::Parallel).any(|axis| self.is_used(axis)) {
            lines.add(1, "// Threads that have none go along, for the others wait for them.");
            lines.add(1, "const Index instance = is_one ? static_cast<Index>(own) : 0;");
        }
    }

    /// The rounds of an instance, and what is held from one to the next.
    pub(super) fn rounds(&self) -> Vec<Round<'_>> {
        let kernel = self.kernel();
        let mut before: BTreeSet<NodeId> = BTreeSet::new();
        let mut rounds: Vec<Round<'_>> = Vec::new();
        for level in 0..=kernel.levels() {
            let terms = self.terms(level);
            let last = level == kernel.levels();
            let stores: Vec<&Store> =
                kernel.stores.iter().filter(|store| last && self.is_full(store)).collect();
            let mut targets: Vec<NodeId> = terms.iter().map(|number| kernel.reductions[*number].of).collect();
            targets.extend(stores.iter().map(|store| store.value));
            let needed = self.needed(&targets, &BTreeSet::new());
            let varying: BTreeSet<NodeId> =
                needed.into_iter().filter(|node| kernel.nodes[*node].varies).collect();
            let held = self.held(&targets, &varying, &before);
            for round in &mut rounds {
                let made = &round.held.made;
                // The round that makes a value first keeps it.
                round.held.first.extend(held.again.iter().filter(|node| made.contains(node)));
                round.held.packs.extend(held.packs.iter().filter(|node| made.contains(node)));
            }
            before.extend(&varying);
            // A search meets places in their order.
            let is_search = terms.iter().any(|number| kernel.reductions[*number].how.is_place());
            let is_backward = level % 2 == 1 && !is_search;
            rounds.push(Round { terms, stores, held: Held { made: varying, ..held }, is_backward });
        }
        // Loads that are on their way together are not waited for one by one.
        let is_packed = |node: &&NodeId| self.is_packed_load(**node);
        let all: BTreeSet<NodeId> =
            rounds.iter().flat_map(|round| &round.held.made).filter(is_packed).copied().collect();
        for (number, round) in rounds.iter_mut().enumerate() {
            if number == 0 || all.len() <= MOST_PACKS {
                let own = round.held.made.iter().filter(is_packed);
                round.held.packs.extend(own.copied().collect::<Vec<_>>());
            }
        }
        // Only the first of several rounds that make a value keeps it.
        let mut kept: BTreeSet<NodeId> = BTreeSet::new();
        for round in &mut rounds {
            round.held.first.retain(|node| kept.insert(*node));
        }
        rounds
    }

    /// Values of earlier rounds that a round needs again.
    fn held(&self, targets: &[NodeId], varying: &BTreeSet<NodeId>, before: &BTreeSet<NodeId>) -> Held {
        let nodes = &self.kernel().nodes;
        let mut taken: BTreeSet<NodeId> =
            targets.iter().filter(|node| before.contains(node)).copied().collect();
        for node in varying.iter().filter(|node| !before.contains(node)) {
            let used = match &nodes[*node].expression {
                Expression::Operation(_, of) => of.clone(),
                Expression::Load(_, index) | Expression::Place(index) => index.computed(),
                _ => Vec::new(),
            };
            taken.extend(used.into_iter().filter(|one| before.contains(one)));
        }
        let again = taken.into_iter().filter(|node| self.takes_long(*node)).collect();
        let is_packed = |node: &&NodeId| self.is_packed_load(**node);
        let packs = varying.intersection(before).filter(is_packed).copied().collect();
        Held { packs, again, ..Held::default() }
    }

    fn is_packed_load(&self, node: NodeId) -> bool {
        matches!(&self.kernel().nodes[node].expression, Expression::Load(_, index) if self.is_packed(index))
    }

    /// Whether a value costs more than to hold it: functions, quotients and random numbers do.
    fn takes_long(&self, node: NodeId) -> bool {
        let nodes = &self.kernel().nodes;
        self.needed(&[node], &BTreeSet::new()).into_iter().filter(|one| nodes[*one].varies).any(|one| {
            let long =
                |op: &Op| matches!(op, Op::Function(_) | Op::Divide | Op::Power | Op::Atan2 | Op::RandomBits);
            matches!(&nodes[one].expression, Expression::Operation(op, _) if long(op))
        })
    }

    /// The numbers of the reductions of a round.
    pub(super) fn terms(&self, level: usize) -> Vec<usize> {
        let reductions = &self.kernel().reductions;
        (0..reductions.len()).filter(|number| reductions[*number].level == level).collect()
    }

    /// Registers for what is read together, and for what is held if a template parameter may say so.
    pub(super) fn hold(&self, lines: &mut Lines, rounds: &[Round<'_>], holds: bool) {
        let kernel = self.kernel();
        let kept: BTreeSet<NodeId> =
            rounds.iter().flat_map(|round| round.held.first.iter().copied()).collect();
        if holds {
            lines.add(
                1,
                "// A thread that has kHeld packs, and not more, holds them in registers; others are read in batches.",
            );
            lines.add(1, "constexpr int kBatch = kHeld > 0 ? kHeld : (kElements < 4 ? 8 : 4);");
        } else {
            lines.add(1, "// Packs that are read together.");
            lines.add(1, "constexpr int kBatch = kElements < 4 ? 8 : 4;");
        }
        if holds && !kept.is_empty() {
            lines.add(1, "constexpr bool kKeeps = kHeld > 0 && kHeld * kElements <= 32;");
            for node in &kept {
                let (kind, name) = (Words::kind(kernel.nodes[*node].class), &self.words.nodes[*node]);
                lines.add(1, format!("{kind} {name}_kept[kKeeps ? kHeld : 1][kElements];"));
            }
        }
        for node in &held_packs(rounds) {
            if let Expression::Load(buffer, _) = &kernel.nodes[*node].expression {
                let element = super::writer::stored(self.words.elements[buffer]);
                let name = &self.words.nodes[*node];
                lines.add(1, format!("Pack<{element}, kElements> {name}_packs[kBatch];"));
            }
        }
    }

    /// Reads what is held.
    pub(super) fn read_held(&self, lines: &mut Lines, rounds: &[Round<'_>]) {
        let packs = held_packs(rounds);
        if !packs.is_empty() {
            self.read(lines, 1, &packs, "kHeld", "first");
        }
    }

    /// Reads packs, from a place on.
    fn read(&self, lines: &mut Lines, depth: usize, packs: &BTreeSet<NodeId>, count: &str, from: &str) {
        let at = self.at();
        lines.add(0, "#pragma unroll");
        lines.add(depth, format!("for (int i = 0; i < {count}; ++i) {{"));
        lines.add(depth + 1, format!("const Index {at} = {from} + i * step;"));
        lines.add(depth + 1, format!("if ({at} < end) {{"));
        self.reduced_places(lines, depth + 2);
        for node in packs {
            if let Expression::Load(buffer, index) = &self.kernel().nodes[*node].expression {
                let (name, pointer, place) =
                    (&self.words.nodes[*node], self.pointer(*buffer), self.index(index));
                lines.add(depth + 2, format!("{name}_packs[i] = load<kElements>({pointer} + {place});"));
            }
        }
        lines.add(depth + 1, "}");
        lines.add(depth, "}");
    }

    /// The name of the place along all reduced axes.
    pub(super) fn at(&self) -> &str {
        let mut reduced = self.kernel().along(Role::Reduced);
        match (reduced.next(), reduced.next()) {
            (Some(only), None) => &self.words.axes[only],
            _ => "at",
        }
    }

    /// The reductions of a round, and the results of every element that come with the last one.
    pub(super) fn round(&self, lines: &mut Lines, round: &Round<'_>, known: &BTreeSet<NodeId>, holds: bool) {
        self.starts(lines, &round.terms);
        if !round.is_empty() {
            let at = self.at();
            if holds && round.is_backward {
                lines.add(1, "// From the end of the row on, which was read last and is still in the cache.");
                lines.add(1, "for (Index left = kHeld > 0 ? 1 : (end - first + kBatch * step - 1) / (kBatch * step); left > 0; --left) {");
                lines.add(2, "const Index start = first + (left - 1) * (kBatch * step);");
            } else {
                let next = if holds {
                    "start = kHeld > 0 ? end : start + kBatch * step"
                } else {
                    "start += kBatch * step"
                };
                lines.add(1, format!("for (Index start = first; start < end; {next}) {{"));
            }
            match (round.held.packs.is_empty(), holds) {
                (true, _) => {}
                (false, true) => {
                    lines.add(2, "if constexpr (kHeld == 0) {");
                    self.read(lines, 3, &round.held.packs, "kBatch", "start");
                    lines.add(2, "}");
                }
                (false, false) => self.read(lines, 2, &round.held.packs, "kBatch", "start"),
            }
            lines.add(0, "#pragma unroll");
            lines.add(2, "for (int i = 0; i < kBatch; ++i) {");
            lines.add(3, format!("const Index {at} = start + i * step;"));
            lines.add(3, format!("if ({at} >= end) {{"));
            lines.add(4, "continue;");
            lines.add(3, "}");
            self.reduced_places(lines, 3);
            // Only packs are kept where no register is.
            let packs = Held { packs: round.held.packs.clone(), ..Held::default() };
            let work = Work {
                terms: &round.terms,
                stores: &round.stores,
                held: Some(if holds { &round.held } else { &packs }),
                ..Work::default()
            };
            self.places(lines, 3, known, &work, true);
            lines.add(2, "}");
            lines.add(1, "}");
            lines.begin();
        }
        self.joins(lines, &round.terms);
    }

    /// Declares the accumulators of reductions.
    pub(super) fn starts(&self, lines: &mut Lines, terms: &[usize]) {
        let kernel = self.kernel();
        for number in terms {
            let one = &kernel.reductions[*number];
            let (found, start) = (&self.words.found[*number], self.start(one.how, one.of));
            if kernel.form() == Form::Row {
                lines.add(1, format!("auto {found} = {start};"));
                continue;
            }
            let kind = match one.how {
                how if how.is_place() => "Found<Index>",
                Reduction::Squares => "Moments",
                _ => Words::kind(kernel.nodes[one.of].class),
            };
            lines.add(1, format!("{kind} {};", found.replace("[j]", "[kElements]")));
            lines.add(0, "#pragma unroll");
            lines.add(1, "for (int j = 0; j < kElements; ++j) {");
            lines.add(2, format!("{found} = {start};"));
            lines.add(1, "}");
        }
    }

    /// Combines the accumulators of all threads.
    pub(super) fn joins(&self, lines: &mut Lines, terms: &[usize]) {
        for number in terms {
            let found = &self.words.found[*number];
            let join = Words::join(self.kernel().reductions[*number].how);
            lines.add(
                1,
                match self.kernel().form() {
                    Form::Row => format!("{found} = all<{join}, Own>({found});"),
                    _ => format!("all_of_columns<{join}, kBlock>({});", found.replace("[j]", "")),
                },
            );
        }
    }

    /// The results of an instance, by one of its threads.
    pub(super) fn one_each(&self, lines: &mut Lines, is_first: &str) {
        let others: Vec<&Store> = self.kernel().stores.iter().filter(|store| !self.is_full(store)).collect();
        if others.is_empty() {
            return;
        }
        lines.add(1, format!("if (is_one && {is_first}) {{"));
        for store in others {
            self.put(lines, 2, store);
        }
        lines.add(1, "}");
    }

    /// The places along each of several reduced axes, of `at`, which counts them all.
    pub(super) fn reduced_places(&self, lines: &mut Lines, depth: usize) {
        let kernel = self.kernel();
        let reduced: Vec<usize> = kernel.along(Role::Reduced).collect();
        if reduced.len() == 1 {
            return;
        }
        let places = kernel.reductions.iter().any(|one| one.how.is_place());
        let lengths: Vec<Length> = reduced.iter().map(|axis| kernel.axes[*axis].length.clone()).collect();
        for (number, axis) in reduced.iter().enumerate() {
            let inner = Length::product(&lengths[number + 1..]);
            let divided = if inner.is(1) { "at".to_owned() } else { format!("at / {}", inner.as_factor()) };
            let value =
                if number == 0 { divided } else { format!("{divided} % {}", lengths[number].as_factor()) };
            if places || self.is_used(*axis) {
                lines.add(depth, format!("const Index {} = {value};", self.words.axes[*axis]));
            }
        }
    }

    fn launch_rows(
        &self,
        launches: &mut Launches,
        instances: &Length,
        elements: &Length,
        rounds: &[Round<'_>],
    ) {
        let suffix = &self.suffix;
        let program = self.words.program;
        let (instances, elements) = (program.over_axes(instances), program.over_axes(elements));
        let first = if program.is_variable() { "\"T\", " } else { "" };
        let entry = format!("{}::{}", self.space, self.name);
        let inner = program.over_axes(&self.kernel().axes[self.inner].length);
        let pack = format!("max(1, bytes / {})", self.widest());
        let _ = writeln!(
            launches.lets,
            "# Elements of one access: a pack, or a single one where a row has no whole number of packs.\n\
             pack{suffix} = \"{pack}\"\n\
             access{suffix} = \"max(1, pack{suffix} * (1 - min(1, ({inner}) % pack{suffix})))\"\n\
             packs{suffix} = \"ceil_div({elements}, access{suffix})\"\n\
             # Rows that a few threads of a warp have.\n\
             by_warp{suffix} = \"packs{suffix} <= narrow * units\"\n\
             # Packs of a thread in a longer row, which a block has: as many as `widest` threads need, an even number.\n\
             needed{suffix} = \"ceil_div(packs{suffix}, widest)\"\n\
             per_thread{suffix} = \"max(units, needed{suffix} + min(max(needed{suffix} - 1, 0), needed{suffix} % 2))\"\n\
             warps{suffix} = \"ceil_div(packs{suffix}, 32 * per_thread{suffix})\"\n\
             held{suffix} = \"per_thread{suffix} <= 8 and not reread\""
        );
        // Where the length of all rows is known, `narrow` has a default that fits.
        let by_eight = self.kernel().length(Role::Reduced).value().is_none();
        if by_eight {
            let _ = writeln!(
                launches.lets,
                "# Rows of which four share a warp, where `narrow` threads would have nothing to do.\n\
                 by_eight{suffix} = \"packs{suffix} <= 8 and narrow > 8 and few\""
            );
        }
        let mut whole = String::new();
        if self.is_divided() {
            let _ = writeln!(
                launches.lets,
                "# Blocks that share a result: several if there are few results of many elements.\n\
                 parts{suffix} = \"max(1, min(min(spread / max({instances}, 1), ({elements}) / (32 * part_threads)), 1024))\""
            );
            whole = format!("parts{suffix} == 1 and ");
            self.launch_parts(launches, true, first, &instances, &format!("({instances})"));
        }
        launches.uses_few = true;
        let by_block = format!("not by_warp{suffix} and ");
        // A row that is read once gains nothing from being held.
        let packs = held_packs(rounds).len();
        let mut not_by_cluster = String::new();
        if packs > 0 && rounds.iter().filter(|round| !round.is_empty()).count() > 1 {
            let _ = writeln!(
                launches.lets,
                "# Packs of a thread of a longer row that a cluster holds, and blocks of it.\n\
                 most{suffix} = \"max(1, min(8 * pack{suffix} / access{suffix}, 32) / {packs})\"\n\
                 cluster{suffix} = \"ceil_div(packs{suffix}, cluster_threads * most{suffix})\"\n\
                 by_cluster{suffix} = \"not held{suffix} and not reread and cluster{suffix} <= clusters and clusters > 1\""
            );
            self.launch_clusters(launches, first, &instances, &format!("{whole}{by_block}"));
            not_by_cluster = format!("not by_cluster{suffix} and ");
        }
        let not_by_eight = if by_eight { format!("not by_eight{suffix} and ") } else { String::new() };
        if by_eight {
            let _ = write!(
                launches.kernels,
                "\n# The shortest rows: eight threads have one.\n[[launch.kernel]]\nentry = \"{entry}\"\n\
                 template = [{first}128, 8, \"access{suffix}\", 1, \"i32\"]\n\
                 grid = [\"ceil_div({instances}, 16)\"]\nblock = [128]\nargs = [{}]\nwhen = \"{whole}by_eight{suffix}\"\n",
                self.arguments("i32"),
            );
        }
        let kinds = [
            (
                "Short rows: several share a block.",
                "128",
                "\"narrow\"".to_owned(),
                format!("\"ceil_div(packs{suffix}, narrow)\""),
                format!("ceil_div({instances}, 128 / narrow)"),
                "128".to_owned(),
                format!("{not_by_eight}by_warp{suffix}"),
            ),
            (
                "Rows that a block holds.",
                &format!("\"ceil_div(warps{suffix}, 8) * 256\""),
                "0".to_owned(),
                format!("\"per_thread{suffix}\""),
                instances.clone(),
                format!("\"warps{suffix} * 32\""),
                format!("{by_block}held{suffix}"),
            ),
            (
                "Rows that a block reads again for every round.",
                "\"threads\"",
                "0".to_owned(),
                "0".to_owned(),
                instances.clone(),
                "\"threads\"".to_owned(),
                format!("{by_block}{not_by_cluster}not held{suffix}"),
            ),
        ];
        for (words, block, lanes, held, grid, threads, when) in kinds {
            let _ = write!(launches.kernels, "\n# {words}");
            for (index, condition) in [("i32", "few"), ("i64", "not few")] {
                let _ = write!(
                    launches.kernels,
                    "\n[[launch.kernel]]\nentry = \"{entry}\"\n\
                     template = [{first}{block}, {lanes}, \"access{suffix}\", {held}, \"{index}\"]\n\
                     grid = [\"{grid}\"]\nblock = [{threads}]\nargs = [{}]\nwhen = \"{condition} and {whole}{when}\"\n",
                    self.arguments(index),
                );
            }
        }
    }
    /// Rows that the blocks of a cluster hold together.
    fn launch_clusters(&self, launches: &mut Launches, first: &str, instances: &str, when: &str) {
        let suffix = &self.suffix;
        let held = format!("ceil_div(packs{suffix}, cluster_threads * max(1, cluster{suffix}))");
        launches.kernels += "\n# Rows that the blocks of a cluster hold, on GPUs that have clusters.";
        for (index, condition) in [("i32", "few"), ("i64", "not few")] {
            let _ = write!(
                launches.kernels,
                "\n[[launch.kernel]]\nentry = \"{}::{}\"\n\
                 template = [{first}\"cluster_threads\", -1, \"access{suffix}\", \"{held}\", \"{index}\"]\n\
                 grid = [\"({instances}) * cluster{suffix}\"]\nblock = [\"cluster_threads\"]\n\
                 cluster = [\"cluster{suffix}\"]\nargs = [{}]\nwhen = \"{condition} and {when}by_cluster{suffix}\"\n",
                self.space,
                self.name,
                self.arguments(index),
            );
        }
    }
}
