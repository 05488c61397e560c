//! Device code, and how it is started.
//!
//! Owns: the skeletons of kernels, their settings and launches. Never: names or spells an expression; words.rs does.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::index::Index;
use super::super::kernel::{Buffer, Expression, Form, Kernel, NodeId, Role, Store};
use super::super::length::Length;
use super::super::plan::Plan;
use super::super::program::{Class, Element, Program, Tensor};
use super::super::spell;
use super::Project;
use super::contract::over_axes;
use super::words::{Lines, Words};
use crate::units::Dtype;

/// How kernels are started: parts of op.toml.
#[derive(Debug, Default)]
pub(super) struct Launches {
    /// `[let]`.
    pub(super) lets: String,
    /// `[tune]`.
    pub(super) tune: String,
    /// `[[launch.kernel]]`.
    pub(super) kernels: String,
    /// Workspaces of reductions that are divided.
    pub(super) partial: Vec<Tensor>,
    /// Whether `few` is used.
    pub(super) uses_few: bool,
}

/// Device code with its launches.
pub(super) struct Cuda {
    pub(super) text: String,
    pub(super) launches: Launches,
}

/// Writes all kernels.
pub(super) fn source(program: &Program, plan: &Plan, project: &Project) -> Cuda {
    let mut lines = Lines::new();
    let op = &project.op;
    lines.add(
        0,
        format!(
            "// What `{}` of {} computes, in {}.",
            program.function,
            project.file,
            match plan.kernels.len() {
                1 => "one kernel".to_owned(),
                number => format!("{number} kernels"),
            }
        ),
    );
    lines.add(0, "// Owns: the kernels. Never: chooses among them; [launch] of op.toml does. Written by `kernelwright new`; it is yours.");
    lines.add(0, "");
    lines.add(0, "#include \"team.cuh\"");
    lines.add(0, "");
    lines.add(0, format!("namespace {op}_steps {{"));
    lines.add(0, "");
    lines.add(0, "using namespace steps;");
    lines.add(0, "using namespace team;");
    let mut launches = Launches::default();
    for (number, kernel) in plan.kernels.iter().enumerate() {
        let name = if plan.kernels.len() == 1 { "apply".to_owned() } else { format!("apply_{number}") };
        let suffix = if plan.kernels.len() == 1 { String::new() } else { format!("_{number}") };
        let writer = Writer::new(program, plan, kernel, format!("{op}_steps"), name, suffix);
        lines.add(0, "");
        writer.write(&mut lines, &mut launches);
    }
    lines.add(0, "");
    lines.add(0, format!("}}  // namespace {op}_steps"));
    launches.tune = tune(plan, &launches.lets);
    Cuda { text: lines.finish(), launches }
}

fn tune(plan: &Plan, lets: &str) -> String {
    let mut text = String::from("[tune]\n");
    let has = |form: Form| plan.kernels.iter().any(|kernel| kernel.form() == form);
    let pointwise = has(Form::Pointwise);
    if pointwise {
        text += "# More do not fit into the registers.\nconstraints = [\"block * unroll <= 4096\"]\n";
    }
    if pointwise || has(Form::Row) {
        text += "\n# Bytes of one access to the widest tensor.\n[tune.bytes]\nvalues = [4, 8, 16]\ndefault = 16\n";
    }
    if pointwise {
        text += "\n[tune.block]\nvalues = [64, 128, 256, 512, 1024]\ndefault = 256\n";
        text += "\n# Vectors of results that a thread makes.\n[tune.unroll]\nvalues = [1, 2, 4, 8]\ndefault = 2\n";
    }
    if has(Form::Row) {
        text += "\n# Threads of a row that has a block.\n[tune.threads]\nvalues = [128, 256, 512, 1024]\ndefault = 256\n";
        text += "\n# Elements of the longest row that a warp has.\n[tune.narrow]\nvalues = [128, 512, 1024, 2048]\ndefault = 1024\n";
    }
    if has(Form::Column) {
        text += "\n# Threads of a block of 32 columns.\n[tune.column_threads]\nvalues = [128, 256, 512, 1024]\ndefault = 256\n";
    }
    if lets.contains("spread") {
        text += "\n# Results of many elements are divided among blocks where there are fewer blocks than this.\n[tune.spread]\nvalues = [0, 132, 264, 528, 1056]\ndefault = 528\n";
    }
    if text == "[tune]\n" { String::new() } else { text }
}

struct Writer<'a> {
    words: Words<'a>,
    space: String,
    name: String,
    suffix: String,
    inner: usize,
}

/// Parameters on one line, or one on each.
fn wrapped(list: &[String]) -> String {
    let line = list.join(", ");
    if line.len() < 80 { line } else { format!("\n    {}", list.join(",\n    ")) }
}

/// The type of an element in memory.
fn stored(element: Element) -> &'static str {
    match element {
        Element::Variable => "T",
        Element::Fixed(dtype) => dtype.cuda_name(),
    }
}

impl<'a> Writer<'a> {
    fn new(
        program: &'a Program,
        plan: &'a Plan,
        kernel: &'a Kernel,
        space: String,
        name: String,
        suffix: String,
    ) -> Self {
        let words = Words::new(program, plan, kernel);
        Self { words, space, name, suffix, inner: kernel.axes.len() - 1 }
    }

    fn kernel(&self) -> &'a Kernel {
        self.words.kernel
    }

    fn pointer(&self, buffer: Buffer) -> String {
        let (_, written) = self.words.plan.moved(self.kernel());
        let word = if written.contains(&buffer) { "to" } else { "from" };
        format!("{}_{word}", self.words.tensor(buffer))
    }

    fn template(&self) -> &'static str {
        if self.words.program.is_variable() { "typename T, " } else { "" }
    }

    fn tensors(&self) -> Vec<Buffer> {
        let (read, written) = self.words.plan.moved(self.kernel());
        let mut all = written;
        all.dedup();
        all.extend(read);
        all
    }

    /// The parameters of the kernel.
    fn parameters(&self, index: &str) -> String {
        let (_, written) = self.words.plan.moved(self.kernel());
        let mut list: Vec<String> = self
            .tensors()
            .iter()
            .map(|buffer| {
                let word = if written.contains(buffer) { "" } else { "const " };
                format!(
                    "{word}{}* __restrict__ {}",
                    stored(self.words.elements[buffer]),
                    self.pointer(*buffer)
                )
            })
            .collect();
        list.extend(self.words.symbols().iter().map(|name| format!("{index} {name}")));
        wrapped(&list)
    }

    /// The arguments of the launch.
    fn arguments(&self, index: &str) -> String {
        let mut list: Vec<String> =
            self.tensors().iter().map(|buffer| format!("\"{}\"", self.words.tensor(*buffer))).collect();
        list.extend(self.lengths(index));
        list.join(", ")
    }

    /// The lengths among the arguments of the launch.
    fn lengths(&self, index: &str) -> Vec<String> {
        let length = |name: String| {
            let length = over_axes(self.words.program, &Length::symbol(name));
            format!("{{ {index} = \"{}\" }}", length.trim_start_matches('(').trim_end_matches(')'))
        };
        self.words.symbols().into_iter().map(length).collect()
    }

    fn write(&self, lines: &mut Lines, launches: &mut Launches) {
        lines.add(
            0,
            format!("// {}.", super::table::summary(self.words.program, self.words.plan, self.kernel())),
        );
        match self.kernel().form() {
            Form::Pointwise => self.pointwise(lines, launches),
            Form::Row | Form::Column => self.reduction(lines, launches),
            Form::Scan => self.scan(lines, launches),
        }
    }

    /// The largest element of tensors that are moved in packs.
    fn widest(&self) -> String {
        let mut fixed = 0;
        let mut variable = false;
        for buffer in self.tensors() {
            match self.words.elements[&buffer] {
                Element::Variable => variable = true,
                Element::Fixed(dtype) => fixed = fixed.max(dtype.size_bytes()),
            }
        }
        match (variable, fixed) {
            (true, 0..=2) => "sizeof(T)".to_owned(),
            (true, fixed) => format!("max(sizeof(T), {fixed})"),
            (false, fixed) => fixed.to_string(),
        }
    }

    /// An index, which is `place` where that counts all places of the iteration.
    fn index(&self, index: &Index) -> String {
        let kernel = self.kernel();
        let lengths: Vec<Length> = kernel.axes.iter().map(|axis| axis.length.clone()).collect();
        let places: Vec<Index> = (0..lengths.len()).map(Index::axis).collect();
        let is_whole = kernel.form() == Form::Pointwise && lengths.len() > 1;
        if is_whole && *index == super::super::index::offset(&lengths, &places) {
            return "place".to_owned();
        }
        self.words.index(index)
    }

    /// Whether neighboring elements along the innermost axis lie together, at a multiple of a pack where the axis is one.
    fn is_packed(&self, index: &Index) -> bool {
        let length = &self.kernel().axes[self.inner].length;
        let even = |factor: &Length| {
            factor.divided(length).is_some() || factor.value().is_some_and(|one| one % 16 == 0)
        };
        let others = index.parts.iter().all(|(part, factor)| match part {
            super::super::index::Part::Axis(axis) if *axis == self.inner => true,
            _ => even(factor),
        });
        index.step(self.inner).is_some_and(|step| step.is(1)) && others && even(&index.constant)
    }

    /// Places along axes, of a number that counts them all.
    fn decode(&self, lines: &mut Lines, depth: usize, axes: &[usize], whole: &str, kind: &str) {
        let lengths: Vec<Length> = axes.iter().map(|axis| self.kernel().axes[*axis].length.clone()).collect();
        for (number, axis) in axes.iter().enumerate() {
            let inner = Length::product(&lengths[number + 1..]);
            let divided =
                if inner.is(1) { whole.to_owned() } else { format!("{whole} / {}", inner.as_factor()) };
            let value =
                if number == 0 { divided } else { format!("{divided} % {}", lengths[number].as_factor()) };
            if self.is_used(*axis) {
                lines.add(depth, format!("const {kind} {} = {value};", self.words.axes[*axis]));
            }
        }
    }

    /// Whether something names the place along an axis.
    fn is_used(&self, axis: usize) -> bool {
        let named = |index: &Index| index.uses(axis) && self.index(index) != "place";
        let nodes = self.kernel().nodes.iter().any(|node| match &node.expression {
            Expression::Load(_, index) | Expression::Place(index) => named(index),
            _ => false,
        });
        nodes || self.kernel().stores.iter().any(|store| named(&store.offset))
    }

    /// Statements for `kElements` places from those of the axes on, without what is in `known`.
    fn places(
        &self,
        lines: &mut Lines,
        depth: usize,
        known: &BTreeSet<NodeId>,
        terms: &[usize],
        stores: &[&Store],
        packs: bool,
    ) {
        let kernel = self.kernel();
        let mut targets: Vec<NodeId> = terms.iter().map(|number| kernel.reductions[*number].of).collect();
        targets.extend(stores.iter().map(|store| store.value));
        let needed = self.needed(&targets, known);
        let mut inside: Vec<NodeId> = Vec::new();
        for node in needed {
            let own = &kernel.nodes[node];
            if let Expression::Load(buffer, index) = &own.expression {
                let (pointer, name) = (self.pointer(*buffer), &self.words.nodes[node]);
                if packs && self.is_packed(index) {
                    let place = self.index(index);
                    lines.add(
                        depth,
                        format!("const auto {name}_pack = load<kElements>({pointer} + {place});"),
                    );
                } else if index.computed().is_empty() && !index.uses(self.inner) {
                    let place = self.words.index(index);
                    lines.add(
                        depth,
                        format!("const {} {name} = number({pointer}[{place}]);", Words::kind(own.class)),
                    );
                    continue;
                }
            }
            inside.push(node);
        }
        for store in stores.iter().filter(|store| packs && self.is_packed(&store.offset)) {
            let element = stored(self.words.elements[&store.buffer]);
            lines.add(depth, format!("Pack<{element}, kElements> {}_pack;", self.words.tensor(store.buffer)));
        }
        let depth_inside = if packs { depth + 1 } else { depth };
        let name = &self.words.axes[self.inner];
        let at = if packs { format!("{name} + j") } else { name.clone() };
        let moved = |index: &Index| {
            let axis = |axis: usize| {
                if axis == self.inner && packs {
                    format!("({name} + j)")
                } else {
                    self.words.axes[axis].clone()
                }
            };
            spell::index(index, &axis, &|node| self.words.nodes[node].clone())
        };
        if packs {
            lines.add(0, "#pragma unroll");
            lines.add(depth, "for (int j = 0; j < kElements; ++j) {");
        }
        for node in &inside {
            let own = &kernel.nodes[*node];
            let value = match &own.expression {
                Expression::Load(_, index) if packs && self.is_packed(index) => {
                    format!("number({}_pack.elements[j])", self.words.nodes[*node])
                }
                Expression::Load(buffer, index) => {
                    format!("number({}[{}])", self.pointer(*buffer), moved(index))
                }
                Expression::Place(index) => moved(index),
                _ => self.words.value(*node),
            };
            lines.quote(depth_inside, own.origin.as_ref());
            lines.add(
                depth_inside,
                format!("const {} {} = {value};", Words::kind(own.class), self.words.nodes[*node]),
            );
        }
        for number in terms {
            let one = &kernel.reductions[*number];
            let (join, found) = (Words::join(one.how), &self.words.found[*number]);
            let value = self.words.operand(one.of).0;
            let term =
                if one.how.is_place() { format!("Found{{{value}, {}}}", self.flat(&at)) } else { value };
            lines.add(depth_inside, format!("{found} = {join}::of({found}, {term});"));
        }
        for store in stores {
            let value = self.words.operand(store.value).0;
            let to = if packs && self.is_packed(&store.offset) {
                format!("{}_pack.elements[j]", self.words.tensor(store.buffer))
            } else {
                format!("{}[{}]", self.pointer(store.buffer), moved(&store.offset))
            };
            lines.add(depth_inside, format!("put({value}, {to});"));
        }
        if packs {
            lines.add(depth, "}");
        }
        for store in stores.iter().filter(|store| packs && self.is_packed(&store.offset)) {
            let (pointer, place) = (self.pointer(store.buffer), self.index(&store.offset));
            lines
                .add(depth, format!("store({pointer} + {place}, {}_pack);", self.words.tensor(store.buffer)));
        }
    }

    /// The place along all reduced axes, `at` along the innermost one.
    fn flat(&self, at: &str) -> String {
        let kernel = self.kernel();
        let axes: Vec<usize> = kernel.along(Role::Reduced).collect();
        let lengths: Vec<Length> = axes.iter().map(|axis| kernel.axes[*axis].length.clone()).collect();
        let places: Vec<Index> = axes.iter().map(|axis| Index::axis(*axis)).collect();
        let offset = super::super::index::offset(&lengths, &places);
        let axis = |axis: usize| {
            if axis == self.inner { format!("({at})") } else { self.words.axes[axis].clone() }
        };
        spell::index(&offset, &axis, &|_| String::new())
    }

    fn needed(&self, targets: &[NodeId], known: &BTreeSet<NodeId>) -> Vec<NodeId> {
        let mut found = BTreeSet::new();
        let mut pending = targets.to_vec();
        while let Some(node) = pending.pop() {
            if known.contains(&node) || !found.insert(node) {
                continue;
            }
            match &self.kernel().nodes[node].expression {
                Expression::Operation(_, of) => pending.extend(of),
                Expression::Load(_, index) | Expression::Place(index) => pending.extend(index.computed()),
                _ => {}
            }
        }
        let is_number =
            |node: &NodeId| matches!(self.kernel().nodes[*node].expression, Expression::Number(_));
        found.into_iter().filter(|node| !is_number(node)).collect()
    }

    fn pointwise(&self, lines: &mut Lines, launches: &mut Launches) {
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
        self.places(lines, 1, &BTreeSet::new(), &[], &stores, true);
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
        self.launch_pointwise(launches, flat, &over_axes(self.words.program, &whole));
    }

    fn launch_pointwise(&self, launches: &mut Launches, flat: bool, count: &str) {
        let suffix = &self.suffix;
        let program = self.words.program;
        let _ = writeln!(
            launches.lets,
            "# Elements of one access.\naccess{suffix} = \"max(1, bytes / {})\"",
            self.widest()
        );
        let inner = over_axes(program, &self.kernel().axes[self.inner].length);
        let mut kinds = vec![("even", format!("access{suffix}"))];
        if !flat {
            let _ = writeln!(launches.lets, "even{suffix} = \"({inner}) % access{suffix} == 0\"");
            kinds.push(("uneven", "1".to_owned()));
        }
        launches.uses_few = true;
        let first = if program.is_variable() { "\"T\", " } else { "" };
        for (kind, width) in kinds {
            for (index, condition) in [("i32", "few"), ("i64", "not few")] {
                let more = match (flat, kind) {
                    (true, _) => String::new(),
                    (false, "even") => format!(" and even{suffix}"),
                    (false, _) => format!(" and not even{suffix}"),
                };
                // A call of fewer elements than one access has still one block.
                let packs = format!("max(({count}) / {width}, min({count}, 1))");
                let _ = write!(
                    launches.kernels,
                    "\n[[launch.kernel]]\nentry = \"{}::{}\"\ntemplate = [{first}\"block\", \"unroll\", \"{width}\", \"{index}\"]\n\
                     grid = [\"ceil_div({packs}, block * unroll)\"]\nblock = [\"block\"]\nargs = [{}]\nwhen = \"{condition}{more}\"\n",
                    self.space,
                    self.name,
                    self.arguments(index),
                );
            }
        }
    }

    /// A kernel in which threads make one number of many elements together.
    fn reduction(&self, lines: &mut Lines, launches: &mut Launches) {
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
    fn reduction_head(&self, lines: &mut Lines, name: &str, parameters: &str, row: bool, parts: bool) {
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
    fn round(&self, lines: &mut Lines, row: bool, level: usize, known: &BTreeSet<NodeId>, stores: &[&Store]) {
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
    fn one_each(&self, lines: &mut Lines) {
        let others: Vec<&Store> = self.kernel().stores.iter().filter(|store| !self.is_full(store)).collect();
        if others.is_empty() {
            return;
        }
        lines.add(1, "if (is_one && Own::lane() == 0) {");
        for store in others {
            let place = self.words.index(&store.offset);
            lines.add(
                2,
                format!(
                    "put({}, {}[{place}]);",
                    self.words.operand(store.value).0,
                    self.pointer(store.buffer)
                ),
            );
        }
        lines.add(1, "}");
    }

    /// Whether several blocks may have an instance: where there is one round, and one result for each instance.
    fn is_divided(&self) -> bool {
        let kernel = self.kernel();
        kernel.levels() == 1
            && kernel.stores.iter().all(|store| !self.is_full(store))
            && kernel.reductions.iter().all(|one| !one.how.is_place())
    }

    /// The memory for what the parts of instances come to.
    fn partial(&self) -> Vec<(String, Element)> {
        let kernel = self.kernel();
        let all = kernel.reductions.iter().enumerate();
        all.map(|(number, one)| {
            let integer = kernel.nodes[one.of].class == Class::Integer;
            let element = Element::Fixed(if integer { Dtype::I64 } else { Dtype::F32 });
            (format!("partial_{number}{}", self.suffix), element)
        })
        .collect()
    }

    /// The first of two stages: what each part of an instance comes to.
    fn parts(&self, lines: &mut Lines, row: bool) {
        let mut list: Vec<String> = self
            .partial()
            .iter()
            .map(|(name, element)| format!("{}* __restrict__ {name}", stored(*element)))
            .collect();
        let (read, _) = self.words.plan.moved(self.kernel());
        list.extend(read.iter().map(|buffer| {
            format!("const {}* __restrict__ {}", stored(self.words.elements[buffer]), self.pointer(*buffer))
        }));
        list.extend(self.words.symbols().iter().map(|name| format!("Index {name}")));
        list.push("int parts".to_owned());
        lines.add(0, "");
        lines.add(0, "// The same by several blocks for each result: what each part comes to.");
        self.reduction_head(lines, &format!("{}_parts", self.name), &wrapped(&list), row, true);
        let mut known = BTreeSet::new();
        self.instance_values(lines, 0, &mut known, &[]);
        self.round(lines, row, 0, &known, &[]);
        lines.add(1, "if (is_one && Own::lane() == 0) {");
        for ((name, _), found) in self.partial().iter().zip(&self.words.found) {
            lines.add(
                2,
                format!("{name}[static_cast<long long>(instance) * parts + blockIdx.x % parts] = {found};"),
            );
        }
        lines.add(1, "}");
        lines.add(0, "}");
    }

    /// The second stage: a warp joins the parts of an instance, in the same order in every run.
    fn join_parts(&self, lines: &mut Lines) {
        let kernel = self.kernel();
        let parallel: Vec<usize> = kernel.along(Role::Parallel).collect();
        let mut list: Vec<String> = self
            .partial()
            .iter()
            .map(|(name, element)| format!("const {}* __restrict__ {name}", stored(*element)))
            .collect();
        let parameters = self.parameters("Index");
        list.insert(0, parameters.trim().to_owned());
        list.push("int parts".to_owned());
        lines.add(0, "");
        lines.add(0, "// The parts of each result, joined by a warp.");
        lines.add(0, format!("template <{}typename Index>", self.template()));
        lines.add(
            0,
            format!("__global__ void __launch_bounds__(128) {}_join({}) {{", self.name, wrapped(&list)),
        );
        lines.add(1, "using Own = Team<1, kWarp>;");
        lines.add(1, format!("const Index instances = {};", kernel.length(Role::Parallel)));
        lines.add(1, "const long long own = Own::instance(blockIdx.x);");
        lines.add(1, "const bool is_one = own < instances;");
        lines.add(1, "const Index instance = is_one ? static_cast<Index>(own) : 0;");
        self.decode(lines, 1, &parallel, "instance", "Index");
        for (number, one) in kernel.reductions.iter().enumerate() {
            let sample = Words::sample(one.how, kernel.nodes[one.of].class);
            lines.add(
                1,
                format!("auto {} = {}::start({sample});", self.words.found[number], Words::join(one.how)),
            );
        }
        lines.add(1, "for (int part = Own::lane(); part < parts; part += Own::lanes()) {");
        for (number, (name, _)) in self.partial().iter().enumerate() {
            let (found, join) = (&self.words.found[number], Words::join(kernel.reductions[number].how));
            lines.add(
                2,
                format!(
                    "{found} = {join}::of({found}, {name}[static_cast<long long>(instance) * parts + part]);"
                ),
            );
        }
        lines.add(1, "}");
        for (number, one) in kernel.reductions.iter().enumerate() {
            let found = &self.words.found[number];
            lines.add(1, format!("{found} = all<{}, Own>({found});", Words::join(one.how)));
        }
        lines.begin();
        // Only what results need, which is the same for all elements.
        let targets: Vec<NodeId> = kernel.stores.iter().map(|store| store.value).collect();
        for node in self.needed(&targets, &BTreeSet::new()) {
            self.statement(lines, 1, node);
        }
        self.one_each(lines);
        lines.add(0, "}");
    }

    /// The loop of a thread over its elements.
    fn loop_head(&self, lines: &mut Lines, row: bool, reduced: &[usize]) {
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
    fn decode_reduced(&self, lines: &mut Lines, reduced: &[usize]) {
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

    /// Values that are the same for all elements of an instance, as far as they are known after some rounds.
    fn instance_values(
        &self,
        lines: &mut Lines,
        level: usize,
        known: &mut BTreeSet<NodeId>,
        stores: &[Store],
    ) {
        let kernel = self.kernel();
        let terms = kernel.reductions.iter().filter(|one| one.level >= level).map(|one| one.of);
        let targets: Vec<NodeId> = terms.chain(stores.iter().map(|store| store.value)).collect();
        for node in self.needed(&targets, known) {
            let own = &kernel.nodes[node];
            if own.varies || own.level > level {
                continue;
            }
            let value = match &own.expression {
                Expression::Load(buffer, index) => {
                    format!("number({}[{}])", self.pointer(*buffer), self.words.index(index))
                }
                _ => self.words.value(node),
            };
            lines.quote(1, own.origin.as_ref());
            lines.add(1, format!("const {} {} = {value};", Words::kind(own.class), self.words.nodes[node]));
            known.insert(node);
        }
    }

    fn is_full(&self, store: &Store) -> bool {
        let kernel = self.kernel();
        let axes = kernel.axes.iter().enumerate();
        kernel.nodes[store.value].varies
            || axes.filter(|(_, axis)| axis.role != Role::Parallel).any(|(axis, _)| store.offset.uses(axis))
    }

    fn launch_reduction(&self, launches: &mut Launches, row: bool, instances: &Length, elements: &Length) {
        let suffix = &self.suffix;
        let program = self.words.program;
        let (instances, elements) = (over_axes(program, instances), over_axes(program, elements));
        let first = if program.is_variable() { "\"T\", " } else { "" };
        let arguments = self.arguments("i64");
        let entry = format!("{}::{}", self.space, self.name);
        let inner = over_axes(program, &self.kernel().axes[self.inner].length);
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

    /// The two stages of a result that several blocks share.
    fn launch_parts(&self, launches: &mut Launches, row: bool, first: &str, instances: &str, blocks: &str) {
        let suffix = &self.suffix;
        let partial = self.partial();
        for (name, element) in &partial {
            let shape = vec![self.kernel().length(Role::Parallel), Length::symbol(format!("parts{suffix}"))];
            launches.partial.push(Tensor { name: name.clone(), shape, element: *element });
        }
        let names: Vec<String> = partial.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let (read, _) = self.words.plan.moved(self.kernel());
        let mut arguments = names.clone();
        arguments.extend(read.iter().map(|buffer| format!("\"{}\"", self.words.tensor(*buffer))));
        arguments.extend(self.lengths("i64"));
        arguments.push(format!("{{ i32 = \"parts{suffix}\" }}"));
        let arguments = arguments.join(", ");
        let kinds: &[(&str, String)] = if row {
            &[
                (" and even", format!("\"threads\", \"access{suffix}\"")),
                (" and not even", "\"threads\", 1".to_owned()),
            ]
        } else {
            &[("", "\"column_threads\"".to_owned())]
        };
        let threads = if row { "threads" } else { "column_threads" };
        for (condition, template) in kinds {
            let condition = if condition.is_empty() { String::new() } else { format!("{condition}{suffix}") };
            let _ = write!(
                launches.kernels,
                "\n# Few results of many elements: several blocks for each.\n[[launch.kernel]]\nentry = \"{}::{}_parts\"\n\
                 template = [{first}{template}, \"i64\"]\ngrid = [\"{blocks} * parts{suffix}\"]\nblock = [\"{threads}\"]\n\
                 args = [{arguments}]\nwhen = \"parts{suffix} > 1{condition}\"\n",
                self.space, self.name,
            );
        }
        let mut arguments = vec![self.arguments("i64")];
        arguments.extend(names);
        arguments.push(format!("{{ i32 = \"parts{suffix}\" }}"));
        let first = if first.is_empty() { "" } else { "\"T\", " };
        let _ = write!(
            launches.kernels,
            "\n[[launch.kernel]]\nentry = \"{}::{}_join\"\ntemplate = [{first}\"i64\"]\ngrid = [\"ceil_div({instances}, 4)\"]\n\
             block = [128]\nargs = [{}]\nwhen = \"parts{suffix} > 1\"\n",
            self.space,
            self.name,
            arguments.join(", "),
        );
    }

    /// A warp for every row, which it walks through in order; or a thread for every column.
    fn scan(&self, lines: &mut Lines, launches: &mut Launches) {
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
            let place = self.words.index(&store.offset);
            lines.add(
                3,
                format!(
                    "put({}, {}[{place}]);",
                    self.words.operand(store.value).0,
                    self.pointer(store.buffer)
                ),
            );
        }
        lines.add(2, "}");
        lines.add(1, "}");
        lines.add(0, "}");
        let instances = over_axes(self.words.program, &instances);
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

    fn statement(&self, lines: &mut Lines, depth: usize, node: NodeId) {
        let own = &self.kernel().nodes[node];
        let value = match &own.expression {
            Expression::Load(buffer, index) => {
                format!("number({}[{}])", self.pointer(*buffer), self.words.index(index))
            }
            Expression::Scanned => "scanned".to_owned(),
            _ => self.words.value(node),
        };
        lines.quote(depth, own.origin.as_ref());
        lines.add(depth, format!("const {} {} = {value};", Words::kind(own.class), self.words.nodes[node]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_cudas_types() {
        assert_eq!(stored(Element::Variable), "T");
        assert_eq!(stored(Element::Fixed(Dtype::I64)), "long long");
        assert_eq!(Words::kind(Class::Boolean), "bool");
    }
}
