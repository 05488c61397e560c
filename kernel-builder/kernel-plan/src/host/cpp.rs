//! Expressions and signatures of op.toml as C++.
//!
//! Owns: the spelling, for 64-bit integers and the helpers of the generated launcher, and for each framework's tensors.
//! Never: evaluates.

use std::collections::BTreeSet;

use crate::spec::expr::{BinaryOp, Expr, ExprKind, Function, UnaryOp, ValueExpr};
use crate::spec::op::{AxisKind, OpSpec, TensorDtype};
use crate::spec::tune::Tunable;
use crate::units::{Dtype, PythonName};

use super::types::{ConstantPlan, CppPlan, ScalarPlan, TensorPlan};

/// Whose names an expression uses.
pub(super) struct Names<'a> {
    pub(super) op: &'a OpSpec,
    /// The object that has axes, scalars and tensors as members: `call`.
    pub(super) call: &'a str,
    /// The object that has the tunables as members: `s`.
    pub(super) settings: &'a str,
}

impl Names<'_> {
    /// A tree as a factor of a product: in parentheses where it has operators.
    pub(super) fn text(&self, expr: &Expr) -> String {
        self.operand(expr, PRIMARY)
    }

    /// An operand of an operator that binds with `least`.
    fn operand(&self, expr: &Expr, least: u8) -> String {
        let text = self.bare(expr);
        if power(expr) < least { format!("({text})") } else { text }
    }

    /// A tree as a whole value, with no parentheses that it does not need.
    pub(super) fn bare(&self, expr: &Expr) -> String {
        match &expr.kind {
            ExprKind::Integer(number) if i32::try_from(*number).is_ok() => number.to_string(),
            ExprKind::Integer(number) => format!("INT64_C({number})"),
            ExprKind::Boolean(truth) => truth.to_string(),
            ExprKind::Name(name) => self.name(name),
            ExprKind::Named(definition) => constant(&definition.name),
            ExprKind::Unary(UnaryOp::Not, operand) => format!("!{}", self.text(operand)),
            ExprKind::Unary(UnaryOp::Negate, operand) => format!("-{}", self.text(operand)),
            ExprKind::Binary(BinaryOp::Divide, left, right) => {
                format!("floor_div({}, {})", self.bare(left), self.bare(right))
            }
            ExprKind::Binary(BinaryOp::Remainder, left, right) => {
                format!("floor_mod({}, {})", self.bare(left), self.bare(right))
            }
            ExprKind::Binary(op, left, right) => {
                // Compilers warn of `a && b || c` without parentheses.
                let least = if *op == BinaryOp::Or { BinaryOp::Equal.power() } else { op.power() };
                let same = matches!(&left.kind, ExprKind::Binary(inner, ..) if inner == op);
                let left = if same { self.bare(left) } else { self.operand(left, least) };
                let right = self.operand(right, least.max(op.power() + 1));
                let op = match op {
                    BinaryOp::And => "&&",
                    BinaryOp::Or => "||",
                    op => op.as_str(),
                };
                format!("{left} {op} {right}")
            }
            ExprKind::Call(function, arguments) => self.call(*function, arguments),
        }
    }

    /// The constants of the names of `[let]` that these expressions use, each after those that it needs.
    pub(super) fn constants<'e>(&self, expressions: impl IntoIterator<Item = &'e Expr>) -> Vec<ConstantPlan> {
        let used = expressions.into_iter().flat_map(Expr::definitions);
        let used: BTreeSet<&PythonName> = used.map(|definition| &definition.name.value).collect();
        let definitions = self.op.definitions.iter();
        definitions
            .filter(|definition| used.contains(&definition.name.value))
            .map(|definition| ConstantPlan {
                kind: match definition.value {
                    ValueExpr::Integer(_) => "int64_t".to_owned(),
                    ValueExpr::Boolean(_) => "bool".to_owned(),
                },
                name: constant(&definition.name),
                value: self.bare(definition.value.tree()),
            })
            .collect()
    }

    /// An axis, scalar or tunable.
    pub(super) fn name(&self, name: &PythonName) -> String {
        let is_tunable = |tunable: &Tunable| tunable.name.value == *name;
        let of = if self.op.tune.tunables.iter().any(is_tunable) { self.settings } else { self.call };
        let constant = self.op.axes.iter().find(|axis| axis.name.value == *name);
        match constant.map(|axis| &axis.kind) {
            Some(AxisKind::Const(length)) => length.to_string(),
            _ => format!("{of}.{name}"),
        }
    }

    fn call(&self, function: Function, arguments: &[Expr]) -> String {
        let all = || arguments.iter().map(|argument| self.bare(argument)).collect::<Vec<_>>();
        let named = match arguments.first().map(|argument| &argument.kind) {
            Some(ExprKind::Name(name)) => Some(name),
            _ => None,
        };
        match (function, named) {
            (Function::CeilDiv, _) => format!("ceil_div({})", all().join(", ")),
            (Function::Min, _) => format!("std::min<int64_t>({{{}}})", all().join(", ")),
            (Function::Max, _) => format!("std::max<int64_t>({{{}}})", all().join(", ")),
            (Function::Sizeof, Some(name)) => match name.as_str().parse::<Dtype>() {
                Ok(dtype) if !self.op.dtypes.iter().any(|variable| variable.name.value == *name) => {
                    dtype.size_bytes().to_string()
                }
                _ => format!("size_of({}.{name})", self.call),
            },
            (Function::Given, Some(name)) => format!("({}.{name} != nullptr)", self.call),
            (Function::Stride, Some(name)) => {
                let dimension = match arguments.get(1).map(|argument| &argument.kind) {
                    Some(ExprKind::Integer(dimension)) => usize::try_from(*dimension).unwrap_or_default(),
                    _ => 0,
                };
                let inputs = self.op.inputs.iter().map(|input| &input.tensor);
                let mut tensors = inputs.chain(self.op.outputs.iter().map(|output| &output.tensor));
                let shape = tensors.find(|tensor| tensor.name.value == *name).map(|tensor| &tensor.shape);
                let inner =
                    shape.into_iter().flatten().skip(dimension + 1).map(|axis| self.name(&axis.value));
                let lengths: Vec<_> = inner.collect();
                if lengths.is_empty() { "1".to_owned() } else { format!("({})", lengths.join(" * ")) }
            }
            // Reading an op.toml excludes it.
            (Function::Sizeof | Function::Given | Function::Stride, None) => "0".to_owned(),
        }
    }

    /// Bytes of an element.
    pub(super) fn size(&self, dtype: &TensorDtype) -> String {
        match dtype {
            TensorDtype::Fixed(dtype) => dtype.size_bytes().to_string(),
            TensorDtype::Variable(name) => format!("size_of({}.{name})", self.call),
        }
    }
}

/// Binds tighter than any operator.
const PRIMARY: u8 = 8;

/// How tightly a tree binds in C++, on the scale of the language's operators.
fn power(expr: &Expr) -> u8 {
    match &expr.kind {
        ExprKind::Binary(op, ..) if !matches!(op, BinaryOp::Divide | BinaryOp::Remainder) => op.power(),
        ExprKind::Unary(UnaryOp::Negate, _) => UnaryOp::Negate.power(),
        _ => PRIMARY,
    }
}

/// What the functions of a launcher call something else, and words of C++ that Python has as names.
const TAKEN: &[&str] = &[
    "alignas",
    "alignof",
    "arguments",
    "auto",
    "bool",
    "bytes",
    "call",
    "case",
    "catch",
    "ceil_div",
    "char",
    "concept",
    "const",
    "constexpr",
    "const_cast",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "enum",
    "error",
    "explicit",
    "export",
    "extern",
    "failure",
    "float",
    "floor_div",
    "floor_mod",
    "found",
    "friend",
    "function",
    "geometry",
    "goto",
    "inline",
    "instance",
    "int",
    "int32_t",
    "int64_t",
    "key",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "nullptr",
    "operator",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "s",
    "settings_for",
    "short",
    "signed",
    "size_of",
    "size_t",
    "sizeof",
    "start",
    "static",
    "static_assert",
    "static_cast",
    "std",
    "stream",
    "struct",
    "switch",
    "template",
    "tensor_map",
    "this",
    "thread_local",
    "throw",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "workspaces",
];

/// A name of `[let]` as that of a local constant: `short` is `short_`.
fn constant(name: &PythonName) -> String {
    let is_argument = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let taken = TAKEN.contains(&name.as_str()) || name.as_str().strip_prefix('a').is_some_and(is_argument);
    if taken { format!("{name}_") } else { name.to_string() }
}

/// The enumerator of `Element` for a dtype: `kBF16`.
pub(super) fn element(dtype: Dtype) -> String {
    format!("k{}", dtype.as_str().to_ascii_uppercase())
}

/// What the functions of a binding take and return.
pub(super) struct Signatures<'a> {
    pub(super) inputs: &'a [TensorPlan],
    pub(super) outputs: &'a [TensorPlan],
    pub(super) scalars: &'a [ScalarPlan],
    pub(super) returned: &'a [usize],
}

/// How a framework's C++ spells tensors: one that is returned, a parameter, one that may be left out.
struct Tensors {
    value: &'static str,
    given: &'static str,
    optional: &'static str,
}

impl Signatures<'_> {
    /// With torch's stable tensors.
    pub(super) fn torch(&self) -> CppPlan {
        self.with(&Tensors {
            value: "torch::stable::Tensor",
            given: "const torch::stable::Tensor&",
            optional: "const std::optional<torch::stable::Tensor>&",
        })
    }

    /// With those of tvm-ffi.
    pub(super) fn tvm_ffi(&self) -> CppPlan {
        self.with(&Tensors { value: "TensorView", given: "TensorView", optional: "Optional<TensorView>" })
    }

    fn with(&self, tensors: &Tensors) -> CppPlan {
        let inputs = self.inputs.iter().map(|input| {
            let kind = if input.optional { tensors.optional } else { tensors.given };
            format!("{kind} {}", input.name)
        });
        let inputs: Vec<String> = inputs.collect();
        let scalars = self.scalars.iter().map(|scalar| format!("{} {}", scalar.cpp, scalar.name));
        let parameters: Vec<String> = inputs.iter().cloned().chain(scalars).collect();
        let returned: Vec<&str> =
            self.returned.iter().map(|place| self.outputs[*place].name.as_str()).collect();
        let brought = returned.iter().map(|name| format!("{} {name}", tensors.value));
        let names: Vec<&str> = self.inputs.iter().map(|input| input.name.as_str()).collect();
        let scalar_names = self.scalars.iter().map(|scalar| scalar.name.as_str());
        let arguments = returned.iter().chain(&names).copied().chain(scalar_names);
        CppPlan {
            returns: match returned.len() {
                0 => "void".to_owned(),
                1 => tensors.value.to_owned(),
                several => format!("std::tuple<{}>", vec![tensors.value; several].join(", ")),
            },
            arguments: arguments.collect::<Vec<_>>().join(", "),
            out_parameters: brought.chain(parameters.iter().cloned()).collect::<Vec<_>>().join(", "),
            parameters: parameters.join(", "),
            inputs: inputs.join(", "),
            input_names: names.join(", "),
            returned_names: returned.join(", "),
        }
    }
}
