//! Which calls a template serves, for `new --from`: its operation's own, and those that `template.toml` lists.
//!
//! Owns: `[[serves]]` and `[indexes]`, what harness/trace.py is told of templates. Never: runs or judges a call.

use std::collections::BTreeMap;

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::{AxisKind, ScalarValue, Tensor, TensorDtype};
use kernel_plan::units::Dtype;
use serde::Serialize;
use serde_json::{Value, json};

use super::hole::{Hole, Kind};
use super::template::{self, Serves, Template};
use super::{FileSet, ScaffoldError, claims, settings};

/// A form as the matcher and the harness see it. The first ones are the operation's own calls.
#[derive(Debug, Clone, Serialize)]
pub struct Form {
    /// In words; nothing for the operation's own call.
    #[serde(skip)]
    pub as_words: Option<String>,
    /// See [`Serves`].
    pub arguments: Vec<String>,
    /// See [`Serves`].
    pub results: Option<Vec<String>>,
    /// See [`Serves`].
    pub scalars: BTreeMap<String, Value>,
    /// See [`Serves`].
    pub without: Vec<String>,
    /// See [`Serves`].
    pub given: BTreeMap<String, String>,
    /// See [`Serves`].
    pub multiples: BTreeMap<String, u64>,
    /// See [`Serves`].
    #[serde(skip)]
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
pub fn served(template: Template) -> Result<Served, ScaffoldError> {
    claims::check(&template)?;
    let (_, files) = claims::specimen(&template)?;
    let (_, op) = settings::contract(&template, &files, settings::OP)?;
    let names = |keep: &dyn Fn(bool) -> bool| -> Vec<String> {
        let inputs = op.inputs.iter().filter(|input| keep(input.optional));
        inputs.map(|input| input.tensor.name.value.to_string()).collect()
    };
    let optional = names(&|optional| optional);
    let own = |without: Vec<String>| Form {
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
    let mut forms: Vec<Form> = choices.into_iter().map(own).collect();
    forms.extend(template.serves.iter().map(|form| Form {
        as_words: Some(form.as_words.clone()),
        arguments: form.arguments.clone(),
        results: form.results.clone(),
        scalars: form.scalars.iter().map(|(name, value)| (name.clone(), json!(value))).collect(),
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

impl Serves {
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
    pub fn job(&self, reference: &str) -> Value {
        let axes = self.op.axes.iter().map(|axis| match axis.kind {
            AxisKind::Const(length) => {
                json!({ "name": axis.name.value, "const": length, "multiple_of": 1, "min": null })
            }
            AxisKind::Var { multiple_of, min, .. } => {
                json!({ "name": axis.name.value, "const": null, "multiple_of": multiple_of, "min": min })
            }
        });
        let inputs = self.op.inputs.iter().map(|input| {
            let name = input.tensor.name.value.as_str();
            let indexes = self.template.indexes.get(name);
            json!({
                "name": name,
                "shape": input.tensor.shape.iter().map(|axis| &axis.value).collect::<Vec<_>>(),
                "kind": kind(&self.op, &input.tensor),
                "counts": indexes.map(|indexes| &indexes.axis),
                "ignored": indexes.and_then(|indexes| indexes.ignored.as_ref()),
            })
        });
        let scalars = self.op.scalars.iter().map(|scalar| {
            let kind = match scalar.default.value {
                ScalarValue::Float(_) => "float",
                ScalarValue::Int(_) => "int",
                ScalarValue::Bool(_) => "bool",
            };
            json!({ "name": scalar.name.value, "kind": kind, "default": scalar.default.value })
        });
        let outputs: Vec<_> = self.op.outputs.iter().map(|output| &output.tensor.name.value).collect();
        let overwrites: BTreeMap<_, _> = self
            .op
            .outputs
            .iter()
            .filter_map(|output| {
                let input = output.inplace.as_ref()?;
                Some((output.tensor.name.value.to_string(), &input.value))
            })
            .collect();
        json!({
            "name": self.template.name,
            "reference": reference,
            "function": self.op.reference.function.value,
            "op": {
                "axes": axes.collect::<Vec<_>>(),
                "inputs": inputs.collect::<Vec<_>>(),
                "scalars": scalars.collect::<Vec<_>>(),
                "outputs": outputs,
                "overwrites": overwrites,
                "gradients": self.gradients(),
                "constraints": self.op.constraints,
            },
            "forms": self.forms,
        })
    }
}

/// What the values of a tensor are: `float`, `int` or `bool`.
fn kind(op: &OpSpec, tensor: &Tensor) -> &'static str {
    let dtype = match &tensor.dtype.value {
        TensorDtype::Fixed(dtype) => Some(*dtype),
        TensorDtype::Variable(name) => {
            let variable = op.dtypes.iter().find(|variable| variable.name.value == *name);
            variable.and_then(|variable| variable.dtypes.first().copied())
        }
    };
    match dtype {
        Some(Dtype::Bool) => "bool",
        Some(Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64) => "int",
        _ => "float",
    }
}
