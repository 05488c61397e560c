//! Names that look like one that does not exist.
//!
//! Owns: the order of likeness, and which names are alike at all. Never: knows what is named.

use similar::{Algorithm, capture_diff_slices, get_diff_ratio};

/// Names that share less than this with the one that was asked for are not alike.
const LEAST: f32 = 0.6;

/// The names that are most like `asked`, best first, at most `most`.
pub(crate) fn alike<'a>(asked: &str, names: impl IntoIterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    let likeness = |name: &str| {
        let (name, asked) = (name.as_bytes(), asked.as_bytes());
        get_diff_ratio(&capture_diff_slices(Algorithm::Myers, name, asked), name.len(), asked.len())
    };
    let mut near: Vec<(f32, &str)> = names.into_iter().map(|name| (likeness(name), name)).collect();
    near.retain(|(ratio, _)| *ratio > LEAST);
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    near.into_iter().take(most).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_names_come_first_and_others_not_at_all() {
        let names = ["torch211-cxx11-cu128", "torch211-cxx11-cu126", "torch213-cxx11-cpu", "metal"];
        assert_eq!(
            alike("torch211-cxx11-cu127", names, 3)[..2],
            ["torch211-cxx11-cu128", "torch211-cxx11-cu126"]
        );
        assert_eq!(alike("torch211-cxx11-cu127", names, 1).len(), 1);
        assert!(alike("nope", names, 3).is_empty());
    }
}
