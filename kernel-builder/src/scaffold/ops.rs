//! What an operator of core ATen does to values: moves them, computes smoothly, or decides.
//!
//! Owns: the table, and the names under which different spellings are the same. Never: looks at a template.
//!
//! Why this matters: a function made of smooth operators alone is analytic, and two analytic functions that agree on a
//! random open set agree wherever they are defined. What decides (a maximum, a comparison, a rounding) can hide a
//! difference where no drawn input comes, so it is accepted only where the template's reference decides in the same ways.

use std::collections::BTreeSet;

use super::report::{Graph, Node};

/// What an operator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Values are moved, repeated or made of nothing but shapes.
    Move,
    /// An analytic function of its arguments.
    Smooth,
    /// A decision.
    Decides,
    /// Nothing is known of it.
    Unknown,
}

/// Moves.
const MOVES: &str = "view _unsafe_view reshape expand permute transpose t clone slice select unsqueeze squeeze cat stack \
    split split_with_sizes unbind alias getitem full full_like zeros_like ones_like zeros ones scalar_tensor arange flip \
    repeat detach detach_ lift_fresh_copy contiguous constant_pad_nd empty empty_like as_strided sym_size view_as_complex \
    view_as_real _conj";

/// Smooth operators, each with the smooth and deciding names that it counts as.
const SMOOTH: &[(&str, &str)] = &[
    ("add", "add"),
    ("sub", "sub"),
    ("rsub", "sub"),
    ("neg", "sub"),
    ("mul", "mul"),
    ("square", "mul"),
    ("pow", "mul"),
    ("div", "div"),
    ("reciprocal", "div"),
    ("sqrt", "sqrt"),
    ("rsqrt", "sqrt"),
    ("exp", "exp"),
    ("exp2", "exp"),
    ("expm1", "exp"),
    ("log", "log"),
    ("log2", "log"),
    ("log1p", "log"),
    ("sum", "sum"),
    ("mean", "sum"),
    ("var", "sum sub mul"),
    ("cumsum", "cumsum"),
    ("sin", "sin"),
    ("cos", "cos"),
    ("tanh", "tanh"),
    ("erf", "erf"),
    ("sigmoid", "exp div"),
    ("silu", "exp div mul"),
    ("gelu", "gelu"),
    ("softplus", "exp log"),
    ("logsumexp", "exp sum log"),
    ("_softmax", "exp sum div"),
    ("_log_softmax", "exp sum log"),
    ("native_layer_norm", "sum sub mul sqrt add"),
    ("native_group_norm", "sum sub mul sqrt add"),
    ("_fused_rms_norm", "sum mul sqrt add"),
    ("mm", "matmul"),
    ("bmm", "matmul"),
    ("addmm", "matmul add"),
    ("matmul", "matmul"),
];

/// What decides, each with how it is called here.
const DECIDES: &[(&str, &str)] = &[
    ("max", "max"),
    ("amax", "max"),
    ("maximum", "max"),
    ("min", "min"),
    ("amin", "min"),
    ("minimum", "min"),
    ("argmax", "argmax"),
    ("argmin", "argmin"),
    ("where", "where"),
    ("masked_fill", "where"),
    ("gather", "gather"),
    ("index", "gather"),
    ("index_select", "gather"),
    ("embedding", "gather"),
    ("nll_loss_forward", "gather where compare"),
    ("eq", "compare"),
    ("ne", "compare"),
    ("lt", "compare"),
    ("le", "compare"),
    ("gt", "compare"),
    ("ge", "compare"),
    ("isnan", "compare"),
    ("isinf", "compare"),
    ("logical_and", "compare"),
    ("logical_or", "compare"),
    ("logical_not", "compare"),
    ("bitwise_and", "compare"),
    ("bitwise_or", "compare"),
    ("bitwise_not", "compare"),
    ("clamp", "clamp"),
    ("clamp_min", "clamp"),
    ("clamp_max", "clamp"),
    ("hardtanh", "clamp"),
    ("relu", "clamp"),
    ("leaky_relu", "clamp"),
    ("abs", "abs"),
    ("sign", "sign"),
    ("round", "round"),
    ("floor", "round"),
    ("ceil", "round"),
    ("trunc", "round"),
    ("remainder", "remainder"),
    ("fmod", "remainder"),
    ("sort", "sort"),
    ("topk", "sort"),
    ("scatter", "scatter"),
    ("index_put", "scatter"),
];

/// `mul.Tensor` → `mul`.
pub(crate) fn base(op: &str) -> &str {
    op.split('.').next().unwrap_or(op)
}

/// What a node does, and the names that it counts as.
pub(crate) fn class(graph: &Graph, node: &Node) -> (Class, Vec<String>) {
    let name = base(&node.op);
    if name == "_to_copy" {
        // The graph is of a call in float32: what is narrower, or no floating point, was asked for by name.
        return match node.dtype.as_deref() {
            Some("float32" | "float64" | "complex64" | "complex128") => (Class::Move, Vec::new()),
            Some("bool") => (Class::Decides, vec!["compare".to_owned()]),
            Some(narrow) if narrow.contains("float") => (Class::Decides, vec!["narrow".to_owned()]),
            _ => (Class::Decides, vec!["round".to_owned()]),
        };
    }
    if name == "getitem" && is_place_of_maximum(graph, node) {
        return (Class::Decides, vec!["argmax".to_owned()]);
    }
    named(name)
}

/// The same for a name alone.
pub(crate) fn named(name: &str) -> (Class, Vec<String>) {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    if MOVES.split_whitespace().any(|known| known == name) {
        return (Class::Move, Vec::new());
    }
    if let Some((_, counts)) = SMOOTH.iter().find(|(known, _)| *known == name) {
        return (Class::Smooth, words(counts));
    }
    match DECIDES.iter().find(|(known, _)| *known == name) {
        Some((_, counts)) => (Class::Decides, words(counts)),
        None => (Class::Unknown, vec![name.to_owned()]),
    }
}

/// Whether a node takes the second result of a maximum: its place.
fn is_place_of_maximum(graph: &Graph, node: &Node) -> bool {
    let of = node.arguments.first().and_then(|argument| argument.as_str());
    let second = node.arguments.get(1).and_then(serde_json::Value::as_u64) == Some(1);
    let maximum = |other: &&Node| Some(other.name.as_str()) == of && base(&other.op) == "max";
    second && graph.nodes.iter().any(|other| maximum(&other))
}

/// What a graph decides, and what of it is unknown.
pub(crate) fn decisions(graph: &Graph) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut decides, mut unknown) = (BTreeSet::new(), BTreeSet::new());
    for node in &graph.nodes {
        match class(graph, node) {
            (Class::Decides, names) => decides.extend(names),
            (Class::Unknown, names) => unknown.extend(names),
            (Class::Move | Class::Smooth, _) => {}
        }
    }
    (decides, unknown)
}

/// What a list of operators computes, moves left away.
pub(crate) fn computes<'a>(ops: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    ops.into_iter().flat_map(|op| named(base(op)).1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_thing_count_as_the_same() {
        assert_eq!(
            computes(["_softmax.default"]),
            computes(["exp.default", "sum.dim_IntList", "div.Tensor"])
        );
        assert_eq!(computes(["rsqrt.default", "view.default"]), computes(["sqrt.default"]));
        assert_eq!(named("frobnicate").0, Class::Unknown);
    }

    #[test]
    fn no_operator_is_listed_twice() {
        let mut seen = BTreeSet::new();
        let listed = SMOOTH.iter().chain(DECIDES).map(|(name, _)| *name);
        for name in listed.chain(MOVES.split_whitespace()) {
            assert!(seen.insert(name), "{name}");
        }
    }
}
