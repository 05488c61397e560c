//! Selectors: expressions over the rows of the matrix, as in `torch>=2.11 and cuda:13.*`.
//!
//! Owns: what an expression means, and printing it. Reading it is `parse`.
//! Never: knows a project; `select` does.

use std::fmt;
use std::ops::Range;

use crate::units::{BackendId, Version};

use super::{AbiName, Cpu, Framework, Os, Provider, Row, Toolkit, Torch, Variant};

mod parse;

/// An expression over rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// One question.
    Atom(Atom),
    /// The opposite.
    Not(Box<Selector>),
    /// All of them; two or more.
    And(Vec<Selector>),
    /// Any of them; two or more.
    Or(Vec<Selector>),
}

/// One question with its place in the text. Two atoms are equal when they ask the same.
#[derive(Debug, Clone)]
pub struct Atom {
    /// What is asked.
    pub test: Test,
    /// Bytes of the text that it was read from.
    pub span: Range<usize>,
}

impl PartialEq for Atom {
    fn eq(&self, other: &Self) -> bool {
        self.test == other.test
    }
}

impl Eq for Atom {}

/// A question about a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// `torch`, `tvm-ffi`: compiled for it, in a version.
    Framework(FrameworkName, Option<VersionTest>),
    /// `noarch`: Python alone.
    Noarch,
    /// `cuda`, `cpu`, ...: for this backend, with a version of its toolkit.
    Backend(BackendId, Option<VersionTest>),
    /// `arch:aarch64`.
    Arch(Cpu),
    /// `os:linux`.
    Os(Os),
    /// `abi:stable`.
    Abi(AbiName),
    /// `provider:wheels`: the row names this provider.
    Provider(Provider),
    /// `id:torch-*`.
    Id(Glob),
}

crate::units::named_values!(
    /// A framework that has versions.
    FrameworkName, "a framework", {
        /// PyTorch.
        Torch = "torch",
        /// Apache TVM's foreign function interface.
        TvmFfi = "tvm-ffi",
    }
);

/// A comparison with a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionTest {
    /// `:2.11`
    Is(Version),
    /// `:2.*`
    Major(u32),
    /// `>=2.11`
    AtLeast(Version),
    /// `<=2.11`
    AtMost(Version),
    /// `>2.11`
    Above(Version),
    /// `<2.11`
    Below(Version),
}

/// A pattern for ids: `*` is any text, `?` any one character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(String);

impl Selector {
    /// Whether a row is selected.
    pub fn matches(&self, row: &Row) -> bool {
        match self {
            Self::Atom(atom) => atom.test.matches(row),
            Self::Not(inner) => !inner.matches(row),
            Self::And(parts) => parts.iter().all(|part| part.matches(row)),
            Self::Or(parts) => parts.iter().any(|part| part.matches(row)),
        }
    }

    /// The questions, in the order of the text.
    pub fn atoms(&self) -> Vec<&Atom> {
        match self {
            Self::Atom(atom) => vec![atom],
            Self::Not(inner) => inner.atoms(),
            Self::And(parts) | Self::Or(parts) => parts.iter().flat_map(Self::atoms).collect(),
        }
    }
}

impl Test {
    fn matches(&self, row: &Row) -> bool {
        let variant = &row.variant.value;
        let compiled = variant.compiled();
        match self {
            Self::Framework(name, version) => {
                let found = compiled.map(|compiled| match compiled.framework {
                    Framework::Torch(Torch { version, .. }) => (FrameworkName::Torch, version),
                    Framework::TvmFfi(version) => (FrameworkName::TvmFfi, version),
                });
                found.is_some_and(|(found, of)| {
                    found == *name && version.is_none_or(|version| version.matches(of))
                })
            }
            Self::Noarch => compiled.is_none(),
            Self::Backend(backend, version) => {
                let of = variant.toolkit().and_then(Toolkit::version);
                variant.backend() == Some(*backend)
                    && version.is_none_or(|version| of.is_some_and(|of| version.matches(of)))
            }
            Self::Arch(cpu) => compiled.is_some_and(|compiled| compiled.cpu == *cpu),
            Self::Os(os) => compiled.is_some_and(|compiled| compiled.os == *os),
            Self::Abi(name) => compiled
                .and_then(|compiled| Some((compiled.torch()?, compiled.os)))
                .is_some_and(|(torch, os)| torch.abi == name.abi(os)),
            Self::Provider(provider) => row.providers.contains(provider),
            Self::Id(glob) => glob.matches(variant),
        }
    }
}

impl VersionTest {
    fn matches(self, of: Version) -> bool {
        match self {
            Self::Is(version) => of == version,
            Self::Major(major) => of.major == major,
            Self::AtLeast(version) => of >= version,
            Self::AtMost(version) => of <= version,
            Self::Above(version) => of > version,
            Self::Below(version) => of < version,
        }
    }
}

impl Glob {
    fn matches(&self, variant: &Variant) -> bool {
        let (pattern, text) = (self.0.as_bytes(), variant.id());
        let text = text.as_str().as_bytes();
        // On a mismatch the last `*` takes one character more: no recursion, so no text takes long.
        let (mut at, mut seen, mut star) = (0, 0, None);
        while seen < text.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, seen));
                    at += 1;
                }
                Some(&byte) if byte == b'?' || byte == text[seen] => {
                    at += 1;
                    seen += 1;
                }
                _ => {
                    let Some((place, taken)) = star else { return false };
                    star = Some((place, taken + 1));
                    at = place + 1;
                    seen = taken + 1;
                }
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |f: &mut fmt::Formatter<'_>, parts: &[Self], word: &str| {
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    write!(f, " {word} ")?;
                }
                // `and` binds tighter than `or`; a list in a list of the same kind was written with parentheses.
                match part {
                    Self::Or(_) => write!(f, "({part})")?,
                    Self::And(_) if word == "and" => write!(f, "({part})")?,
                    _ => write!(f, "{part}")?,
                }
            }
            Ok(())
        };
        match self {
            Self::Atom(atom) => write!(f, "{}", atom.test),
            Self::Not(inner) => match **inner {
                Self::And(_) | Self::Or(_) => write!(f, "not ({inner})"),
                Self::Atom(_) | Self::Not(_) => write!(f, "not {inner}"),
            },
            Self::And(parts) => joined(f, parts, "and"),
            Self::Or(parts) => joined(f, parts, "or"),
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versioned = |f: &mut fmt::Formatter<'_>, name: &str, version: &Option<VersionTest>| {
            f.write_str(name)?;
            version.iter().try_for_each(|version| write!(f, "{version}"))
        };
        match self {
            Self::Framework(name, version) => versioned(f, name.as_str(), version),
            Self::Noarch => f.write_str("noarch"),
            Self::Backend(backend, version) => versioned(f, backend.as_str(), version),
            Self::Arch(cpu) => write!(f, "arch:{cpu}"),
            Self::Os(os) => write!(f, "os:{os}"),
            Self::Abi(abi) => write!(f, "abi:{abi}"),
            Self::Provider(provider) => write!(f, "provider:{provider}"),
            Self::Id(glob) => write!(f, "id:{}", glob.0),
        }
    }
}

impl fmt::Display for VersionTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(version) => write!(f, ":{version}"),
            Self::Major(major) => write!(f, ":{major}.*"),
            Self::AtLeast(version) => write!(f, ">={version}"),
            Self::AtMost(version) => write!(f, "<={version}"),
            Self::Above(version) => write!(f, ">{version}"),
            Self::Below(version) => write!(f, "<{version}"),
        }
    }
}
