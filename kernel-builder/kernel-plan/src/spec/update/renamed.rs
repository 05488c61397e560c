//! Names that edition 5 changed.
//!
//! Owns: the names, where the new one follows from the old one. Never: invents a name.

use toml_edit::Item;

use crate::spec::dialect::quoted;
use crate::units::KernelName;

use super::layout::{Draft, entry};
use super::older::kernels;

/// Intel's CUTLASS for SYCL, before and after it was renamed.
const CUTLASS_FOR_SYCL: (&str, &str) = ("cutlass_sycl", "sycl_tla");

/// `fast_norm` is `fast-norm` in edition 5. The Python module keeps its name: it has `_` for every `-`.
pub(super) fn name(section: &Item, draft: &mut Draft<'_>) {
    let Some(old) = section.get("name").and_then(Item::as_str) else { return };
    let new = old.replace('_', "-");
    if let Some(found) = entry(section, "name")
        && old.parse::<KernelName>().is_err()
        && new.parse::<KernelName>().is_ok()
    {
        draft.replace(found.value, quoted(&new));
    }
}

/// Entries of `depends` that have another name.
pub(super) fn dependencies(root: &toml_edit::Table, draft: &mut Draft<'_>) {
    let (old, new) = CUTLASS_FOR_SYCL;
    for depends in kernels(root).filter_map(|(_, kernel)| kernel.get("depends")?.as_array()) {
        let found = depends.iter().filter(|dependency| dependency.as_str() == Some(old));
        for place in found.filter_map(toml_edit::Value::span) {
            draft.replace(place, quoted(new));
        }
    }
}
