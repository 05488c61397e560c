//! Tells which edition of the format a build.toml is of.
//!
//! Owns: the markers of each edition (huggingface/kernels, kernels-data/src/config: v1.rs to v5.rs).
//! Never: reports a problem; the parser does, and `update` acts on the answer.

use std::fmt;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// An edition of build.toml. Editions 1 to 4 have no `edition` key and are told apart by what they have and lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edition {
    /// `torch.universal`, and kernels with a `language` (or none) in place of a `backend`; no list of backends.
    One,
    /// `general.universal`, `general.cuda-minver`, `general.cuda-maxver`; kernels have a `backend`.
    Two,
    /// `general.backends` is there; a version, a license or the section of a framework may be missing.
    Three,
    /// As edition 5, without its newest keys.
    Four,
    /// `edition = 5`: what this version reads.
    Five,
    /// A number above 5.
    Newer(u64),
}

impl Edition {
    /// The edition with this number; nothing has number 0.
    const fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => None,
            1 => Some(Self::One),
            2 => Some(Self::Two),
            3 => Some(Self::Three),
            4 => Some(Self::Four),
            5 => Some(Self::Five),
            newer => Some(Self::Newer(newer)),
        }
    }

    /// Its number.
    pub const fn number(self) -> u64 {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Three => 3,
            Self::Four => 4,
            Self::Five => 5,
            Self::Newer(number) => number,
        }
    }
}

impl fmt::Display for Edition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "edition {}", self.number())
    }
}

/// The edition of the text of a build.toml. `None`: it is not TOML, or its `edition` is no positive integer.
///
/// A file that is sound in no edition is called what it comes closest to; reading it says what is wrong.
pub fn edition(text: &str) -> Option<Edition> {
    let root = DeTable::parse(text).ok()?;
    find(root.get_ref()).map(|found| found.edition)
}

/// An edition, and what in the file gives it away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DetectedEdition {
    /// The edition.
    pub(crate) edition: Edition,
    /// The place of the marker in the file.
    pub(crate) place: Range<usize>,
    /// What is to be seen there.
    pub(crate) marker: String,
}

/// Looks for the markers of the editions, from the clearest to the faintest.
pub(crate) fn find(root: &DeTable<'_>) -> Option<DetectedEdition> {
    let found =
        |edition, place, marker: &str| Some(DetectedEdition { edition, place, marker: marker.to_owned() });
    let header = key_span(root, "general").unwrap_or(0..0);
    let general = table(root, "general");
    if let Some(written) = general.and_then(|general| general.get("edition")) {
        let integer = written.get_ref().as_integer()?;
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok()?;
        return found(Edition::from_number(number)?, written.span(), "its edition");
    }
    let torch = table(root, "torch");
    let sections = table(root, "kernel").into_iter().flat_map(|kernels| kernels.iter());
    let kernels: Vec<_> =
        sections.filter_map(|(name, kernel)| Some((name, kernel.get_ref().as_table()?))).collect();

    if let Some(place) = torch.and_then(|torch| key_span(torch, "universal")) {
        return found(Edition::One, place, "a key of edition 1");
    }
    if let Some(place) = kernels.iter().find_map(|(_, kernel)| key_span(kernel, "language")) {
        return found(Edition::One, place, "a key of edition 1");
    }
    for key in ["universal", "cuda-minver", "cuda-maxver"] {
        if let Some(place) = general.and_then(|general| key_span(general, key)) {
            return found(Edition::Two, place, "a key of edition 2");
        }
    }
    let has = |key| general.is_some_and(|general| general.contains_key(key));
    let is_bare = general.is_some() && !["backends", "version", "license"].into_iter().any(has);
    if is_bare {
        // Both have a name and nothing else in [general]; only edition 1 has kernels without a backend.
        if let Some((name, _)) = kernels.iter().find(|(_, kernel)| !kernel.contains_key("backend")) {
            return found(Edition::One, name.span(), "no `backend`, as in edition 1");
        }
        if !kernels.is_empty() || torch.is_some() {
            return found(Edition::Two, header, "no `backends`, as in edition 2");
        }
    }
    if has("backends") && newest_key(root).is_none() {
        let lacks = ["version", "license"].into_iter().find(|key| !has(key));
        if let Some(key) = lacks {
            return found(Edition::Three, header, &format!("no `edition` and no `{key}`, as in edition 3"));
        }
        if !["torch", "torch-noarch", "tvm-ffi"].into_iter().any(|key| root.contains_key(key)) {
            return found(Edition::Three, header, "no `edition` and no framework, as in edition 3");
        }
    }
    found(Edition::Four, header, "no `edition`, as in edition 4")
}

/// A key that only edition 5 has, with its place: a file with it lacks `edition = 5` by mistake.
pub(crate) fn newest_key(root: &DeTable<'_>) -> Option<(&'static str, Range<usize>)> {
    let general = table(root, "general");
    let sections = ["cuda", "neuron", "xpu"].map(|section| table(general?, section));
    let depends = [general].into_iter().chain(sections).flatten();
    let depends = depends.filter_map(|table| Some(("kernel-depends", key_span(table, "kernel-depends")?)));
    let tpu = general.and_then(|general| Some(("tpu", key_span(general, "tpu")?)));
    let stable = table(root, "torch").and_then(|torch| {
        torch.get("stable-abi").filter(|value| value.get_ref().is_table())?;
        Some(("stable-abi", key_span(torch, "stable-abi")?))
    });
    depends.chain(tpu).chain(stable).min_by_key(|(_, place)| place.start)
}

fn table<'a>(parent: &'a DeTable<'a>, key: &str) -> Option<&'a DeTable<'a>> {
    parent.get(key).and_then(|value| match value.get_ref() {
        DeValue::Table(table) => Some(table),
        _ => None,
    })
}

fn key_span(table: &DeTable<'_>, key: &str) -> Option<Range<usize>> {
    table.get_key_value(key).map(|(key, _)| key.span())
}

#[cfg(test)]
mod tests {
    use super::{Edition, edition, newest_key};
    use toml::de::DeTable;

    #[track_caller]
    fn check(want: Option<Edition>, texts: &[&str]) {
        for text in texts {
            assert_eq!(edition(text), want, "{text}");
        }
    }

    const SOUND: &str = "name = 'ab'\nversion = 1\nlicense = 'MIT'\nbackends = ['cuda']";

    #[test]
    fn a_number_decides() {
        check(Some(Edition::Five), &["general.edition = 5", "general = { edition = 0x5, universal = true }"]);
        check(Some(Edition::Four), &["general.edition = 4"]);
        check(Some(Edition::Newer(6)), &["general.edition = 6"]);
        check(
            None,
            &["general.edition = 0", "general.edition = -1", "general.edition = '5'", "general.edition = 5."],
        );
        check(None, &["general.edition = 5.0", "general = {"]);
    }

    #[test]
    fn without_a_number_the_markers_do() {
        let full = |rest: &str| format!("[general]\n{SOUND}\n{rest}");
        let one = [
            full("[torch]\nuniversal = true"),
            full("[torch]\n[kernel.a]\nlanguage = 'cuda-hipify'"),
            "[general]\nname = 'ab'\n[torch]\n[kernel.a]\nsrc = []".to_owned(),
        ];
        check(Some(Edition::One), &one.each_ref().map(String::as_str));
        let two = [
            full("universal = true\n[torch]"),
            full("cuda-minver = '12.4'\n[torch]"),
            "[general]\nname = 'ab'\n[torch]\n[kernel.a]\nbackend = 'cuda'".to_owned(),
        ];
        check(Some(Edition::Two), &two.each_ref().map(String::as_str));
        let three = [
            full(""),
            full("[torch]").replace("version = 1\n", ""),
            full("[torch]").replace("license = 'MIT'\n", ""),
        ];
        check(Some(Edition::Three), &three.each_ref().map(String::as_str));
        let four = [full("[torch]"), full("[torch-noarch]"), full("[tvm-ffi]\nsrc = []")];
        check(Some(Edition::Four), &four.each_ref().map(String::as_str));
    }

    #[test]
    fn what_is_broken_is_taken_for_the_nearest() {
        check(Some(Edition::Four), &["", "[torch]", "general = 1", "[general]\nversion = 1\n[torch]"]);
        check(Some(Edition::Four), &["[general]\nbackends = []\nkernel-depends = []"]);
    }

    #[test]
    fn keys_of_edition_5_are_found_in_file_order() {
        let find = |text: &str| {
            let root = DeTable::parse(text).expect("TOML");
            newest_key(root.get_ref()).map(|(key, place)| (key, place.start))
        };
        assert_eq!(find("[general]\ntpu = {}\nkernel-depends = []"), Some(("tpu", 10)));
        assert_eq!(find("[general.xpu]\nkernel-depends = []"), Some(("kernel-depends", 14)));
        assert_eq!(find("[torch]\nstable-abi = { cuda = '2.11' }"), Some(("stable-abi", 8)));
        assert_eq!(find("[torch]\nstable-abi = '2.11'"), None);
    }
}
