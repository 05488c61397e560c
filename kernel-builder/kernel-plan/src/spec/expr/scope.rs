//! The names that an expression may use, and the types that follow.
//!
//! Owns: what each name is, the signatures of the functions, the texts of what is wrong.
//! Never: evaluates.

use std::ops::Range;
use std::sync::Arc;

use crate::diagnostic::{Problem, did_you_mean};
use crate::spec::codes;
use crate::units::{Dtype, PythonName};

use super::{BinaryOp, Definition, Expr, ExprKind, Function, Type, UnaryOp};

/// What a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It yields a value of this type.
    Value(Type),
    /// A scalar of type float.
    Float,
    /// Its definition has a problem, which has been reported.
    Broken,
}

/// An input or output.
#[derive(Debug, Clone)]
pub(crate) struct ScopeTensor {
    pub(crate) name: String,
    /// Dimensions, where its shape could be read.
    pub(crate) rank: Option<usize>,
    pub(crate) optional: bool,
}

/// Everything that an expression may name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope {
    /// Whether nothing but axes has a name here.
    pub(crate) only_axes: bool,
    pub(crate) names: Vec<(String, Kind)>,
    /// Names of `[let]`; nothing for one whose definition has a problem, which has been reported.
    pub(crate) definitions: Vec<(String, Option<Arc<Definition>>)>,
    /// Names of `[let]` that cannot be used here.
    pub(crate) barred: Vec<String>,
    /// Type variables.
    pub(crate) dtypes: Vec<String>,
    pub(crate) tensors: Vec<ScopeTensor>,
}

/// Something wrong at a place, with what to say there.
pub(super) type ScopeProblem = (Problem, Range<usize>, String);

impl Scope {
    /// What a name is.
    pub(crate) fn kind(&self, name: &str) -> Option<Kind> {
        let own = self.names.iter().find(|(known, _)| known == name).map(|(_, kind)| *kind);
        own.or_else(|| {
            let (_, definition) = self.definitions.iter().find(|(known, _)| known == name)?;
            let kind = definition.as_ref().map(|definition| definition.value.kind());
            Some(kind.map_or(Kind::Broken, Kind::Value))
        })
    }

    /// Ties the names of `[let]` in a tree to their expressions.
    pub(super) fn resolve(&self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::Name(name) => {
                let mut definitions = self.definitions.iter();
                let found = definitions.find(|(known, _)| known == name.as_str());
                if let Some((_, Some(definition))) = found
                    && !self.names.iter().any(|(known, _)| known == name.as_str())
                {
                    expr.kind = ExprKind::Named(Arc::clone(definition));
                }
            }
            ExprKind::Integer(_) | ExprKind::Boolean(_) | ExprKind::Named(_) => {}
            ExprKind::Unary(_, operand) => self.resolve(operand),
            ExprKind::Binary(_, left, right) => {
                self.resolve(left);
                self.resolve(right);
            }
            // These name dtypes and tensors.
            ExprKind::Call(Function::Sizeof | Function::Stride | Function::Given, _) => {}
            ExprKind::Call(_, arguments) => arguments.iter_mut().for_each(|argument| self.resolve(argument)),
        }
    }

    /// The type of a tree whose names and operands are right; else `None`, and a complaint for each that is not.
    pub(super) fn check(&self, expr: &Expr, complaints: &mut Vec<ScopeProblem>) -> Option<Type> {
        match &expr.kind {
            ExprKind::Integer(_) => Some(Type::Integer),
            ExprKind::Boolean(_) => Some(Type::Boolean),
            ExprKind::Name(name) => self.name(name, &expr.span, complaints),
            ExprKind::Named(definition) => Some(definition.value.kind()),
            ExprKind::Unary(op, operand) => {
                let want = if *op == UnaryOp::Not { Type::Boolean } else { Type::Integer };
                self.want(operand, want, op.as_str(), complaints).then_some(want)
            }
            ExprKind::Binary(op, left, right) => {
                let (operands, result) = match op {
                    BinaryOp::Or | BinaryOp::And => (Type::Boolean, Type::Boolean),
                    op if op.compares() => (Type::Integer, Type::Boolean),
                    _ => (Type::Integer, Type::Integer),
                };
                let left = self.want(left, operands, op.as_str(), complaints);
                let right = self.want(right, operands, op.as_str(), complaints);
                (left && right).then_some(result)
            }
            ExprKind::Call(function, arguments) => self.call(*function, arguments, expr, complaints),
        }
    }

    /// Whether an operand is of the type that `whose` needs.
    fn want(&self, operand: &Expr, want: Type, whose: &str, complaints: &mut Vec<ScopeProblem>) -> bool {
        let Some(found) = self.check(operand, complaints) else { return false };
        if found != want {
            let message = format!("`{whose}` needs {}, but `{operand}` is {}", want.words(), found.words());
            complaints.push((
                mismatch(message, want),
                operand.span.clone(),
                format!("this is {}", found.words()),
            ));
        }
        found == want
    }

    fn name(
        &self,
        name: &PythonName,
        span: &Range<usize>,
        complaints: &mut Vec<ScopeProblem>,
    ) -> Option<Type> {
        match self.kind(name.as_str()) {
            Some(Kind::Value(found)) => Some(found),
            Some(Kind::Broken) => None,
            Some(Kind::Float) => {
                let message =
                    format!("`{name}` is a float, but expressions support only whole numbers and conditions");
                let help = "pass it as a kernel argument: { f32 = \"...\" }";
                let problem = Problem::error(codes::EXPRESSION_TYPE, message).help(help);
                complaints.push((problem, span.clone(), "this is a float".to_owned()));
                None
            }
            None => {
                complaints.push(self.unknown(name, span));
                None
            }
        }
    }

    fn unknown(&self, name: &PythonName, span: &Range<usize>) -> ScopeProblem {
        let (code, message, what) = if self.only_axes {
            (codes::UNKNOWN_AXIS, format!("`[axes]` does not define `{name}`"), "the axes")
        } else {
            let message = format!("the expression uses `{name}`, which is not defined");
            let what = match self.definitions.as_slice() {
                [] => "the axes, tunables and scalars",
                _ => "the axes, tunables, scalars and names of [let]",
            };
            (codes::EXPRESSION_NAME, message, what)
        };
        let names = self.names.iter().map(|(name, _)| name.as_str());
        let known: Vec<_> = names.chain(self.definitions.iter().map(|(name, _)| name.as_str())).collect();
        let (label, help) = if self.dtypes.iter().any(|dtype| dtype == name.as_str())
            || name.as_str().parse::<Dtype>().is_ok()
        {
            ("this is a dtype".to_owned(), format!("its size in bytes is sizeof({name})"))
        } else if self.tensors.iter().any(|tensor| tensor.name == name.as_str()) {
            let help = "use axes, not tensors; only stride(x, 0) and given(x) take a tensor x";
            ("this is a tensor".to_owned(), help.to_owned())
        } else if self.barred.iter().any(|barred| barred == name.as_str()) {
            let help =
                "names of [let] can be used only in [tune] and [launch]; write the expression out here";
            ("this is a name of [let]".to_owned(), help.to_owned())
        } else {
            let label = did_you_mean(name.as_str(), known.iter().copied(), "not defined");
            (label, listed(what, &known))
        };
        (Problem::error(code, message).help(help), span.clone(), label)
    }

    fn call(
        &self,
        function: Function,
        arguments: &[Expr],
        whole: &Expr,
        complaints: &mut Vec<ScopeProblem>,
    ) -> Option<Type> {
        let fits = match function {
            Function::Min | Function::Max => arguments.len() >= 2,
            Function::CeilDiv | Function::Stride => arguments.len() == 2,
            Function::Sizeof | Function::Given => arguments.len() == 1,
        };
        if !fits {
            let message = format!("`{function}` does not take {} argument(s)", arguments.len());
            let help = format!("for example: {}", function.example());
            let problem = Problem::error(codes::EXPRESSION_TYPE, message).help(help);
            complaints.push((problem, whole.span.clone(), "here".to_owned()));
            return None;
        }
        match function {
            Function::CeilDiv | Function::Min | Function::Max => {
                let mut fit = true;
                for argument in arguments {
                    fit &= self.want(argument, Type::Integer, function.as_str(), complaints);
                }
                fit.then_some(Type::Integer)
            }
            Function::Sizeof => {
                let argument = arguments.first()?;
                let known = |name: &PythonName| {
                    self.dtypes.iter().any(|dtype| dtype == name.as_str())
                        || name.as_str().parse::<Dtype>().is_ok()
                };
                if matches!(&argument.kind, ExprKind::Name(name) if known(name)) {
                    return Some(Type::Integer);
                }
                let message = format!("`{argument}` is neither a type variable nor a dtype");
                let dtypes: Vec<_> = self.dtypes.iter().map(String::as_str).collect();
                let choices = dtypes.into_iter().chain(Dtype::ALL.iter().map(|dtype| dtype.as_str()));
                let help = format!("valid values: {}", choices.collect::<Vec<_>>().join(", "));
                let problem = Problem::error(codes::EXPRESSION_NAME, message).help(help);
                complaints.push((problem, argument.span.clone(), "not a dtype".to_owned()));
                None
            }
            Function::Given => {
                let tensor = self.tensor(arguments.first()?, complaints)?;
                if !tensor.optional {
                    let message = format!("`{}` is always passed", tensor.name);
                    let help = "`given` is for an input with optional = true; remove the condition";
                    let problem = Problem::error(codes::EXPRESSION_NAME, message).help(help);
                    complaints.push((problem, whole.span.clone(), "always true".to_owned()));
                }
                Some(Type::Boolean)
            }
            Function::Stride => self.stride(arguments, complaints),
        }
    }

    fn stride(&self, arguments: &[Expr], complaints: &mut Vec<ScopeProblem>) -> Option<Type> {
        let [tensor, dimension] = arguments else { return None };
        let tensor = self.tensor(tensor, complaints)?;
        let rank = tensor.rank?;
        if !matches!(dimension.kind, ExprKind::Integer(place) if usize::try_from(place).is_ok_and(|place| place < rank))
        {
            let message = format!("`{dimension}` is not a dimension of `{}`", tensor.name);
            let help = match rank {
                0 => "a tensor without dimensions has no strides".to_owned(),
                _ => format!("it has {rank} dimension(s); the outermost is 0, the innermost {}", rank - 1),
            };
            let problem = Problem::error(codes::EXPRESSION_NAME, message).help(help);
            complaints.push((problem, dimension.span.clone(), "no such dimension".to_owned()));
            return None;
        }
        Some(Type::Integer)
    }

    /// The input or output that an argument names.
    fn tensor(&self, argument: &Expr, complaints: &mut Vec<ScopeProblem>) -> Option<&ScopeTensor> {
        let known: Vec<_> = self.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        let found = match &argument.kind {
            ExprKind::Name(name) => self.tensors.iter().find(|tensor| tensor.name == name.as_str()),
            _ => None,
        };
        if found.is_none() {
            let text = argument.to_string();
            let label = did_you_mean(&text, known.iter().copied(), "not a tensor");
            let help = match known.as_slice() {
                [] => "tensors are not supported in this expression".to_owned(),
                known => listed("the tensors", known),
            };
            let message = format!("`{text}` is not an input or output");
            let problem = Problem::error(codes::EXPRESSION_NAME, message).help(help);
            complaints.push((problem, argument.span.clone(), label));
        }
        found
    }
}

/// Something of another type than `want`.
pub(super) fn mismatch(message: String, want: Type) -> Problem {
    let help = match want {
        Type::Integer => "a condition has no numeric value; write two kernels with `when`",
        Type::Boolean => "compare it, as in `rows > 1`",
    };
    Problem::error(codes::EXPRESSION_TYPE, message).help(help)
}

fn listed(what: &str, names: &[&str]) -> String {
    match names {
        [] => "no name is defined here".to_owned(),
        names => format!("{what} are {}", names.join(", ")),
    }
}
