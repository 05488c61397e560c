//! Expressions whose names are defined, each with the type of its value.
//!
//! Owns: that nothing but `read` makes one. Never: evaluates a tree itself.

use super::Expr;
use super::evaluate::{Bindings, ExprError, Value};

/// An expression whose names are defined and that yields a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntExpr(pub(super) Expr);

/// An expression whose names are defined and that yields a truth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoolExpr(pub(super) Expr);

/// An expression of either type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueExpr {
    /// A number.
    Integer(IntExpr),
    /// A truth.
    Boolean(BoolExpr),
}

impl IntExpr {
    /// The tree.
    pub fn tree(&self) -> &Expr {
        &self.0
    }

    /// The number under these values.
    ///
    /// # Errors
    /// A division by zero, or a number that 64 bits do not hold.
    pub fn evaluate(&self, bindings: &Bindings) -> Result<i64, ExprError> {
        self.0.integer(bindings)
    }
}

impl BoolExpr {
    /// The tree.
    pub fn tree(&self) -> &Expr {
        &self.0
    }

    /// The truth under these values.
    ///
    /// # Errors
    /// A division by zero, or a number that 64 bits do not hold.
    pub fn evaluate(&self, bindings: &Bindings) -> Result<bool, ExprError> {
        self.0.boolean(bindings)
    }
}

impl ValueExpr {
    /// The tree.
    pub fn tree(&self) -> &Expr {
        match self {
            Self::Integer(expr) => expr.tree(),
            Self::Boolean(expr) => expr.tree(),
        }
    }

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
