//! The lengths that an operation takes at least.
//!
//! Owns: the rule. Never: an upper bound.

use super::kernel::{Buffer, Expression, Role};
use super::length::Length;
use super::plan::Plan;
use super::program::{Program, Symbol};

/// The least length of an axis: none where it is parallel alone.
pub(super) fn least(program: &Program, plan: &Plan, symbol: &Symbol) -> i64 {
    let uses = |length: &Length| length.symbols().any(|name| name == symbol.name);
    let is_gathered =
        plan.kernels.iter().flat_map(|kernel| &kernel.nodes).any(|node| match &node.expression {
            Expression::Load(buffer, index) if !index.computed().is_empty() => match buffer {
                Buffer::Input(number) => program.inputs[*number].shape.iter().any(uses),
                _ => true,
            },
            _ => false,
        });
    let is_reduced = plan
        .kernels
        .iter()
        .any(|kernel| kernel.axes.iter().any(|axis| axis.role != Role::Parallel && uses(&axis.length)));
    // Drawn places are 0 and 1.
    let own = if is_gathered { 2 } else { i64::from(is_reduced) };
    let least = own.max(symbol.min);
    (least + symbol.factor() - 1) / symbol.factor() * symbol.factor()
}
