//! Splits a program into kernels.
//!
//! Owns: what is fused, the rule of costs, the memory between kernels. Never: writes code.

use std::collections::{BTreeMap, BTreeSet};

use super::builder::{Blocked, Builder, Into, axes_of, plain_axes};
use super::choices::Choices;
use super::index::Index;
use super::kernel::{Axis, Buffer, Expression, Kernel, Role, Sizes};
use super::length::Length;
use super::program::{Class, Element, Kind, Program, Tensor, ValueId};
use super::refusal::Refusal;
use super::results::divided;
use crate::spec::op::Values;
use crate::units::Dtype;

/// Fewer instances than this, each of many elements, leave most of a GPU idle: a reduction is divided then.
const FEW_INSTANCES: i64 = 32;
/// Elements of an instance that are many.
const MANY_ELEMENTS: i64 = 16_384;
/// With more elements, a result may be shared by several blocks, which make one reduction at a time.
const SHORT_REDUCTION: i64 = 1024;
/// More values between kernels than any program needs.
const MOST_WORKSPACES: usize = 64;

/// A program as kernels, in the order in which they run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// Memory between them.
    pub workspaces: Vec<Tensor>,
    /// The value in each of them: its name in the person's function, and its line.
    pub held: Vec<String>,
}

/// Splits a program into kernels, and follows a person's choices.
///
/// # Errors
/// A part of the program has no kernel, or a value cannot be fused as chosen.
pub fn plan(program: &Program, choices: &Choices) -> Result<Plan, Refusal> {
    let (divided, concatenated) = divided(program);
    let program = &divided;
    let mut planner = Planner {
        program,
        fused: choices.fused(program),
        lengths: program.symbols.iter().map(|symbol| (symbol.name.clone(), symbol.hint)).collect(),
        large: (program.symbols.iter().zip(program.large()))
            .map(|(symbol, length)| (symbol.name.clone(), (length / symbol.factor()).max(1)))
            .collect(),
        stored: BTreeMap::new(),
        made: BTreeMap::new(),
        kernels: Vec::new(),
        workspaces: Vec::new(),
        held: Vec::new(),
    };
    for value in choices.split(program) {
        let between = planner.workspace(value)?;
        planner.make(value, between, None)?;
    }
    // Results of reductions first: their kernels can also write what they compute on the way.
    let mut results: Vec<usize> = (0..program.outputs.len()).collect();
    results.sort_by_key(|place| planner.outermost(program.outputs[*place].1).is_none());
    for place in results {
        let (buffer, value) = (Buffer::Output(place), &program.outputs[place].1);
        match concatenated.get(&place) {
            Some(pieces) => {
                for piece in pieces {
                    let into = Into { shape: &program.values[*value].shape, place: &piece.place };
                    planner.make(piece.value, buffer, Some(into))?;
                }
                planner.keep(*value, buffer);
            }
            None => planner.make(*value, buffer, None)?,
        }
    }
    let Planner { mut kernels, workspaces, held, lengths, .. } = planner;
    for kernel in &mut kernels {
        kernel.order_axes(&lengths);
        kernel.join_axes();
        if kernel.axes.is_empty() {
            kernel.axes.push(Axis { length: Length::number(1), role: Role::Parallel });
        }
    }
    Ok(Plan { kernels, workspaces, held })
}

impl Plan {
    /// Bytes that each kernel moves in the call that was traced, with elements of 2 bytes.
    pub fn bytes(&self, program: &Program) -> Vec<i64> {
        let lengths = program.symbols.iter().map(|symbol| (symbol.name.clone(), symbol.hint)).collect();
        let elements = self.elements(program);
        let tensors = (program.inputs.iter().enumerate().map(|(n, tensor)| (Buffer::Input(n), tensor)))
            .chain(self.workspaces.iter().enumerate().map(|(n, tensor)| (Buffer::Workspace(n), tensor)));
        let sizes =
            tensors.map(|(buffer, tensor)| (buffer, Length::product(&tensor.shape).at(&lengths))).collect();
        let sizes = Sizes { lengths: &lengths, elements: &elements, sizes: &sizes, variable: 2 };
        self.kernels.iter().map(|kernel| kernel.bytes(&sizes)).collect()
    }

    /// The dtype of every tensor.
    pub fn elements(&self, program: &Program) -> BTreeMap<Buffer, Element> {
        let inputs = program.inputs.iter().enumerate().map(|(n, tensor)| (Buffer::Input(n), tensor.element));
        let outputs =
            program.outputs.iter().enumerate().map(|(n, (one, _))| (Buffer::Output(n), one.element));
        let between = self.workspaces.iter().enumerate().map(|(n, one)| (Buffer::Workspace(n), one.element));
        inputs.chain(outputs).chain(between).collect()
    }
}

struct Planner<'p> {
    program: &'p Program,
    /// The lengths of the call that was traced.
    lengths: BTreeMap<String, i64>,
    /// The lengths of a large call.
    large: BTreeMap<String, i64>,
    /// Values that a person wants computed where they are used.
    fused: BTreeSet<ValueId>,
    /// Values that are in memory.
    stored: BTreeMap<ValueId, Buffer>,
    /// The kernel that writes each of them.
    made: BTreeMap<Buffer, usize>,
    kernels: Vec<Kernel>,
    workspaces: Vec<Tensor>,
    held: Vec<String>,
}

impl Planner<'_> {
    /// Makes the kernel that writes a value, and those that it needs.
    fn make(&mut self, value: ValueId, buffer: Buffer, into: Option<Into<'_>>) -> Result<(), Refusal> {
        loop {
            if let Some(place) = self.joined(value, buffer, into) {
                self.written(value, buffer, into, place);
                return Ok(());
            }
            match self.kernel(value, buffer, into) {
                Ok(kernel) => {
                    self.kernels.push(kernel);
                    self.written(value, buffer, into, self.kernels.len() - 1);
                    return Ok(());
                }
                Err(Blocked::Never(refusal)) => return Err(refusal),
                Err(Blocked::Needs(other)) if other == value || self.stored.contains_key(&other) => {
                    let name = &self.program.values[value].name;
                    return Err(Refusal::new(format!(
                        "`{name}` has no kernel: its parts cannot be put in order"
                    )));
                }
                Err(Blocked::Needs(other)) if self.fused.contains(&other) => {
                    return Err(Refusal::new(format!(
                        "`{}` cannot be fused: the kernel that computes `{}` goes over other axes",
                        self.program.values[other].name, self.program.values[value].name
                    )));
                }
                Err(Blocked::Needs(other)) => {
                    let between = self.workspace(other)?;
                    self.make(other, between, None)?;
                }
            }
        }
    }

    /// Remembers which kernel writes a value. A piece of a tensor is no tensor that others could read.
    fn written(&mut self, value: ValueId, buffer: Buffer, into: Option<Into<'_>>, kernel: usize) {
        self.made.insert(buffer, kernel);
        if into.is_none() {
            self.keep(value, buffer);
        }
    }

    /// Lets later kernels read a value. A result that is rounded to the dtype of the call is computed again.
    fn keep(&mut self, value: ValueId, buffer: Buffer) {
        let element = match buffer {
            Buffer::Output(place) => self.program.outputs[place].0.element,
            _ => Element::Fixed(Dtype::F32),
        };
        let is_rounded = self.program.values[value].class == Class::Float
            && !matches!(element, Element::Fixed(Dtype::F32 | Dtype::F64));
        if !is_rounded {
            self.stored.entry(value).or_insert(buffer);
        }
    }

    fn workspace(&mut self, value: ValueId) -> Result<Buffer, Refusal> {
        let own = &self.program.values[value];
        let element = match own.class {
            Class::Boolean => Element::Fixed(Dtype::Bool),
            Class::Integer => Element::Fixed(Dtype::I64),
            Class::Float => Element::Fixed(Dtype::F32),
        };
        if self.workspaces.len() == MOST_WORKSPACES {
            return Err(Refusal::new("it needs too many intermediate tensors"));
        }
        let name = format!("between_{}", self.workspaces.len());
        self.workspaces.push(Tensor { name, shape: own.shape.clone(), element, values: Values::Any });
        let line = own.origin.as_ref().map(|origin| format!(" of line {}", origin.line));
        self.held.push(format!("`{}`{}", own.name, line.unwrap_or_default()));
        Ok(Buffer::Workspace(self.workspaces.len() - 1))
    }

    /// Adds a value to a kernel that is there already and has the same iteration; the kernel's number.
    fn joined(&mut self, value: ValueId, buffer: Buffer, into: Option<Into<'_>>) -> Option<usize> {
        let domain = self.domain(value)?;
        let is_plain = self.outermost(value).is_none();
        for place in (0..self.kernels.len()).rev() {
            let axes = &self.kernels[place].axes;
            // A kernel that writes an element for each one that it reduces can write another.
            let lengths = || axes.iter().map(|axis| &axis.length).eq(domain.iter().map(|axis| &axis.length));
            let is_beside = is_plain && self.kernels[place].writes_all() && lengths();
            if (*axes != domain && !is_beside) || self.kernels[place].scan.is_some() {
                continue;
            }
            let mut builder = self.builder(axes.clone());
            builder.kernel = self.kernels[place].clone();
            let before = builder.kernel.clone();
            if builder.store(value, buffer, into).is_err() {
                continue;
            }
            let kernel = builder.kernel;
            // It runs before what a later kernel makes, and pays where it reads the same.
            let in_time = |one: Buffer| self.made.get(&one).is_none_or(|at| *at < place);
            let reads = |kernel: &Kernel| -> Vec<(Buffer, Index)> {
                let loads = kernel.nodes.iter().filter_map(|node| match &node.expression {
                    Expression::Load(buffer, index) => Some((*buffer, index.clone())),
                    _ => None,
                });
                loads.collect()
            };
            let own = reads(&before);
            let all = reads(&kernel);
            let new = all.len() - own.len();
            // Pieces of a tensor are always written together.
            let is_piece = before.stores.iter().any(|store| store.buffer == buffer);
            let shares = if *axes == domain {
                is_piece || !kernel.form().is_pointwise() || new == 0 || new < own.len()
            } else {
                new == 0
            };
            if all.iter().all(|(buffer, _)| in_time(*buffer)) && shares {
                self.kernels[place] = kernel;
                return Some(place);
            }
        }
        None
    }

    fn builder(&self, axes: Vec<Axis>) -> Builder<'_> {
        let lengths = axes.iter().map(|axis| axis.length.clone()).collect();
        Builder {
            program: self.program,
            stored: &self.stored,
            fused: &self.fused,
            few: self.is_few(&axes),
            kernel: Kernel { axes, ..Kernel::default() },
            lengths,
            known: BTreeMap::new(),
            reduced: BTreeMap::new(),
            depth: Vec::new(),
        }
    }

    /// Whether a kernel over these axes has few instances, each of many elements, in the call that was traced or in a large one.
    fn is_few(&self, axes: &[Axis]) -> bool {
        let length = |role: Role| {
            let own = axes.iter().filter(|axis| (axis.role == Role::Parallel) == (role == Role::Parallel));
            Length::product(own.map(|axis| &axis.length))
        };
        let (instances, elements) = (length(Role::Parallel), length(Role::Reduced));
        let are_few = |lengths: &BTreeMap<String, i64>| {
            instances.at(lengths) < FEW_INSTANCES && elements.at(lengths) > MANY_ELEMENTS
        };
        instances.is(1) || are_few(&self.lengths) || are_few(&self.large)
    }

    /// The iteration of the kernel that writes a value: that of its outermost reduction or scan, else its own axes.
    fn domain(&self, value: ValueId) -> Option<Vec<Axis>> {
        let values = &self.program.values;
        match self.outermost(value) {
            Some(deciding) => Some(axes_of(&values[deciding].kind, &|of| values[of].shape.clone())),
            None => Some(plain_axes(&values[value].shape)),
        }
    }

    /// The first reduction or scan in an expression that is not in memory.
    fn outermost(&self, value: ValueId) -> Option<ValueId> {
        self.reductions(value).next()
    }

    /// Of the reductions in an expression over the same axes as `first`, the last one. Its kernel also computes those that it needs. If
    /// there are many elements, `first` itself: each reduction then has its own kernel, in which several blocks can share a result.
    fn last(&self, value: ValueId, first: ValueId) -> ValueId {
        let axes = |one: ValueId| {
            axes_of(&self.program.values[one].kind, &|of| self.program.values[of].shape.clone())
        };
        let own = axes(first);
        let reduced = own.iter().filter(|axis| axis.role != Role::Parallel);
        if Length::product(reduced.map(|axis| &axis.length)).at(&self.large) > SHORT_REDUCTION {
            return first;
        }
        self.reductions(value).filter(|one| axes(*one) == own).max().unwrap_or(first)
    }

    /// The reductions and scans in an expression that are not in memory, but not those that they are made of.
    fn reductions(&self, value: ValueId) -> impl Iterator<Item = ValueId> {
        let mut pending = vec![value];
        let mut seen = BTreeSet::new();
        std::iter::from_fn(move || {
            while let Some(next) = pending.pop() {
                if !seen.insert(next) || (self.stored.contains_key(&next) && next != value) {
                    continue;
                }
                match &self.program.values[next].kind {
                    Kind::Reduce(..) | Kind::Scan(..) => return Some(next),
                    Kind::Pointwise(_, of) => pending.extend(of.iter().rev()),
                    Kind::View(of, _) => pending.push(*of),
                    Kind::Gather(of, _, by) => {
                        pending.extend(by.iter().rev());
                        pending.push(*of);
                    }
                    Kind::Input(_) | Kind::Number(_) | Kind::Quantity(_) | Kind::Place(_) => {}
                }
            }
            None
        })
    }

    fn kernel(&self, value: ValueId, buffer: Buffer, into: Option<Into<'_>>) -> Result<Kernel, Blocked> {
        let own = &self.program.values[value];
        let Some(deciding) = self.outermost(value) else {
            let mut builder = self.builder(plain_axes(&own.shape));
            builder.store(value, buffer, into)?;
            return Ok(builder.kernel);
        };
        let values = &self.program.values;
        let axes = axes_of(&values[deciding].kind, &|of| values[of].shape.clone());
        let elements = |role: Option<Role>| {
            let own = axes.iter().filter(|axis| role.is_none_or(|role| axis.role == role));
            Length::product(own.map(|axis| &axis.length))
        };
        let size = Length::product(&own.shape);
        let full = size == elements(None);
        let one_each = size == elements(Some(Role::Parallel));
        // Results of every element of few long rows: the reduction goes first, so that many blocks can do it.
        let is_scan = matches!(values[deciding].kind, Kind::Scan(..));
        let is_divided = !is_scan && !self.fused.contains(&deciding) && self.is_few(&axes);
        if !one_each && (!full || is_divided) {
            return Err(Blocked::Needs(self.last(value, deciding)));
        }
        let mut builder = self.builder(axes);
        match builder.store(value, buffer, into) {
            // No order of the axes reads neighbors and writes neighbors: a first kernel reduces, and a second one transposes.
            Ok(())
                if !one_each && !self.fused.contains(&deciding) && builder.kernel.is_torn(&self.lengths) =>
            {
                Err(Blocked::Needs(self.last(value, deciding)))
            }
            Ok(()) => Ok(builder.kernel),
            Err(Blocked::Needs(inner)) => Err(Blocked::Needs(self.cheaper(inner, &builder.depth, value))),
            Err(other) => Err(other),
        }
    }

    /// Of a value that is in the way, and the elements of reductions around it, the one of the fewest elements.
    fn cheaper(&self, inner: ValueId, around: &[ValueId], value: ValueId) -> ValueId {
        let size = |one: ValueId| Length::product(&self.program.values[one].shape).at(&self.lengths);
        let trivial = |one: ValueId| {
            matches!(self.program.values[one].kind, Kind::Input(_)) || self.fused.contains(&one)
        };
        let mut best = inner;
        for one in around.iter().rev().filter(|one| **one != value && !trivial(**one)) {
            if size(*one) <= size(best) && !self.stored.contains_key(one) {
                best = *one;
            }
        }
        best
    }
}
