//! Sizes of current models, and the axes that they are for.
//!
//! Owns: the reader of resources/drawn/models.toml, and which list a name of an axis means. Pure.
//! Never: draws.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::Axis;
use serde::Deserialize;

/// One model. A size that it does not have is absent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Model {
    hidden: Option<u64>,
    intermediate: Option<u64>,
    heads: Option<u64>,
    kv_heads: Option<u64>,
    head_dim: Option<u64>,
    vocabulary: Option<u64>,
    experts: Option<u64>,
    sequence: Option<u64>,
    batch: Option<u64>,
    #[serde(default)]
    channels: Vec<u64>,
    #[serde(default)]
    spatial: Vec<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    model: BTreeMap<String, Model>,
}

/// All models, by name.
pub(super) static MODELS: LazyLock<Vec<Model>> = LazyLock::new(|| {
    let file: File = toml::from_str(include_str!("../../../resources/drawn/models.toml"))
        .expect("the table is part of the program and parses: tested below");
    file.model.into_values().collect()
});

/// The meaning of an axis, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Independent rows: tokens, examples.
    Rows,
    Batch,
    Sequence,
    Hidden,
    Intermediate,
    Vocabulary,
    Heads,
    KvHeads,
    HeadDim,
    Experts,
    Channels,
    /// One side of an image.
    Spatial,
    /// Both sides of an image as one axis.
    Pixels,
    /// Any other name.
    Other,
}

/// Names and their parts between `_`, without digits at the end. The first line that has one of them counts.
const NAMES: &[(Kind, &[&str])] = &[
    (Kind::Vocabulary, &["vocabulary", "vocab", "classes"]),
    (Kind::Intermediate, &["intermediate", "inner", "ffn", "mlp"]),
    (Kind::Experts, &["experts", "expert"]),
    (Kind::Rows, &["rows", "row", "tokens", "token", "m", "samples"]),
    (Kind::Batch, &["batch", "batches", "b"]),
    (
        Kind::Sequence,
        &["sequence", "seq", "seqlen", "len", "length", "context", "queries", "keys", "time", "table"],
    ),
    (Kind::Channels, &["channels", "channel", "c"]),
    (Kind::Pixels, &["pixels", "spatial"]),
    (Kind::Spatial, &["height", "h", "w"]),
    (Kind::Hidden, &["hidden", "model", "features", "embedding", "embed", "width", "columns", "cols"]),
];

/// The meaning of every axis, in file order.
pub(super) fn kinds(op: &OpSpec) -> Vec<Kind> {
    let by_name: Vec<Kind> = op.axes.iter().map(|axis| kind(axis.name.value.as_str())).collect();
    let has = |kind: Kind| by_name.contains(&kind);
    let refined = |(axis, kind): (&Axis, &Kind)| match axis.name.value.as_str() {
        "dim" | "d" if has(Kind::Heads) => Kind::HeadDim,
        "dim" | "d" => Kind::Hidden,
        "width" if has(Kind::Spatial) => Kind::Spatial,
        _ if *kind == Kind::Batch && !has(Kind::Rows) && !has(Kind::Sequence) => Kind::Rows,
        _ => *kind,
    };
    op.axes.iter().zip(&by_name).map(refined).collect()
}

fn kind(name: &str) -> Kind {
    let name = name.to_lowercase();
    let words: Vec<&str> = name
        .split('_')
        .map(|word| word.trim_end_matches(|letter: char| letter.is_ascii_digit()))
        .filter(|word| !word.is_empty())
        .collect();
    let has = |known: &[&str]| words.iter().any(|word| known.contains(word));
    if has(&["headdim", "rotary"]) || (has(&["head", "heads"]) && has(&["dim", "size", "d"])) {
        return Kind::HeadDim;
    }
    if has(&["heads", "head"]) {
        return if has(&["kv", "k", "v", "key", "value"]) { Kind::KvHeads } else { Kind::Heads };
    }
    NAMES.iter().find(|(_, known)| has(known)).map_or(Kind::Other, |(kind, _)| *kind)
}

impl Model {
    /// The sizes that an axis of this meaning has in the model.
    pub(super) fn sizes(&self, kind: Kind) -> Vec<u64> {
        let square = |side: &u64| side * side;
        match kind {
            Kind::Rows | Kind::Sequence => self.sequence.into_iter().collect(),
            Kind::Batch => self.batch.into_iter().collect(),
            Kind::Hidden => self.hidden.into_iter().collect(),
            Kind::Intermediate => self.intermediate.into_iter().collect(),
            Kind::Vocabulary => self.vocabulary.into_iter().collect(),
            Kind::Heads => self.heads.into_iter().collect(),
            Kind::KvHeads => self.kv_heads.into_iter().collect(),
            Kind::HeadDim => self.head_dim.into_iter().collect(),
            Kind::Experts => self.experts.into_iter().collect(),
            Kind::Channels => self.channels.clone(),
            Kind::Spatial => self.spatial.clone(),
            Kind::Pixels => self.spatial.iter().map(square).collect(),
            Kind::Other => {
                let all = [self.hidden, self.intermediate, self.head_dim, self.sequence];
                all.into_iter().flatten().chain(self.channels.iter().copied()).collect()
            }
        }
    }
}

/// The sizes of all models for a meaning, in order, without duplicates.
pub(super) fn all_sizes(kind: Kind) -> Vec<u64> {
    let sizes: BTreeSet<u64> = MODELS.iter().flat_map(|model| model.sizes(kind)).collect();
    sizes.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_parses_and_has_sizes_for_every_meaning() {
        for kind in NAMES.iter().map(|(kind, _)| *kind).chain([Kind::Heads, Kind::KvHeads, Kind::HeadDim]) {
            let sizes = all_sizes(kind);
            assert!(sizes.len() > 2 && !sizes.contains(&0), "{kind:?}: {sizes:?}");
        }
        assert!(all_sizes(Kind::Vocabulary).contains(&50257) && all_sizes(Kind::Sequence).contains(&197));
        for model in MODELS.iter() {
            if let (Some(heads), Some(kv_heads)) = (model.heads, model.kv_heads) {
                assert!(heads.is_multiple_of(kv_heads), "{model:?}");
            }
        }
    }

    #[test]
    fn names_of_axes_choose_the_list() {
        for (name, expected) in [
            ("rows", Kind::Rows),
            ("num_tokens", Kind::Rows),
            ("m", Kind::Rows),
            ("batch", Kind::Batch),
            ("seq_len", Kind::Sequence),
            ("hidden", Kind::Hidden),
            ("d_model", Kind::Hidden),
            ("intermediate_size", Kind::Intermediate),
            ("vocab_size", Kind::Vocabulary),
            ("heads", Kind::Heads),
            ("num_kv_heads", Kind::KvHeads),
            ("head_dim", Kind::HeadDim),
            ("num_experts", Kind::Experts),
            ("channels", Kind::Channels),
            ("spatial", Kind::Pixels),
            ("n", Kind::Other),
            ("axis7", Kind::Other),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }
}
