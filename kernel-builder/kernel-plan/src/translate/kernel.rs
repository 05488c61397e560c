//! One kernel: an iteration over axes, what it computes there, and what it reads and writes.
//!
//! Owns: its parts, the axes that can be walked as one, what it moves. Never: chooses what belongs together; plan.rs does.

use std::collections::BTreeMap;

use super::index::{Index, Part};
use super::length::Length;
use super::program::{Class, Element, Op, Origin, Reduction};
use super::traced::Quantity;

/// With an innermost axis of fewer elements, neighboring threads read neighbors along the next axis: there is nothing to transpose.
pub(super) const SHORT: i64 = 16;

/// The number of an expression in its kernel.
pub(super) type NodeId = usize;

/// A tensor in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Buffer {
    /// An input of the call.
    Input(usize),
    /// A result of the call.
    Output(usize),
    /// Memory between two kernels.
    Workspace(usize),
}

/// An axis of the iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// Its length.
    pub length: Length,
    /// What happens along it.
    pub role: Role,
}

/// What happens along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Places are independent of each other.
    Parallel,
    /// Elements become one number.
    Reduced,
    /// Elements follow from those before them.
    Scanned,
}

/// An expression at a place of the iteration.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// An element of a tensor.
    Load(Buffer, Index),
    /// A number.
    Number(f64),
    /// A number that follows from lengths.
    Quantity(Quantity),
    /// An integer that follows from the place.
    Place(Index),
    /// A function of other expressions.
    Operation(Op, Vec<NodeId>),
    /// The result of a reduction.
    Reduced(usize),
    /// The mean that a reduction to `Squares` finds as well.
    Mean(usize),
    /// The result of the scan, up to this place.
    Scanned,
}

/// An expression with what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// What it is.
    pub expression: Expression,
    /// What it is computed in.
    pub class: Class,
    /// Its name for people.
    pub name: String,
    /// Where it comes from.
    pub origin: Option<Origin>,
    /// After how many rounds of reductions it is known.
    pub level: usize,
    /// Whether it differs along reduced or scanned axes.
    pub varies: bool,
}

/// A reduction over all reduced axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Reduced {
    /// How elements become one.
    pub how: Reduction,
    /// The elements.
    pub of: NodeId,
    /// Its name for people.
    pub name: String,
    /// Where it comes from.
    pub origin: Option<Origin>,
    /// The round in which it is made, from 0.
    pub level: usize,
}

/// A scan along the scanned axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Scanned {
    /// How elements are joined.
    pub how: Reduction,
    /// The elements.
    pub of: NodeId,
    /// Its name for people.
    pub name: String,
}

/// A result that is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Store {
    /// Where to.
    pub buffer: Buffer,
    /// The place in it.
    pub offset: Index,
    /// The value.
    pub value: NodeId,
}

/// One kernel.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Kernel {
    /// The iteration, outermost axis first.
    pub axes: Vec<Axis>,
    /// What is computed; each uses earlier ones.
    pub nodes: Vec<Node>,
    /// Reductions.
    pub reductions: Vec<Reduced>,
    /// The scan, if there is one.
    pub scan: Option<Scanned>,
    /// What is written.
    pub stores: Vec<Store>,
}

/// Which skeleton a kernel has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Every place for itself.
    Pointwise,
    /// The same, where neighbors of a load are not neighbors of the results.
    Transposition,
    /// Reduced along the innermost axis: neighbors are added up.
    Row,
    /// Reduced along others: neighbors are independent.
    Column,
    /// Scanned along an axis.
    Scan,
}

impl Form {
    /// Whether every place is for itself.
    pub fn is_pointwise(self) -> bool {
        matches!(self, Self::Pointwise | Self::Transposition)
    }
}

impl Kernel {
    /// Its skeleton.
    pub fn form(&self) -> Form {
        match self.axes.last().map(|axis| axis.role) {
            _ if self.scan.is_some() => Form::Scan,
            _ if self.reductions.is_empty() && self.across().is_some() => Form::Transposition,
            _ if self.reductions.is_empty() => Form::Pointwise,
            Some(Role::Parallel) => Form::Column,
            _ => Form::Row,
        }
    }

    /// The axis along which loads have their neighbors, if some have them along another axis than the innermost one: that
    /// of most of these loads. `None` if the innermost axis is always short.
    pub fn across(&self) -> Option<usize> {
        let inner = self.axes.len().checked_sub(1)?;
        if self.axes[inner].length.value().is_some_and(|length| length < SHORT) {
            return None;
        }
        let loads = |axis: usize| {
            let own = self.nodes.iter().filter(
                |node| matches!(&node.expression, Expression::Load(_, index) if self.lies_across(index, axis)),
            );
            own.count()
        };
        (0..inner).filter(|axis| loads(*axis) > 0).max_by_key(|axis| loads(*axis))
    }

    /// Whether neighbors lie along an axis, and are apart along the innermost one.
    pub fn lies_across(&self, index: &Index, axis: usize) -> bool {
        let is_apart = |step: &Length| ![0, 1, -1].iter().any(|one| step.is(*one));
        index.step(axis).is_some_and(|step| step.is(1))
            && index.step(self.axes.len() - 1).as_ref().is_some_and(is_apart)
    }

    /// Whether it scans neighboring elements.
    pub fn scans_rows(&self) -> bool {
        self.form() == Form::Scan && self.axes.last().is_some_and(|axis| axis.role == Role::Scanned)
    }

    /// Whether it has a result for every element that it reduces.
    pub fn writes_all(&self) -> bool {
        self.stores.iter().any(|store| {
            self.nodes[store.value].varies || self.along(Role::Reduced).any(|axis| store.offset.uses(axis))
        })
    }

    /// The numbers of the axes with a role.
    pub fn along(&self, role: Role) -> impl Iterator<Item = usize> {
        let axes = self.axes.iter().enumerate();
        axes.filter(move |(_, axis)| axis.role == role).map(|(number, _)| number)
    }

    /// The product of the lengths of the axes with a role.
    pub fn length(&self, role: Role) -> Length {
        Length::product(self.along(role).map(|axis| &self.axes[axis].length))
    }

    /// How many rounds of reductions it has.
    pub fn levels(&self) -> usize {
        self.reductions.iter().map(|one| one.level + 1).max().unwrap_or(0)
    }

    /// All places in tensors, and those that are values.
    pub(super) fn indexes(&mut self) -> impl Iterator<Item = &mut Index> {
        let nodes = self.nodes.iter_mut().filter_map(|node| match &mut node.expression {
            Expression::Load(_, index) | Expression::Place(index) => Some(index),
            _ => None,
        });
        nodes.chain(self.stores.iter_mut().map(|store| &mut store.offset))
    }

    /// Walks neighboring axes as one wherever nothing tells them apart.
    pub fn join_axes(&mut self) {
        let mut axis = 0;
        while axis + 1 < self.axes.len() {
            if self.axes[axis].role == self.axes[axis + 1].role && self.are_one(axis) {
                let inner = self.axes.remove(axis + 1).length;
                self.axes[axis].length = &self.axes[axis].length * &inner;
                for index in self.indexes() {
                    *index = joined(index, axis);
                }
            } else {
                axis += 1;
            }
        }
    }

    /// Whether every step along an axis is as many steps along the next one as that is long.
    fn are_one(&mut self, axis: usize) -> bool {
        let length = self.axes[axis + 1].length.clone();
        self.indexes().all(|index| match (index.step(axis), index.step(axis + 1)) {
            (Some(outer), Some(inner)) => outer == &inner * &length,
            _ => false,
        })
    }

    /// Bytes that it reads and writes at these lengths, with elements of `T` of so many bytes.
    pub fn bytes(&self, plan: &Sizes<'_>) -> i64 {
        let mut read: BTreeMap<Buffer, i64> = BTreeMap::new();
        let all = Length::product(self.axes.iter().map(|axis| &axis.length)).at(plan.lengths);
        for node in &self.nodes {
            if let Expression::Load(buffer, index) = &node.expression {
                // What does not depend on an axis is read once for all of its places.
                let uses = |axis: usize| index.uses(axis) || !index.computed().is_empty();
                let used = (0..self.axes.len()).filter(|axis| uses(*axis));
                let count = Length::product(used.map(|axis| &self.axes[axis].length)).at(plan.lengths);
                *read.entry(*buffer).or_default() += count.min(all);
            }
        }
        let written: i64 = self
            .stores
            .iter()
            .map(|store| {
                let used = (0..self.axes.len()).filter(|axis| store.offset.uses(*axis));
                Length::product(used.map(|axis| &self.axes[axis].length)).at(plan.lengths)
                    * plan.size(store.buffer)
            })
            .sum();
        // Places that overlap, as the windows of a pooling do, are read once.
        let most = |buffer: &Buffer| plan.sizes.get(buffer).copied().unwrap_or(i64::MAX);
        let read = read.iter().map(|(buffer, count)| *count.min(&most(buffer)) * plan.size(*buffer));
        read.sum::<i64>() + written
    }
}

/// What bytes are counted with.
#[derive(Debug, Clone, Copy)]
pub struct Sizes<'a> {
    /// The lengths of symbols.
    pub lengths: &'a BTreeMap<String, i64>,
    /// The dtype of every tensor.
    pub elements: &'a BTreeMap<Buffer, Element>,
    /// How many elements each of them has.
    pub sizes: &'a BTreeMap<Buffer, i64>,
    /// Bytes of `T`.
    pub variable: i64,
}

impl Sizes<'_> {
    /// Bytes of an element of a tensor.
    fn size(&self, buffer: Buffer) -> i64 {
        match self.elements.get(&buffer) {
            Some(Element::Fixed(dtype)) => i64::try_from(dtype.size_bytes()).unwrap_or(4),
            _ => self.variable,
        }
    }
}

/// An index in which `axis` and the next one are one axis.
fn joined(index: &Index, axis: usize) -> Index {
    let mut new = Index::length(index.constant.clone());
    for (part, factor) in &index.parts {
        let part = match part {
            // The outer one is in the steps of the inner one.
            Part::Axis(own) if *own == axis => continue,
            Part::Axis(own) if *own > axis => Part::Axis(own - 1),
            Part::Axis(own) => Part::Axis(*own),
            Part::Computed(own) => Part::Computed(*own),
            Part::Quotient(of, by) => Part::Quotient(Box::new(joined(of, axis)), by.clone()),
            Part::Remainder(of, by) => Part::Remainder(Box::new(joined(of, axis)), by.clone()),
        };
        new = new.plus(&Index::part(part).times(factor));
    }
    new
}
