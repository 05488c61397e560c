//! Sums that every kernel rounds alike.
//!
//! Owns: which sums. Never: how they are spelled.
//!
//! The gradient of a maximum goes to the elements that are equal to it, and several kernels may compute these elements again.
//! A compiler that fuses a product into a sum in one of them and not in another gives them other bits there, and no element is
//! equal to the maximum any more.

use super::super::program::{Class, Kind, Op, Program, Value, ValueId};

/// The program with sums alike in everything that is compared for equality.
pub(super) fn alike(mut program: Program) -> Program {
    let mut pending: Vec<ValueId> = program.values.iter().flat_map(|one| compared(one, &program)).collect();
    let mut seen = vec![false; program.values.len()];
    while let Some(next) = pending.pop() {
        if std::mem::replace(&mut seen[next], true) {
            continue;
        }
        let value = &mut program.values[next];
        match &mut value.kind {
            Kind::Pointwise(op, of) => {
                match op {
                    Op::Add if value.class == Class::Float => *op = Op::AddAlike,
                    Op::Subtract if value.class == Class::Float => *op = Op::SubtractAlike,
                    _ => {}
                }
                pending.extend(of.iter());
            }
            Kind::View(of, _) | Kind::Reduce(_, of, _) | Kind::Scan(_, of, _) => pending.push(*of),
            Kind::Gather(of, _, by) => {
                pending.push(*of);
                pending.extend(by.iter());
            }
            Kind::Input(_) | Kind::Number(_) | Kind::Quantity(_) | Kind::Place(_) => {}
        }
    }
    program
}

/// The floats that a value compares for equality, unless one is a number.
fn compared(value: &Value, program: &Program) -> Vec<ValueId> {
    let Kind::Pointwise(Op::Equal | Op::NotEqual, of) = &value.kind else { return Vec::new() };
    let is_variable =
        |one: &ValueId| !matches!(program.values[*one].kind, Kind::Number(_) | Kind::Quantity(_));
    let is_float = |one: &ValueId| program.values[*one].class == Class::Float;
    if of.iter().all(|one| is_variable(one) && is_float(one)) { of.clone() } else { Vec::new() }
}
