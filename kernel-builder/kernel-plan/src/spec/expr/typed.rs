//! Conditions that are made of others.
//!
//! Owns: their trees, and where an error in one points. Never: reads a text, or evaluates.

use super::evaluate::Value;
use super::{BinaryOp, BoolExpr, Expr, ExprKind, UnaryOp};
use crate::units::PythonName;

impl BoolExpr {
    /// The condition that it holds, or that a tunable has this value; all of it stands at the place of this one.
    pub(crate) fn or_equals(&self, name: &PythonName, value: Value) -> Self {
        let part = |kind| Box::new(Expr { kind, span: self.0.span.clone() });
        let name = part(ExprKind::Name(name.clone()));
        let equals = match value {
            Value::Boolean(true) => name,
            Value::Boolean(false) => part(ExprKind::Unary(UnaryOp::Not, name)),
            Value::Integer(number) => {
                let literal = match number.checked_neg() {
                    Some(positive) if positive > 0 => {
                        part(ExprKind::Unary(UnaryOp::Negate, part(ExprKind::Integer(positive))))
                    }
                    _ => part(ExprKind::Integer(number)),
                };
                part(ExprKind::Binary(BinaryOp::Equal, name, literal))
            }
        };
        Self(*part(ExprKind::Binary(BinaryOp::Or, Box::new(self.0.clone()), equals)))
    }
}
