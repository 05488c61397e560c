//! A kernel: its head, and the skeleton that it has.
//!
//! Owns: the choice among skeletons, and the one of pointwise kernels. Never: a reduction or a scan.

use super::super::super::kernel::{Form, Role, Store};
use super::super::super::length::Length;
use super::super::words::{Lines, Words};
use super::loops::Sink;
use super::work::{lengths, pieces, workspaces};
use super::writer::Writer;
use crate::host::camel;

impl Writer<'_> {
    pub(super) fn write(mut self, lines: &mut Lines, name: &str) {
        let kernel = self.kernel();
        let between = workspaces(self.words.plan, kernel);
        let between: Vec<String> = between.iter().map(|number| format!("void* between_{number}, ")).collect();
        lines.add(
            0,
            format!("// {}.", super::super::table::summary(self.words.program, self.words.plan, kernel)),
        );
        lines.add(0, "template <typename Type>");
        let call = camel(&self.project.op);
        lines.add(
            0,
            format!(
                "KERNEL_TARGET void {name}(const {call}Call& call, {}int64_t first, int64_t last) {{",
                between.concat()
            ),
        );
        let symbols = self.words.symbols();
        lengths(lines, self.words.program, symbols.iter().map(String::as_str));
        lines.add(1, "for (int64_t piece = first; piece < last; ++piece) {");
        let divided = self.is_inner(Role::Parallel);
        let inner = kernel.axes[self.inner].length.clone();
        let outer: Vec<usize> =
            kernel.along(Role::Parallel).filter(|axis| !(divided && *axis == self.inner)).collect();
        let (_, cut) = pieces(kernel);
        let whole = if let Some((_, size)) = cut {
            lines.add(2, format!("const int64_t pieces = ({inner} + {}) / {size};", size - 1));
            "piece / pieces"
        } else {
            "piece"
        };
        decode(lines, 2, &self.words, &outer, whole);
        if let Some((_, size)) = cut {
            lines.add(2, format!("const int64_t begin = piece % pieces * {size};"));
            lines.add(2, format!("const int64_t end = begin + {size} < {inner} ? begin + {size} : {inner};"));
        }
        match kernel.form() {
            Form::Pointwise | Form::Transposition => self.pointwise(lines),
            Form::Row => self.row(lines),
            Form::Column => self.column(lines),
            Form::Scan if divided => self.scan_of_columns(lines),
            Form::Scan => self.scan_of_rows(lines),
        }
        lines.add(1, "}");
        lines.add(0, "}");
    }

    pub(super) fn pointwise(&mut self, lines: &mut Lines) {
        self.chunks(lines, 2, "begin", "end");
        let stores: Vec<&Store> = self.kernel().stores.iter().collect();
        let sinks = stores.iter().map(|store| (store.value, Sink::Store(store))).collect();
        self.loop_over(lines, 3, sinks);
        lines.add(2, "}");
    }
}

/// The places along axes, of a number that counts them all.
fn decode(lines: &mut Lines, depth: usize, words: &Words<'_>, axes: &[usize], whole: &str) {
    let lengths: Vec<Length> = axes.iter().map(|axis| words.kernel.axes[*axis].length.clone()).collect();
    for (number, axis) in axes.iter().enumerate() {
        let inner = Length::product(&lengths[number + 1..]);
        let divided = if inner.is(1) { whole.to_owned() } else { format!("{whole} / {}", inner.as_factor()) };
        let value =
            if number == 0 { divided } else { format!("{divided} % {}", lengths[number].as_factor()) };
        lines.add(depth, format!("[[maybe_unused]] const int64_t {} = {value};", words.axes[*axis]));
    }
}
