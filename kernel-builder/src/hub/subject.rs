//! What is looked for on a hub: the names of an operation, and the words to ask with.
//!
//! Owns: how operations and kernels are spelled, and which family a word belongs to. Never: asks.

/// Words of operations, and the word that kernels for all of their kind are named by. A signal of up to three letters is
/// a whole word of a name, a longer one any part of it.
const FAMILIES: &[(&str, &[&str])] = &[
    ("norm", &["norm"]),
    ("activation", &["activation", "silu", "gelu", "glu", "relu"]),
    ("attention", &["attn", "attention", "sdpa"]),
    ("rotary", &["rope", "rotary"]),
    ("gemm", &["gemm", "matmul", "mm"]),
    ("quantization", &["quant", "fp8", "int8", "fp4"]),
    ("moe", &["moe", "expert"]),
    ("softmax", &["softmax"]),
    ("cross-entropy", &["crossentropy"]),
    ("scan", &["cumsum", "scan", "ssm"]),
    ("conv", &["conv"]),
];

/// The most questions for one subject.
const QUESTIONS: usize = 6;

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The operation as it may be called, the first as it is.
    pub names: Vec<String>,
    /// Families that it belongs to.
    pub families: Vec<&'static str>,
    /// What a hub is asked, the best first.
    pub questions: Vec<String>,
}

impl Subject {
    /// An operation by its names: its own, then those of operations that the same template computes.
    pub fn from_names(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut all: Vec<String> = Vec::new();
        for name in names {
            let name: String = name.into();
            if !normal(&name).is_empty() && !all.iter().any(|known| normal(known) == normal(&name)) {
                all.push(name);
            }
        }
        let belongs =
            |signals: &&[&str]| signals.iter().any(|signal| all.iter().any(|name| shows(name, signal)));
        let families: Vec<&'static str> =
            FAMILIES.iter().filter(|(_, signals)| belongs(signals)).map(|(family, _)| *family).collect();
        let dashed = |name: &String| words(name).join("-");
        let spelled = all.first().into_iter().flat_map(|name| [dashed(name), normal(name)]);
        let broader =
            families.iter().map(|family| (*family).to_owned()).chain(all.iter().skip(1).map(dashed));
        let underscored = all.first().map(|name| words(name).join("_"));
        let mut questions: Vec<String> = Vec::new();
        for question in spelled.chain(broader).chain(underscored) {
            if !questions.contains(&question) {
                questions.push(question);
            }
        }
        questions.truncate(QUESTIONS);
        Self { names: all, families, questions }
    }
}

/// Whether a name has a signal.
pub(super) fn shows(name: &str, signal: &str) -> bool {
    if signal.len() > 3 {
        normal(name).contains(signal)
    } else {
        words(name).iter().any(|word| word == signal)
    }
}

/// A name without what people spell differently: `RMS-Norm` and `rms_norm` are `rmsnorm`.
pub(super) fn normal(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// The words of a name, in lower case.
pub(super) fn words(name: &str) -> Vec<String> {
    let parts = name.split(|letter: char| !letter.is_ascii_alphanumeric());
    parts.filter(|part| !part.is_empty()).map(str::to_ascii_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_asked_for_as_people_spell_it_and_by_its_family() {
        let subject = Subject::from_names(["rms_norm", "RMS-Norm", "add_rms_norm"]);
        assert_eq!(subject.names, ["rms_norm", "add_rms_norm"]);
        assert_eq!(subject.questions, ["rms-norm", "rmsnorm", "norm", "add-rms-norm", "rms_norm"]);
        assert_eq!(Subject::from_names(["swiglu"]).questions, ["swiglu"]);
        assert_eq!(Subject::from_names(["silu_and_mul"]).families, ["activation"]);
        assert_eq!(Subject::from_names(["scaled_mm"]).families, ["gemm"]);
        assert!(
            Subject::from_names(["summary"]).families.is_empty()
                && Subject::from_names([" "]).questions.is_empty()
        );
    }
}
