//! Prints a tree as text that reads as the same tree, with no parenthesis that it does not need.
//!
//! Owns: where parentheses stand. Never: keeps the white space of the text that was read.

use std::fmt::{self, Display, Formatter};

use super::{BoolExpr, Expr, ExprKind, IntExpr, UnaryOp, ValueExpr};

/// Binds tighter than any operator.
const PRIMARY: u8 = 8;

impl ExprKind {
    fn power(&self) -> u8 {
        match self {
            Self::Unary(op, _) => op.power(),
            Self::Binary(op, ..) => op.power(),
            // Only a tree that was not read has one; it prints as the text that means the same.
            Self::Integer(..0) => UnaryOp::Negate.power(),
            _ => PRIMARY,
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Integer(number) => write!(f, "{number}"),
            ExprKind::Boolean(truth) => write!(f, "{truth}"),
            ExprKind::Name(name) => write!(f, "{name}"),
            ExprKind::Unary(op, operand) => {
                f.write_str(op.as_str())?;
                if *op == UnaryOp::Not {
                    f.write_str(" ")?;
                }
                within(operand, op.power(), f)
            }
            ExprKind::Binary(op, left, right) => {
                // To the left, an operator of the same power needs no parenthesis, unless it is a comparison.
                within(left, op.power() + u8::from(op.compares()), f)?;
                write!(f, " {op} ")?;
                within(right, op.power() + 1, f)
            }
            ExprKind::Call(function, arguments) => {
                write!(f, "{function}(")?;
                for (place, argument) in arguments.iter().enumerate() {
                    f.write_str(if place == 0 { "" } else { ", " })?;
                    argument.fmt(f)?;
                }
                f.write_str(")")
            }
        }
    }
}

/// An operand of an operator that needs at least `power`.
fn within(operand: &Expr, power: u8, f: &mut Formatter<'_>) -> fmt::Result {
    if operand.kind.power() < power { write!(f, "({operand})") } else { operand.fmt(f) }
}

macro_rules! print_as_tree {
    ($($type:ty),*) => { $(
        impl Display for $type {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                self.tree().fmt(f)
            }
        }
    )* };
}

print_as_tree!(IntExpr, BoolExpr, ValueExpr);
crate::units::serialize_as_string!(Expr, IntExpr, BoolExpr, ValueExpr);
