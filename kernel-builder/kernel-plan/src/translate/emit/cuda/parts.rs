//! Results that several blocks share: what each part comes to, and then all parts together.
//!
//! Owns: the two kernels and their launches. Never: adds up in another order in another run.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::super::kernel::{NodeId, Role};
use super::super::super::length::Length;
use super::super::super::program::{Class, Element, Reduction, Tensor};
use super::super::words::{Lines, Words};
use super::launches::Launches;
use super::writer::{Writer, stored, wrapped};
use crate::spec::op::Values;
use crate::units::Dtype;

/// Numbers of a part of a sum of squares: how many elements there were, their mean, and the sum.
const MOMENTS: i64 = 3;

impl Writer<'_> {
    /// Whether several blocks may have an instance: where there is one round, and one result for each instance.
    pub(super) fn is_divided(&self) -> bool {
        let kernel = self.kernel();
        kernel.levels() == 1
            && kernel.stores.iter().all(|store| !self.is_full(store))
            && kernel.reductions.iter().all(|one| !one.how.is_place())
    }

    /// The memory for what the parts of instances come to.
    pub(super) fn partial(&self) -> Vec<(String, Element)> {
        let kernel = self.kernel();
        let all = kernel.reductions.iter().enumerate();
        all.map(|(number, one)| {
            let integer = kernel.nodes[one.of].class == Class::Integer;
            let element = Element::Fixed(if integer { Dtype::I64 } else { Dtype::F32 });
            (format!("partial_{number}{}", self.suffix), element)
        })
        .collect()
    }

    /// Stores what a part has come to, at `place`.
    fn keep_partial(&self, lines: &mut Lines, depth: usize) {
        let reductions = &self.kernel().reductions;
        for (number, (name, _)) in self.partial().iter().enumerate() {
            let found = &self.words.found[number];
            lines.add(
                depth,
                match reductions[number].how {
                    Reduction::Squares => format!("put_moments({found}, {name}, place);"),
                    _ => format!("{name}[place] = {found};"),
                },
            );
        }
    }

    /// The parameters of the first of two stages, and the first argument of its launch.
    fn parameters_of_parts(&self) -> String {
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
        wrapped(&list)
    }

    /// Where a part begins and ends, in steps of so many elements.
    fn share(&self, lines: &mut Lines, width: &str) {
        lines.add(1, format!("const Index elements = {};", self.kernel().length(Role::Reduced)));
        let packs = if width == "1" { "elements".to_owned() } else { format!("elements / {width}") };
        let times = if width == "1" { String::new() } else { format!(" * {width}") };
        lines.add(1, format!("const Index share = ({packs} + parts - 1) / parts{times};"));
        lines.add(1, "const Index begin = share * (blockIdx.x % parts);");
        lines
            .add(1, "const Index end = !is_one ? 0 : (begin + share < elements ? begin + share : elements);");
    }

    /// The first of two stages, of rows: what each part of an instance comes to.
    pub(super) fn row_parts(&self, lines: &mut Lines) {
        let kernel = self.kernel();
        lines.add(0, "");
        lines.add(0, "// The same by several blocks for each result: what each part comes to.");
        lines.add(0, format!("template <{}int kBlock, int kElements, typename Index>", self.template()));
        lines.add(
            0,
            format!(
                "__global__ void __launch_bounds__(kBlock) {}_parts({}) {{",
                self.name,
                self.parameters_of_parts()
            ),
        );
        lines.add(1, "using Own = Team<1, 0>;");
        self.instance(lines, &kernel.length(Role::Parallel), "blockIdx.x / parts", true);
        self.share(lines, "kElements");
        lines.add(1, "const Index first = begin + Own::lane() * kElements;");
        lines.add(1, "const Index step = kBlock * kElements;");
        self.decode(lines, 1, &kernel.along(Role::Parallel).collect::<Vec<_>>(), "instance", "Index");
        let rounds = self.rounds();
        self.hold(lines, &rounds[..1], false);
        lines.begin();
        let mut known = BTreeSet::new();
        self.instance_values(lines, 0, &mut known, &[]);
        self.round(lines, &rounds[0], &known, false);
        lines.add(1, "if (is_one && Own::lane() == 0) {");
        lines
            .add(2, "const long long place = static_cast<long long>(instance) * parts + blockIdx.x % parts;");
        self.keep_partial(lines, 2);
        lines.add(1, "}");
        lines.add(0, "}");
    }

    /// The same of columns.
    pub(super) fn column_parts(&self, lines: &mut Lines) {
        let kernel = self.kernel();
        lines.add(0, "");
        lines.add(0, "// The same by several blocks for each result: what each part comes to.");
        self.column_head(lines, &format!("{}_parts", self.name), &self.parameters_of_parts(), false);
        self.columns(lines, &kernel.length(Role::Parallel), "blockIdx.x / parts");
        self.share(lines, "1");
        lines.add(1, "const Index first = begin + Own::lane();");
        lines.add(1, "const Index step = Own::lanes();");
        let rounds = self.rounds();
        self.hold(lines, &rounds[..1], false);
        lines.begin();
        let mut known = BTreeSet::new();
        self.column_values(lines, 0, &mut known, &[]);
        self.round(lines, &rounds[0], &known, false);
        lines.add(1, "if (is_one && Own::lane() == 0) {");
        lines.add(0, "#pragma unroll");
        lines.add(2, "for (int j = 0; j < kElements; ++j) {");
        lines.add(3, "const long long place = (own + j) * parts + blockIdx.x % parts;");
        self.keep_partial(lines, 3);
        lines.add(2, "}");
        lines.add(1, "}");
        lines.add(0, "}");
    }

    /// The second stage: a warp or a thread joins the parts of an instance, in the same order in every run.
    pub(super) fn join_parts(&self, lines: &mut Lines) {
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
        lines.add(0, "// The parts of each result, joined by a warp, or by one thread where they are few.");
        lines.add(0, format!("template <{}int kLanes, typename Index>", self.template()));
        lines.add(
            0,
            format!("__global__ void __launch_bounds__(128) {}_join({}) {{", self.name, wrapped(&list)),
        );
        lines.add(1, "using Own = Team<1, kLanes>;");
        lines.add(1, format!("const Index instances = {};", kernel.length(Role::Parallel)));
        lines.add(1, "const long long own = Own::instance(blockIdx.x);");
        lines.add(1, "const bool is_one = own < instances;");
        lines.add(1, "const Index instance = is_one ? static_cast<Index>(own) : 0;");
        self.decode(lines, 1, &parallel, "instance", "Index");
        for (number, one) in kernel.reductions.iter().enumerate() {
            let start = self.start(one.how, one.of);
            lines.add(1, format!("auto {} = {start};", self.words.found[number]));
        }
        lines.add(1, "for (int part = Own::lane(); part < parts; part += Own::lanes()) {");
        lines.add(2, "const long long place = static_cast<long long>(instance) * parts + part;");
        for (number, (name, _)) in self.partial().iter().enumerate() {
            let (found, how) = (&self.words.found[number], kernel.reductions[number].how);
            let join = Words::join(how);
            let value = match how {
                Reduction::Squares => format!("moments_at({name}, place)"),
                _ => format!("{name}[place]"),
            };
            lines.add(2, format!("{found} = {join}::of({found}, {value});"));
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
        self.one_each(lines, "Own::lane() == 0");
        lines.add(0, "}");
    }

    /// The two stages of a result that several blocks share.
    pub(super) fn launch_parts(
        &self,
        launches: &mut Launches,
        row: bool,
        first: &str,
        instances: &str,
        blocks: &str,
    ) {
        let suffix = &self.suffix;
        let partial = self.partial();
        for ((name, element), reduction) in partial.iter().zip(&self.kernel().reductions) {
            let mut shape =
                vec![self.kernel().length(Role::Parallel), Length::symbol(format!("parts{suffix}"))];
            if reduction.how == Reduction::Squares {
                shape.push(Length::number(MOMENTS));
            }
            launches.partial.push(Tensor {
                name: name.clone(),
                shape,
                element: *element,
                values: Values::Any,
            });
        }
        let names: Vec<String> = partial.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let (read, _) = self.words.plan.moved(self.kernel());
        let mut arguments = names.clone();
        arguments.extend(read.iter().map(|buffer| format!("\"{}\"", self.words.tensor(*buffer))));
        arguments.extend(self.lengths("i64"));
        arguments.push(format!("{{ i32 = \"parts{suffix}\" }}"));
        let arguments = arguments.join(", ");
        let (threads, elements) = if row {
            ("part_threads", format!("access{suffix}"))
        } else {
            ("column_threads", format!("columns{suffix}"))
        };
        let _ = write!(
            launches.kernels,
            "\n# Few results of many elements: several blocks for each.\n[[launch.kernel]]\nentry = \"{}::{}_parts\"\n\
             template = [{first}\"{threads}\", \"{elements}\", \"i64\"]\ngrid = [\"{blocks} * parts{suffix}\"]\nblock = [\"{threads}\"]\n\
             args = [{arguments}]\nwhen = \"parts{suffix} > 1\"\n",
            self.space, self.name,
        );
        let mut arguments = vec![self.arguments("i64")];
        arguments.extend(names);
        arguments.push(format!("{{ i32 = \"parts{suffix}\" }}"));
        for (lanes, condition) in [(1, "< 16"), (32, ">= 16")] {
            let _ = write!(
                launches.kernels,
                "\n[[launch.kernel]]\nentry = \"{}::{}_join\"\ntemplate = [{first}{lanes}, \"i64\"]\n\
                 grid = [\"ceil_div({instances}, {})\"]\nblock = [128]\nargs = [{}]\n\
                 when = \"parts{suffix} > 1 and parts{suffix} {condition}\"\n",
                self.space,
                self.name,
                128 / lanes,
                arguments.join(", "),
            );
        }
    }
}
