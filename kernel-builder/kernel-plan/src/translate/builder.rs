//! One kernel in the making: pulls values into it until it has all that a result needs.
//!
//! Owns: the expressions of a kernel, and what has to be in memory before. Never: decides which kernels there are.

use std::collections::{BTreeMap, BTreeSet};

use super::index::{self, Index, Part};
use super::kernel::{Axis, Buffer, Expression, Kernel, Node, NodeId, Reduced, Role, Scanned, Store};
use super::length::Length;
use super::program::{Kind, Program, Reduction, ValueId};
use super::refusal::Refusal;

/// Where a piece of a tensor lies in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Into<'p> {
    pub(super) shape: &'p [Length],
    /// The place there for each place of the piece.
    pub(super) place: &'p [Index],
}

/// Why a value has no kernel as it is.
pub(super) enum Blocked {
    /// This value has to be in memory first.
    Needs(ValueId),
    /// There is no way.
    Never(Refusal),
}

/// Axes that are all parallel, without those of the length 1.
pub(super) fn plain_axes(shape: &[Length]) -> Vec<Axis> {
    let axes = shape.iter().filter(|length| !length.is(1));
    axes.map(|length| Axis { length: length.clone(), role: Role::Parallel }).collect()
}

/// The axes of a reduction or a scan, without those of the length 1.
pub(super) fn axes_of(kind: &Kind, shape: &dyn Fn(ValueId) -> Vec<Length>) -> Vec<Axis> {
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
pub(super) struct Builder<'p> {
    pub(super) program: &'p Program,
    /// Values that are in memory.
    pub(super) stored: &'p BTreeMap<ValueId, Buffer>,
    /// Values to compute where they are used.
    pub(super) fused: &'p BTreeSet<ValueId>,
    /// Whether a reduction here has few instances of many elements, so that many blocks do one.
    pub(super) few: bool,
    pub(super) kernel: Kernel,
    /// The length of each axis of the kernel.
    pub(super) lengths: Vec<Length>,
    pub(super) known: BTreeMap<(ValueId, Vec<Index>), NodeId>,
    pub(super) reduced: BTreeMap<ValueId, NodeId>,
    /// The elements of reductions that are being looked at.
    pub(super) depth: Vec<ValueId>,
}

impl Builder<'_> {
    /// Writes a value: one result for each place, or for each place of the parallel axes.
    pub(super) fn store(
        &mut self,
        value: ValueId,
        buffer: Buffer,
        into: Option<Into<'_>>,
    ) -> Result<(), Blocked> {
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
                // First its own numbers: `at` may have parts that are computed already.
                let place: Vec<Index> = place
                    .iter()
                    .map(|one| with_computed(one, &computed).replaced(at, &self.lengths))
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
        let divided = self.few && !self.fused.contains(&value);
        let is_here = own == self.kernel.axes && (!divided || self.depth.is_empty());
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
        // The mean comes with the squares of the differences from it.
        let made = if how == Reduction::Mean { Reduction::Squares } else { how };
        let same = self.kernel.reductions.iter().position(|one| one.how == made && one.of == node);
        let number = same.unwrap_or_else(|| {
            self.kernel.reductions.push(Reduced { how: made, of: node, name, origin, level });
            self.kernel.reductions.len() - 1
        });
        let expression = if how == made { Expression::Reduced(number) } else { Expression::Mean(number) };
        let found = self.add(value, expression, level + 1, false);
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
        // Values that depend on the scan are computed in the next round.
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
