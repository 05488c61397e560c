//! Expressions with their constants folded, for asking the same one a million times.
//!
//! Owns: the translation of a tree whose dtypes and tunables are known. Never: differs from `Expr::evaluate` in a value;
//! where that has an error, this has none.

use std::collections::BTreeMap;

use length_search::{Operation, Program};

use crate::spec::expr::{BinaryOp, Expr, ExprKind, Function, UnaryOp, Value};
use crate::units::{Dtype, PythonName};

/// What names stand for where a program is made.
pub(super) struct ProgramScope<'a> {
    /// Tunables and constant axes.
    pub(super) values: BTreeMap<&'a PythonName, Value>,
    /// Type variables.
    pub(super) dtypes: &'a BTreeMap<PythonName, Dtype>,
    /// Axes and scalars that vary, and optional inputs, each with its place among the numbers that a program is asked with.
    pub(super) slots: BTreeMap<&'a PythonName, usize>,
    /// The axes of each tensor, outermost first, as trees.
    pub(super) shapes: BTreeMap<&'a PythonName, Vec<Expr>>,
}

/// `None` where a name stands for nothing.
pub(super) fn program(expr: &Expr, known: &ProgramScope<'_>) -> Option<Program> {
    let tree = match &expr.kind {
        ExprKind::Integer(number) => Program::Constant(*number),
        ExprKind::Boolean(truth) => Program::Constant(i64::from(*truth)),
        ExprKind::Name(name) => match known.values.get(name) {
            Some(Value::Integer(number)) => Program::Constant(*number),
            Some(Value::Boolean(truth)) => Program::Constant(i64::from(*truth)),
            None => Program::Slot(*known.slots.get(name)?),
        },
        ExprKind::Named(definition) => return program(definition.value.tree(), known),
        ExprKind::Unary(op, operand) => {
            let operand = Box::new(program(operand, known)?);
            if *op == UnaryOp::Not { Program::Not(operand) } else { Program::Negate(operand) }
        }
        ExprKind::Binary(op, left, right) => {
            Program::Binary(operation(*op), Box::new(program(left, known)?), Box::new(program(right, known)?))
        }
        ExprKind::Call(function, arguments) => call(*function, arguments, known)?,
    };
    Some(tree.folded())
}

fn call(function: Function, arguments: &[Expr], known: &ProgramScope<'_>) -> Option<Program> {
    let name = match arguments.first().map(|argument| &argument.kind) {
        Some(ExprKind::Name(name)) => Some(name),
        _ => None,
    };
    let all = || arguments.iter().map(|argument| program(argument, known)).collect::<Option<Vec<_>>>();
    Some(match function {
        Function::CeilDiv => {
            let mut both = all()?.into_iter();
            Program::CeilDiv(Box::new(both.next()?), Box::new(both.next()?))
        }
        Function::Min => Program::Min(all()?),
        Function::Max => Program::Max(all()?),
        Function::Sizeof => {
            let dtype = known.dtypes.get(name?).copied().or_else(|| name?.as_str().parse().ok())?;
            Program::Constant(i64::try_from(dtype.size_bytes()).ok()?)
        }
        Function::Given => Program::Slot(*known.slots.get(name?)?),
        Function::Stride => {
            let ExprKind::Integer(dimension) = arguments.get(1)?.kind else { return None };
            let inner = known.shapes.get(name?)?.get(usize::try_from(dimension).ok()? + 1..)?;
            let lengths = inner.iter().map(|axis| program(axis, known)).collect::<Option<Vec<_>>>()?;
            let product = |left, right| Program::Binary(Operation::Multiply, Box::new(left), Box::new(right));
            lengths.into_iter().reduce(product).unwrap_or(Program::Constant(1))
        }
    })
}

fn operation(op: BinaryOp) -> Operation {
    match op {
        BinaryOp::And => Operation::And,
        BinaryOp::Or => Operation::Or,
        BinaryOp::Add => Operation::Add,
        BinaryOp::Subtract => Operation::Subtract,
        BinaryOp::Multiply => Operation::Multiply,
        BinaryOp::Divide => Operation::Divide,
        BinaryOp::Remainder => Operation::Remainder,
        BinaryOp::Equal => Operation::Equal,
        BinaryOp::NotEqual => Operation::NotEqual,
        BinaryOp::Less => Operation::Less,
        BinaryOp::LessEqual => Operation::LessEqual,
        BinaryOp::Greater => Operation::Greater,
        BinaryOp::GreaterEqual => Operation::GreaterEqual,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::spec::expr::{Bindings, parse_expression};

    proptest! {
        #[test]
        fn has_the_value_of_the_tree(a in -20i64..20, b in -20i64..20, which in 0usize..12) {
            let text = [
                "a / b", "a % b", "ceil_div(a, b)", "min(a, b, 3) * max(a, -b)", "a < b and b != 3", "a == b or not (a >= 1)",
                "-(a - b) * 3 % 7", "ceil_div(a * 4, 32) * 32", "a <= 5 or 1 / a > 0", "a > b and a / b > 1", "sizeof(f16) * a",
                "(a + b) / 4 * 4",
            ][which];
            let expr = parse_expression(text).unwrap();
            let names: Vec<PythonName> = ["a", "b"].iter().map(|name| name.parse().unwrap()).collect();
            let dtypes = BTreeMap::new();
            let known = ProgramScope {
                values: BTreeMap::new(),
                dtypes: &dtypes,
                slots: names.iter().enumerate().map(|(place, name)| (name, place)).collect(),
                shapes: BTreeMap::new(),
            };
            let program = super::program(&expr, &known).unwrap();
            let mut bindings = Bindings::default();
            for (name, value) in names.iter().zip([a, b]) {
                bindings.names.insert(name.clone(), Value::Integer(value));
            }
            let exact = expr.evaluate(&bindings).ok().map(|value| match value {
                Value::Integer(number) => number,
                Value::Boolean(truth) => i64::from(truth),
            });
            prop_assert_eq!(program.run(&[a, b]), exact, "{}", text);
        }
    }
}
