//! Whether a line between `#if` and `#endif` is compiled for a backend: yes, no, or nobody knows.
//!
//! Owns: the macros that a build defines, and three-valued logic over them.
//! Never: computes with numbers, and never guesses a macro that no build defines.

use std::sync::Arc;

use crate::units::BackendId;

/// The macros that say which backend is compiled, and the one that each is defined for
/// (huggingface/kernels, the templates of kernel-builder).
const MACROS: &[(&str, BackendId)] = &[
    ("CPU_KERNEL", BackendId::Cpu),
    ("CUDA_KERNEL", BackendId::Cuda),
    ("METAL_KERNEL", BackendId::Metal),
    ("ROCM_KERNEL", BackendId::Rocm),
    ("XPU_KERNEL", BackendId::Xpu),
    ("USE_CUDA", BackendId::Cuda),
    ("USE_ROCM", BackendId::Rocm),
];

/// Bytes of the longest expression that is read: more has been made to exhaust the reader.
const LONGEST: usize = 300;

/// What must hold for a line to be compiled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Every expression, and whether it has to be true or false.
    pub(super) clauses: Vec<(Arc<str>, bool)>,
}

impl Condition {
    /// Whether the line is compiled for `backend`; `None`: it depends on what this program does not know.
    pub(crate) fn under(&self, backend: BackendId) -> Option<bool> {
        let mut all = Some(true);
        for (text, wanted) in &self.clauses {
            all = and(all, evaluate(text, backend).map(|value| value == *wanted));
        }
        all
    }
}

fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    and(left.map(|value| !value), right.map(|value| !value)).map(|value| !value)
}

/// An expression of `#if`, of which only names, numbers, `defined`, `!`, `&&`, `||` and brackets are understood.
fn evaluate(text: &str, backend: BackendId) -> Option<bool> {
    if text.len() > LONGEST {
        return None;
    }
    let text = text.trim();
    for (operator, combine) in [("||", or as fn(_, _) -> _), ("&&", and)] {
        if let Some(at) = outside_brackets(text, operator) {
            return combine(evaluate(&text[..at], backend), evaluate(&text[at + operator.len()..], backend));
        }
    }
    if let Some(rest) = text.strip_prefix('!') {
        return if rest.starts_with('=') { None } else { evaluate(rest, backend).map(|value| !value) };
    }
    if let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        return evaluate(inner, backend);
    }
    if let Ok(number) = text.parse::<i64>() {
        return Some(number != 0);
    }
    let name = text.strip_prefix("defined").map_or(text, |rest| rest.trim().trim_matches(['(', ')']));
    let (_, known) = MACROS.iter().find(|(known, _)| *known == name.trim())?;
    Some(*known == backend)
}

/// Where `operator` stands outside of all brackets; the last place, so that what is before it stays whole.
fn outside_brackets(text: &str, operator: &str) -> Option<usize> {
    let mut depth = 0_i32;
    let mut found = None;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && text[at..].starts_with(operator) => found = Some(at),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_macros_of_a_build_and_nothing_else() {
        let on_cuda = |text: &str| evaluate(text, BackendId::Cuda);
        assert_eq!(on_cuda("defined(CUDA_KERNEL)"), Some(true));
        assert_eq!(on_cuda("defined CUDA_KERNEL && !defined(USE_ROCM)"), Some(true));
        assert_eq!(on_cuda("defined(CPU_KERNEL) || defined(METAL_KERNEL)"), Some(false));
        assert_eq!(on_cuda("(defined(CPU_KERNEL) || defined(CUDA_KERNEL)) && 1"), Some(true));
        assert_eq!(on_cuda("0"), Some(false));
        assert_eq!(on_cuda("USE_CUDA"), Some(true));
        assert_eq!(on_cuda("__CUDA_ARCH__ >= 800"), None);
        assert_eq!(on_cuda("defined(CPU_KERNEL) && __CUDA_ARCH__ >= 800"), Some(false));
        assert_eq!(on_cuda("defined(CUDA_KERNEL) || MINE != 1"), Some(true));
        assert_eq!(on_cuda("__has_include(<torch/all.h>)"), None);
        assert_eq!(on_cuda(""), None);
        assert_eq!(on_cuda("((("), None);
    }
}
