//! What a tree is worth under given values.
//!
//! Owns: checked arithmetic, and the errors that name the part of the expression.
//! Never: panics; a tree that was not checked for names and types yields an error.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::{Serialize, Serializer};

use crate::units::{Dtype, PythonName};

use super::{BinaryOp, BoolExpr, Expr, ExprKind, Function, IntExpr, UnaryOp, ValueExpr};

/// What an expression, a tunable or a template argument is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// A number.
    Integer(i64),
    /// A truth.
    Boolean(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => number.fmt(f),
            Self::Boolean(truth) => truth.fmt(f),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Integer(number) => serializer.serialize_i64(number),
            Self::Boolean(truth) => serializer.serialize_bool(truth),
        }
    }
}

/// What the names of an expression stand for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bindings {
    /// Axes, tunables, integer and boolean scalars.
    pub names: BTreeMap<PythonName, Value>,
    /// Type variables.
    pub dtypes: BTreeMap<PythonName, Dtype>,
    /// Inputs and outputs.
    pub tensors: BTreeMap<PythonName, TensorBinding>,
}

/// A tensor, as far as expressions go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorBinding {
    /// Whether it is passed; false for an optional input that the workload leaves out.
    pub given: bool,
    /// Elements between neighbors, outermost dimension first.
    pub strides: Vec<u64>,
}

/// An expression without a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{expression}` {cause}{}", within(.through))]
pub struct ExprError {
    /// The part that has none, as text.
    pub expression: String,
    /// The place of that part in the file.
    pub span: Range<usize>,
    /// Why not.
    pub cause: Cause,
    /// The names of `[let]` that led to that part, the innermost first.
    pub through: Vec<NameUse>,
}

/// A use of a name of `[let]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameUse {
    /// The name.
    pub name: PythonName,
    /// The place of the use in the file.
    pub span: Range<usize>,
}

/// The end of a message about a part that names of `[let]` led to.
fn within(through: &[NameUse]) -> String {
    let Some((inner, outer)) = through.split_first() else { return String::new() };
    let outer = outer.iter().map(|used| format!(", which `{}` uses", used.name));
    format!(", in `{}` of [let]{}", inner.name, outer.collect::<String>())
}

/// Why an expression has no value. The texts go on after the expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The divisor is zero.
    #[error("divides by zero")]
    DivisionByZero,
    /// More than 64 bits.
    #[error("does not fit in 64 bits")]
    Overflow,
    /// A name without a value, or a call with the wrong arguments. Reading an op.toml excludes it.
    #[error("has no value here")]
    Undefined,
    /// A number where a truth is needed, or the reverse. Reading an op.toml excludes it.
    #[error("is of the wrong type")]
    WrongType,
}

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

impl Expr {
    /// Its value.
    ///
    /// # Errors
    /// See [`Cause`].
    pub fn evaluate(&self, bindings: &Bindings) -> Result<Value, ExprError> {
        match &self.kind {
            ExprKind::Integer(number) => Ok(Value::Integer(*number)),
            ExprKind::Boolean(truth) => Ok(Value::Boolean(*truth)),
            ExprKind::Name(name) => {
                bindings.names.get(name).copied().ok_or_else(|| self.error(Cause::Undefined))
            }
            ExprKind::Named(definition) => definition.value.tree().evaluate(bindings).map_err(|mut error| {
                error.through.push(NameUse { name: definition.name.value.clone(), span: self.span.clone() });
                error
            }),
            ExprKind::Unary(UnaryOp::Not, operand) => {
                operand.boolean(bindings).map(|truth| Value::Boolean(!truth))
            }
            ExprKind::Unary(UnaryOp::Negate, operand) => self.fits(operand.integer(bindings)?.checked_neg()),
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right, bindings),
            ExprKind::Call(function, arguments) => self.call(*function, arguments, bindings),
        }
    }

    /// Its value, which must be a number.
    pub(super) fn integer(&self, bindings: &Bindings) -> Result<i64, ExprError> {
        match self.evaluate(bindings)? {
            Value::Integer(number) => Ok(number),
            Value::Boolean(_) => Err(self.error(Cause::WrongType)),
        }
    }

    /// Its value, which must be a truth.
    pub(super) fn boolean(&self, bindings: &Bindings) -> Result<bool, ExprError> {
        match self.evaluate(bindings)? {
            Value::Boolean(truth) => Ok(truth),
            Value::Integer(_) => Err(self.error(Cause::WrongType)),
        }
    }

    fn binary(
        &self,
        op: BinaryOp,
        left: &Self,
        right: &Self,
        bindings: &Bindings,
    ) -> Result<Value, ExprError> {
        if matches!(op, BinaryOp::Or | BinaryOp::And) {
            let first = left.boolean(bindings)?;
            let decided = first == (op == BinaryOp::Or);
            return Ok(Value::Boolean(if decided { first } else { right.boolean(bindings)? }));
        }
        let (left, right) = (left.integer(bindings)?, right.integer(bindings)?);
        let truth = match op {
            BinaryOp::Add => return self.fits(left.checked_add(right)),
            BinaryOp::Subtract => return self.fits(left.checked_sub(right)),
            BinaryOp::Multiply => return self.fits(left.checked_mul(right)),
            BinaryOp::Divide => return self.quotient(left, right, Rounding::Down),
            BinaryOp::Remainder => return self.remainder(left, right),
            BinaryOp::Or | BinaryOp::And => return Err(self.error(Cause::WrongType)),
            BinaryOp::Equal => left == right,
            BinaryOp::NotEqual => left != right,
            BinaryOp::Less => left < right,
            BinaryOp::LessEqual => left <= right,
            BinaryOp::Greater => left > right,
            BinaryOp::GreaterEqual => left >= right,
        };
        Ok(Value::Boolean(truth))
    }

    fn call(&self, function: Function, arguments: &[Self], bindings: &Bindings) -> Result<Value, ExprError> {
        match (function, arguments) {
            (Function::CeilDiv, [left, right]) => {
                self.quotient(left.integer(bindings)?, right.integer(bindings)?, Rounding::Up)
            }
            (Function::Min | Function::Max, [first, rest @ ..]) => {
                let mut chosen = first.integer(bindings)?;
                for next in rest {
                    let next = next.integer(bindings)?;
                    chosen = if function == Function::Min { chosen.min(next) } else { chosen.max(next) };
                }
                Ok(Value::Integer(chosen))
            }
            (Function::Sizeof, [Self { kind: ExprKind::Name(name), .. }]) => {
                let dtype =
                    bindings.dtypes.get(name).copied().or_else(|| name.as_str().parse::<Dtype>().ok());
                self.fits(dtype.and_then(|dtype| i64::try_from(dtype.size_bytes()).ok()))
                    .map_err(|error| ExprError { cause: Cause::Undefined, ..error })
            }
            (Function::Stride, [Self { kind: ExprKind::Name(name), .. }, dimension]) => {
                let dimension = usize::try_from(dimension.integer(bindings)?).ok();
                let strides = bindings.tensors.get(name).map(|tensor| &tensor.strides);
                let stride = strides.zip(dimension).and_then(|(strides, dimension)| strides.get(dimension));
                let stride = stride.ok_or_else(|| self.error(Cause::Undefined))?;
                self.fits(i64::try_from(*stride).ok())
            }
            (Function::Given, [Self { kind: ExprKind::Name(name), .. }]) => {
                let tensor = bindings.tensors.get(name).ok_or_else(|| self.error(Cause::Undefined))?;
                Ok(Value::Boolean(tensor.given))
            }
            _ => Err(self.error(Cause::Undefined)),
        }
    }

    fn quotient(&self, left: i64, right: i64, rounding: Rounding) -> Result<Value, ExprError> {
        if right == 0 {
            return Err(self.error(Cause::DivisionByZero));
        }
        let (Some(toward_zero), Some(rest)) = (left.checked_div(right), left.checked_rem(right)) else {
            return Err(self.error(Cause::Overflow));
        };
        // Where something is left over, the exact quotient lies below zero exactly if the signs differ.
        let below = (rest < 0) != (right < 0);
        let step = match rounding {
            _ if rest == 0 => 0,
            Rounding::Down => -i64::from(below),
            Rounding::Up => i64::from(!below),
        };
        self.fits(toward_zero.checked_add(step))
    }

    fn remainder(&self, left: i64, right: i64) -> Result<Value, ExprError> {
        if right == 0 {
            return Err(self.error(Cause::DivisionByZero));
        }
        // The one quotient that overflows, that by -1, leaves nothing.
        let rest = left.wrapping_rem(right);
        let rest = if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest };
        Ok(Value::Integer(rest))
    }

    fn fits(&self, number: Option<i64>) -> Result<Value, ExprError> {
        number.map(Value::Integer).ok_or_else(|| self.error(Cause::Overflow))
    }

    fn error(&self, cause: Cause) -> ExprError {
        ExprError { expression: self.to_string(), span: self.span.clone(), cause, through: vec![] }
    }
}

/// Where a quotient goes that is no whole number.
#[derive(Clone, Copy)]
enum Rounding {
    Down,
    Up,
}
