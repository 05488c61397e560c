//! Splits a program into kernels.
//!
//! Owns: what is fused, the rule of costs, the memory between kernels. Never: writes code.

use std::collections::{BTreeMap, BTreeSet};

use super::index::{self, Index, Part};
use super::kernel::{
    Axis, Buffer, Expression, Form, Kernel, Node, NodeId, Reduced, Role, Scanned, Sizes, Store,
};
use super::length::Length;
use super::pieces::divided;
use super::program::{Class, Element, Kind, Program, Reduction, Tensor, ValueId};
use super::refusal::Refusal;
use crate::units::Dtype;

/// Fewer instances than this, each of many elements, leave most of a GPU idle: a reduction is divided then.
const FEW_INSTANCES: i64 = 32;
/// Elements of an instance that are many.
const MANY_ELEMENTS: i64 = 16_384;
/// More values between kernels than any program needs.
const MOST_WORKSPACES: usize = 64;

/// A program as kernels, in the order in which they run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// Memory between them.
    pub workspaces: Vec<Tensor>,
}

/// Splits a program into kernels.
///
/// # Errors
/// A part of it has no kernel.
pub fn plan(program: &Program) -> Result<Plan, Refusal> {
    let (divided, concatenated) = divided(program);
    let program = &divided;
    let mut planner = Planner {
        program,
        lengths: program.symbols.iter().map(|symbol| (symbol.name.clone(), symbol.hint)).collect(),
        large: (program.symbols.iter().zip(program.large()))
            .map(|(symbol, length)| (symbol.name.clone(), (length / symbol.factor()).max(1)))
            .collect(),
        stored: BTreeMap::new(),
        made: BTreeMap::new(),
        kernels: Vec::new(),
        workspaces: Vec::new(),
    };
    for (place, (_, value)) in program.outputs.iter().enumerate() {
        let buffer = Buffer::Output(place);
        match concatenated.get(&place) {
            Some(pieces) => {
                for piece in pieces {
                    let into = Into { shape: &program.values[*value].shape, place: &piece.place };
                    planner.make(piece.value, buffer, Some(into))?;
                }
                planner.stored.entry(*value).or_insert(buffer);
            }
            None => planner.make(*value, buffer, None)?,
        }
    }
    let Planner { mut kernels, workspaces, .. } = planner;
    for kernel in &mut kernels {
        kernel.join_axes();
        if kernel.axes.is_empty() {
            kernel.axes.push(Axis { length: Length::number(1), role: Role::Parallel });
        }
    }
    Ok(Plan { kernels, workspaces })
}

impl Plan {
    /// Bytes that each kernel moves in the call that was traced, with elements of 2 bytes.
    pub fn bytes(&self, program: &Program) -> Vec<i64> {
        let lengths = program.symbols.iter().map(|symbol| (symbol.name.clone(), symbol.hint)).collect();
        let elements = self.elements(program);
        let sizes = Sizes { lengths: &lengths, elements: &elements, variable: 2 };
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

/// Where a piece of a tensor lies in it.
#[derive(Debug, Clone, Copy)]
struct Into<'p> {
    shape: &'p [Length],
    /// The place there for each place of the piece.
    place: &'p [Index],
}

/// Why a value has no kernel as it is.
enum Blocked {
    /// This value has to be in memory first.
    Needs(ValueId),
    /// There is no way.
    Never(Refusal),
}

struct Planner<'p> {
    program: &'p Program,
    /// The lengths of the call that was traced.
    lengths: BTreeMap<String, i64>,
    /// The lengths of a large call.
    large: BTreeMap<String, i64>,
    /// Values that are in memory.
    stored: BTreeMap<ValueId, Buffer>,
    /// The kernel that writes each of them.
    made: BTreeMap<Buffer, usize>,
    kernels: Vec<Kernel>,
    workspaces: Vec<Tensor>,
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
        self.workspaces.push(Tensor { name, shape: own.shape.clone(), element });
        Ok(Buffer::Workspace(self.workspaces.len() - 1))
    }

    /// Adds a value to a kernel that is there already and has the same iteration; the kernel's number.
    fn joined(&mut self, value: ValueId, buffer: Buffer, into: Option<Into<'_>>) -> Option<usize> {
        let domain = self.domain(value)?;
        for place in (0..self.kernels.len()).rev() {
            if self.kernels[place].axes != domain || self.kernels[place].scan.is_some() {
                continue;
            }
            let mut builder = self.builder(domain.clone());
            builder.kernel = self.kernels[place].clone();
            let before = builder.kernel.clone();
            builder.restore();
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
            let shares = is_piece || kernel.form() != Form::Pointwise || new == 0 || new < own.len();
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
        let mut pending = vec![value];
        let mut seen = BTreeSet::new();
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
        if !one_each && (!full || (!is_scan && self.is_few(&axes))) {
            return Err(Blocked::Needs(deciding));
        }
        let mut builder = self.builder(axes);
        match builder.store(value, buffer, into) {
            Ok(()) => Ok(builder.kernel),
            Err(Blocked::Needs(inner)) => Err(Blocked::Needs(self.cheaper(inner, &builder.depth, value))),
            Err(other) => Err(other),
        }
    }

    /// Of a value that is in the way, and the elements of reductions around it, the one of the fewest elements.
    fn cheaper(&self, inner: ValueId, around: &[ValueId], value: ValueId) -> ValueId {
        let size = |one: ValueId| Length::product(&self.program.values[one].shape).at(&self.lengths);
        let trivial = |one: ValueId| matches!(self.program.values[one].kind, Kind::Input(_));
        let mut best = inner;
        for one in around.iter().rev().filter(|one| **one != value && !trivial(**one)) {
            if size(*one) <= size(best) && !self.stored.contains_key(one) {
                best = *one;
            }
        }
        best
    }
}

/// Axes that are all parallel, without those of the length 1.
fn plain_axes(shape: &[Length]) -> Vec<Axis> {
    let axes = shape.iter().filter(|length| !length.is(1));
    axes.map(|length| Axis { length: length.clone(), role: Role::Parallel }).collect()
}

/// The axes of a reduction or a scan, without those of the length 1.
fn axes_of(kind: &Kind, shape: &dyn Fn(ValueId) -> Vec<Length>) -> Vec<Axis> {
    let (of, along, role) = match kind {
        Kind::Reduce(_, of, axes) => (*of, axes.clone(), Role::Reduced),
        Kind::Scan(_, of, axis) => (*of, vec![*axis], Role::Scanned),
        _ => return Vec::new(),
    };
    let shape = shape(of);
    let axes = shape.iter().enumerate().filter(|(_, length)| !length.is(1));
    let mut axes: Vec<Axis> = axes
        .map(|(axis, length)| {
            let role = if along.contains(&axis) { role } else { Role::Parallel };
            Axis { length: length.clone(), role }
        })
        .collect();
    // A reduction over a single element still is one.
    if axes.iter().all(|axis| axis.role != role) {
        axes.push(Axis { length: Length::number(1), role });
    }
    axes
}

/// A kernel in the making.
struct Builder<'p> {
    program: &'p Program,
    stored: &'p BTreeMap<ValueId, Buffer>,
    few: bool,
    kernel: Kernel,
    lengths: Vec<Length>,
    known: BTreeMap<(ValueId, Vec<Index>), NodeId>,
    reduced: BTreeMap<ValueId, NodeId>,
    /// The elements of reductions that are being looked at.
    depth: Vec<ValueId>,
}

impl Builder<'_> {
    /// Loads and reductions of a kernel that is there count as known when the same are asked for again.
    fn restore(&mut self) {
        self.known.clear();
        self.reduced.clear();
    }

    /// Writes a value: one result for each place, or for each place of the parallel axes.
    fn store(&mut self, value: ValueId, buffer: Buffer, into: Option<Into<'_>>) -> Result<(), Blocked> {
        let shape = &self.program.values[value].shape;
        let size = Length::product(shape);
        let all: Vec<usize> = (0..self.lengths.len()).collect();
        let parallel: Vec<usize> = self.kernel.along(Role::Parallel).collect();
        let lengths =
            |axes: &[usize]| axes.iter().map(|axis| self.lengths[*axis].clone()).collect::<Vec<_>>();
        let axes = if size == Length::product(&lengths(&parallel)) {
            parallel
        } else if size == Length::product(&self.lengths) {
            all
        } else {
            return Err(Blocked::Needs(value));
        };
        let places: Vec<Index> = axes.iter().map(|axis| Index::axis(*axis)).collect();
        let offset = index::offset(&lengths(&axes), &places);
        let at = index::place(&offset, shape, &self.lengths);
        self.ahead(value, &at, true)?;
        let node = self.pull(value, &at, true)?;
        let offset = into.map_or(offset, |into| {
            let place: Vec<Index> = into.place.iter().map(|one| one.replaced(&at, &self.lengths)).collect();
            index::offset(into.shape, &place)
        });
        self.kernel.stores.push(Store { buffer, offset, value: node });
        Ok(())
    }

    fn add(&mut self, value: ValueId, expression: Expression, level: usize, varies: bool) -> NodeId {
        let own = &self.program.values[value];
        let same = self.kernel.nodes.iter().position(|node| {
            node.expression == expression
                && node.class == own.class
                && !matches!(expression, Expression::Scanned)
        });
        if let Some(same) = same {
            return same;
        }
        let (name, origin) = (own.name.clone(), own.origin.clone());
        self.kernel.nodes.push(Node { expression, class: own.class, name, origin, level, varies });
        self.kernel.nodes.len() - 1
    }

    fn varies(&self, index: &Index) -> bool {
        let axes = self.kernel.axes.iter().enumerate();
        let changing = axes.filter(|(_, axis)| axis.role != Role::Parallel);
        let computed = index.computed().iter().any(|node| self.kernel.nodes[*node].varies);
        computed || changing.map(|(axis, _)| axis).any(|axis| index.uses(axis))
    }

    fn level(&self, index: &Index) -> usize {
        index.computed().iter().map(|node| self.kernel.nodes[*node].level).max().unwrap_or(0)
    }

    /// Pulls what a value is made of in its order, so that chains of a thousand steps need no deep stack; `whole` as in `pull`.
    fn ahead(&mut self, value: ValueId, at: &[Index], whole: bool) -> Result<(), Blocked> {
        let program = self.program;
        let mut found: BTreeSet<(ValueId, Vec<Index>)> = BTreeSet::new();
        let mut pending = vec![(value, at.to_vec())];
        while let Some((next, at)) = pending.pop() {
            let known = self.known.contains_key(&(next, at.clone()))
                || (!(whole && next == value) && self.stored.contains_key(&next))
                || found.contains(&(next, at.clone()));
            if known {
                continue;
            }
            match &program.values[next].kind {
                Kind::Pointwise(_, of) => {
                    pending.extend(of.iter().map(|one| (*one, self.broadcast(*one, &at))))
                }
                Kind::View(of, place) => {
                    let place = place.iter().map(|one| one.replaced(&at, &self.lengths)).collect();
                    pending.push((*of, place));
                }
                _ => continue,
            }
            found.insert((next, at));
        }
        for (next, at) in found {
            if next != value {
                self.pull(next, &at, false)?;
            }
        }
        Ok(())
    }

    /// The expression of a value at a place; `whole` for the value that is written, which may be in memory as well.
    fn pull(&mut self, value: ValueId, at: &[Index], whole: bool) -> Result<NodeId, Blocked> {
        let key = (value, at.to_vec());
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let own = &self.program.values[value];
        let program = self.program;
        let load = |of: &mut Self, buffer: Buffer| {
            let index = index::offset(&program.values[value].shape, at);
            let (level, varies) = (of.level(&index), of.varies(&index));
            of.add(value, Expression::Load(buffer, index), level, varies)
        };
        let node = match &own.kind {
            _ if !whole && self.stored.contains_key(&value) => load(self, self.stored[&value]),
            Kind::Input(number) => load(self, Buffer::Input(*number)),
            Kind::Number(number) => self.add(value, Expression::Number(*number), 0, false),
            Kind::Quantity(quantity) => self.add(value, Expression::Quantity(quantity.clone()), 0, false),
            Kind::Place(place) => {
                let place = place.replaced(at, &self.lengths);
                let varies = self.varies(&place);
                self.add(value, Expression::Place(place), 0, varies)
            }
            Kind::Pointwise(op, of) => {
                let mut operands = Vec::new();
                for one in of {
                    operands.push(self.pull(*one, &self.broadcast(*one, at), false)?);
                }
                let level = operands.iter().map(|one| self.kernel.nodes[*one].level).max().unwrap_or(0);
                let varies = operands.iter().any(|one| self.kernel.nodes[*one].varies);
                self.add(value, Expression::Operation(*op, operands), level, varies)
            }
            Kind::View(of, place) => {
                let place: Vec<Index> = place.iter().map(|one| one.replaced(at, &self.lengths)).collect();
                self.pull(*of, &place, false)?
            }
            Kind::Gather(of, place, by) => {
                let mut computed = Vec::new();
                for one in by {
                    computed.push(self.pull(*one, &self.broadcast(*one, at), false)?);
                }
                let place: Vec<Index> = place
                    .iter()
                    .map(|one| with_computed(&one.replaced(at, &self.lengths), &computed))
                    .collect();
                self.pull(*of, &place, false)?
            }
            Kind::Reduce(how, of, axes) => self.reduce(value, (*how, *of, axes), at)?,
            Kind::Scan(how, of, axis) => self.scan(value, (*how, *of, *axis), at)?,
        };
        self.known.insert(key, node);
        Ok(node)
    }

    /// The place of an operand that may have fewer axes, or axes of the length 1.
    fn broadcast(&self, operand: ValueId, at: &[Index]) -> Vec<Index> {
        let shape = &self.program.values[operand].shape;
        let first = at.len() - shape.len();
        let axes = shape.iter().zip(&at[first..]);
        axes.map(|(length, place)| if length.is(1) { Index::default() } else { place.clone() }).collect()
    }

    fn reduce(
        &mut self,
        value: ValueId,
        (how, of, axes): (Reduction, ValueId, &[usize]),
        at: &[Index],
    ) -> Result<NodeId, Blocked> {
        let shape = self.program.values[of].shape.clone();
        let own =
            axes_of(&Kind::Reduce(how, of, axes.to_vec()), &|one| self.program.values[one].shape.clone());
        let is_here = own == self.kernel.axes && (!self.few || self.depth.is_empty());
        let mut left = at.iter();
        let (mut here, mut place) = (0, Vec::new());
        for (axis, length) in shape.iter().enumerate() {
            let is_reduced = axes.contains(&axis);
            let given = if is_reduced { None } else { left.next() };
            if length.is(1) {
                place.push(Index::default());
                continue;
            }
            let own = Index::axis(here);
            if given.is_some_and(|given| *given != own) || !is_here {
                return Err(Blocked::Needs(value));
            }
            place.push(own);
            here += 1;
        }
        if !is_here {
            return Err(Blocked::Needs(value));
        }
        // Only now: at another place of the parallel axes it is another number.
        if let Some(known) = self.reduced.get(&value) {
            return Ok(*known);
        }
        self.depth.push(of);
        self.ahead(of, &place, false)?;
        let node = self.pull(of, &place, false)?;
        self.depth.pop();
        let level = self.kernel.nodes[node].level;
        let own = &self.program.values[value];
        let (name, origin) = (own.name.clone(), own.origin.clone());
        let same = self.kernel.reductions.iter().position(|one| one.how == how && one.of == node);
        let number = same.unwrap_or_else(|| {
            self.kernel.reductions.push(Reduced { how, of: node, name, origin, level });
            self.kernel.reductions.len() - 1
        });
        let found = self.add(value, Expression::Reduced(number), level + 1, false);
        self.reduced.insert(value, found);
        Ok(found)
    }

    fn scan(
        &mut self,
        value: ValueId,
        (how, of, axis): (Reduction, ValueId, usize),
        at: &[Index],
    ) -> Result<NodeId, Blocked> {
        let shape = self.program.values[of].shape.clone();
        let own = axes_of(&Kind::Scan(how, of, axis), &|one| self.program.values[one].shape.clone());
        let mut here = 0;
        let mut is_here = own == self.kernel.axes && self.kernel.scan.is_none();
        for (length, given) in shape.iter().zip(at) {
            if !length.is(1) {
                is_here &= *given == Index::axis(here);
                here += 1;
            }
        }
        if !is_here || !self.depth.is_empty() {
            return Err(Blocked::Needs(value));
        }
        self.depth.push(of);
        self.ahead(of, at, false)?;
        let node = self.pull(of, at, false)?;
        self.depth.pop();
        if self.kernel.nodes[node].level > 0 {
            return Err(Blocked::Needs(of));
        }
        let name = self.program.values[value].name.clone();
        self.kernel.scan = Some(Scanned { how, of: node, name });
        // What follows from it comes in a round of its own.
        Ok(self.add(value, Expression::Scanned, 1, true))
    }
}

impl From<Refusal> for Blocked {
    fn from(refusal: Refusal) -> Self {
        Self::Never(refusal)
    }
}

/// An index with expressions of the kernel in place of the numbers of computed parts.
fn with_computed(index: &Index, computed: &[NodeId]) -> Index {
    let mut new = Index::length(index.constant.clone());
    for (part, factor) in &index.parts {
        let part = match part {
            Part::Computed(number) => Part::Computed(computed[*number]),
            other => other.clone(),
        };
        new = new.plus(&Index::part(part).times(factor));
    }
    new
}
