//! Expressions of op.toml as Rust.
//!
//! Owns: the spelling, over `call: &Call` and `s: &Values`, with checked arithmetic that `?` leaves. Never: evaluates;
//! differs from `Expr::evaluate` in a value or in whether there is one.

use crate::spec::expr::{BinaryOp, Expr, ExprKind, Function, UnaryOp, ValueExpr};
use crate::spec::op::{OpSpec, TensorDtype};
use crate::units::{Dtype, PythonName};

/// Whose names an expression uses.
pub(super) struct Names<'a> {
    pub(super) op: &'a OpSpec,
}

impl Names<'_> {
    /// A tree as a value that needs no parentheses in an argument list, a comparison or after `return`.
    pub(super) fn spell(&self, expr: &Expr) -> String {
        match &expr.kind {
            ExprKind::Integer(number) => integer(*number),
            ExprKind::Boolean(truth) => truth.to_string(),
            ExprKind::Name(name) => self.member(name),
            ExprKind::Named(definition) => format!("let_{}(call, s)?", definition.name.value),
            ExprKind::Unary(UnaryOp::Not, operand) => format!("!({})", self.spell(operand)),
            ExprKind::Unary(UnaryOp::Negate, operand) => match operand.kind {
                ExprKind::Integer(number) => format!("-{}", integer(number)),
                _ => format!("neg({})?", self.spell(operand)),
            },
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right),
            ExprKind::Call(function, arguments) => self.call(*function, arguments),
        }
    }

    /// A value as a number; truths are 0 and 1.
    pub(super) fn number(&self, value: &ValueExpr) -> String {
        match value {
            ValueExpr::Integer(expr) => self.spell(expr.tree()),
            ValueExpr::Boolean(expr) => format!("i64::from({})", self.spell(expr.tree())),
        }
    }

    /// An axis, scalar or type variable of the call, or a tunable.
    pub(super) fn member(&self, name: &PythonName) -> String {
        let is_tunable = self.op.tune.tunables.iter().any(|tunable| tunable.name.value == *name);
        format!("{}.{}", if is_tunable { "s" } else { "call" }, identifier(name.as_str()))
    }

    /// Bytes of an element.
    pub(super) fn size(&self, dtype: &TensorDtype) -> String {
        match dtype {
            TensorDtype::Fixed(dtype) => dtype.size_bytes().to_string(),
            TensorDtype::Variable(name) => format!("{}.size()", self.member(name)),
        }
    }

    /// The product of some values; 1 if there are none.
    #[expect(clippy::unused_self, reason = "the spelling of a product belongs to the others")]
    pub(super) fn product(&self, factors: impl IntoIterator<Item = String>) -> String {
        let product = factors.into_iter().reduce(|left, right| format!("mul({left}, {right})?"));
        product.unwrap_or_else(|| "1".to_owned())
    }

    fn binary(&self, op: BinaryOp, left: &Expr, right: &Expr) -> String {
        let (left_text, right_text) = (self.spell(left), self.spell(right));
        let function = match op {
            BinaryOp::Add => "add",
            BinaryOp::Subtract => "sub",
            BinaryOp::Multiply => "mul",
            BinaryOp::Divide => "div",
            BinaryOp::Remainder => "rem",
            BinaryOp::And | BinaryOp::Or => {
                let bound = |expr: &Expr, text: String| match &expr.kind {
                    ExprKind::Binary(inner @ (BinaryOp::And | BinaryOp::Or), ..) if *inner != op => {
                        format!("({text})")
                    }
                    _ => text,
                };
                let sign = if op == BinaryOp::And { "&&" } else { "||" };
                return format!("{} {sign} {}", bound(left, left_text), bound(right, right_text));
            }
            comparison => return format!("{left_text} {} {right_text}", comparison.as_str()),
        };
        format!("{function}({left_text}, {right_text})?")
    }

    fn call(&self, function: Function, arguments: &[Expr]) -> String {
        let all = || arguments.iter().map(|argument| self.spell(argument)).collect::<Vec<_>>().join(", ");
        let named = match arguments.first().map(|argument| &argument.kind) {
            Some(ExprKind::Name(name)) => Some(name),
            _ => None,
        };
        match (function, named) {
            (Function::CeilDiv, _) => format!("ceil_div({})?", all()),
            (Function::Min, _) => format!("min(&[{}])", all()),
            (Function::Max, _) => format!("max(&[{}])", all()),
            (Function::Sizeof, Some(name)) => match name.as_str().parse::<Dtype>() {
                Ok(dtype) if !self.op.dtypes.iter().any(|variable| variable.name.value == *name) => {
                    dtype.size_bytes().to_string()
                }
                _ => format!("{}.size()", self.member(name)),
            },
            (Function::Given, Some(name)) => self.member(name),
            (Function::Stride, Some(name)) => {
                let dimension = match arguments.get(1).map(|argument| &argument.kind) {
                    Some(ExprKind::Integer(dimension)) => usize::try_from(*dimension).unwrap_or_default(),
                    _ => 0,
                };
                let inputs = self.op.inputs.iter().map(|input| &input.tensor);
                let mut tensors = inputs.chain(self.op.outputs.iter().map(|output| &output.tensor));
                let shape = tensors.find(|tensor| tensor.name.value == *name).map(|tensor| &tensor.shape);
                let inner = shape.into_iter().flatten().skip(dimension + 1);
                self.product(inner.map(|axis| self.member(&axis.value)))
            }
            // Reading an op.toml excludes it.
            (Function::Sizeof | Function::Given | Function::Stride, None) => "0".to_owned(),
        }
    }
}

/// Without a suffix, `i32` would be the type of a literal beside another one.
fn integer(number: i64) -> String {
    if i32::try_from(number).is_ok() { number.to_string() } else { format!("{number}_i64") }
}

/// The variant of the runtime's `Dtype`.
pub(super) fn dtype_path(dtype: Dtype) -> String {
    let name = dtype.as_str();
    format!("Dtype::{}{}", name[..1].to_ascii_uppercase(), &name[1..])
}

/// Words of Rust that Python has as names.
const KEYWORDS: &[&str] = &[
    "abstract", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else", "enum",
    "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match",
    "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait", "true",
    "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// A name as an identifier: `type` is `r#type`, and the few words that Rust never takes get an underscore.
pub(super) fn identifier(name: &str) -> String {
    match name {
        "self" | "Self" | "super" | "crate" | "_" => format!("{name}_"),
        name if KEYWORDS.contains(&name) => format!("r#{name}"),
        name => name.to_owned(),
    }
}
