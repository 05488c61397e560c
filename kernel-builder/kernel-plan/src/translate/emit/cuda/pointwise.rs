//! Kernels in which every place is for itself: packs, and single elements at the end.
//!
//! Owns: the skeleton and its launches. Never: a reduction.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::super::kernel::{Expression, NodeId, Store};
use super::super::super::length::Length;
use super::super::words::Lines;
use super::launches::Launches;
use super::writer::{Work, Writer};

impl Writer<'_> {
    /// The kernel, for calls with a condition: none, or ` and ...`.
    pub(super) fn pointwise(&self, lines: &mut Lines, launches: &mut Launches, more: &str) {
        let kernel = self.kernel();
        let template = self.template();
        let axes: Vec<usize> = (0..kernel.axes.len()).collect();
        let flat = axes.len() == 1;
        let whole = Length::product(kernel.axes.iter().map(|axis| &axis.length));
        let stores: Vec<&Store> = kernel.stores.iter().collect();
        let place = if flat { self.words.axes[0].clone() } else { "place".to_owned() };
        // The elements of one pack.
        lines.add(0, format!("template <{template}int kElements, typename Index>"));
        lines.add(
            0,
            format!(
                "__device__ __forceinline__ void {}_at(Index {place}, {}) {{",
                self.name,
                self.parameters("Index")
            ),
        );
        if !flat {
            self.decode(lines, 1, &axes, "place", "Index");
        }
        lines.begin();
        self.places(lines, 1, &BTreeSet::new(), &Work { stores: &stores, ..Work::default() }, true);
        lines.add(0, "}");
        lines.add(0, "");
        lines.add(0, if flat {
            "// Neighbors have neighboring packs; single elements at the end are those of the first threads."
        } else {
            "// Neighbors have neighboring packs, which lie within a row."
        });
        lines.add(0, format!("template <{template}int kBlock, int kUnroll, int kElements, typename Index>"));
        lines.add(
            0,
            format!(
                "__global__ void __launch_bounds__(kBlock) {}({}) {{",
                self.name,
                self.parameters("Index")
            ),
        );
        lines.add(1, format!("const Index packs = ({whole}) / kElements;"));
        lines
            .add(1, "const Index first = static_cast<Index>(blockIdx.x) * (kBlock * kUnroll) + threadIdx.x;");
        let mut passed: Vec<String> = self.tensors().iter().map(|buffer| self.pointer(*buffer)).collect();
        passed.extend(self.words.symbols());
        let passed = passed.join(", ");
        let argument = if self.words.program.is_variable() { "T, " } else { "" };
        lines.add(0, "#pragma unroll");
        lines.add(1, "for (int i = 0; i < kUnroll; ++i) {");
        lines.add(2, "const Index pack = first + i * kBlock;");
        lines.add(2, "if (pack < packs) {");
        lines.add(3, format!("{}_at<{argument}kElements>(pack * kElements, {passed});", self.name));
        lines.add(2, "}");
        lines.add(1, "}");
        if flat {
            lines.add(1, "const Index single = packs * kElements + first;");
            lines.add(1, format!("if (first < kElements && single < ({whole})) {{"));
            lines.add(2, format!("{}_at<{argument}1>(single, {passed});", self.name));
            lines.add(1, "}");
        }
        lines.add(0, "}");
        let targets: Vec<NodeId> = stores.iter().map(|store| store.value).collect();
        let needed = self.needed(&targets, &BTreeSet::new());
        let loads = needed.iter().filter_map(|node| match &kernel.nodes[*node].expression {
            Expression::Load(_, index) => Some(index),
            _ => None,
        });
        let mut indexes = loads.chain(stores.iter().map(|store| &store.offset));
        let any_length = flat && !indexes.any(|index| self.is_packed_by_rows(index));
        self.launch_pointwise(launches, any_length, &self.words.program.over_axes(&whole), more);
    }

    /// With `any_length`, packs need no whole number of them in the innermost axis.
    fn launch_pointwise(&self, launches: &mut Launches, any_length: bool, count: &str, more: &str) {
        let suffix = &self.suffix;
        let program = self.words.program;
        let _ = writeln!(
            launches.lets,
            "# Elements of one access.\naccess{suffix} = \"max(1, bytes / {})\"",
            self.widest()
        );
        let inner = program.over_axes(&self.kernel().axes[self.inner].length);
        let mut kinds = vec![("even", format!("access{suffix}"))];
        if !any_length {
            let _ = writeln!(launches.lets, "even{suffix} = \"({inner}) % access{suffix} == 0\"");
            kinds.push(("uneven", "1".to_owned()));
        }
        launches.uses_few = true;
        let first = if program.is_variable() { "\"T\", " } else { "" };
        for (kind, width) in kinds {
            for (index, condition) in [("i32", "few"), ("i64", "not few")] {
                let is_even = match (any_length, kind) {
                    (true, _) => String::new(),
                    (false, "even") => format!(" and even{suffix}"),
                    (false, _) => format!(" and not even{suffix}"),
                };
                // A call of fewer elements than one access has still one block.
                let packs = format!("max(({count}) / {width}, min({count}, 1))");
                let _ = write!(
                    launches.kernels,
                    "\n[[launch.kernel]]\nentry = \"{}::{}\"\ntemplate = [{first}\"block\", \"unroll\", \"{width}\", \"{index}\"]\n\
                     grid = [\"ceil_div({packs}, block * unroll)\"]\nblock = [\"block\"]\nargs = [{}]\nwhen = \"{condition}{is_even}{more}\"\n",
                    self.space,
                    self.name,
                    self.arguments(index),
                );
            }
        }
    }
}
