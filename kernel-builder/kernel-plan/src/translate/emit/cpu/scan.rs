//! Scans: a row for a thread, or columns side by side.
//!
//! Owns: both skeletons. Never: a loop over a piece.

use super::super::super::kernel::Role;
use super::super::words::{Lines, Words};
use super::loops::Sink;
use super::writer::{Writer, close_loops};

impl Writer<'_> {
    pub(super) fn scan_of_rows(&mut self, lines: &mut Lines) {
        let kernel = self.kernel();
        let Some(scan) = &kernel.scan else { return };
        let (join, class) = (Words::join(scan.how), kernel.nodes[scan.of].class);
        let inner = kernel.axes[self.inner].length.clone();
        lines.begin();
        self.row_scalars(lines, 0);
        lines.add(2, format!("auto so_far = {join}::start({});", Words::sample(scan.how, class)));
        self.chunks(lines, 2, "0", &inner.as_factor());
        let kind = Words::kind(class);
        lines.add(3, format!("{kind} scanned[kChunk];"));
        lines.add(3, "{");
        self.loop_over(lines, 4, vec![(scan.of, Sink::ScanTerm)]);
        lines.add(3, "}");
        lines.add(3, "for (int64_t j = 0; j < count; ++j) {");
        lines.add(4, format!("so_far = {join}::of(so_far, static_cast<decltype(so_far)>(scanned[j]));"));
        lines.add(4, format!("scanned[j] = static_cast<{kind}>(so_far);"));
        lines.add(3, "}");
        let sinks = kernel.stores.iter().map(|store| (store.value, Sink::Store(store))).collect();
        self.loop_over(lines, 3, sinks);
        lines.add(2, "}");
    }

    pub(super) fn scan_of_columns(&mut self, lines: &mut Lines) {
        let kernel = self.kernel();
        let Some(scan) = &kernel.scan else { return };
        let (join, class) = (Words::join(scan.how), kernel.nodes[scan.of].class);
        let (sample, kind) = (Words::sample(scan.how, class), Words::kind(class));
        lines.add(2, "const int64_t at = begin;");
        lines.add(2, "const int64_t count = end - begin;");
        lines.begin();
        lines.add(2, format!("decltype({join}::start({sample})) so_far[kChunk];"));
        lines.add(2, "for (int64_t j = 0; j < count; ++j) {");
        lines.add(3, format!("so_far[j] = {join}::start({sample});"));
        lines.add(2, "}");
        let axes: Vec<usize> = kernel.along(Role::Scanned).collect();
        let depth = self.open(lines, 2, &axes);
        lines.add(depth, format!("{kind} scanned[kChunk];"));
        lines.add(depth, "{");
        self.loop_over(lines, depth + 1, vec![(scan.of, Sink::ScanTerm)]);
        lines.add(depth, "}");
        lines.add(depth, "for (int64_t j = 0; j < count; ++j) {");
        lines.add(depth + 1, format!("so_far[j] = {join}::of(so_far[j], static_cast<decltype({join}::start({sample}))>(scanned[j]));"));
        lines.add(depth + 1, format!("scanned[j] = static_cast<{kind}>(so_far[j]);"));
        lines.add(depth, "}");
        let sinks = kernel.stores.iter().map(|store| (store.value, Sink::Store(store))).collect();
        self.loop_over(lines, depth, sinks);
        close_loops(lines, depth, 2);
    }
}
