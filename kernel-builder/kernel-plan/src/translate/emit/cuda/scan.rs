//! Scans: threads walk through a row together, a thread through a column.
//!
//! Owns: the skeletons and their launches. Never: a reduction.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::super::kernel::{NodeId, Role, Scanned, Store};
use super::super::words::{Lines, Words};
use super::launches::Launches;
use super::writer::{Work, Writer};

impl Writer<'_> {
    /// Rows by the threads of a warp or of a block, columns by a thread each.
    pub(super) fn scan(&self, lines: &mut Lines, launches: &mut Launches) {
        let Some(scan) = &self.kernel().scan else { return };
        if self.kernel().scans_rows() {
            self.scan_rows(lines, scan);
            self.launch_scanned_rows(launches);
        } else {
            self.scan_columns(lines, scan);
            self.launch_scanned_columns(launches);
        }
    }

    /// The type of what is scanned, its join, and what is scanned before the first element.
    fn scanned(&self, scan: &Scanned) -> (&'static str, &'static str, String) {
        let class = self.kernel().nodes[scan.of].class;
        (Words::kind(class), Words::join(scan.how), self.start(scan.how, scan.of))
    }

    fn scan_rows(&self, lines: &mut Lines, scan: &Scanned) {
        let kernel = self.kernel();
        let parallel: Vec<usize> = kernel.along(Role::Parallel).collect();
        let elements = kernel.length(Role::Scanned);
        let (kind, join, nothing) = self.scanned(scan);
        let place = &self.words.axes[self.inner];
        let stores: Vec<&Store> = kernel.stores.iter().collect();
        lines.add(
            0,
            format!("template <{}int kBlock, int kLanes, int kElements, typename Index>", self.template()),
        );
        let parameters = self.parameters("Index");
        lines.add(0, format!("__global__ void __launch_bounds__(kBlock) {}({parameters}) {{", self.name));
        lines.add(1, "using Own = Team<1, kLanes>;");
        self.instance(lines, &kernel.length(Role::Parallel), "blockIdx.x", false);
        lines.add(1, format!("const Index end = is_one ? {elements} : 0;"));
        self.decode(lines, 1, &parallel, "instance", "Index");
        lines.begin();
        let mut known = BTreeSet::new();
        self.instance_values(lines, 0, &mut known, &kernel.stores);
        lines.add(1, format!("{kind} so_far = {nothing};"));
        lines.add(
            1,
            format!("for (Index start = 0; start < {elements}; start += Own::lanes() * kElements) {{"),
        );
        lines.add(2, format!("const Index {place} = start + Own::lane() * kElements;"));
        lines.add(2, format!("{kind} scanned[kElements];"));
        lines.add(0, "#pragma unroll");
        lines.add(2, "for (int j = 0; j < kElements; ++j) {");
        lines.add(3, format!("scanned[j] = {nothing};"));
        lines.add(2, "}");
        lines.add(2, format!("if ({place} < end) {{"));
        self.places(lines, 3, &known, &Work { scanned: Some(scan.of), ..Work::default() }, true);
        lines.add(2, "}");
        lines.begin();
        lines.add(2, format!("so_far = scan<{join}, Own>(scanned, so_far);"));
        lines.add(2, format!("if ({place} < end) {{"));
        self.places(lines, 3, &known, &Work { stores: &stores, ..Work::default() }, true);
        lines.add(2, "}");
        lines.add(1, "}");
        lines.add(0, "}");
    }

    fn scan_columns(&self, lines: &mut Lines, scan: &Scanned) {
        let kernel = self.kernel();
        let parallel: Vec<usize> = kernel.along(Role::Parallel).collect();
        let scanned: Vec<usize> = kernel.along(Role::Scanned).collect();
        let elements = kernel.length(Role::Scanned);
        let (kind, join, nothing) = self.scanned(scan);
        let place = &self.words.axes[scanned[0]];
        lines.add(0, format!("template <{}int kBlock, typename Index>", self.template()));
        let parameters = self.parameters("Index");
        lines.add(0, format!("__global__ void __launch_bounds__(kBlock) {}({parameters}) {{", self.name));
        lines.add(1, format!("const Index instances = {};", kernel.length(Role::Parallel)));
        lines.add(1, "// A block has 32 neighboring columns, and each of its warps a part of them.");
        lines.add(1, "using Own = Team<kWarp, 0>;");
        lines.add(1, "const long long own = Own::instance(blockIdx.x);");
        lines.add(1, "const bool is_one = own < instances;");
        lines.add(1, "const Index instance = is_one ? static_cast<Index>(own) : 0;");
        self.decode(lines, 1, &parallel, "instance", "Index");
        lines.add(1, format!("const Index elements = is_one ? {elements} : 0;"));
        lines.add(1, "const Index share = (elements + kBlock / kWarp - 1) / (kBlock / kWarp);");
        lines.add(1, "const Index begin = share * Own::lane();");
        lines.add(1, "const Index end = begin + share < elements ? begin + share : elements;");
        lines.begin();
        let mut known = BTreeSet::new();
        self.instance_values(lines, 0, &mut known, &kernel.stores);
        let head = format!("for (Index {place} = begin; {place} < end; ++{place}) {{");
        let scanned = self.needed(&[scan.of], &known);
        let value = self.words.operand(scan.of).0;
        lines.add(1, format!("{kind} so_far = {nothing};"));
        lines.add(1, "if constexpr (kBlock > kWarp) {");
        lines.add(0, "#pragma unroll 8");
        lines.add(2, &head);
        for node in &scanned {
            self.statement(lines, 3, *node);
        }
        lines.add(3, format!("so_far = {join}::of(so_far, {value});"));
        lines.add(2, "}");
        lines.add(2, format!("so_far = before_in_column<{join}, kBlock>(so_far);"));
        lines.add(1, "}");
        lines.begin();
        lines.add(0, "#pragma unroll 8");
        lines.add(1, &head);
        for node in scanned {
            self.statement(lines, 2, node);
            known.insert(node);
        }
        lines.add(2, format!("so_far = {join}::of(so_far, {value});"));
        let targets: Vec<NodeId> = kernel.stores.iter().map(|store| store.value).collect();
        for node in self.needed(&targets, &known) {
            self.statement(lines, 2, node);
        }
        for store in &kernel.stores {
            self.put(lines, 2, store);
        }
        lines.add(1, "}");
        lines.add(0, "}");
    }

    fn launch_scanned_rows(&self, launches: &mut Launches) {
        let suffix = &self.suffix;
        let program = self.words.program;
        let instances = program.over_axes(&self.kernel().length(Role::Parallel));
        let elements = program.over_axes(&self.kernel().length(Role::Scanned));
        let first = if program.is_variable() { "\"T\", " } else { "" };
        let _ = writeln!(
            launches.lets,
            "# Elements of one access: a pack, or a single one where a row has no whole number of packs.\n\
             pack{suffix} = \"max(1, bytes / {})\"\n\
             access{suffix} = \"max(1, pack{suffix} * (1 - min(1, ({elements}) % pack{suffix})))\"\n\
             # Rows that a warp walks through in a few steps.\n\
             by_warp{suffix} = \"ceil_div({elements}, access{suffix}) <= 64\"",
            self.widest()
        );
        launches.uses_few = true;
        let kinds = [
            ("Short rows: a warp each.", "128", "32", format!("ceil_div({instances}, 4)"), "128", ""),
            (
                "Long rows: a block each.",
                "\"scan_row_threads\"",
                "0",
                instances,
                "\"scan_row_threads\"",
                "not ",
            ),
        ];
        for (words, block, lanes, grid, threads, word) in kinds {
            let _ = write!(launches.kernels, "\n# {words}");
            for (index, condition) in [("i32", "few"), ("i64", "not few")] {
                let _ = write!(
                    launches.kernels,
                    "\n[[launch.kernel]]\nentry = \"{}::{}\"\n\
                     template = [{first}{block}, {lanes}, \"access{suffix}\", \"{index}\"]\ngrid = [\"{grid}\"]\n\
                     block = [{threads}]\nargs = [{}]\nwhen = \"{condition} and {word}by_warp{suffix}\"\n",
                    self.space,
                    self.name,
                    self.arguments(index),
                );
            }
        }
    }

    fn launch_scanned_columns(&self, launches: &mut Launches) {
        let program = self.words.program;
        let instances = program.over_axes(&self.kernel().length(Role::Parallel));
        let first = if program.is_variable() { "\"T\", " } else { "" };
        launches.uses_few = true;
        let walkers = format!("walkers{}", self.suffix);
        let _ = writeln!(
            launches.lets,
            "# Warps of 32 columns: one, or several where that gives too few warps for a GPU.\n\
             {walkers} = \"max(1, min(scan_threads / 32, 528 / max(ceil_div({instances}, 32), 1)))\""
        );
        let _ = write!(launches.kernels, "\n# Columns, 32 to a block.");
        for (index, condition) in [("i32", "few"), ("i64", "not few")] {
            let _ = write!(
                launches.kernels,
                "\n[[launch.kernel]]\nentry = \"{}::{}\"\ntemplate = [{first}\"{walkers} * 32\", \"{index}\"]\n\
                 grid = [\"ceil_div({instances}, 32)\"]\nblock = [\"{walkers} * 32\"]\nargs = [{}]\nwhen = \"{condition}\"\n",
                self.space,
                self.name,
                self.arguments(index),
            );
        }
    }
}
