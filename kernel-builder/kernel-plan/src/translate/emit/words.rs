//! Names and statements of a kernel, for the device and the processor alike.
//!
//! Owns: what each expression is called, the comments that quote the person's file. Never: loads or stores.

use std::collections::{BTreeMap, BTreeSet};

use super::super::index::Index;
use super::super::kernel::{Buffer, Expression, Kernel, NodeId, Store};
use super::super::length::Length;
use super::super::plan::Plan;
use super::super::program::{Class, Element, Op, Origin, Program, Reduction};
use super::super::spell::{self, Binding, Spelled};
use super::super::traced::Quantity;

/// Names that something else has: keywords of C++, functions of steps.h and steps.cuh, and names of the emitted code.
const TAKEN: &str = "\
alignas alignof and asm at auto begin bool break call case catch char class concept const continue count decltype default \
delete do double else end enum explicit export extern false first float for friend goto if inline instance int j lane \
last long mutable namespace new not nullptr operator or piece private protected public register requires return row \
short signed sizeof static struct switch template this throw true try typedef typename union unsigned using virtual void \
volatile while xor y0 y1 yn j0 j1 jn abs div exp log sin cos tan floor ceil round pow sqrt min max erf tanh \
acos asin atan sinh cosh log2 log10 log1p exp2 expm1 fmod remainder trunc signbit gamma index time \
infinity not_a_number is_nan is_infinite magnitude sign_of maximum minimum exponential exponential_less_one \
power_of_two logarithm logarithm_of_one_plus logarithm_2 logarithm_10 power sum_alike difference_alike square_root inverse_root logistic \
error_function error_complement sine cosine tangent arcsine arccosine arctangent arctangent2 hyperbolic_sine \
hyperbolic_cosine hyperbolic_tangent philox random_bits area_sine area_cosine area_tangent rounded rounded_down rounded_up \
across bands groups neighbors outside tile tiles own instance instances is_one first step end left share elements parts part i quotient scanned so_far before start steps_of truncated_float truncated remainder_of floor_quotient fmod_of mean_of number put load store element fetch keep keep_one \
from_float to_float steps team vector";

/// Functions that steps.cuh also has as exact as a type.
const EXACT_AS: &[&str] = &[
    "error_complement",
    "error_function",
    "exponential_less_one",
    "logarithm",
    "logarithm_of_one_plus",
    "logistic",
];

/// A kernel with names.
pub(super) struct Words<'a> {
    pub(super) program: &'a Program,
    pub(super) plan: &'a Plan,
    pub(super) kernel: &'a Kernel,
    pub(super) elements: BTreeMap<Buffer, Element>,
    /// A name for each expression.
    pub(super) nodes: Vec<String>,
    /// A name for what each reduction has found.
    pub(super) found: Vec<String>,
    /// A name for the place along each axis.
    pub(super) axes: Vec<String>,
    /// Whether functions may be as exact as results of `T` are, which have 16 bits or 32.
    pub(super) as_exact_as: bool,
}

/// `mul_12` → `mul`.
fn stem(name: &str) -> String {
    let letters: String = name
        .chars()
        .map(|one| if one.is_ascii_alphanumeric() { one.to_ascii_lowercase() } else { '_' })
        .collect();
    let text = letters.trim_matches('_');
    let cut = text.rfind('_').filter(|at| text[at + 1..].chars().all(|one| one.is_ascii_digit()));
    let text = cut.map_or(text, |at| &text[..at]);
    if text.is_empty() || text.starts_with(|one: char| one.is_ascii_digit()) {
        format!("value{text}")
    } else {
        text.to_owned()
    }
}

impl<'a> Words<'a> {
    pub(super) fn new(program: &'a Program, plan: &'a Plan, kernel: &'a Kernel) -> Self {
        let mut taken: BTreeSet<String> = TAKEN.split_whitespace().map(str::to_owned).collect();
        taken.extend(program.symbols.iter().map(|symbol| symbol.name.clone()));
        let mut free = |wanted: &str| {
            let others = (2..).map(|number| format!("{wanted}_{number}"));
            let name = std::iter::once(wanted.to_owned()).chain(others).find(|name| !taken.contains(name));
            let name = name.unwrap_or_else(|| wanted.to_owned());
            taken.insert(name.clone());
            name
        };
        // An axis that is an axis of the operation goes by its name.
        let axes = kernel.axes.iter().enumerate().map(|(number, axis)| match axis.length.as_symbol() {
            Some(symbol) => format!("{symbol}_at"),
            None => format!("axis_{number}_at"),
        });
        let axes: Vec<String> = axes.collect::<Vec<_>>().iter().map(|name| free(name)).collect();
        let nodes = kernel.nodes.iter().map(|node| match node.expression {
            Expression::Number(_) => String::new(),
            _ => free(&stem(&node.name)),
        });
        let nodes = nodes.collect();
        let found = kernel.reductions.iter().map(|one| free(&format!("{}_found", stem(&one.name)))).collect();
        Self {
            program,
            plan,
            kernel,
            elements: plan.elements(program),
            nodes,
            found,
            axes,
            as_exact_as: false,
        }
    }

    /// The same for code that has a template parameter `T`.
    pub(super) fn with_type(self) -> Self {
        let mut results = self.program.outputs.iter().map(|(tensor, _)| tensor.element);
        let as_exact_as = self.program.is_variable()
            && results.all(|one| one == Element::Variable || one.class() != Class::Float);
        Self { as_exact_as, ..self }
    }

    /// The name of a tensor.
    pub(super) fn tensor(&self, buffer: Buffer) -> &str {
        self.plan.name(self.program, buffer)
    }

    /// What a result is called on its way to its tensor, of which a kernel may write several pieces.
    pub(super) fn result(&self, store: &Store) -> String {
        let name = self.tensor(store.buffer);
        let before = self.kernel.stores.iter().take_while(|one| *one != store);
        match before.filter(|one| one.buffer == store.buffer).count() {
            0 => name.to_owned(),
            others => format!("{name}_{}", others + 1),
        }
    }

    /// An index over the names of axes.
    pub(super) fn index(&self, index: &Index) -> String {
        spell::index(index, &|axis| self.axes[axis].clone(), &|node| self.nodes[node].clone())
    }

    /// An expression as an operand.
    pub(super) fn operand(&self, node: NodeId) -> Spelled {
        let own = &self.kernel.nodes[node];
        match own.expression {
            Expression::Number(value) => {
                let text = spell::number(value, own.class);
                let binding = if text.starts_with('-') { Binding::Sign } else { Binding::Whole };
                (text, binding)
            }
            _ => (self.nodes[node].clone(), Binding::Whole),
        }
    }

    /// An expression that is no load.
    pub(super) fn value(&self, node: NodeId) -> String {
        let own = &self.kernel.nodes[node];
        match &own.expression {
            Expression::Load(..) | Expression::Number(_) | Expression::Scanned => self.operand(node).0,
            Expression::Quantity(quantity) => spell::quantity(quantity),
            Expression::Place(index) => self.index(index),
            Expression::Reduced(number) => self.reduced(*number, &self.found[*number]),
            Expression::Mean(number) => format!("mean_of({})", self.found[*number]),
            Expression::Operation(op, of) => {
                let class = of.iter().map(|one| self.kernel.nodes[*one].class).max().unwrap_or(own.class);
                let operands: Vec<Spelled> = of.iter().map(|one| self.operand(*one)).collect();
                match op {
                    Op::Divide if self.as_exact_as => spell::exact_as("quotient", "T", &operands),
                    Op::Function(name) if self.as_exact_as && EXACT_AS.contains(name) => {
                        spell::exact_as(name, "T", &operands)
                    }
                    _ => spell::operation(*op, class, &operands).0,
                }
            }
        }
    }

    /// The result of a reduction, of what it has found.
    pub(super) fn reduced(&self, number: usize, found: &str) -> String {
        match self.kernel.reductions[number].how {
            how if how.is_place() => format!("{found}.place"),
            Reduction::Squares => format!("{found}.squares"),
            _ => found.to_owned(),
        }
    }

    /// Everything that these expressions need, in order, without results of reductions and scans.
    pub(super) fn needed(&self, targets: &[NodeId]) -> Vec<NodeId> {
        let mut found = BTreeSet::new();
        let mut pending = targets.to_vec();
        while let Some(node) = pending.pop() {
            if !found.insert(node) {
                continue;
            }
            match &self.kernel.nodes[node].expression {
                Expression::Operation(_, of) => pending.extend(of),
                Expression::Load(_, index) | Expression::Place(index) => pending.extend(index.computed()),
                _ => {}
            }
        }
        found
            .into_iter()
            .filter(|node| !matches!(self.kernel.nodes[*node].expression, Expression::Number(_)))
            .collect()
    }

    /// The type of an expression.
    pub(super) fn kind(class: Class) -> &'static str {
        match class {
            Class::Float => "float",
            Class::Integer => "long long",
            Class::Boolean => "bool",
        }
    }

    /// The number that is the argument of a reduction's `start`.
    pub(super) fn sample(how: Reduction, class: Class) -> &'static str {
        match (how.is_place(), class) {
            (true, _) => "Found{}",
            (false, Class::Float) => "0.0f",
            (false, _) => "0ll",
        }
    }

    /// The structure of a reduction.
    pub(super) fn join(how: Reduction) -> &'static str {
        match how {
            Reduction::Sum => "Total",
            Reduction::Product => "Product",
            Reduction::Largest => "Largest",
            Reduction::Smallest => "Smallest",
            Reduction::PlaceOfLargest => "PlaceOfLargest",
            Reduction::PlaceOfSmallest => "PlaceOfSmallest",
            Reduction::Mean | Reduction::Squares => "Squares",
        }
    }

    /// The symbols that a kernel's text uses.
    pub(super) fn symbols(&self) -> Vec<String> {
        let mut found = BTreeSet::new();
        let mut add = |length: &Length| found.extend(length.symbols().map(str::to_owned));
        for axis in &self.kernel.axes {
            add(&axis.length);
        }
        for node in &self.kernel.nodes {
            match &node.expression {
                Expression::Load(_, index) | Expression::Place(index) => of_index(index, &mut add),
                Expression::Quantity(quantity) => of_quantity(quantity, &mut add),
                _ => {}
            }
        }
        for store in &self.kernel.stores {
            of_index(&store.offset, &mut add);
        }
        let order = self.program.symbols.iter().map(|symbol| symbol.name.clone());
        order.filter(|name| found.contains(name)).collect()
    }
}

fn of_index(index: &Index, add: &mut dyn FnMut(&Length)) {
    use super::super::index::Part;
    add(&index.constant);
    for (part, factor) in &index.parts {
        add(factor);
        if let Part::Quotient(of, by) | Part::Remainder(of, by) = part {
            add(by);
            of_index(of, add);
        }
    }
}

fn of_quantity(quantity: &Quantity, add: &mut dyn FnMut(&Length)) {
    match quantity {
        Quantity::Length(length) => add(length),
        Quantity::Number(_) => {}
        Quantity::Sum(of) | Quantity::Product(of) => of.iter().for_each(|one| of_quantity(one, add)),
        Quantity::Power(base, exponent) => {
            of_quantity(base, add);
            of_quantity(exponent, add);
        }
    }
}

/// Lines of code with comments that quote the person's file, each line of it once in a row.
pub(super) struct Lines {
    text: Vec<String>,
    quoted: Option<u32>,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { text: Vec::new(), quoted: None }
    }

    /// A line at a depth.
    pub(super) fn add(&mut self, depth: usize, line: impl AsRef<str>) {
        let line = line.as_ref();
        self.text.push(if line.is_empty() {
            String::new()
        } else {
            format!("{}{line}", "    ".repeat(depth))
        });
    }

    /// The origin of what follows.
    pub(super) fn quote(&mut self, depth: usize, origin: Option<&Origin>) {
        if let Some(origin) = origin.filter(|origin| self.quoted != Some(origin.line)) {
            // A backslash at the end would make a comment of the next line.
            let text = origin.text.trim_end_matches('\\').trim();
            let text: String = text.chars().take(90).collect();
            self.add(depth, format!("// line {}: {text}", origin.line));
            self.quoted = Some(origin.line);
        }
    }

    /// Whatever follows quotes anew.
    pub(super) fn begin(&mut self) {
        self.quoted = None;
    }

    pub(super) fn finish(self) -> String {
        let mut text = self.text.join("\n");
        text.push('\n');
        text
    }
}
