//! Why a function has no translation.
//!
//! Owns: the words and the place. Never: decides.

use super::length::Length;
use super::traced::TracedNode;

/// Why a function has no translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is in the way.
    pub what: String,
    /// The operator, if it is one's.
    pub op: Option<String>,
    /// The name of that operator in the graph.
    pub(super) node: Option<Box<str>>,
    /// Its line in the person's file.
    pub line: Option<u32>,
    /// The text of the line.
    pub text: Option<String>,
    /// What may help.
    pub help: Option<&'static str>,
    /// What has to hold of lengths for the operator to be translated.
    pub(super) assumed: Option<Box<Assumed>>,
}

/// What holds of the lengths of every call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Assumed {
    /// An axis is a multiple of a number.
    Multiple(String, i64),
    /// An axis is as long as something else.
    Same(String, Length),
    /// This length never changes.
    Fixed(Length),
}

/// Operators that draw random numbers.
pub(super) const RANDOM: &str = "\
bernoulli exponential geometric log_normal multinomial native_dropout normal normal_functional poisson rand rand_like randint \
randint_like randn randn_like randperm rrelu_with_noise rrelu_with_noise_functional uniform";
/// The help for these operators.
const DRAWS: &str = "only plain dropout draws random numbers in a kernel: `F.dropout` or `nn.Dropout`, called by your own code; \
pass other random numbers or masks as an argument";

/// Operators that other libraries do better, and those that have no form here.
const KNOWN: &[(&str, &str)] = &[
    ("mm", "a matrix product is left to PyTorch: translate the function of what comes before or after it"),
    ("addmm", "a matrix product is left to PyTorch: translate the function of what comes before or after it"),
    ("bmm", "a matrix product is left to PyTorch: translate the function of what comes before or after it"),
    (
        "baddbmm",
        "a matrix product is left to PyTorch: translate the function of what comes before or after it",
    ),
    (
        "convolution",
        "a convolution is left to PyTorch: translate the function of what comes before or after it",
    ),
    (
        "_scaled_dot_product",
        "attention is left to PyTorch: translate the function of what comes before or after it",
    ),
    ("sort", "sorting is left to PyTorch: translate the function of what comes before or after it"),
    ("topk", "sorting is left to PyTorch: translate the function of what comes before or after it"),
    ("copy_", "a function that changes its arguments is not translated: return the new value"),
    ("view_as_complex", "complex numbers are not translated: write out the real and the imaginary part"),
    ("view_as_real", "complex numbers are not translated: write out the real and the imaginary part"),
    ("complex", "complex numbers are not translated: write out the real and the imaginary part"),
    ("nonzero", "shapes that depend on values are not translated: use `torch.where` with a mask"),
    ("_local_scalar_dense", "numbers that depend on values are not translated: use `torch.where`"),
];

impl Refusal {
    /// A refusal of the operator that is being looked at.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), op: None, node: None, line: None, text: None, help: None, assumed: None }
    }

    /// Whether the function has a translation for calls with some lengths of the example.
    pub fn wants_lengths(&self) -> bool {
        matches!(self.assumed.as_deref(), Some(Assumed::Fixed(_)))
    }

    /// The operator has no translation.
    pub fn operator(name: &str) -> Self {
        let base = name.split('.').next().unwrap_or(name);
        let known = KNOWN
            .iter()
            .find(|(known, _)| base == *known || (known.starts_with('_') && base.starts_with(known)));
        if RANDOM.split_whitespace().any(|name| name == base) {
            return Self::random();
        }
        Self { help: known.map(|(_, help)| *help), ..Self::new("the operator has no translation") }
    }

    /// The operator draws random numbers.
    pub(super) fn random() -> Self {
        Self { help: Some(DRAWS), ..Self::new("it draws random numbers") }
    }

    /// The same, of a node.
    #[must_use]
    pub fn at(self, node: &TracedNode) -> Self {
        let op = self.op.unwrap_or_else(|| node.op.clone());
        Self {
            op: Some(op),
            node: self.node.or_else(|| Some(node.name.as_str().into())),
            line: self.line.or(node.line),
            text: self.text.or_else(|| node.text.clone()),
            ..self
        }
    }
}
