//! torch's stable ABI: which C functions of torch an extension for every torch from one release on may use.
//!
//! Owns: the names, with the release that each came in with. Never: reads a library; judges C++ names (`undefined` knows
//! their namespaces).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use kernel_plan::units::Version;

use super::abi_names::first_versions;
use super::findings::first_few;

/// A comment, then `2.10:` before the names of each release; its header says where they are from.
const NAMES: &str = include_str!("../../resources/torch-stable-abi.txt");

/// How torch's names of C begin.
const PREFIXES: &[&str] = &["aoti_torch_", "torch_"];

/// Accelerators whose functions are in no library that the list was read from.
const ELSEWHERE: &[&str] = &["xpu", "mps", "mtia", "hip"];

static SINCE: LazyLock<BTreeMap<&str, Version>> = LazyLock::new(|| first_versions(NAMES));

/// What is wrong with the names of C that a library for torch `floor` and newer takes from torch, a sentence each.
pub(crate) fn complaints(undefined: &BTreeSet<String>, floor: Version) -> Vec<String> {
    let (mut outside, mut newer) = (Vec::new(), Vec::new());
    for name in undefined.iter().filter(|name| PREFIXES.iter().any(|prefix| name.starts_with(prefix))) {
        match SINCE.get(name.as_str()) {
            Some(since) if *since > floor => newer.push(format!("`{name}` (of torch {since})")),
            Some(_) => {}
            None if name.split('_').any(|word| ELSEWHERE.contains(&word)) => {}
            None => outside.push(format!("`{name}`")),
        }
    }
    let mut wrong = Vec::new();
    if !outside.is_empty() {
        wrong.push(format!(
            "is for torch's stable ABI but uses {}, which the stable ABI of no torch up to {} has",
            first_few(&outside),
            newest()
        ));
    }
    if !newer.is_empty() {
        wrong.push(format!(
            "is for torch {floor} and newer but uses {}; raise `stable-abi` in build.toml, or compile with \
             TORCH_TARGET_VERSION of {floor}, which hides what came later",
            first_few(&newer)
        ));
    }
    wrong
}

/// The newest release of the list.
fn newest() -> Version {
    SINCE.values().copied().max().unwrap_or(Version::new(2, 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(names: &[&str], floor: Version) -> Vec<String> {
        complaints(&names.iter().map(|name| (*name).to_owned()).collect(), floor)
    }

    #[test]
    fn the_list_is_whole() {
        assert!(SINCE.len() > 550, "{}", SINCE.len());
        for (name, since) in [
            ("aoti_torch_empty_strided", Version::new(2, 10)),
            ("torch_library_impl", Version::new(2, 10)),
            ("torch_from_blob", Version::new(2, 11)),
            ("torch_library_def_with_tags", Version::new(2, 12)),
            ("torch_device_from_pyobject", Version::new(2, 15)),
        ] {
            assert_eq!(SINCE.get(name), Some(&since), "{name}");
        }
        assert_eq!(newest(), Version::new(2, 15));
    }

    #[test]
    fn a_name_is_held_against_the_oldest_torch() {
        let names = ["torch_library_impl", "torch_from_blob", "memcpy", "_ZN2at4_ops5empty4callE"];
        assert_eq!(problems_of(&names, Version::new(2, 11)), Vec::<String>::new());
        let told = problems_of(&names, Version::new(2, 10));
        assert!(told[0].contains("`torch_from_blob` (of torch 2.11)") && told.len() == 1, "{told:?}");
    }

    #[test]
    fn a_name_of_no_release_is_told() {
        let told = problems_of(&["aoti_torch_secret", "aoti_torch_xpu_add"], Version::new(2, 15));
        assert!(
            told[0].contains("`aoti_torch_secret`, which the stable ABI of no torch") && told.len() == 1,
            "{told:?}"
        );
    }
}
