//! The expression language of op.toml: integers and conditions over axes, tunables and scalars.
//!
//! Owns: the grammar, the tree with its places in the file, names and types, evaluation, printing.
//! Never: overflows or panics, whatever the text and whatever the values.
//!
//! Integers have 64 bits. Division rounds down and the remainder has the sign of the divisor, as in Python.

use std::ops::Range;
use std::sync::Arc;

use crate::units::PythonName;

use super::Spanned;

mod evaluate;
mod parse;
mod print;
mod read;
mod scope;
mod typed;

pub use evaluate::{Bindings, Cause, ExprError, NameUse, TensorBinding, Value};
pub use parse::{MAX_DEPTH, SyntaxError, parse_expression};
pub(crate) use read::{boolean, checked, integer, integers, tree, value};
pub(crate) use scope::{Kind, Scope, ScopeTensor};

/// A tree; equal where the meaning is, wherever it was read.
#[derive(Debug, Clone)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Byte range in the file. All of a string with escapes, whose characters have no place of their own.
    pub span: Range<usize>,
}

/// The kinds of tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExprKind {
    /// A number, zero or more.
    Integer(i64),
    /// `true` or `false`.
    Boolean(bool),
    /// An axis, a tunable, a scalar; inside of `sizeof`, `stride` and `given`, a dtype or a tensor.
    Name(PythonName),
    /// A name of `[let]`.
    Named(Arc<Definition>),
    /// One operand.
    Unary(UnaryOp, Box<Expr>),
    /// Two operands.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// A function of the language.
    Call(Function, Vec<Expr>),
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Eq for Expr {}

/// A name of `[let]`, and the expression that it stands for.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The name.
    pub name: Spanned<PythonName>,
    /// Its expression.
    pub value: ValueExpr,
    /// Size of the tree with every name written out.
    size: Size,
}

impl Definition {
    /// Gives an expression a name.
    pub(crate) fn new(name: Spanned<PythonName>, value: ValueExpr) -> Self {
        let size = value.tree().size();
        Self { name, value, size }
    }
}

/// Equal where name and meaning are, wherever they were read.
impl PartialEq for Definition {
    fn eq(&self, other: &Self) -> bool {
        self.name.value == other.name.value && self.value == other.value
    }
}

impl Eq for Definition {}

/// Size of a tree in which every name of `[let]` is written out.
#[derive(Debug, Clone, Copy)]
struct Size {
    depth: usize,
    parts: usize,
}

/// The most parts of an expression in which every name of `[let]` is written out.
pub const MAX_PARTS: usize = 4096;

crate::units::named_values!(
    /// Operators with one operand.
    UnaryOp, "an operator", {
        /// The opposite number.
        Negate = "-",
        /// The opposite truth.
        Not = "not",
    }
);

crate::units::named_values!(
    /// Operators with two operands.
    BinaryOp, "an operator", {
        /// Either, or both; the right side is not evaluated where the left one is true.
        Or = "or",
        /// Both; the right side is not evaluated where the left one is false.
        And = "and",
        /// Equal numbers.
        Equal = "==",
        /// Different numbers.
        NotEqual = "!=",
        /// Less.
        Less = "<",
        /// Less or equal.
        LessEqual = "<=",
        /// Greater.
        Greater = ">",
        /// Greater or equal.
        GreaterEqual = ">=",
        /// The sum.
        Add = "+",
        /// The difference.
        Subtract = "-",
        /// The product.
        Multiply = "*",
        /// The quotient, rounded down.
        Divide = "/",
        /// What the quotient leaves, with the sign of the divisor.
        Remainder = "%",
    }
);

impl BinaryOp {
    /// How tightly it binds; more is tighter.
    pub(crate) const fn power(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And => 2,
            Self::Equal
            | Self::NotEqual
            | Self::Less
            | Self::LessEqual
            | Self::Greater
            | Self::GreaterEqual => 4,
            Self::Add | Self::Subtract => 5,
            Self::Multiply | Self::Divide | Self::Remainder => 6,
        }
    }

    /// Whether it compares numbers; comparisons do not chain.
    const fn compares(self) -> bool {
        self.power() == 4
    }
}

impl UnaryOp {
    /// How tightly it binds, on the scale of [`BinaryOp::power`].
    pub(crate) const fn power(self) -> u8 {
        match self {
            Self::Not => 3,
            Self::Negate => 7,
        }
    }
}

crate::units::named_values!(
    /// The functions of the language.
    Function, "a function", {
        /// The quotient of two numbers, rounded up.
        CeilDiv = "ceil_div",
        /// The least of two or more numbers.
        Min = "min",
        /// The greatest of two or more numbers.
        Max = "max",
        /// Bytes of one element of a dtype or type variable.
        Sizeof = "sizeof",
        /// Elements between neighbors of a tensor in one dimension, counted from 0, outermost first.
        Stride = "stride",
        /// Whether an optional input is passed.
        Given = "given",
    }
);

impl Function {
    /// How it is called.
    const fn example(self) -> &'static str {
        match self {
            Self::CeilDiv => "ceil_div(rows, 4)",
            Self::Min => "min(rows, 128)",
            Self::Max => "max(rows, 1)",
            Self::Sizeof => "sizeof(T)",
            Self::Stride => "stride(input, 0)",
            Self::Given => "given(bias)",
        }
    }
}

/// What an expression yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// A number of 64 bits.
    Integer,
    /// A truth.
    Boolean,
}

impl Type {
    /// With its article.
    const fn words(self) -> &'static str {
        match self {
            Self::Integer => "a number",
            Self::Boolean => "a condition",
        }
    }
}

/// An expression whose names are defined and that yields a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntExpr(Expr);

/// An expression whose names are defined and that yields a truth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoolExpr(Expr);

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
}

impl BoolExpr {
    /// The tree.
    pub fn tree(&self) -> &Expr {
        &self.0
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

    /// What it yields.
    pub(crate) const fn kind(&self) -> Type {
        match self {
            Self::Integer(_) => Type::Integer,
            Self::Boolean(_) => Type::Boolean,
        }
    }
}

impl Expr {
    /// The tree and every tree in it, in the order of the text; a name of `[let]` is followed by its expression.
    pub fn parts(&self) -> Vec<&Self> {
        let (mut found, mut rest) = (Vec::new(), vec![self]);
        while let Some(next) = rest.pop() {
            found.push(next);
            match &next.kind {
                ExprKind::Integer(_) | ExprKind::Boolean(_) | ExprKind::Name(_) => {}
                ExprKind::Named(definition) => rest.push(definition.value.tree()),
                ExprKind::Unary(_, operand) => rest.push(operand),
                ExprKind::Binary(_, left, right) => rest.extend([right.as_ref(), left.as_ref()]),
                ExprKind::Call(_, arguments) => rest.extend(arguments.iter().rev()),
            }
        }
        found
    }

    /// Every name in it that is defined outside of `[let]`, with its place; those inside of `sizeof`, `stride` and `given`
    /// as well, and those of the expressions that names of `[let]` stand for.
    pub fn names(&self) -> Vec<(&PythonName, Range<usize>)> {
        let parts = self.parts().into_iter();
        parts
            .filter_map(|part| match &part.kind {
                ExprKind::Name(name) => Some((name, part.span.clone())),
                _ => None,
            })
            .collect()
    }

    /// Every name of `[let]` in it, and in the expressions that these stand for.
    pub fn definitions(&self) -> Vec<&Definition> {
        let parts = self.parts().into_iter();
        parts
            .filter_map(|part| match &part.kind {
                ExprKind::Named(definition) => Some(definition.as_ref()),
                _ => None,
            })
            .collect()
    }

    /// Its size with every name of `[let]` written out. Looks at no definition, so it takes as long as the text is.
    fn size(&self) -> Size {
        let operands: Vec<&Self> = match &self.kind {
            ExprKind::Named(definition) => return definition.size,
            ExprKind::Integer(_) | ExprKind::Boolean(_) | ExprKind::Name(_) => vec![],
            ExprKind::Unary(_, operand) => vec![operand],
            ExprKind::Binary(_, left, right) => vec![left, right],
            ExprKind::Call(_, arguments) => arguments.iter().collect(),
        };
        operands.into_iter().map(Self::size).fold(Size { depth: 1, parts: 1 }, |whole, part| Size {
            depth: whole.depth.max(part.depth + 1),
            parts: whole.parts.saturating_add(part.parts),
        })
    }

    /// Whether it asks for a property of a tensor.
    pub fn asks_for_tensors(&self) -> bool {
        let asks = |part: &&Self| matches!(part.kind, ExprKind::Call(Function::Stride | Function::Given, _));
        self.parts().iter().any(asks)
    }
}
