//! The intermediate form: a function of tensors as values, each with a shape over symbolic lengths.
//!
//! Owns: what a value can be, and how a program is printed. Never: knows PyTorch's operators or a kernel.

use std::collections::BTreeMap;

use super::index::Index;
use super::length::Length;
use super::traced::Quantity;
use crate::spec::op::Values;
use crate::units::Dtype;

/// The number of a value in its program.
pub(super) type ValueId = usize;

/// The dtype of a tensor of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Element {
    /// The type variable `T`: bf16, f16 or f32, the same for all tensors that have it.
    Variable,
    /// Always this one.
    Fixed(Dtype),
}

impl Element {
    /// What numbers of it are computed in.
    pub fn class(self) -> Class {
        match self {
            Self::Variable => Class::Float,
            Self::Fixed(Dtype::Bool) => Class::Boolean,
            Self::Fixed(Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64) => Class::Integer,
            Self::Fixed(_) => Class::Float,
        }
    }

    /// As op.toml writes it.
    pub fn word(self) -> String {
        match self {
            Self::Variable => "T".to_owned(),
            Self::Fixed(dtype) => dtype.to_string(),
        }
    }
}

/// What a value is computed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A condition.
    Boolean,
    /// 64 bits.
    Integer,
    /// float32; it is rounded when it is stored.
    Float,
}

/// A function of one to three numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// `a + b`.
    Add,
    /// `a - b`.
    Subtract,
    /// `a + b`, which every kernel rounds alike, for no product is fused into it.
    AddAlike,
    /// `a - b`, likewise.
    SubtractAlike,
    /// `a * b`.
    Multiply,
    /// `a / b`, of floats.
    Divide,
    /// The quotient, rounded down.
    FloorDivide,
    /// The remainder with the sign of `b`.
    Remainder,
    /// The remainder with the sign of `a`.
    Fmod,
    /// `a` to the power of `b`.
    Power,
    /// The larger one; NaN if one is.
    Maximum,
    /// The smaller one; NaN if one is.
    Minimum,
    /// The angle of a point.
    Atan2,
    /// `a == b`.
    Equal,
    /// `a != b`.
    NotEqual,
    /// `a < b`.
    Less,
    /// `a <= b`.
    LessEqual,
    /// `a > b`.
    Greater,
    /// `a >= b`.
    GreaterEqual,
    /// Both conditions.
    And,
    /// One of the conditions, or both.
    Or,
    /// The opposite.
    Not,
    /// `a ? b : c`.
    Choose,
    /// `-a`.
    Negate,
    /// Its size.
    Abs,
    /// -1, 0 or 1.
    Sign,
    /// A function of one float, by its name in steps.h and steps.cuh.
    Function(&'static str),
    /// 32 random bits of a seed, a place and the number of a stream.
    RandomBits,
    /// As a float.
    ToFloat,
    /// As an integer, rounded toward zero.
    ToInteger,
    /// Whether it is not zero.
    ToBoolean,
}

/// How elements become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The product.
    Product,
    /// The largest; NaN if one is.
    Largest,
    /// The smallest; NaN if one is.
    Smallest,
    /// The place of the largest, the first of several; of NaN if there is one.
    PlaceOfLargest,
    /// The place of the smallest.
    PlaceOfSmallest,
    /// The mean, found together with `Squares`; of floats.
    Mean,
    /// The squares of the differences from the mean, added up, in one pass; of floats.
    Squares,
}

impl Reduction {
    /// Whether its result is a place.
    pub fn is_place(self) -> bool {
        matches!(self, Self::PlaceOfLargest | Self::PlaceOfSmallest)
    }

    /// Whether it is a sum of some kind, which the sum of nothing is, too.
    pub fn is_sum(self) -> bool {
        matches!(self, Self::Sum | Self::Product | Self::Mean | Self::Squares)
    }
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A tensor of the call, by its number.
    Input(usize),
    /// A number.
    Number(f64),
    /// A number that follows from lengths.
    Quantity(Quantity),
    /// An integer that follows from the place.
    Place(Index),
    /// A function of the elements at one place. Operands with fewer axes, or with a length of 1, are broadcast.
    Pointwise(Op, Vec<ValueId>),
    /// Elements of another value: the place in it for each place here.
    View(ValueId, Vec<Index>),
    /// Elements of another value at computed places: an index for each of its axes, in which the numbers of `Computed`
    /// are places in the list of values.
    Gather(ValueId, Vec<Index>, Vec<ValueId>),
    /// One number for all elements along some axes, which the result does not have.
    Reduce(Reduction, ValueId, Vec<usize>),
    /// For every element what those up to it along an axis give together.
    Scan(Reduction, ValueId, usize),
}

/// A place in the person's file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The line, from 1.
    pub line: u32,
    /// Its text.
    pub text: String,
}

/// A value of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// What it is.
    pub kind: Kind,
    /// The lengths of its axes.
    pub shape: Vec<Length>,
    /// What it is computed in.
    pub class: Class,
    /// A name for people, which other values may have too.
    pub name: String,
    /// Where it comes from.
    pub origin: Option<Origin>,
}

/// A tensor of the call, or a result.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<Length>,
    /// Its dtype.
    pub element: Element,
    /// Which values it may have.
    pub values: Values,
}

/// A tensor as others one behind the other, all equally long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concatenation {
    /// Along this axis.
    pub axis: usize,
    /// Each of them with its first place.
    pub pieces: Vec<(ValueId, Length)>,
}

/// A function of tensors.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// The person's function or class.
    pub function: String,
    /// The tensors of the call.
    pub inputs: Vec<Tensor>,
    /// The results, with their values.
    pub outputs: Vec<(Tensor, ValueId)>,
    /// The values; each uses earlier ones alone.
    pub values: Vec<Value>,
    /// Each symbol with what it stands for.
    pub symbols: Vec<Symbol>,
    /// Values that are others one behind the other.
    pub concatenations: BTreeMap<ValueId, Concatenation>,
}

/// A symbol of lengths: an axis of the operation, or what an axis is a multiple of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// The length in the call that was traced.
    pub hint: i64,
    /// The least length that the graph is for.
    pub min: i64,
    /// For the quotient of an axis: that axis and the number.
    pub multiple: Option<(String, i64)>,
}

impl Symbol {
    /// The axis of the operation that it is about.
    pub fn axis(&self) -> &str {
        self.multiple.as_ref().map_or(&self.name, |(axis, _)| axis)
    }

    /// What the axis is a multiple of.
    pub fn factor(&self) -> i64 {
        self.multiple.as_ref().map_or(1, |(_, by)| *by)
    }

    /// Its value as an expression over the axes.
    pub fn over_axes(&self) -> String {
        match &self.multiple {
            Some((axis, by)) => format!("({axis} / {by})"),
            None => self.name.clone(),
        }
    }
}

/// Lengths of large calls, by the number of axes.
const LARGE: [&[i64]; 5] =
    [&[33_554_432], &[8192, 4096], &[8, 1024, 4096], &[16, 64, 128, 128], &[8, 16, 16, 64, 64]];

impl Program {
    /// The axes' lengths of a large call, in the order of the symbols.
    pub(super) fn large(&self) -> Vec<i64> {
        let own = LARGE[self.symbols.len().clamp(1, LARGE.len()) - 1];
        (0..self.symbols.len()).map(|place| own.get(place).copied().unwrap_or(2)).collect()
    }

    /// A length over the axes of the operation, as an expression.
    pub fn over_axes(&self, length: &Length) -> String {
        let text = |name: &str| {
            let symbol = self.symbols.iter().find(|symbol| symbol.name == name)?;
            Some(Length::symbol(symbol.over_axes()))
        };
        length.replaced(&text).to_string()
    }

    /// Whether a tensor of the call has the type variable.
    pub fn is_variable(&self) -> bool {
        let results = self.outputs.iter().map(|(tensor, _)| tensor);
        self.inputs.iter().chain(results).any(|tensor| tensor.element == Element::Variable)
    }
}
