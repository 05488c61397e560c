//! The order in which a kernel walks its axes, given how its tensors lie in memory.
//!
//! Owns: that order, and whether a reduction and its results go together. Never: chooses what is fused; plan.rs does.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::index::{Index, Part};
use super::kernel::{Axis, Expression, Kernel, SHORT, Store};
use super::length::Length;

impl Kernel {
    /// The index of the load that reads most elements, the first of several; `None` if an axis has no constant step in it.
    fn main_load(&self, lengths: &BTreeMap<String, i64>) -> Option<&Index> {
        let loads = self.nodes.iter().filter_map(|node| match &node.expression {
            Expression::Load(_, index) => Some(index),
            _ => None,
        });
        let steps = |index: &Index| (0..self.axes.len()).all(|axis| index.step(axis).is_some());
        let elements = |index: &Index| {
            let used = (0..self.axes.len()).filter(|axis| index.uses(*axis));
            Length::product(used.map(|axis| &self.axes[axis].length)).at(lengths)
        };
        // Of several, `max_by_key` takes the last.
        loads.rev().max_by_key(|index| elements(index)).filter(|index| steps(index))
    }

    /// Whether the axes may be walked in any order: a scan has one, and a search finds the first of several equal elements.
    fn has_any_order(&self) -> bool {
        self.scan.is_none() && !self.reductions.iter().any(|reduced| reduced.how.is_place())
    }

    /// Whether no order of the axes suits both: the elements that are reduced and the results for every element have different
    /// neighbors in memory.
    pub fn is_torn(&self, lengths: &BTreeMap<String, i64>) -> bool {
        let mut own = self.clone();
        own.split_axes();
        let Some((read, true)) = own.main_load(lengths).and_then(|index| own.neighbors(index, lengths))
        else {
            return false;
        };
        let is_written_otherwise = |store: &Store| {
            let is_whole = (0..own.axes.len()).all(|axis| store.offset.uses(axis));
            let other = |(written, is_long): (usize, bool)| is_long && written != read;
            is_whole && own.neighbors(&store.offset, lengths).is_some_and(other)
        };
        own.has_any_order() && own.stores.iter().any(is_written_otherwise)
    }

    /// The axis along which neighbors lie, and whether at least `SHORT` elements lie side by side along it and the axes that continue it.
    fn neighbors(&self, index: &Index, lengths: &BTreeMap<String, i64>) -> Option<(usize, bool)> {
        let at = |wanted: i64| {
            (0..self.axes.len()).find(|axis| index.step(*axis).is_some_and(|step| step.at(lengths) == wanted))
        };
        let first = at(1)?;
        let mut run = self.axes[first].length.at(lengths);
        while run < SHORT && run > 1 {
            match at(run) {
                Some(axis) => run *= self.axes[axis].length.at(lengths),
                None => break,
            }
        }
        Some((first, run >= SHORT))
    }

    /// Walks the axes of a reduction in the order in which its elements lie in memory, so that neighboring threads read neighbors.
    pub fn order_axes(&mut self, lengths: &BTreeMap<String, i64>) {
        if self.reductions.is_empty() || !self.has_any_order() {
            return;
        }
        let mut own = self.clone();
        own.split_axes();
        if own.sort_axes(lengths) {
            *self = own;
        }
    }

    /// Sorts the axes by their steps; whether that changed their order.
    fn sort_axes(&mut self, lengths: &BTreeMap<String, i64>) -> bool {
        let Some(index) = self.main_load(lengths) else { return false };
        let step = |axis: &usize| index.step(*axis).map_or(0, |step| step.at(lengths));
        let used: Vec<usize> = (0..self.axes.len()).filter(|axis| index.uses(*axis)).collect();
        let mut sorted = used.clone();
        sorted.sort_by_key(|axis| std::cmp::Reverse(step(axis)));
        if sorted == used || used.iter().any(|axis| step(axis) < 1) {
            return false;
        }
        // The axis that each place gets, and the place that each axis gets.
        let mut order: Vec<usize> = (0..self.axes.len()).collect();
        used.iter().zip(&sorted).for_each(|(place, axis)| order[*place] = *axis);
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, axis)| places[*axis] = place);
        let own: Vec<Length> = order.iter().map(|axis| self.axes[*axis].length.clone()).collect();
        let new: Vec<Index> = places.iter().map(|place| Index::axis(*place)).collect();
        self.axes = order.iter().map(|axis| self.axes[*axis].clone()).collect();
        for index in self.indexes() {
            *index = index.replaced(&new, &own);
        }
        true
    }

    /// Replaces an axis by two where an index divides its places.
    fn split_axes(&mut self) {
        while let Some((axis, outer, inner)) = self.divided_axis() {
            let lengths: Vec<Length> = (self.axes.iter().enumerate())
                .flat_map(|(number, own)| {
                    if number == axis { vec![outer.clone(), inner.clone()] } else { vec![own.length.clone()] }
                })
                .collect();
            let new: Vec<Index> = (0..self.axes.len())
                .map(|number| match number.cmp(&axis) {
                    Ordering::Less => Index::axis(number),
                    Ordering::Equal => Index::axis(axis).times(&inner).plus(&Index::axis(axis + 1)),
                    Ordering::Greater => Index::axis(number + 1),
                })
                .collect();
            let role = self.axes[axis].role;
            self.axes[axis].length = outer;
            self.axes.insert(axis + 1, Axis { length: inner, role });
            for index in self.indexes() {
                *index = index.replaced(&new, &lengths);
            }
        }
    }

    /// An axis whose places are divided by a length that it is a multiple of: its number, how many times, and the length.
    fn divided_axis(&self) -> Option<(usize, Length, Length)> {
        let loads = self.nodes.iter().filter_map(|node| match &node.expression {
            Expression::Load(_, index) => Some(index),
            _ => None,
        });
        loads.flat_map(divisions).find_map(|(axis, by)| {
            let outer = self.axes[axis].length.divided(by)?;
            (!outer.is(1)).then(|| (axis, outer, by.clone()))
        })
    }
}

/// The axes that are divided within an index, each with what it is divided by.
fn divisions(index: &Index) -> Vec<(usize, &Length)> {
    let inside = index.parts.keys().map(|part| match part {
        Part::Quotient(of, by) | Part::Remainder(of, by) => {
            let axis = of.parts.iter().find_map(|(part, factor)| match part {
                Part::Axis(axis) if factor.is(1) && of.parts.len() == 1 && of.constant.is(0) => Some(*axis),
                _ => None,
            });
            axis.map_or_else(|| divisions(of), |axis| vec![(axis, by)])
        }
        Part::Axis(_) | Part::Computed(_) => Vec::new(),
    });
    inside.flatten().collect()
}
