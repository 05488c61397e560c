//! Expressions and signatures of op.toml as C++.
//!
//! Owns: the spelling, for 64-bit integers and the helpers of the generated launcher, and for each framework's tensors.
//! Never: evaluates.

use crate::spec::expr::{BinaryOp, Expr, ExprKind, Function, UnaryOp};
use crate::spec::op::{AxisKind, OpSpec, TensorDtype};
use crate::spec::tune::Tunable;
use crate::units::{Dtype, PythonName};

use super::types::{CppPlan, ScalarPlan, TensorPlan};

/// Whose names an expression uses.
pub(super) struct Names<'a> {
    pub(super) op: &'a OpSpec,
    /// The object that has axes, scalars and tensors as members: `call`.
    pub(super) call: &'a str,
    /// The object that has the tunables as members: `s`.
    pub(super) settings: &'a str,
}

impl Names<'_> {
    /// A tree as text, in parentheses where it has operators.
    pub(super) fn text(&self, expr: &Expr) -> String {
        match &expr.kind {
            ExprKind::Integer(number) if i32::try_from(*number).is_ok() => number.to_string(),
            ExprKind::Integer(number) => format!("INT64_C({number})"),
            ExprKind::Boolean(truth) => truth.to_string(),
            ExprKind::Name(name) => self.name(name),
            ExprKind::Unary(UnaryOp::Not, operand) => format!("!{}", self.text(operand)),
            ExprKind::Unary(UnaryOp::Negate, operand) => format!("(-{})", self.text(operand)),
            ExprKind::Binary(op, left, right) => {
                let (left, right) = (self.text(left), self.text(right));
                match op {
                    BinaryOp::Divide => format!("floor_div({left}, {right})"),
                    BinaryOp::Remainder => format!("floor_mod({left}, {right})"),
                    BinaryOp::And => format!("({left} && {right})"),
                    BinaryOp::Or => format!("({left} || {right})"),
                    op => format!("({left} {op} {right})"),
                }
            }
            ExprKind::Call(function, arguments) => self.call(*function, arguments),
        }
    }

    fn name(&self, name: &PythonName) -> String {
        let is_tunable = |tunable: &Tunable| tunable.name.value == *name;
        let of = if self.op.tune.tunables.iter().any(is_tunable) { self.settings } else { self.call };
        let constant = self.op.axes.iter().find(|axis| axis.name.value == *name);
        match constant.map(|axis| &axis.kind) {
            Some(AxisKind::Const(length)) => length.to_string(),
            _ => format!("{of}.{name}"),
        }
    }

    fn call(&self, function: Function, arguments: &[Expr]) -> String {
        let all = || arguments.iter().map(|argument| self.text(argument)).collect::<Vec<_>>();
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
