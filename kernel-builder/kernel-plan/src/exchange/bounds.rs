//! What constraints of a definition and bounds of an axis say in each other's words.
//!
//! Owns: the three forms, `N % 8 == 0`, `N >= 1` and `N <= 64`, to the letter.
//! Never: understands another constraint; those stay texts.

use std::collections::BTreeSet;

use crate::spec::op::{Axis, AxisKind};

use super::definition::Definition;
use super::workload::Workload;

/// Constraints that `[axes]` can say, in exactly the words that `export` uses for them.
#[derive(Default)]
pub(super) struct Bounds {
    /// Axis, key and number.
    found: Vec<(String, &'static str, u64)>,
    /// Indices of the constraints that they come from.
    pub(super) taken: BTreeSet<usize>,
}

/// The keys of an axis with the words for them.
const BOUNDS: &[(&str, &str, &str)] =
    &[("multiple-of", " % ", " == 0"), ("min", " >= ", ""), ("max", " <= ", "")];

impl Bounds {
    /// Those that every workload keeps.
    pub(super) fn infer(definition: &Definition, workloads: &[Workload]) -> Self {
        let mut bounds = Self::default();
        for (place, constraint) in definition.constraints.iter().enumerate() {
            let Some((axis, key, number)) = bound(constraint) else { continue };
            let variable =
                definition.axes.iter().any(|known| known.length.is_none() && known.name.as_str() == axis);
            let lengths = workloads.iter().flat_map(|workload| &workload.axes);
            let mut lengths = lengths.filter(|(name, _)| name.as_str() == axis).map(|(_, length)| *length);
            let of = |wanted: &str| bounds.found.iter().find(|(name, key, _)| name == axis && *key == wanted);
            let empty = match key {
                "min" => of("max").is_some_and(|(_, _, max)| number > *max),
                "max" => of("min").is_some_and(|(_, _, min)| number < *min),
                _ => false,
            };
            if variable && of(key).is_none() && !empty && lengths.all(|length| allows(key, number, length)) {
                bounds.found.push((axis.to_owned(), key, number));
                bounds.taken.insert(place);
            }
        }
        bounds
    }

    /// Keys of a variable axis, each after a comma.
    pub(super) fn keys(&self, axis: &str) -> String {
        let keys = BOUNDS.iter().map(|(key, ..)| key).filter_map(|key| {
            let (.., number) = self.found.iter().find(|(name, found, _)| name == axis && found == key)?;
            Some(format!(", {key} = {number}"))
        });
        keys.collect()
    }
}

fn bound(constraint: &str) -> Option<(&str, &'static str, u64)> {
    BOUNDS.iter().find_map(|(key, middle, end)| {
        let (axis, number) = constraint.strip_suffix(end)?.split_once(middle)?;
        let value: u64 = number.parse().ok()?;
        let plain = value.to_string() == number && i64::try_from(value).is_ok();
        // A multiple of one is what every length is, and op.toml does not say it.
        (plain && (*key != "multiple-of" || value > 1)).then_some((axis, *key, value))
    })
}

fn allows(key: &str, number: u64, length: u64) -> bool {
    match key {
        "multiple-of" => length.is_multiple_of(number),
        "min" => length >= number,
        _ => length <= number,
    }
}

/// The constraints that say what an axis allows.
pub(super) fn constraints(axis: &Axis) -> impl Iterator<Item = String> {
    let numbers = match axis.kind {
        AxisKind::Const(_) => [None; 3],
        AxisKind::Var { multiple_of, min, max } => [(multiple_of > 1).then_some(multiple_of), min, max],
    };
    let words = BOUNDS.iter().zip(numbers);
    words
        .filter_map(|((_, middle, end), number)| Some(format!("{}{middle}{}{end}", axis.name.value, number?)))
}
