//! A person's function as harness/translation.py exports it: torch.export's graph in core ATen.
//!
//! Owns: its form, and how its values are read. Never: what an operator means.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value as Json;

use super::length::Length;

/// A term of a length: a factor and symbols.
pub(super) type Term = (i64, Vec<String>);

/// The graph of one call.
#[derive(Debug, Clone, Deserialize)]
pub struct TracedGraph {
    /// The function or class.
    pub function: String,
    /// The tensors of a call, in order.
    pub inputs: Vec<TracedInput>,
    /// The operators in order.
    pub nodes: Vec<TracedNode>,
    /// Names of the values that are returned.
    pub outputs: Vec<String>,
    /// Names of the results, of a gradient; those of a function are numbered.
    #[serde(default)]
    pub results: Vec<String>,
    /// The symbols of lengths.
    pub symbols: BTreeMap<String, TracedSymbol>,
    /// Whether bfloat16 stands for any floating-point dtype of the call, so that it may be another one.
    pub variable: bool,
    /// The value of the input that is the seed of dropout.
    #[serde(default)]
    pub seed: Option<String>,
}

/// A tensor of the call.
#[derive(Debug, Clone, Deserialize)]
pub struct TracedInput {
    /// The name of its value in the graph.
    pub value: String,
    /// The parameter's name, or that of the module's tensor.
    pub name: String,
    /// Its shape and dtype.
    pub tensor: TracedTensor,
    /// Whether the function needs values that are not less than zero.
    #[serde(default)]
    pub non_negative: bool,
    /// Whether it is what a convolution returned, with the channels as the last axis.
    #[serde(default)]
    pub channels_last: bool,
}

/// Shape and dtype.
#[derive(Debug, Clone, Deserialize)]
pub struct TracedTensor {
    /// A length for each axis: terms of a factor and symbols.
    pub shape: Vec<Vec<(i64, Vec<String>)>>,
    /// PyTorch's name of the dtype, without `torch.`.
    pub dtype: String,
}

impl TracedTensor {
    /// The lengths of its axes.
    pub fn lengths(&self) -> Vec<Length> {
        self.shape.iter().map(|terms| length(terms)).collect()
    }
}

fn length(terms: &[(i64, Vec<String>)]) -> Length {
    terms
        .iter()
        .fold(Length::default(), |sum, (factor, symbols)| &sum + &Length::term(*factor, symbols.clone()))
}

/// A symbol of lengths.
#[derive(Debug, Clone, Deserialize)]
pub struct TracedSymbol {
    /// Its value in the call that was traced.
    pub hint: i64,
    /// The least value that the graph is for.
    pub min: i64,
    /// For a quotient `of // by`: the symbol and the number.
    pub quotient: Option<(String, i64)>,
    /// For a length that is no polynomial: the dividend and the divisor that it is the quotient of, rounded down.
    #[serde(default)]
    pub computed: Option<(Vec<Term>, i64)>,
}

impl TracedSymbol {
    /// The dividend and the divisor of a length that is no polynomial.
    pub(super) fn floor(&self) -> Option<(Length, i64)> {
        self.computed.as_ref().map(|(terms, by)| (length(terms), *by))
    }
}

/// One operator.
#[derive(Debug, Clone, Deserialize)]
pub struct TracedNode {
    /// Its name in the graph: `mul_2`.
    pub name: String,
    /// `aten.mul.Tensor`.
    pub op: String,
    /// Positional arguments.
    pub arguments: Vec<Json>,
    /// Keyword arguments.
    pub keywords: BTreeMap<String, Json>,
    /// Its results; empty for what has no tensor.
    pub results: Vec<TracedTensor>,
    /// The line of the person's file, from 1.
    pub line: Option<u32>,
    /// The text of that line.
    pub text: Option<String>,
}

/// An argument of an operator.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Argument {
    /// Another node's result, by its name.
    Node(String),
    /// A length.
    Length(Length),
    /// A number that follows from lengths.
    Quantity(Quantity),
    /// A number.
    Float(f64),
    /// A condition.
    Bool(bool),
    /// A word, as a rounding mode or a dtype.
    Word(String),
    /// Several of them.
    List(Vec<Argument>),
    /// None.
    Absent,
}

/// A number that follows from lengths.
#[derive(Debug, Clone, PartialEq)]
pub enum Quantity {
    /// A length.
    Length(Length),
    /// A number.
    Number(f64),
    /// A sum.
    Sum(Vec<Quantity>),
    /// A product.
    Product(Vec<Quantity>),
    /// A power.
    Power(Box<Quantity>, Box<Quantity>),
}

impl TracedGraph {
    /// Puts other lengths in the place of all lengths of tensors and arguments.
    pub(super) fn replace_lengths(&mut self, replaced: &dyn Fn(&Length) -> Length) {
        let of_terms = |terms: &[Term]| replaced(&length(terms)).terms();
        let tensor =
            |tensor: &mut TracedTensor| tensor.shape.iter_mut().for_each(|axis| *axis = of_terms(axis));
        self.inputs.iter_mut().for_each(|input| tensor(&mut input.tensor));
        for node in &mut self.nodes {
            node.results.iter_mut().for_each(tensor);
            node.arguments
                .iter_mut()
                .chain(node.keywords.values_mut())
                .for_each(|json| replace_in(json, &of_terms));
        }
    }
}

/// Replaces the lengths of an argument: `{"length": TERMS}`, and `["length", TERMS]` within a quantity.
fn replace_in(json: &mut Json, replaced: &dyn Fn(&[Term]) -> Vec<Term>) {
    match json {
        Json::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                match terms(value).filter(|_| key == "length") {
                    Some(known) => *value = serde_json::json!(replaced(&known)),
                    None => replace_in(value, replaced),
                }
            }
        }
        Json::Array(all) => match all.as_mut_slice() {
            [word, value] if word == "length" => {
                if let Some(known) = terms(value) {
                    *value = serde_json::json!(replaced(&known));
                }
            }
            all => all.iter_mut().for_each(|one| replace_in(one, replaced)),
        },
        _ => {}
    }
}

impl TracedNode {
    /// The names of the values that it takes.
    pub(super) fn operands(&self) -> Vec<&str> {
        fn collect<'j>(json: &'j Json, found: &mut Vec<&'j str>) {
            match json {
                Json::Array(all) => all.iter().for_each(|one| collect(one, found)),
                Json::Object(fields) => found.extend(fields.get("node").and_then(Json::as_str)),
                _ => {}
            }
        }
        let mut found = Vec::new();
        self.arguments.iter().chain(self.keywords.values()).for_each(|one| collect(one, &mut found));
        found
    }

    /// The operator without its library and its overload: `mul`.
    pub(super) fn base(&self) -> &str {
        let name = self.op.trim_start_matches("aten.");
        name.split('.').next().unwrap_or(name)
    }
}

impl Argument {
    /// Reads one; `None` for a form that the harness does not write.
    pub(super) fn read(json: &Json) -> Option<Self> {
        Some(match json {
            Json::Null => Self::Absent,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match number.as_i64() {
                Some(whole) => Self::Length(Length::number(whole)),
                None => Self::Float(number.as_f64()?),
            },
            Json::String(word) => Self::Word(word.clone()),
            Json::Array(all) => Self::List(all.iter().map(Self::read).collect::<Option<_>>()?),
            Json::Object(fields) => {
                let (key, value) = fields.iter().next()?;
                match key.as_str() {
                    "node" => Self::Node(value.as_str()?.to_owned()),
                    "length" => Self::Length(length(&terms(value)?)),
                    "float" => Self::Float(value.as_str()?.parse().ok()?),
                    "quantity" => Self::Quantity(Quantity::read(value)?),
                    _ => return None,
                }
            }
        })
    }
}

fn terms(json: &Json) -> Option<Vec<(i64, Vec<String>)>> {
    serde_json::from_value(json.clone()).ok()
}

impl Quantity {
    fn read(json: &Json) -> Option<Self> {
        if let Some(number) = json.as_f64() {
            return Some(Self::Number(number));
        }
        let parts = json.as_array()?;
        let word = parts.first()?.as_str()?;
        let rest = || parts[1..].iter().map(Self::read).collect::<Option<Vec<_>>>();
        Some(match word {
            "length" => Self::Length(length(&terms(parts.get(1)?)?)),
            "sum" => Self::Sum(rest()?),
            "product" => Self::Product(rest()?),
            "power" => {
                Self::Power(Box::new(Self::read(parts.get(1)?)?), Box::new(Self::read(parts.get(2)?)?))
            }
            _ => return None,
        })
    }
}
