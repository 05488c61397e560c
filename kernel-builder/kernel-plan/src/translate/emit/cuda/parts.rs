//! Results that several blocks share: what each part comes to, and then all parts together.
//!
//! Owns: the two kernels and their launches. Never: adds up in another order in another run.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::super::kernel::{NodeId, Role};
use super::super::super::length::Length;
use super::super::super::program::{Class, Element, Tensor};
use super::super::words::{Lines, Words};
use super::launches::Launches;
use super::writer::{Writer, stored, wrapped};
use crate::units::Dtype;

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

    /// The first of two stages: what each part of an instance comes to.
    pub(super) fn parts(&self, lines: &mut Lines, row: bool) {
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
}
