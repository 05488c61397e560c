//! Kernels in which every place is for itself, and some tensors have their neighbors along another axis than the results.
//!
//! Owns: the skeleton and its launches. Never: a reduction; memory that threads share.
//!
//! A thread makes a tile of results. It reads a pack of each of its columns, and writes a pack of each of its rows: the
//! elements change places in registers, where that costs nothing.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::super::index::{Index, Part};
use super::super::super::kernel::{Expression, Form, NodeId, SHORT, Store};
use super::super::super::length::Length;
use super::super::super::spell;
use super::super::words::Lines;
use super::launches::Launches;
use super::writer::{Held, Work, Writer, stored, wrapped};

impl Writer<'_> {
    pub(super) fn transposition(&self, lines: &mut Lines, launches: &mut Launches) {
        let kernel = self.kernel();
        let Some(across) = kernel.across() else { return };
        let inner = &kernel.axes[self.inner].length;
        if inner.value().is_none() {
            // The rows may be short.
            let length = self.words.program.over_axes(inner);
            self.pointwise(lines, launches, &format!(" and {length} < {SHORT}"));
            lines.add(0, "");
        }
        self.tiles(lines, across);
        self.launch_tiles(launches, across);
    }

    /// Whether a load of a transposition has its neighbors along the axis across.
    pub(super) fn lies_across(&self, index: &Index) -> bool {
        let kernel = self.kernel();
        kernel.form() == Form::Transposition
            && kernel.across().is_some_and(|axis| kernel.lies_across(index, axis))
    }

    /// The lengths that must be whole numbers of packs for packs along the axis across to begin where those of memory do,
    /// beside that of the axis. `None` if they never do.
    fn even_across(&self, index: &Index, across: usize) -> Option<Vec<Length>> {
        let along = &self.kernel().axes[across].length;
        let others = index.parts.iter().filter(|(part, _)| **part != Part::Axis(across));
        let mut found = Vec::new();
        for length in others.map(|(_, factor)| factor).chain([&index.constant]) {
            match length.value() {
                Some(value) if value % 2 != 0 => return None,
                Some(value) if value % 16 == 0 => {}
                _ if length.divided(along).is_some() => {}
                _ => found.push(length.clone()),
            }
        }
        Some(found)
    }

    /// The kernel.
    fn tiles(&self, lines: &mut Lines, across: usize) {
        self.tiles_head(lines, across);
        let (row, column) = (&self.words.axes[across], &self.words.axes[self.inner]);
        let columns = &self.kernel().axes[self.inner].length;
        lines.add(0, "#pragma unroll");
        lines.add(1, "for (int i = 0; i < kUnroll; ++i) {");
        lines
            .add(2, format!("// A few neighbors are side by side along {column}, the next few along {row}."));
        lines.add(2, "const Index tile = first + i * kBlock;");
        lines.add(2, "const Index band = tile / neighbors % bands;");
        lines.add(2, "const Index group = tile / neighbors / bands % groups;");
        lines.add(2, format!("const Index {column} = (group * neighbors + tile % neighbors) * kElements;"));
        lines.add(2, format!("if (tile >= tiles || {column} >= {columns}) {{"));
        lines.add(3, "continue;");
        lines.add(2, "}");
        let (outer, outside) = (self.outside(across), "tile / neighbors / bands / groups");
        if outer.len() > 1 {
            lines.add(2, format!("const Index outside = {outside};"));
            self.decode(lines, 2, &outer, "outside", "Index");
        } else {
            self.decode(lines, 2, &outer, outside, "Index");
        }
        let held = Held { across: self.read_across(lines, across), ..Held::default() };
        lines.add(0, "#pragma unroll");
        lines.add(2, "for (int row = 0; row < kRows; ++row) {");
        lines.add(3, format!("const Index {row} = band * kRows + row;"));
        lines.begin();
        let stores: Vec<&Store> = self.kernel().stores.iter().collect();
        let work = Work { stores: &stores, held: Some(&held), ..Work::default() };
        self.places(lines, 3, &BTreeSet::new(), &work, true);
        lines.add(2, "}");
        lines.add(1, "}");
        lines.add(0, "}");
    }

    /// The axes that tiles do not have.
    fn outside(&self, across: usize) -> Vec<usize> {
        (0..self.inner).filter(|axis| *axis != across).collect()
    }

    /// How many places those have.
    fn count_outside(&self, across: usize) -> Length {
        Length::product(self.outside(across).iter().map(|axis| &self.kernel().axes[*axis].length))
    }

    /// The kernel up to its loop over the tiles of a thread.
    fn tiles_head(&self, lines: &mut Lines, across: usize) {
        let kernel = self.kernel();
        let (rows, columns) = (&kernel.axes[across].length, &kernel.axes[self.inner].length);
        let (row, column) = (&self.words.axes[across], &self.words.axes[self.inner]);
        lines.add(
            0,
            format!("// A thread makes tiles of kRows places along {row} and kElements along {column}. It reads a pack of kRows"),
        );
        lines.add(0, "// for each column of a tile, and writes a pack of kElements for each row.");
        lines.add(
            0,
            format!(
                "template <{}int kBlock, int kUnroll, int kRows, int kElements, typename Index>",
                self.template()
            ),
        );
        let parameters = [self.parameters("Index").trim().to_owned(), "int neighbors".to_owned()];
        lines.add(
            0,
            format!(
                "__global__ void __launch_bounds__(kBlock) {}_tiles({}) {{",
                self.name,
                wrapped(&parameters)
            ),
        );
        lines.add(1, format!("const Index bands = {} / kRows;", rows.as_factor()));
        let group = "neighbors * kElements";
        lines.add(1, format!("const Index groups = ({columns} + {group} - 1) / ({group});"));
        let outside = self.count_outside(across);
        let times = if outside.is(1) { String::new() } else { format!("{} * ", outside.as_factor()) };
        lines.add(1, format!("const Index tiles = {times}groups * bands * neighbors;"));
        lines
            .add(1, "const Index first = static_cast<Index>(blockIdx.x) * (kBlock * kUnroll) + threadIdx.x;");
    }

    /// Reads the packs that lie across; their loads.
    fn read_across(&self, lines: &mut Lines, across: usize) -> BTreeSet<NodeId> {
        let targets: Vec<NodeId> = self.kernel().stores.iter().map(|store| store.value).collect();
        let mut loads = Vec::new();
        for node in self.needed(&targets, &BTreeSet::new()) {
            if let Expression::Load(buffer, index) = &self.kernel().nodes[node].expression
                && self.lies_across(index)
            {
                loads.push((node, self.words.nodes[node].as_str(), *buffer, index));
            }
        }
        for (_, name, buffer, _) in &loads {
            let element = stored(self.words.elements[buffer]);
            lines.add(2, format!("Pack<{element}, kRows> {name}_packs[kElements];"));
        }
        lines.add(0, "#pragma unroll");
        lines.add(2, "for (int j = 0; j < kElements; ++j) {");
        for (_, name, buffer, index) in &loads {
            let pointer = self.pointer(*buffer);
            let at = |row: &str| {
                let axis = |axis: usize| match &self.words.axes[axis] {
                    name if axis == self.inner => format!("({name} + j)"),
                    _ if axis == across => row.to_owned(),
                    name => name.clone(),
                };
                spell::index(index, &axis, &|node| self.words.nodes[node].clone())
            };
            if self.even_across(index, across).is_some() {
                let place = at("band * kRows");
                lines.add(3, format!("{name}_packs[j] = load<kRows>({pointer} + {place});"));
            } else {
                // It begins somewhere within a pack.
                let place = at("(band * kRows + row)");
                lines.add(0, "#pragma unroll");
                lines.add(3, "for (int row = 0; row < kRows; ++row) {");
                lines.add(4, format!("{name}_packs[j].elements[row] = {pointer}[{place}];"));
                lines.add(3, "}");
            }
        }
        lines.add(2, "}");
        loads.into_iter().map(|(node, ..)| node).collect()
    }

    fn launch_tiles(&self, launches: &mut Launches, across: usize) {
        let suffix = &self.suffix;
        let kernel = self.kernel();
        let program = self.words.program;
        let length = |axis: usize| program.over_axes(&kernel.axes[axis].length);
        let (rows, columns) = (length(across), length(self.inner));
        let may_be_short = kernel.axes[self.inner].length.value().is_none();
        if !may_be_short {
            let _ = writeln!(
                launches.lets,
                "# Elements of one access.\naccess{suffix} = \"max(1, bytes / {})\"",
                self.widest()
            );
        }
        // Lengths that are a whole number of packs where packs are read, if any are.
        let loads = kernel.nodes.iter().filter_map(|node| match &node.expression {
            Expression::Load(_, index) if self.lies_across(index) => self.even_across(index, across),
            _ => None,
        });
        let even: BTreeSet<Length> =
            loads.flat_map(|own| own.into_iter().chain([kernel.axes[across].length.clone()])).collect();
        // A multiple of another one says nothing more.
        let is_said = |one: &Length, other: &Length| {
            one.divided(other).is_some() && (other.divided(one).is_none() || other < one)
        };
        let is_more = |one: &&Length| !even.iter().any(|other| is_said(one, other));
        let rests: Vec<String> = even
            .iter()
            .filter(is_more)
            .map(|length| format!("({}) % tile_access{suffix}", program.over_axes(length)))
            .collect();
        let tile_rows = if rests.is_empty() {
            "1".to_owned()
        } else {
            format!("max(1, tile_access{suffix} * (1 - min(1, {})))", rests.join(" + "))
        };
        let outside = self.count_outside(across);
        let outside =
            if outside.is(1) { String::new() } else { format!("({}) * ", program.over_axes(&outside)) };
        let _ = writeln!(
            launches.lets,
            "# The same for tensors that are transposed.\n\
             tile_access{suffix} = \"max(1, tile_bytes / {})\"\n\
             # A tile is a pack long in each direction, or one element if that axis has no whole number of packs.\n\
             tile_rows{suffix} = \"{tile_rows}\"\n\
             tile_columns{suffix} = \"max(1, access{suffix} * (1 - min(1, ({columns}) % access{suffix})))\"\n\
             # Neighboring threads along a row. If tiles are a pack long in only one direction, more threads lie in the other.\n\
             tile_turn{suffix} = \"tile_rows{suffix} / tile_access{suffix} - tile_columns{suffix} / access{suffix}\"\n\
             tile_lanes{suffix} = \"max(tile_beside * (1 + tile_turn{suffix}), min(tile_beside, max(1, tile_beside * 2 / access{suffix})))\"\n\
             tile_neighbors{suffix} = \"max(1, min(tile_lanes{suffix}, ceil_div({columns}, tile_columns{suffix})))\"\n\
             # Tiles of a thread: more if each is a single element.\n\
             tiles{suffix} = \"max(tile_unroll, access{suffix} / max(tile_rows{suffix}, tile_columns{suffix}))\"\n\
             tile_count{suffix} = \"{outside}ceil_div({rows}, tile_rows{suffix}) * ceil_div({columns}, tile_columns{suffix} * tile_neighbors{suffix}) * tile_neighbors{suffix}\"\n\
             few_tiles{suffix} = \"few and tile_count{suffix} < 2000000000\"",
            self.widest()
        );
        let first = if program.is_variable() { "\"T\", " } else { "" };
        let long = if may_be_short { format!(" and {columns} >= {SHORT}") } else { String::new() };
        launches.uses_few = true;
        for (index, condition) in [("i32", "few_tiles"), ("i64", "not few_tiles")] {
            let _ = write!(
                launches.kernels,
                "\n[[launch.kernel]]\nentry = \"{}::{}_tiles\"\n\
                 template = [{first}\"tile_threads\", \"tiles{suffix}\", \"tile_rows{suffix}\", \"tile_columns{suffix}\", \"{index}\"]\n\
                 grid = [\"ceil_div(tile_count{suffix}, tile_threads * tiles{suffix})\"]\nblock = [\"tile_threads\"]\n\
                 args = [{}, {{ i32 = \"tile_neighbors{suffix}\" }}]\nwhen = \"{condition}{suffix}{long}\"\n",
                self.space,
                self.name,
                self.arguments(index),
            );
        }
    }
}
