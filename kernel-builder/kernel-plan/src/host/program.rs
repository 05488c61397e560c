//! Expressions with their constants folded, for asking the same one a million times.
//!
//! Owns: the translation of a tree whose dtypes and tunables are known. Never: differs from `Expr::evaluate` in a value;
//! where that has an error, this has none.

use std::collections::BTreeMap;

use crate::spec::expr::{BinaryOp, Expr, ExprKind, Function, UnaryOp, Value};
use crate::units::{Dtype, PythonName};

/// What names stand for where a program is made.
pub(super) struct Known<'a> {
    /// Tunables and constant axes.
    pub(super) values: BTreeMap<&'a PythonName, Value>,
    /// Type variables.
    pub(super) dtypes: &'a BTreeMap<PythonName, Dtype>,
    /// Axes and scalars that vary, and optional inputs, each with its place among the numbers that a program is asked with.
    pub(super) slots: BTreeMap<&'a PythonName, usize>,
    /// The axes of each tensor, outermost first, as trees.
    pub(super) shapes: BTreeMap<&'a PythonName, Vec<Expr>>,
}

/// A tree; truths are 0 and 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Program {
    Constant(i64),
    Slot(usize),
    Not(Box<Program>),
    Negate(Box<Program>),
    Binary(BinaryOp, Box<Program>, Box<Program>),
    CeilDiv(Box<Program>, Box<Program>),
    Min(Vec<Program>),
    Max(Vec<Program>),
}

impl Program {
    /// `None` where a name stands for nothing.
    pub(super) fn of(expr: &Expr, known: &Known<'_>) -> Option<Self> {
        let program = match &expr.kind {
            ExprKind::Integer(number) => Self::Constant(*number),
            ExprKind::Boolean(truth) => Self::Constant(i64::from(*truth)),
            ExprKind::Name(name) => match known.values.get(name) {
                Some(Value::Integer(number)) => Self::Constant(*number),
                Some(Value::Boolean(truth)) => Self::Constant(i64::from(*truth)),
                None => Self::Slot(*known.slots.get(name)?),
            },
            ExprKind::Unary(op, operand) => {
                let operand = Box::new(Self::of(operand, known)?);
                if *op == UnaryOp::Not { Self::Not(operand) } else { Self::Negate(operand) }
            }
            ExprKind::Binary(op, left, right) => {
                Self::Binary(*op, Box::new(Self::of(left, known)?), Box::new(Self::of(right, known)?))
            }
            ExprKind::Call(function, arguments) => Self::call(*function, arguments, known)?,
        };
        Some(program.folded())
    }

    fn call(function: Function, arguments: &[Expr], known: &Known<'_>) -> Option<Self> {
        let name = match arguments.first().map(|argument| &argument.kind) {
            Some(ExprKind::Name(name)) => Some(name),
            _ => None,
        };
        let all = || arguments.iter().map(|argument| Self::of(argument, known)).collect::<Option<Vec<_>>>();
        Some(match function {
            Function::CeilDiv => {
                let mut both = all()?.into_iter();
                Self::CeilDiv(Box::new(both.next()?), Box::new(both.next()?))
            }
            Function::Min => Self::Min(all()?),
            Function::Max => Self::Max(all()?),
            Function::Sizeof => {
                let dtype = known.dtypes.get(name?).copied().or_else(|| name?.as_str().parse().ok())?;
                Self::Constant(i64::try_from(dtype.size_bytes()).ok()?)
            }
            Function::Given => Self::Slot(*known.slots.get(name?)?),
            Function::Stride => {
                let ExprKind::Integer(dimension) = arguments.get(1)?.kind else { return None };
                let inner = known.shapes.get(name?)?.get(usize::try_from(dimension).ok()? + 1..)?;
                let lengths = inner.iter().map(|axis| Self::of(axis, known)).collect::<Option<Vec<_>>>()?;
                let product = |left, right| Self::Binary(BinaryOp::Multiply, Box::new(left), Box::new(right));
                lengths.into_iter().reduce(product).unwrap_or(Self::Constant(1))
            }
        })
    }

    /// A constant where nothing in it varies and it has a value.
    fn folded(self) -> Self {
        if self.slots().is_empty()
            && let Some(value) = self.run(&[])
        {
            return Self::Constant(value);
        }
        self
    }

    /// The places that its value depends on, ascending.
    pub(super) fn slots(&self) -> Vec<usize> {
        let (mut found, mut rest) = (vec![], vec![self]);
        while let Some(next) = rest.pop() {
            match next {
                Self::Constant(_) => {}
                Self::Slot(place) => found.push(*place),
                Self::Not(operand) | Self::Negate(operand) => rest.push(operand),
                Self::Binary(_, left, right) | Self::CeilDiv(left, right) => {
                    rest.extend([left.as_ref(), right.as_ref()])
                }
                Self::Min(all) | Self::Max(all) => rest.extend(all),
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The conditions that must all hold for it to hold.
    pub(super) fn conditions(self) -> Vec<Self> {
        match self {
            Self::Binary(BinaryOp::And, left, right) => {
                let mut all = left.conditions();
                all.extend(right.conditions());
                all
            }
            one => vec![one],
        }
    }

    /// Its value; `None` for a division by zero or a number beyond 64 bits.
    pub(super) fn run(&self, numbers: &[i64]) -> Option<i64> {
        match self {
            Self::Constant(value) => Some(*value),
            Self::Slot(place) => numbers.get(*place).copied(),
            Self::Not(operand) => Some(i64::from(operand.run(numbers)? == 0)),
            Self::Negate(operand) => operand.run(numbers)?.checked_neg(),
            Self::Binary(op, left, right) => {
                let first = left.run(numbers)?;
                match op {
                    BinaryOp::And if first == 0 => Some(0),
                    BinaryOp::Or if first != 0 => Some(1),
                    _ => binary(*op, first, right.run(numbers)?),
                }
            }
            Self::CeilDiv(left, right) => {
                let (left, right) = (left.run(numbers)?, right.run(numbers)?);
                floor_div(left, right)?.checked_add(i64::from(left.checked_rem(right)? != 0))
            }
            Self::Min(all) => {
                all.iter().map(|one| one.run(numbers)).collect::<Option<Vec<_>>>()?.into_iter().min()
            }
            Self::Max(all) => {
                all.iter().map(|one| one.run(numbers)).collect::<Option<Vec<_>>>()?.into_iter().max()
            }
        }
    }
}

fn binary(op: BinaryOp, left: i64, right: i64) -> Option<i64> {
    match op {
        BinaryOp::And | BinaryOp::Or => Some(i64::from(right != 0)),
        BinaryOp::Add => left.checked_add(right),
        BinaryOp::Subtract => left.checked_sub(right),
        BinaryOp::Multiply => left.checked_mul(right),
        BinaryOp::Divide => floor_div(left, right),
        BinaryOp::Remainder => {
            let rest = left.checked_rem(right).or((right == -1).then_some(0))?;
            Some(if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest })
        }
        BinaryOp::Equal => Some(i64::from(left == right)),
        BinaryOp::NotEqual => Some(i64::from(left != right)),
        BinaryOp::Less => Some(i64::from(left < right)),
        BinaryOp::LessEqual => Some(i64::from(left <= right)),
        BinaryOp::Greater => Some(i64::from(left > right)),
        BinaryOp::GreaterEqual => Some(i64::from(left >= right)),
    }
}

/// The quotient, rounded down.
fn floor_div(left: i64, right: i64) -> Option<i64> {
    let (toward_zero, rest) = (left.checked_div(right)?, left.checked_rem(right)?);
    toward_zero.checked_sub(i64::from(rest != 0 && (rest < 0) != (right < 0)))
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
            let known = Known {
                values: BTreeMap::new(),
                dtypes: &dtypes,
                slots: names.iter().enumerate().map(|(place, name)| (name, place)).collect(),
                shapes: BTreeMap::new(),
            };
            let program = Program::of(&expr, &known).unwrap();
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
