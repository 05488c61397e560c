//! Scans: a warp walks through a row, a thread through a column.
//!
//! Owns: the skeleton and its launch. Never: a reduction.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::super::kernel::{NodeId, Role};
use super::super::words::{Lines, Words};
use super::launches::Launches;
use super::writer::Writer;

impl Writer<'_> {
    /// A warp for every row, which it walks through in order; or a thread for every column.
    pub(super) fn scan(&self, lines: &mut Lines, launches: &mut Launches) {
        let kernel = self.kernel();
        let Some(scan) = &kernel.scan else { return };
        let row = kernel.axes[self.inner].role == Role::Scanned;
        let template = self.template();
        let parallel: Vec<usize> = kernel.along(Role::Parallel).collect();
        let scanned: Vec<usize> = kernel.along(Role::Scanned).collect();
        let (instances, elements) = (kernel.length(Role::Parallel), kernel.length(Role::Scanned));
        let (join, class) = (Words::join(scan.how), kernel.nodes[scan.of].class);
        let (kind, sample) = (Words::kind(class), Words::sample(scan.how, class));
        let lanes = if row { "kWarp" } else { "1" };
        let place = &self.words.axes[scanned[0]];
        lines.add(0, format!("template <{template}int kBlock, typename Index>"));
        lines.add(
            0,
            format!(
                "__global__ void __launch_bounds__(kBlock) {}({}) {{",
                self.name,
                self.parameters("Index")
            ),
        );
        lines.add(1, format!("constexpr int kLanes = {lanes};"));
        lines.add(1, format!("const Index instances = {instances};"));
        lines.add(1, "const Index own = (static_cast<Index>(blockIdx.x) * kBlock + threadIdx.x) / kLanes;");
        lines.add(1, "const int lane = threadIdx.x % kLanes;");
        lines.add(1, "if (own >= instances) {");
        lines.add(2, "return;");
        lines.add(1, "}");
        self.decode(lines, 1, &parallel, "own", "Index");
        lines.begin();
        let mut known = BTreeSet::new();
        self.instance_values(lines, 0, &mut known, &kernel.stores);
        lines.add(1, format!("{kind} so_far = {join}::start({sample});"));
        lines.add(1, format!("for (Index start = 0; start < {elements}; start += kLanes) {{"));
        lines.add(2, format!("const Index {place} = start + lane;"));
        lines.add(2, format!("const bool is_inside = {place} < {elements};"));
        lines.add(2, format!("{kind} scanned = {join}::start({sample});"));
        lines.add(2, "if (is_inside) {");
        for node in self.needed(&[scan.of], &known) {
            self.statement(lines, 3, node);
        }
        lines.add(3, format!("scanned = {};", self.words.operand(scan.of).0));
        lines.add(2, "}");
        lines.add(2, format!("scanned = {join}::of(so_far, up_to_here<{join}, kLanes>(scanned, lane));"));
        lines.add(2, "so_far = of_last<kLanes>(scanned);");
        lines.add(2, "if (is_inside) {");
        lines.begin();
        let targets: Vec<NodeId> = kernel.stores.iter().map(|store| store.value).collect();
        for node in self.needed(&targets, &known) {
            self.statement(lines, 3, node);
        }
        for store in &kernel.stores {
            self.put(lines, 3, store);
        }
        lines.add(2, "}");
        lines.add(1, "}");
        lines.add(0, "}");
        let instances = self.words.program.over_axes(&instances);
        let first = if self.words.program.is_variable() { "\"T\", " } else { "" };
        let grid =
            if row { format!("ceil_div({instances}, 4)") } else { format!("ceil_div({instances}, 128)") };
        let words = if row { "A warp for every row." } else { "A thread for every column." };
        let _ = write!(
            launches.kernels,
            "\n# {words}\n[[launch.kernel]]\nentry = \"{}::{}\"\ntemplate = [{first}128, \"i64\"]\ngrid = [\"{grid}\"]\n\
             block = [128]\nargs = [{}]\n",
            self.space,
            self.name,
            self.arguments("i64"),
        );
    }
}
