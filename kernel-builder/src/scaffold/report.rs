//! The report of harness/trace.py on one function of a person's.
//!
//! Owns: its form. Never: judges it; `fit` does.

use std::collections::BTreeMap;

use kernel_plan::translate::TracedGraph;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::observed::Effects;
use super::unusable::Unusable;

/// The harness's report on a function.
#[derive(Debug, Clone, Deserialize)]
pub struct Report {
    /// Why the file cannot be traced; nothing else is there then.
    pub unusable: Option<Unusable>,
    /// `torch.__version__`.
    #[serde(default)]
    pub torch: String,
    /// The function or class.
    #[serde(default)]
    pub name: String,
    /// Whether it is a module.
    #[serde(default)]
    pub module: bool,
    /// Its parameters.
    #[serde(default)]
    pub parameters: Vec<Parameter>,
    /// Names of the module's own tensors.
    #[serde(default)]
    pub state: Vec<String>,
    /// Every call that was tried.
    #[serde(default)]
    pub attempts: Vec<Attempt>,
    /// The graph of the function alone, when nothing was near.
    pub graph: Option<Graph>,
    /// Why it has no graph.
    pub error: Option<String>,
    /// The function for its translation, when nothing was near.
    pub translation: Option<Translation>,
    /// Why it has none.
    pub untranslated: Option<Untranslated>,
    /// Operators of each template's reference, if nothing was near.
    #[serde(default)]
    pub template_ops: BTreeMap<String, Vec<String>>,
}

/// A function for its translation.
#[derive(Debug, Clone, Deserialize)]
pub struct Translation {
    /// Its graph.
    pub graph: TracedGraph,
    /// Whether lengths may be others than those of the call that was traced.
    pub dynamic: bool,
    /// What the kernel is verified against.
    pub reference: Reference,
    /// Tensors whose shapes were guessed.
    pub guessed: Vec<String>,
    /// The gradient.
    pub gradient: Option<Gradient>,
    /// Why it has none.
    pub ungraded: Option<String>,
}

/// The gradient of a function, for its translation.
#[derive(Debug, Clone, Deserialize)]
pub struct Gradient {
    /// Its graph: of gradients of results, and of tensors of the call.
    pub graph: TracedGraph,
    /// The tensors of the call that have a gradient.
    pub inputs: Vec<String>,
    /// Those among them whose gradient is that of another one.
    pub same: BTreeMap<String, String>,
    /// What it is verified against.
    pub reference: Reference,
}

/// A reference: the person's own function, or one that calls it.
#[derive(Debug, Clone, Deserialize)]
pub struct Reference {
    /// The function.
    pub function: String,
    /// What is added to the person's file.
    pub text: String,
}

/// Why a function has no graph for its translation.
#[derive(Debug, Clone, Deserialize)]
pub struct Untranslated {
    /// What is in the way.
    pub what: String,
    /// The operator.
    pub op: Option<String>,
    /// Its line in the person's file.
    pub line: Option<u32>,
    /// The text of the line.
    pub text: Option<String>,
}

/// A parameter of the person's function.
#[derive(Debug, Clone, Deserialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// `tensor`, `float`, `int`, `bool`, `fixed` or `last-length`.
    pub kind: String,
    /// Whether it may be left out.
    pub optional: bool,
    /// Its default, of a number.
    pub value: Option<Value>,
}

/// A call as a form of a template.
#[derive(Debug, Clone, Deserialize)]
pub struct Attempt {
    /// The template.
    pub template: String,
    /// Which of its forms.
    pub form: usize,
    /// The person's tensors in the order of the form's arguments.
    #[serde(default)]
    pub order: Vec<String>,
    /// Source of each scalar of the operation.
    #[serde(default)]
    pub numbers: BTreeMap<String, (Origin, Value)>,
    /// Axes that had lengths of their own, such as a module's.
    #[serde(default)]
    pub changed: BTreeMap<String, Value>,
    /// Whether the inputs had one more leading axis than the operation has.
    #[serde(default)]
    pub split: bool,
    /// The deviation at the first inputs; absent when no call ran.
    pub deviation: Option<f64>,
    /// Why no call ran.
    pub error: Option<String>,
    /// The proof, where the first inputs were near.
    pub facts: Option<Facts>,
}

/// Source of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A parameter of the person's, by name.
    From,
    /// A constant.
    Is,
}

/// Everything that was seen of an attempt.
#[derive(Debug, Clone, Deserialize)]
pub struct Facts {
    /// Deviations, one for each set of inputs.
    pub proof: Vec<Proof>,
    /// Calls that failed.
    pub problems: Vec<String>,
    /// Which of the form's results each of the person's is.
    pub places: Option<Vec<usize>>,
    /// Arguments that the person's function changed.
    pub written_to: Vec<String>,
    /// The person's graph.
    pub graph: Option<Graph>,
    /// Whether it has the same operators at all lengths.
    pub graphs_alike: bool,
    /// Whether its constants are the same for every dtype.
    pub constants_alike: bool,
    /// Whether its operators are, casts left away.
    pub operators_alike: bool,
    /// The operators of the template's reference.
    pub template_ops: Vec<String>,
    /// Whether it also holds with one leading axis more, or less.
    pub other_rank: bool,
    /// Whether float64 stays float64.
    pub float64_stays: bool,
    /// Side effects of the call; `None` if they could not be compared, and `problems` says why.
    pub effects: Option<Effects>,
    /// Whether it is the same on inputs of these kinds, bit for bit nearly.
    pub hard: BTreeMap<String, bool>,
}

/// One set of inputs.
#[derive(Debug, Clone, Deserialize)]
pub struct Proof {
    /// Which lengths.
    pub pass: usize,
    /// How they were drawn.
    pub drawn: String,
    /// The largest deviation.
    pub deviation: f64,
}

/// A graph of `torch.export` in core ATen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Graph {
    /// The operators in order.
    pub nodes: Vec<Node>,
}

/// One operator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Node {
    /// `%mul`.
    pub name: String,
    /// `mul.Tensor`.
    pub op: String,
    /// Nodes by name, constants as they are.
    pub arguments: Vec<Value>,
    /// Of the first result.
    pub shape: Option<Vec<u64>>,
    /// Of the first result.
    pub dtype: Option<String>,
}
