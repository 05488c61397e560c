//! Code for the processor: pieces of a row at a time, which the compiler makes vectors of.
//!
//! Owns: the loops. Never: names or spells an expression; words.rs does.

use std::collections::BTreeSet;

use super::super::index::Index;
use super::super::kernel::{Buffer, Expression, Form, Kernel, NodeId, Role, Store};
use super::super::length::Length;
use super::super::plan::Plan;
use super::super::program::{Element, Program};
use super::super::spell;
use super::project::Project;
use super::words::{Lines, Words};
use crate::host::camel;
use crate::units::Dtype;

/// Numbers of the workspaces that a kernel reads or writes.
fn workspaces(plan: &Plan, kernel: &Kernel) -> BTreeSet<usize> {
    let (read, written) = plan.moved(kernel);
    let number = |buffer: &Buffer| match buffer {
        Buffer::Workspace(number) => Some(*number),
        _ => None,
    };
    read.iter().chain(&written).filter_map(number).collect()
}

/// Results of a row that are worth a call, where they are independent. op.toml has it in `over`.
pub(super) const PIECE: i64 = 2048;
/// Columns that are reduced side by side; `kChunk` of steps.h.
pub(super) const CHUNK: i64 = 256;

/// The source with the entry.
pub(super) fn source(program: &Program, project: &Project) -> String {
    let element = if program.is_variable() { "call.T" } else { "Element::kF32" };
    let (op, call) = (&project.op, camel(&project.op));
    format!(
        "// {op} on the CPU. Owns: the function that the binding calls. Never: starts threads, keeps state. The arithmetic is in\n\
         // {op}_body.h, compiled for each instruction set by each_isa.h.\n\n\
         #include \"{op}_call.h\"\n\n\
         #include <vector>\n\n\
         #define KERNEL_BODY \"{op}_body.h\"\n\
         #include \"each_isa.h\"\n\n\
         extern \"C\" void {op}_cpu(const {call}Call& call, int64_t first, int64_t last) {{\n    run({element}, call, first, last);\n}}\n"
    )
}

/// The arithmetic.
pub(super) fn body(program: &Program, plan: &Plan, project: &Project) -> String {
    let mut lines = Lines::new();
    let op = &project.op;
    lines.add(
        0,
        format!(
            "// What `{}` of {} computes, included by each_isa.h once per instruction set.",
            program.function, project.file
        ),
    );
    lines.add(0, "// Owns: the arithmetic. Never: chooses the instruction set or the type. Written by `kernelwright new`; it is yours.");
    lines.add(0, "");
    lines.add(0, "#include \"steps.h\"");
    lines.add(0, "");
    lines.add(0, "namespace KERNEL_ISA {");
    for (number, kernel) in plan.kernels.iter().enumerate() {
        let name = if plan.kernels.len() == 1 { "pieces".to_owned() } else { format!("{op}_{number}") };
        lines.add(0, "");
        Writer::new(program, plan, kernel, project).write(&mut lines, &name);
    }
    if plan.kernels.len() > 1 {
        lines.add(0, "");
        several(&mut lines, program, plan, project);
    }
    lines.add(0, "");
    lines.add(0, "} // namespace KERNEL_ISA");
    lines.finish()
}

/// Several kernels one after the other, with the memory between them.
fn several(lines: &mut Lines, program: &Program, plan: &Plan, project: &Project) {
    lines.add(0, "// One after the other: each needs all of what comes before.");
    lines.add(0, "template <typename Type>");
    lines.add(
        0,
        format!(
            "KERNEL_TARGET void pieces(const {}Call& call, int64_t first, int64_t last) {{",
            camel(&project.op)
        ),
    );
    lines.add(1, "if (first >= last) {");
    lines.add(2, "return;");
    lines.add(1, "}");
    lengths(lines, program, program.symbols.iter().map(|symbol| symbol.name.as_str()));
    for (number, one) in plan.workspaces.iter().enumerate() {
        let size = Length::product(&one.shape);
        let kind = match one.element {
            Element::Fixed(Dtype::Bool) => "unsigned char",
            Element::Fixed(Dtype::I64) => "int64_t",
            _ => "float",
        };
        lines.add(1, format!("std::vector<{kind}> between_{number}(static_cast<size_t>({size}));"));
    }
    for (number, kernel) in plan.kernels.iter().enumerate() {
        let between = workspaces(plan, kernel);
        let list: Vec<String> = between.iter().map(|one| format!("between_{one}.data(), ")).collect();
        let over = over(kernel);
        lines.add(1, format!("{}_{number}<Type>(call, {}0, {over});", project.op, list.concat()));
    }
    lines.add(0, "}");
}

fn lengths<'a>(lines: &mut Lines, program: &Program, used: impl Iterator<Item = &'a str>) {
    for name in used {
        let Some(symbol) = program.symbols.iter().find(|symbol| symbol.name == name) else { continue };
        let value = match &symbol.multiple {
            Some((axis, by)) => format!("call.{axis} / {by}"),
            None => format!("call.{name}"),
        };
        lines.add(1, format!("[[maybe_unused]] const int64_t {name} = {value};"));
    }
}

/// How many pieces of work a kernel has, in C++.
fn over(kernel: &Kernel) -> String {
    let (outer, inner) = pieces(kernel);
    match inner {
        Some((length, piece)) => format!("{} * (({length} + {}) / {piece})", outer.as_factor(), piece - 1),
        None => outer.to_string(),
    }
}

/// Pieces of work: the product of outer axes, and the innermost one with the size of its pieces, if that is divided.
pub(super) fn pieces(kernel: &Kernel) -> (Length, Option<(Length, i64)>) {
    let last = kernel.axes.len() - 1;
    let divided = kernel.axes[last].role == Role::Parallel;
    let outer = kernel.along(Role::Parallel).filter(|axis| !(divided && *axis == last));
    let outer = Length::product(outer.map(|axis| &kernel.axes[axis].length));
    let size = if kernel.form() == Form::Pointwise { PIECE } else { CHUNK };
    (outer, divided.then(|| (kernel.axes[last].length.clone(), size)))
}

/// What happens to a value of a loop over a piece.
enum Sink<'a> {
    /// It is joined to what a reduction has found.
    Term(usize),
    /// It is joined to what the scan has found.
    ScanTerm,
    /// It is written.
    Store(&'a Store),
    /// It is kept for later loops over the same piece.
    Kept,
}

struct Writer<'a> {
    words: Words<'a>,
    project: &'a Project,
    /// The axis along which pieces are cut.
    inner: usize,
    /// Expressions with a name in scope.
    scalars: BTreeSet<NodeId>,
    /// Expressions with a number for each place of the piece in scope.
    kept: BTreeSet<NodeId>,
}

fn element(element: Element) -> &'static str {
    match element {
        Element::Variable => "Type",
        Element::Fixed(Dtype::F16) => "Float16",
        Element::Fixed(Dtype::Bf16) => "BFloat16",
        Element::Fixed(Dtype::I64) => "Whole<int64_t>",
        Element::Fixed(Dtype::I32) => "Whole<int32_t>",
        Element::Fixed(Dtype::I16) => "Whole<int16_t>",
        Element::Fixed(Dtype::I8) => "Whole<int8_t>",
        Element::Fixed(Dtype::Bool) => "Whole<bool>",
        Element::Fixed(_) => "Float32",
    }
}

impl<'a> Writer<'a> {
    fn new(program: &'a Program, plan: &'a Plan, kernel: &'a Kernel, project: &'a Project) -> Self {
        Self {
            words: Words::new(program, plan, kernel),
            project,
            inner: kernel.axes.len() - 1,
            scalars: BTreeSet::new(),
            kept: BTreeSet::new(),
        }
    }

    fn kernel(&self) -> &'a Kernel {
        self.words.kernel
    }

    fn element(&self, buffer: Buffer) -> &'static str {
        element(self.words.elements[&buffer])
    }

    fn pointer(&self, buffer: Buffer) -> String {
        match buffer {
            Buffer::Workspace(number) => format!("between_{number}"),
            _ => format!("call.{}", self.words.tensor(buffer)),
        }
    }

    /// A place with `at` along the innermost axis.
    fn at_piece(&self, index: &Index) -> String {
        let axis =
            |axis: usize| if axis == self.inner { "at".to_owned() } else { self.words.axes[axis].clone() };
        spell::index(index, &axis, &|node| self.words.nodes[node].clone())
    }

    fn is_inner(&self, role: Role) -> bool {
        self.kernel().axes[self.inner].role == role
    }

    fn write(mut self, lines: &mut Lines, name: &str) {
        let kernel = self.kernel();
        let between = workspaces(self.words.plan, kernel);
        let between: Vec<String> = between.iter().map(|number| format!("void* between_{number}, ")).collect();
        lines.add(0, format!("// {}.", super::table::summary(self.words.program, self.words.plan, kernel)));
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
            Form::Pointwise => self.pointwise(lines),
            Form::Row => self.row(lines),
            Form::Column => self.column(lines),
            Form::Scan if divided => self.scan_of_columns(lines),
            Form::Scan => self.scan_of_rows(lines),
        }
        lines.add(1, "}");
        lines.add(0, "}");
    }

    fn pointwise(&mut self, lines: &mut Lines) {
        self.chunks(lines, 2, "begin", "end");
        let stores: Vec<&Store> = self.kernel().stores.iter().collect();
        let sinks = stores.iter().map(|store| (store.value, Sink::Store(store))).collect();
        self.loop_over(lines, 3, sinks);
        lines.add(2, "}");
    }

    /// The head of a loop over pieces that lie in the first-level cache.
    fn chunks(&self, lines: &mut Lines, depth: usize, begin: &str, end: &str) {
        lines.add(depth, format!("for (int64_t at = {begin}; at < {end}; at += kChunk) {{"));
        lines.add(depth + 1, format!("const int64_t count = at + kChunk < {end} ? kChunk : {end} - at;"));
    }

    /// The reductions of a round with what they begin with.
    fn of_round(&self, level: usize) -> Vec<usize> {
        let all = self.kernel().reductions.iter().enumerate();
        all.filter(|(_, one)| one.level == level).map(|(number, _)| number).collect()
    }

    /// The targets that are left from a round on.
    fn left(&self, level: usize) -> Vec<NodeId> {
        let kernel = self.kernel();
        let terms = kernel.reductions.iter().filter(|one| one.level >= level).map(|one| one.of);
        terms.chain(kernel.stores.iter().map(|store| store.value)).collect()
    }

    /// Expressions that are the same for a whole row, as far as they are known.
    fn row_scalars(&mut self, lines: &mut Lines, level: usize) {
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
                Expression::Reduced(_) => format!("static_cast<{kind}>({})", self.words.value(node)),
                _ => self.words.value(node),
            };
            lines.add(2, format!("const {kind} {} = {value};", self.words.nodes[node]));
            self.scalars.insert(node);
        }
    }

    fn row(&mut self, lines: &mut Lines) {
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

    /// Whether there is a result for every place, and not one for all along reduced axes.
    fn is_full(&self, store: &Store) -> bool {
        let kernel = self.kernel();
        kernel
            .axes
            .iter()
            .enumerate()
            .any(|(axis, own)| own.role != Role::Parallel && store.offset.uses(axis))
            || kernel.form() == Form::Pointwise
            || (kernel.nodes[store.value].varies)
    }

    /// Loops over outer axes; the depth inside.
    fn open(&self, lines: &mut Lines, depth: usize, axes: &[usize]) -> usize {
        for (number, axis) in axes.iter().enumerate() {
            let (name, length) = (&self.words.axes[*axis], &self.kernel().axes[*axis].length);
            lines.add(depth + number, format!("for (int64_t {name} = 0; {name} < {length}; ++{name}) {{"));
        }
        depth + axes.len()
    }

    fn column(&mut self, lines: &mut Lines) {
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
    fn keep_columns(&mut self, lines: &mut Lines, level: usize) {
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

    fn scan_of_rows(&mut self, lines: &mut Lines) {
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

    fn scan_of_columns(&mut self, lines: &mut Lines) {
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

    /// A loop over `count` places from `at` on, in a scope of its own.
    fn loop_over(&self, lines: &mut Lines, depth: usize, sinks: Vec<(NodeId, Sink<'_>)>) {
        let kernel = self.kernel();
        let targets: Vec<NodeId> = sinks.iter().map(|(node, _)| *node).collect();
        let needed = self.needed(&targets);
        let mut in_loop: Vec<(NodeId, String)> = Vec::new();
        for node in &needed {
            let Expression::Load(buffer, index) = &kernel.nodes[*node].expression else { continue };
            let (name, kind) = (&self.words.nodes[*node], Words::kind(kernel.nodes[*node].class));
            let (element, pointer) = (self.element(*buffer), self.pointer(*buffer));
            match index.step(self.inner) {
                Some(step) if step.is(0) => {
                    let place = self.at_piece(index);
                    lines
                        .add(depth, format!("const {kind} {name} = element<{element}>({pointer}, {place});"));
                }
                Some(step) => {
                    let place = self.at_piece(index);
                    lines.add(depth, format!("{kind} {name}_piece[kChunk];"));
                    lines.add(
                        depth,
                        format!("fetch<{element}>({name}_piece, {pointer}, {place}, {step}, count);"),
                    );
                    in_loop.push((*node, format!("{name}_piece[j]")));
                }
                None => {
                    let place = self.words.index(index);
                    in_loop.push((*node, format!("element<{element}>({pointer}, {place})")));
                }
            }
        }
        for (node, sink) in &sinks {
            let kind = Words::kind(kernel.nodes[*node].class);
            match sink {
                Sink::Term(number) if self.is_inner(Role::Reduced) => {
                    let how = kernel.reductions[*number].how;
                    let kind = if how.is_place() { "Found" } else { kind };
                    lines.add(depth, format!("{kind} {}_terms[kChunk];", self.words.found[*number]));
                }
                Sink::Store(store) => {
                    lines.add(depth, format!("{kind} {}_piece[kChunk];", self.words.tensor(store.buffer)));
                }
                _ => {}
            }
        }
        lines.add(depth, "for (int64_t j = 0; j < count; ++j) {");
        if self.uses_place(&needed, &sinks) {
            lines.add(depth + 1, format!("const int64_t {} = at + j;", self.words.axes[self.inner]));
        }
        for node in &needed {
            let own = &kernel.nodes[*node];
            let load = in_loop.iter().find(|(of, _)| of == node).map(|(_, text)| text.clone());
            let value = match &own.expression {
                Expression::Load(..) => match load {
                    Some(text) => text,
                    None => continue,
                },
                Expression::Reduced(number) => {
                    let place = if kernel.reductions[*number].how.is_place() { ".place" } else { "" };
                    format!(
                        "static_cast<{}>({}[j]{place})",
                        Words::kind(own.class),
                        self.words.found[*number]
                    )
                }
                Expression::Scanned => "scanned[j]".to_owned(),
                _ if self.kept.contains(node) => format!("{}_piece[j]", self.words.nodes[*node]),
                _ => self.words.value(*node),
            };
            lines.quote(depth + 1, own.origin.as_ref());
            lines.add(
                depth + 1,
                format!("const {} {} = {value};", Words::kind(own.class), self.words.nodes[*node]),
            );
        }
        for (node, sink) in &sinks {
            let value = self.words.operand(*node).0;
            match sink {
                Sink::Term(number) => self.term(lines, depth + 1, *number, &value),
                Sink::ScanTerm => lines.add(depth + 1, format!("scanned[j] = {value};")),
                Sink::Store(store) => {
                    lines.add(depth + 1, format!("{}_piece[j] = {value};", self.words.tensor(store.buffer)));
                }
                Sink::Kept => {
                    lines.add(depth + 1, format!("{}_piece[j] = {value};", self.words.nodes[*node]))
                }
            }
        }
        lines.add(depth, "}");
        lines.begin();
        for (_, sink) in &sinks {
            let Sink::Store(store) = sink else { continue };
            let (element, pointer) = (self.element(store.buffer), self.pointer(store.buffer));
            let place = self.at_piece(&store.offset);
            let name = self.words.tensor(store.buffer);
            lines.add(depth, format!("keep<{element}>({pointer}, {place}, {name}_piece, count);"));
        }
    }

    fn term(&self, lines: &mut Lines, depth: usize, number: usize, value: &str) {
        let one = &self.kernel().reductions[number];
        let (join, found) = (Words::join(one.how), &self.words.found[number]);
        let term =
            if one.how.is_place() { format!("{{{value}, {}}}", self.flat()) } else { value.to_owned() };
        if self.is_inner(Role::Reduced) {
            lines.add(depth, format!("{found}_terms[j] = {term};"));
        } else if one.how.is_place() {
            lines.add(depth, format!("{found}[j] = {join}::of({found}[j], Found{term});"));
        } else {
            let sample = Words::sample(one.how, self.kernel().nodes[one.of].class);
            let known = format!("decltype({join}::start({sample}))");
            lines.add(depth, format!("{found}[j] = {join}::of({found}[j], static_cast<{known}>({term}));"));
        }
    }

    /// The place along all reduced axes.
    fn flat(&self) -> String {
        let kernel = self.kernel();
        let axes: Vec<usize> = kernel.along(Role::Reduced).collect();
        let lengths: Vec<Length> = axes.iter().map(|axis| kernel.axes[*axis].length.clone()).collect();
        let places: Vec<Index> = axes.iter().map(|axis| Index::axis(*axis)).collect();
        self.words.index(&super::super::index::offset(&lengths, &places))
    }

    /// Whether a statement names the place along the innermost axis.
    fn uses_place(&self, needed: &[NodeId], sinks: &[(NodeId, Sink<'_>)]) -> bool {
        let kernel = self.kernel();
        let places = sinks.iter().any(|(_, sink)| match sink {
            Sink::Term(number) => kernel.reductions[*number].how.is_place() && self.is_inner(Role::Reduced),
            _ => false,
        });
        places
            || needed.iter().any(|node| match &kernel.nodes[*node].expression {
                Expression::Place(index) => index.uses(self.inner),
                Expression::Load(_, index) => index.step(self.inner).is_none() && index.uses(self.inner),
                _ => false,
            })
    }

    /// As `Words::needed`, without what is in scope already.
    fn needed(&self, targets: &[NodeId]) -> Vec<NodeId> {
        let mut found = BTreeSet::new();
        let mut pending = targets.to_vec();
        while let Some(node) = pending.pop() {
            if self.scalars.contains(&node) || !found.insert(node) || self.kept.contains(&node) {
                continue;
            }
            match &self.kernel().nodes[node].expression {
                Expression::Operation(_, of) => pending.extend(of),
                Expression::Load(_, index) | Expression::Place(index) => pending.extend(index.computed()),
                _ => {}
            }
        }
        let is_statement =
            |node: &NodeId| !matches!(self.kernel().nodes[*node].expression, Expression::Number(_));
        found.into_iter().filter(is_statement).collect()
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

/// Ends of the loop over pieces at a depth and those around it.
fn close(lines: &mut Lines, depth: usize, outermost: usize) {
    for depth in (outermost..=depth).rev() {
        lines.add(depth, "}");
    }
}

/// Ends of the loops inside which the depth is this.
fn close_loops(lines: &mut Lines, depth: usize, outermost: usize) {
    for depth in (outermost..depth).rev() {
        lines.add(depth, "}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_of_a_tensor_has_a_type() {
        assert_eq!(element(Element::Fixed(Dtype::I32)), "Whole<int32_t>");
        assert_eq!(element(Element::Variable), "Type");
    }
}
