//! Values of expressions whose names are defined.
//!
//! Owns: conditions that are made of others. Never: evaluates a tree itself.

use super::evaluate::{Bindings, ExprError, Value};
use super::{BinaryOp, BoolExpr, Expr, ExprKind, IntExpr, UnaryOp, ValueExpr};
use crate::units::PythonName;

impl IntExpr {
    /// The number under these values.
    ///
    /// # Errors
    /// A division by zero, or a number that 64 bits do not hold.
    pub fn evaluate(&self, bindings: &Bindings) -> Result<i64, ExprError> {
        self.0.integer(bindings)
    }
}

impl BoolExpr {
    /// The truth under these values.
    ///
    /// # Errors
    /// A division by zero, or a number that 64 bits do not hold.
    pub fn evaluate(&self, bindings: &Bindings) -> Result<bool, ExprError> {
        self.0.boolean(bindings)
    }

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

impl ValueExpr {
    /// The value under these values of names.
    ///
    /// # Errors
    /// A division by zero, or a number that 64 bits do not hold.
    pub fn evaluate(&self, bindings: &Bindings) -> Result<Value, ExprError> {
        match self {
            Self::Integer(expr) => expr.evaluate(bindings).map(Value::Integer),
            Self::Boolean(expr) => expr.evaluate(bindings).map(Value::Boolean),
        }
    }
}
