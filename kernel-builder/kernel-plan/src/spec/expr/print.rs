//! Prints a tree as text that reads as the same tree, with no parenthesis that it does not need.
//!
//! Owns: where parentheses stand. Never: keeps the white space of the text that was read.
//!
//! A person reads a name of `[let]` as it is. What is serialized, and so part of digests, has the expression in its place:
//! other names for the same expressions change no digest.

use std::fmt::{self, Display, Formatter};

use serde::{Serialize, Serializer};

use super::{BoolExpr, Expr, ExprKind, IntExpr, UnaryOp, ValueExpr};

/// Binds tighter than any operator.
const PRIMARY: u8 = 8;

/// How a name of `[let]` is printed.
#[derive(Clone, Copy)]
enum Names {
    /// As it is.
    Kept,
    /// As the expression that it stands for.
    WrittenOut,
}

/// A tree without names of `[let]`.
struct WrittenOut<'a>(&'a Expr);

impl ExprKind {
    fn power(&self, names: Names) -> u8 {
        match (self, names) {
            (Self::Unary(op, _), _) => op.power(),
            (Self::Binary(op, ..), _) => op.power(),
            (Self::Named(definition), Names::WrittenOut) => definition.value.tree().kind.power(names),
            // Only a tree that was not read has one; it prints as the text that means the same.
            (Self::Integer(..0), _) => UnaryOp::Negate.power(),
            _ => PRIMARY,
        }
    }
}

impl Expr {
    fn print(&self, names: Names, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Integer(number) => write!(f, "{number}"),
            ExprKind::Boolean(truth) => write!(f, "{truth}"),
            ExprKind::Name(name) => write!(f, "{name}"),
            ExprKind::Named(definition) => match names {
                Names::Kept => write!(f, "{}", definition.name.value),
                Names::WrittenOut => definition.value.tree().print(names, f),
            },
            ExprKind::Unary(op, operand) => {
                f.write_str(op.as_str())?;
                if *op == UnaryOp::Not {
                    f.write_str(" ")?;
                }
                operand.within(op.power(), names, f)
            }
            ExprKind::Binary(op, left, right) => {
                // To the left, an operator of the same power needs no parenthesis, unless it is a comparison.
                left.within(op.power() + u8::from(op.compares()), names, f)?;
                write!(f, " {op} ")?;
                right.within(op.power() + 1, names, f)
            }
            ExprKind::Call(function, arguments) => {
                write!(f, "{function}(")?;
                for (place, argument) in arguments.iter().enumerate() {
                    f.write_str(if place == 0 { "" } else { ", " })?;
                    argument.print(names, f)?;
                }
                f.write_str(")")
            }
        }
    }

    /// Prints an operand of an operator that needs at least `power`.
    fn within(&self, power: u8, names: Names, f: &mut Formatter<'_>) -> fmt::Result {
        if self.kind.power(names) >= power {
            return self.print(names, f);
        }
        f.write_str("(")?;
        self.print(names, f)?;
        f.write_str(")")
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.print(Names::Kept, f)
    }
}

impl Display for WrittenOut<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.print(Names::WrittenOut, f)
    }
}

impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&WrittenOut(self))
    }
}

macro_rules! as_tree {
    ($($type:ty),*) => { $(
        impl Display for $type {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                self.tree().fmt(f)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.tree().serialize(serializer)
            }
        }
    )* };
}

as_tree!(IntExpr, BoolExpr, ValueExpr);
