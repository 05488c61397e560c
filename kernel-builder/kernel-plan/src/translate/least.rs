//! The lengths that an operation takes at least.
//!
//! Owns: the rule. Never: an upper bound.

use super::kernel::{Buffer, Expression, Kernel, Role};
use super::length::Length;
use super::plan::Plan;
use super::program::{Program, Symbol};

/// Makes a function and its gradient take the same lengths.
pub fn agree(function: (&mut Program, &Plan), gradient: (&mut Program, &Plan)) {
    let ((program, plan), (of_gradient, planned)) = (function, gradient);
    for symbol in of_gradient.symbols.clone() {
        let Some(place) = program.symbols.iter().position(|one| one.name == symbol.name) else { continue };
        let both = least(program, plan, &program.symbols[place]).max(least(of_gradient, planned, &symbol));
        program.symbols[place].min = both;
        let own = of_gradient.symbols.iter_mut().filter(|one| one.name == symbol.name);
        own.for_each(|one| one.min = both);
    }
}

/// The least length of an axis: none where it is parallel or summed over.
pub(super) fn least(program: &Program, plan: &Plan, symbol: &Symbol) -> i64 {
    let uses = |length: &Length| length.symbols().any(|name| name == symbol.name);
    let is_of = |buffer: &Buffer| match buffer {
        Buffer::Input(number) => program.inputs[*number].shape.iter().any(uses),
        _ => true,
    };
    let gathered = plan.kernels.iter().flat_map(|kernel| kernel.nodes.iter().map(move |node| (kernel, node)));
    let gathered = gathered.filter_map(|(kernel, node)| match &node.expression {
        Expression::Load(buffer, index) if is_of(buffer) && !index.computed().is_empty() => {
            // Drawn places are 0 and 1. Those that follow from the element's own, as behind a concatenation, need one element.
            Some(if index.computed().into_iter().any(|one| is_drawn(kernel, one)) { 2 } else { 1 })
        }
        _ => None,
    });
    // The sum of nothing is known; other reductions need an element.
    let is_reduced = plan.kernels.iter().any(|kernel| {
        let needs = kernel.scan.is_some() || kernel.reductions.iter().any(|one| !one.how.is_sum());
        needs && kernel.axes.iter().any(|axis| axis.role != Role::Parallel && uses(&axis.length))
    });
    let own = gathered.max().unwrap_or(0).max(i64::from(is_reduced));
    let least = own.max(symbol.min);
    (least + symbol.factor() - 1) / symbol.factor() * symbol.factor()
}

/// Whether the value of a node depends on the elements of a tensor.
fn is_drawn(kernel: &Kernel, node: usize) -> bool {
    match &kernel.nodes[node].expression {
        Expression::Number(_) | Expression::Quantity(_) => false,
        Expression::Place(index) => index.computed().into_iter().any(|one| is_drawn(kernel, one)),
        Expression::Operation(_, of) => of.iter().any(|one| is_drawn(kernel, *one)),
        Expression::Load(..) | Expression::Reduced(_) | Expression::Mean(_) | Expression::Scanned => true,
    }
}
