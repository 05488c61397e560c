//! Which calls a template serves, for `new --from`: its operation's own, and those that `template.toml` lists.
//!
//! Owns: `[[serves]]` and `[indexes]`, what harness/trace.py is told of templates. Never: runs or judges a call.

use std::collections::BTreeMap;

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::{AxisKind, ScalarValue, Tensor, TensorDtype};
use kernel_plan::units::Dtype;

use super::hole::{Hole, Kind};
use super::template::manifest::scalar_value;
use super::template::{self, Serves, Template};
use super::{FileSet, ScaffoldError, claims, settings};
use crate::protocol::Scalars;
use crate::protocol::trace::{self, Input, Operation, ScalarArgument, TemplateJob};

/// A form as the matcher and the harness see it. The first ones are the operation's own calls.
#[derive(Debug, Clone)]
pub struct Form {
    /// In words; nothing for the operation's own call.
    pub as_words: Option<String>,
    /// See [`Serves`].
    pub arguments: Vec<String>,
    /// See [`Serves`].
    pub results: Option<Vec<String>>,
    /// See [`Serves`].
    pub scalars: BTreeMap<String, ScalarValue>,
    /// See [`Serves`].
    pub without: Vec<String>,
    /// See [`Serves`].
    pub given: BTreeMap<String, String>,
    /// See [`Serves`].
    pub multiples: BTreeMap<String, u64>,
    /// See [`Serves`].
    pub remains: Option<String>,
}

/// A template with its operation, as it is held against a reference.
#[derive(Debug, Clone)]
pub struct Served {
    /// The template.
    pub template: Template,
    /// Its operation.
    pub op: OpSpec,
    /// Every form of a call.
    pub forms: Vec<Form>,
    /// The project's files, of which the reference is one.
    pub files: FileSet,
}

/// What a template serves.
///
/// # Errors
/// A defect of the template.
pub fn served(mut template: Template) -> Result<Served, ScaffoldError> {
    claims::check(&template)?;
    let (_, files) = claims::specimen(&template)?;
    let (_, op) = settings::contract(&template, &files, settings::OP)?;
    // Whoever has a faster kernel for the same operation replaces all of it.
    let is_kernel = |hole: &Hole| matches!(hole.kind, Kind::Kernel { .. });
    if op.launch.is_some() && !template.holes.iter().any(is_kernel) {
        template.holes.push(Hole::kernel());
    }
    let names = |keep: &dyn Fn(bool) -> bool| -> Vec<String> {
        let inputs = op.inputs.iter().filter(|input| keep(input.optional));
        inputs.map(|input| input.tensor.name.value.to_string()).collect()
    };
    let optional = names(&|optional| optional);
    let form_without = |without: Vec<String>| Form {
        as_words: None,
        arguments: names(&|_| true).into_iter().filter(|name| !without.contains(name)).collect(),
        results: None,
        scalars: BTreeMap::new(),
        without,
        given: BTreeMap::new(),
        multiples: BTreeMap::new(),
        remains: None,
    };
    // With few optional inputs every choice of them is a call of its own.
    let choices: Vec<Vec<String>> = match optional.as_slice() {
        [] => vec![Vec::new()],
        [one, other] => vec![optional.clone(), vec![other.clone()], vec![one.clone()], Vec::new()],
        _ => vec![optional.clone(), Vec::new()],
    };
    let mut forms: Vec<Form> = choices.into_iter().map(form_without).collect();
    forms.extend(template.serves.iter().map(|form| Form {
        as_words: Some(form.as_words.clone()),
        arguments: form.arguments.clone(),
        results: form.results.clone(),
        scalars: form.fixed_scalars(),
        without: match &form.without {
            Some(without) => without.clone(),
            None => optional.iter().filter(|name| !form.mentions(name)).cloned().collect(),
        },
        given: form.given.clone(),
        multiples: form.multiples.clone(),
        remains: form.remains.clone(),
    }));
    Ok(Served { template, op, forms, files })
}

impl Form {
    fn message(&self) -> trace::Form {
        trace::Form {
            arguments: self.arguments.clone(),
            results: self.results.clone(),
            scalars: self.scalars.clone(),
            without: self.without.clone(),
            given: self.given.clone(),
            multiples: self.multiples.clone(),
        }
    }
}

impl Serves {
    /// The scalars that have one value in this form; `claims` has seen that each is a number.
    fn fixed_scalars(&self) -> Scalars {
        let scalars = self.scalars.iter();
        scalars.filter_map(|(name, value)| Some((name.clone(), scalar_value(value)?))).collect()
    }

    /// Whether an argument names an input.
    fn mentions(&self, input: &str) -> bool {
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        self.arguments.iter().any(|text| text.split(|letter| !is_part(letter)).any(|word| word == input))
    }
}

impl Served {
    /// The file of a code hole in a project; of another one, nothing.
    ///
    /// # Errors
    /// A defect of the template.
    pub fn path(&self, hole: &Hole) -> Result<String, ScaffoldError> {
        let Kind::Code { file, .. } = &hole.kind else { return Ok(String::new()) };
        let (answers, _) = claims::specimen(&self.template)?;
        template::path_of(&self.template, &answers, file)
    }

    /// The inputs that the result of the kernel has a gradient of.
    pub fn gradients(&self) -> Vec<&str> {
        let inputs = self.op.gradient.iter().flat_map(|gradient| &gradient.inputs);
        inputs.map(|input| input.value.as_str()).collect()
    }

    /// What the harness is told; `reference` is the path of the template's reference.
    pub(crate) fn job(&self, reference: &str) -> TemplateJob {
        TemplateJob {
            name: self.template.name.clone(),
            reference: reference.to_owned(),
            function: self.op.reference.function.value.to_string(),
            op: self.operation(),
            forms: self.forms.iter().map(Form::message).collect(),
        }
    }

    fn operation(&self) -> Operation {
        let axes = self.op.axes.iter().map(|axis| {
            let (fixed, multiple_of, min) = match axis.kind {
                AxisKind::Const(length) => (Some(length), 1, None),
                AxisKind::Var { multiple_of, min, .. } => (None, multiple_of, min),
            };
            trace::Axis { name: axis.name.value.to_string(), fixed, multiple_of, min }
        });
        let inputs = self.op.inputs.iter().map(|input| {
            let name = input.tensor.name.value.as_str();
            let indexes = self.template.indexes.get(name);
            Input {
                name: name.to_owned(),
                shape: input.tensor.shape.iter().map(|axis| axis.value.to_string()).collect(),
                kind: kind(&self.op, &input.tensor),
                counts: indexes.map(|indexes| indexes.axis.clone()),
                ignored: indexes.and_then(|indexes| indexes.ignored.clone()),
            }
        });
        let scalars = self.op.scalars.iter().map(|scalar| {
            let default = scalar.default.value;
            let kind = match default {
                ScalarValue::Float(_) => trace::Kind::Float,
                ScalarValue::Int(_) => trace::Kind::Int,
                ScalarValue::Bool(_) => trace::Kind::Bool,
            };
            ScalarArgument { name: scalar.name.value.to_string(), kind, default }
        });
        let outputs = self.op.outputs.iter();
        let overwrites = outputs.clone().filter_map(|output| {
            let input = output.inplace.as_ref()?;
            Some((output.tensor.name.value.to_string(), input.value.to_string()))
        });
        Operation {
            axes: axes.collect(),
            inputs: inputs.collect(),
            scalars: scalars.collect(),
            outputs: outputs.clone().map(|output| output.tensor.name.value.to_string()).collect(),
            overwrites: overwrites.collect(),
            gradients: self.gradients().into_iter().map(str::to_owned).collect(),
            constraints: self.op.constraints.iter().map(ToString::to_string).collect(),
        }
    }
}

/// What the values of a tensor are.
fn kind(op: &OpSpec, tensor: &Tensor) -> trace::Kind {
    let dtype = match &tensor.dtype.value {
        TensorDtype::Fixed(dtype) => Some(*dtype),
        TensorDtype::Variable(name) => {
            let variable = op.dtypes.iter().find(|variable| variable.name.value == *name);
            variable.and_then(|variable| variable.dtypes.first().copied())
        }
    };
    match dtype {
        Some(Dtype::Bool) => trace::Kind::Bool,
        Some(Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64) => trace::Kind::Int,
        _ => trace::Kind::Float,
    }
}
