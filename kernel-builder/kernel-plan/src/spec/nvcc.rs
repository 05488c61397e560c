//! Which releases of the CUDA toolkit compile for which compute capability.
//!
//! Owns: the table of architectures, with the first and the last release of each.
//! Never: knows which toolkits a project is built with; the matrix does.

use crate::units::{Capability, CapabilitySuffix, Version};

/// The oldest release whose compiler can be fetched; it compiles for older toolkits, too (docs/decisions/0010).
pub(crate) const FETCHED: Version = Version::new(13, 0);

/// One architecture, and since when its suffixes exist.
struct Arch {
    /// Major and minor number.
    number: (u32, u32),
    /// The first release that compiles for it.
    first: Version,
    /// The last one; absent while every newer release does.
    last: Option<Version>,
    /// The first release with the architecture-specific form, `a`.
    specific: Option<Version>,
    /// The first release with the family-specific form, `f`.
    family: Option<Version>,
}

/// Source: the release history of the PTX ISA for the first releases, and the release notes of CUDA 12.0 and 13.0 for
/// the last. Compared with what `ptxas --help` of 11.7, 11.8, 12.1 to 12.9 and 13.0 to 13.5 lists; the assembler of
/// 13 still lists 7.0, for which its compiler generates no code any more.
const ARCHS: &[Arch] = &[
    arch((3, 5), (5, 0)).until((11, 8)),
    arch((3, 7), (6, 5)).until((11, 8)),
    arch((5, 0), (6, 0)).until((12, 9)),
    arch((5, 2), (6, 5)).until((12, 9)),
    arch((5, 3), (7, 0)).until((12, 9)),
    arch((6, 0), (8, 0)).until((12, 9)),
    arch((6, 1), (8, 0)).until((12, 9)),
    arch((6, 2), (8, 0)).until((12, 9)),
    arch((7, 0), (9, 0)).until((12, 9)),
    arch((7, 2), (9, 1)).until((12, 9)),
    arch((7, 5), (10, 0)),
    arch((8, 0), (11, 0)),
    arch((8, 6), (11, 1)),
    arch((8, 7), (11, 4)),
    arch((8, 8), (13, 0)),
    arch((8, 9), (11, 8)),
    arch((9, 0), (11, 8)).specific((12, 0)),
    arch((10, 0), (12, 8)).specific((12, 8)).family((12, 9)),
    arch((10, 1), (12, 8)).specific((12, 8)).family((12, 9)).until((12, 9)),
    arch((10, 3), (12, 9)).specific((12, 9)).family((12, 9)),
    arch((10, 7), (13, 4)).specific((13, 4)).family((13, 4)),
    arch((11, 0), (13, 0)).specific((13, 0)).family((13, 0)),
    arch((12, 0), (12, 8)).specific((12, 8)).family((12, 9)),
    arch((12, 1), (12, 9)).specific((12, 9)).family((12, 9)),
];

const fn arch(number: (u32, u32), first: (u32, u32)) -> Arch {
    Arch { number, first: Version::new(first.0, first.1), last: None, specific: None, family: None }
}

impl Arch {
    const fn until(mut self, last: (u32, u32)) -> Self {
        self.last = Some(Version::new(last.0, last.1));
        self
    }

    const fn specific(mut self, first: (u32, u32)) -> Self {
        self.specific = Some(Version::new(first.0, first.1));
        self
    }

    const fn family(mut self, first: (u32, u32)) -> Self {
        self.family = Some(Version::new(first.0, first.1));
        self
    }
}

/// The releases that compile for one capability, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Releases {
    /// The first.
    pub(crate) first: Version,
    /// The last; absent while every newer release does.
    pub(crate) last: Option<Version>,
}

impl Releases {
    /// Whether `cuda` is one of them.
    pub(crate) fn contain(self, cuda: Version) -> bool {
        self.first <= cuda && self.last.is_none_or(|last| cuda <= last)
    }
}

/// What the table says about a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CapabilitySupport {
    /// Some releases compile for it.
    In(Releases),
    /// The number exists, and not with this suffix.
    NoSuffix,
    /// No release knows the number.
    Nowhere,
}

/// Looks a capability up; `+PTX` makes no difference.
pub(crate) fn releases(capability: Capability) -> CapabilitySupport {
    let Some(arch) = ARCHS.iter().find(|arch| arch.number == (capability.major, capability.minor)) else {
        return CapabilitySupport::Nowhere;
    };
    let first = match capability.suffix {
        CapabilitySuffix::None => Some(arch.first),
        CapabilitySuffix::A => arch.specific,
        CapabilitySuffix::F => arch.family,
    };
    first.map_or(CapabilitySupport::NoSuffix, |first| {
        CapabilitySupport::In(Releases { first, last: arch.last })
    })
}

/// Whether the CUDA release `cuda` compiles for a capability.
pub(crate) fn compiles(capability: Capability, cuda: Version) -> bool {
    matches!(releases(capability), CapabilitySupport::In(releases) if releases.contain(cuda))
}

/// The numbers that exist with `suffix` (with none: all of the table), as build.toml writes them.
pub(crate) fn with_suffix(suffix: CapabilitySuffix) -> impl Iterator<Item = String> {
    let has = move |arch: &&Arch| match suffix {
        CapabilitySuffix::None => true,
        CapabilitySuffix::A => arch.specific.is_some(),
        CapabilitySuffix::F => arch.family.is_some(),
    };
    ARCHS
        .iter()
        .filter(has)
        .map(move |arch| format!("{}.{}{}", arch.number.0, arch.number.1, suffix.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(capability: &str, want: &str) {
        let found = match releases(capability.parse().unwrap()) {
            CapabilitySupport::In(Releases { first, last: None }) => format!("from {first}"),
            CapabilitySupport::In(Releases { first, last: Some(last) }) => format!("{first} to {last}"),
            CapabilitySupport::NoSuffix => "no such suffix".to_owned(),
            CapabilitySupport::Nowhere => "nowhere".to_owned(),
        };
        assert_eq!(found, want, "{capability}");
    }

    #[test]
    fn both_ends_of_every_generation() {
        check("3.7", "6.5 to 11.8");
        check("7.0", "9.0 to 12.9");
        check("7.5+PTX", "from 10.0");
        check("8.0a", "no such suffix");
        check("9.0a", "from 12.0");
        check("9.0f", "no such suffix");
        check("10.0f", "from 12.9");
        check("10.1a", "12.8 to 12.9");
        check("10.3", "from 12.9");
        check("11.0", "from 13.0");
        check("12.0", "from 12.8");
        check("12.1a", "from 12.9");
        check("9.5", "nowhere");
    }

    #[test]
    fn no_arch_ends_before_it_begins() {
        for arch in ARCHS {
            let last = arch.last.unwrap_or(Version::new(99, 0));
            assert!(arch.first <= last);
            assert!(arch.specific.is_none_or(|first| arch.first <= first && first <= last));
            assert!(arch.family.is_none_or(|first| arch.first <= first && first <= last));
        }
    }
}
