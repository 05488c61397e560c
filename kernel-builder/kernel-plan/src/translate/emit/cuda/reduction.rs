//! Kernels in which threads make one number of many elements together: along rows, or along columns.
//!
//! Owns: the skeleton and its launches. Never: divides a result among blocks; parts.rs does.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::super::kernel::{Form, NodeId, Role, Store};
use super::super::super::length::Length;
use super::super::words::{Lines, Words};
use super::launches::Launches;
use super::writer::Writer;

impl Writer<'_> {
    /// A kernel in which threads make one number of many elements together.
    pub(super) fn reduction(&self, lines: &mut Lines, launches: &mut Launches) {
        let kernel = self.kernel();
        let row = kernel.form() == Form::Row;
        let (instances, elements) = (kernel.length(Role::Parallel), kernel.length(Role::Reduced));
        self.reduction_head(lines, &self.name, &self.parameters("Index"), row, false);
        let mut known = BTreeSet::new();
        for level in 0..=kernel.levels() {
            self.instance_values(lines, level, &mut known, &kernel.stores);
            let last = level == kernel.levels();
            let stores: Vec<&Store> =
                kernel.stores.iter().filter(|store| last && self.is_full(store)).collect();
            self.round(lines, row, level, &known, &stores);
        }
        self.one_each(lines);
        lines.add(0, "}");
        if self.is_divided() {
            self.parts(lines, row);
            self.join_parts(lines);
        }
        self.launch_reduction(launches, row, &instances, &elements);
    }

    /// The head of a reduction, up to the places of its instance.
    pub(super) fn reduction_head(
        &self,
        lines: &mut Lines,
        name: &str,
        parameters: &str,
        row: bool,
        parts: bool,
    ) {
        let kernel = self.kernel();
        let parallel: Vec<usize> = kernel.along(Role::Parallel).collect();
        let (instances, elements) = (kernel.length(Role::Parallel), kernel.length(Role::Reduced));
        let own = match (row, parts) {
            (true, false) => "int kLanes, int kElements, ",
            (true, true) => "int kElements, ",
            (false, _) => "",
        };
        lines.add(0, format!("template <{}int kBlock, {own}typename Index>", self.template()));
        lines.add(0, format!("__global__ void __launch_bounds__(kBlock) {name}({parameters}) {{"));
        lines.add(
            1,
            match (row, parts) {
                (true, false) => "using Own = Team<1, kLanes>;",
                (true, true) => "using Own = Team<1, 0>;",
                (false, _) => "using Own = Team<32, 0>;",
            },
        );
        lines.add(1, format!("const Index instances = {instances};"));
        let block = if parts { "blockIdx.x / parts" } else { "blockIdx.x" };
        lines.add(1, format!("const long long own = Own::instance({block});"));
        lines.add(1, "const bool is_one = own < instances;");
        if parts || parallel.iter().any(|axis| self.is_used(*axis)) {
            lines.add(1, "// Threads that have none go along, for the others wait for them.");
            lines.add(1, "const Index instance = is_one ? static_cast<Index>(own) : 0;");
        }
        if parts {
            let width = if row { "kElements" } else { "1" };
            lines.add(1, format!("const Index elements = {elements};"));
            lines.add(1, format!("const Index share = (elements / {width} + parts - 1) / parts * {width};"));
            lines.add(1, "const Index begin = share * (blockIdx.x % parts);");
            lines.add(
                1,
                "const Index end = !is_one ? 0 : (begin + share < elements ? begin + share : elements);",
            );
        } else {
            lines.add(1, "const Index begin = 0;");
            lines.add(1, format!("const Index end = is_one ? {elements} : 0;"));
        }
        self.decode(lines, 1, &parallel, "instance", "Index");
        lines.begin();
    }

    /// The reductions of a round, and the results of every element that come with the last one.
    pub(super) fn round(
        &self,
        lines: &mut Lines,
        row: bool,
        level: usize,
        known: &BTreeSet<NodeId>,
        stores: &[&Store],
    ) {
        let kernel = self.kernel();
        let reduced: Vec<usize> = kernel.along(Role::Reduced).collect();
        let terms: Vec<usize> =
            (0..kernel.reductions.len()).filter(|n| kernel.reductions[*n].level == level).collect();
        for number in &terms {
            let one = &kernel.reductions[*number];
            let sample = Words::sample(one.how, kernel.nodes[one.of].class);
            lines.add(
                1,
                format!("auto {} = {}::start({sample});", self.words.found[*number], Words::join(one.how)),
            );
        }
        if !(terms.is_empty() && stores.is_empty()) {
            self.loop_head(lines, row, &reduced);
            self.places(lines, 2, known, &terms, stores, row);
            lines.add(1, "}");
            lines.begin();
        }
        for number in &terms {
            let found = &self.words.found[*number];
            let join = Words::join(kernel.reductions[*number].how);
            lines.add(1, format!("{found} = all<{join}, Own>({found});"));
        }
    }

    /// The results of an instance.
    pub(super) fn one_each(&self, lines: &mut Lines) {
        let others: Vec<&Store> = self.kernel().stores.iter().filter(|store| !self.is_full(store)).collect();
        if others.is_empty() {
            return;
        }
        lines.add(1, "if (is_one && Own::lane() == 0) {");
        for store in others {
            self.put(lines, 2, store);
        }
        lines.add(1, "}");
    }

    /// The loop of a thread over its elements.
    pub(super) fn loop_head(&self, lines: &mut Lines, row: bool, reduced: &[usize]) {
        let single = reduced.len() == 1;
        let at = if single { self.words.axes[reduced[0]].clone() } else { "at".to_owned() };
        let width = if row { " * kElements" } else { "" };
        lines.add(
            1,
            format!(
                "for (Index {at} = begin + Own::lane(){width}; {at} < end; {at} += Own::lanes(){width}) {{"
            ),
        );
        if !single {
            self.decode_reduced(lines, reduced);
        }
    }

    /// As `decode`, of all axes that an element's place needs.
    pub(super) fn decode_reduced(&self, lines: &mut Lines, reduced: &[usize]) {
        let places = self.kernel().reductions.iter().any(|one| one.how.is_place());
        let lengths: Vec<Length> =
            reduced.iter().map(|axis| self.kernel().axes[*axis].length.clone()).collect();
        for (number, axis) in reduced.iter().enumerate() {
            let inner = Length::product(&lengths[number + 1..]);
            let divided = if inner.is(1) { "at".to_owned() } else { format!("at / {}", inner.as_factor()) };
            let value =
                if number == 0 { divided } else { format!("{divided} % {}", lengths[number].as_factor()) };
            if places || self.is_used(*axis) {
                lines.add(2, format!("const Index {} = {value};", self.words.axes[*axis]));
            }
        }
    }

    pub(super) fn launch_reduction(
        &self,
        launches: &mut Launches,
        row: bool,
        instances: &Length,
        elements: &Length,
    ) {
        let suffix = &self.suffix;
        let program = self.words.program;
        let (instances, elements) = (program.over_axes(instances), program.over_axes(elements));
        let first = if program.is_variable() { "\"T\", " } else { "" };
        let arguments = self.arguments("i64");
        let entry = format!("{}::{}", self.space, self.name);
        let inner = program.over_axes(&self.kernel().axes[self.inner].length);
        if row {
            let _ = writeln!(
                launches.lets,
                "# Elements of one access, where a row is a multiple of it.\naccess{suffix} = \"max(1, bytes / {})\"",
                self.widest()
            );
            let _ = writeln!(launches.lets, "even{suffix} = \"({inner}) % access{suffix} == 0\"");
            let _ = writeln!(
                launches.lets,
                "# Rows that a warp has.\nby_warp{suffix} = \"{elements} <= narrow\""
            );
        }
        let mut whole = String::new();
        if self.is_divided() {
            let blocks = if row { format!("({instances})") } else { format!("ceil_div({instances}, 32)") };
            let _ = writeln!(
                launches.lets,
                "# Blocks that share a result: several if there are few results of many elements.\n\
                 parts{suffix} = \"max(1, min(min(spread / max({blocks}, 1), ({elements}) / 4096), 1024))\""
            );
            whole = format!("parts{suffix} == 1");
            self.launch_parts(launches, row, first, &instances, &blocks);
        }
        if !row {
            let when = if whole.is_empty() { String::new() } else { format!("when = \"{whole}\"\n") };
            let _ = write!(
                launches.kernels,
                "\n# A block has 32 neighboring columns.\n[[launch.kernel]]\nentry = \"{entry}\"\n\
                 template = [{first}\"column_threads\", \"i64\"]\ngrid = [\"ceil_div({instances}, 32)\"]\n\
                 block = [\"column_threads\"]\nargs = [{arguments}]\n{when}"
            );
            return;
        }
        let whole = if whole.is_empty() { whole } else { format!("{whole} and ") };
        for (by_warp, words) in [(true, "Short rows: four to a block."), (false, "Long rows: a block each.")]
        {
            for (even, access) in [(true, format!("access{suffix}")), (false, "1".to_owned())] {
                let (block, lanes, grid) = if by_warp {
                    ("128", "32", format!("ceil_div({instances}, 4)"))
                } else {
                    ("\"threads\"", "0", instances.clone())
                };
                let word = |is: bool| if is { "" } else { "not " };
                let _ = write!(
                    launches.kernels,
                    "\n# {words}\n[[launch.kernel]]\nentry = \"{entry}\"\ntemplate = [{first}{block}, {lanes}, \"{access}\", \"i64\"]\n\
                     grid = [\"{grid}\"]\nblock = [{block}]\nargs = [{arguments}]\nwhen = \"{whole}{}by_warp{suffix} and {}even{suffix}\"\n",
                    word(by_warp),
                    word(even),
                );
            }
        }
    }
}
