//! The small values that specifications are made of: names, versions, capabilities, paths.
//!
//! Owns: their grammars, each parsed once and printed back unchanged, but for a path, which has one form.
//! Never: knows which file a value came from, or which values go together.

use std::fmt;
use std::str::FromStr;

mod dtype;

pub use dtype::Dtype;

/// A text that is not a value of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {kind}; {want}")]
pub struct UnitError {
    /// What was written.
    pub text: String,
    /// What it should have been, with its article, as in "a CUDA capability".
    pub kind: &'static str,
    /// How to write one.
    pub want: String,
}

fn unit_error(text: &str, kind: &'static str, want: impl Into<String>) -> UnitError {
    UnitError { text: text.to_owned(), kind, want: want.into() }
}

macro_rules! serialize_as_string {
    ($($name:ident),* $(,)?) => { $(
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )* };
}

pub(crate) use serialize_as_string;

/// Declares a checked text: the type, `parse`, `as_str` and `Display`.
macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $want:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The text as it was written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = UnitError;
            fn from_str(text: &str) -> Result<Self, UnitError> {
                let check: fn(&str) -> bool = $check;
                if check(text) { Ok(Self(text.to_owned())) } else { Err(unit_error(text, $kind, $want)) }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        serialize_as_string!($name);
    };
}

checked_text!(
    /// `general.name` of build.toml: `^[a-z][-a-z0-9]*[a-z0-9]$`.
    KernelName,
    "a kernel name",
    "use lower-case letters, digits and `-`, at least two, starting with a letter and not ending in `-`",
    |text| {
        text.len() >= 2
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && !text.ends_with('-')
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    }
);

impl KernelName {
    /// The name of the Python package: `fast-norm` is imported as `fast_norm`.
    pub fn module(&self) -> String {
        self.0.replace('-', "_")
    }
}

checked_text!(
    /// The `NAME` of a `[kernel.NAME]` section: letters, digits, `-` and `_`. It becomes part of file names.
    SectionName,
    "a name for a kernel section",
    "use letters, digits, `-` and `_`, not starting with `-`",
    |text| {
        text.starts_with(|first: char| first != '-')
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    }
);

checked_text!(
    /// The `NAME` of a `[workload.NAME]` section: lower-case letters, digits, `-`, `_` and `.`.
    WorkloadName,
    "a workload name",
    "use lower-case letters, digits, `-`, `_` and `.`, starting with a letter or a digit",
    |text| {
        text.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
            && text.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.')
            })
    }
);

checked_text!(
    /// An ASCII Python identifier that is no keyword: a function, an argument, an axis, a type variable.
    PythonName,
    "a Python name",
    "use letters, digits and `_`, not starting with a digit, and no Python keyword",
    |text| {
        text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !PYTHON_KEYWORDS.contains(&text)
    }
);

/// The reserved words of Python 3.
const PYTHON_KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// A path inside the kernel project: relative, `/` between the parts, no `..`. Parts that say nothing (`./a`, `a/`, `a//b`)
/// are left out, so that one file has one path. A single `.` is the project's folder itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(String);

serialize_as_string!(RelPath);

impl FromStr for RelPath {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let outside = text.starts_with('/') || text.split('/').any(|part| part == "..");
        if text.is_empty() || outside || text.contains(['\\', ':', '\0']) {
            let want = "write it relative to the project folder, with `/` only between the parts, and no \
                        `..` or `\\`";
            return Err(unit_error(text, "a path inside the project", want));
        }
        let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        Ok(Self(if parts.is_empty() { ".".to_owned() } else { parts.join("/") }))
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl RelPath {
    /// The path, without parts that say nothing.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last part of the path.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// What follows the last dot of the file name, without the dot.
    pub fn extension(&self) -> Option<&str> {
        self.file_name().rsplit_once('.').map(|(_, extension)| extension)
    }

    /// Whether this path lies under `folder`.
    pub fn is_under(&self, folder: &RelPath) -> bool {
        folder.0 == "." || self.0.strip_prefix(&folder.0).is_some_and(|rest| rest.starts_with('/'))
    }
}

checked_text!(
    /// The name of a build variant, such as `torch-stable-abi211-cu130-x86_64-linux`; also a folder of the hub.
    VariantId,
    "a variant id",
    "use lower-case letters, digits, `-` and `_`",
    |text| {
        !text.is_empty()
            && text.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_'
            })
    }
);

/// Declares an enum whose values have fixed names: `ALL`, `as_str`, `parse` and `Display`.
macro_rules! named_values {
    ($(#[$doc:meta])* $name:ident, $kind:literal, { $($(#[$value_doc:meta])* $value:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$value_doc])* $value),* }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &[Self] = &[$(Self::$value),*];

            /// The name that specifications use.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$value => $text),* }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::units::UnitError;
            fn from_str(text: &str) -> Result<Self, $crate::units::UnitError> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text).ok_or_else(|| {
                    let names: Vec<_> = Self::ALL.iter().map(|value| value.as_str()).collect();
                    $crate::units::UnitError {
                        text: text.to_owned(),
                        kind: $kind,
                        want: format!("valid values: {}", names.join(", ")),
                    }
                })
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        $crate::units::serialize_as_string!($name);
    };
}

pub(crate) use named_values;

mod hub;
mod rocm;

pub use hub::{FileExtension, GitRef, GitUrl, License, PythonDependency, RepoId};
pub use rocm::RocmArch;

named_values!(
    /// What runs the device code, as build.toml names it.
    BackendId, "a backend", {
        /// Huawei Ascend.
        Cann = "cann",
        /// The host processor.
        Cpu = "cpu",
        /// NVIDIA GPUs.
        Cuda = "cuda",
        /// Apple GPUs.
        Metal = "metal",
        /// AWS Trainium and Inferentia.
        Neuron = "neuron",
        /// AMD GPUs.
        Rocm = "rocm",
        /// Google TPUs.
        Tpu = "tpu",
        /// Intel GPUs.
        Xpu = "xpu",
    }
);

/// A version of torch or of a toolkit, in exactly two parts: `2.11`, `13.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Before the dot.
    pub major: u32,
    /// After the dot.
    pub minor: u32,
}

impl Version {
    /// The version `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Both parts without the dot, as variant ids have them: `211`, `130`.
    pub fn digits(self) -> String {
        format!("{}{}", self.major, self.minor)
    }
}

impl FromStr for Version {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        two_numbers(text)
            .map(|(major, minor)| Self { major, minor })
            .ok_or_else(|| unit_error(text, "a version", "write exactly two parts, as in \"2.11\""))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// What an architecture name promises beyond its number (CUDA C++ programming guide, compute capabilities).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapabilitySuffix {
    /// Runs on this architecture and later ones of its major version.
    None,
    /// `a`: architecture-specific features; runs on this one alone.
    A,
    /// `f`: family-specific features.
    F,
}

impl CapabilitySuffix {
    /// The letter, or nothing.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::A => "a",
            Self::F => "f",
        }
    }
}

/// One entry of `cuda-capabilities`: `8.0`, `9.0a`, `10.0f`, `12.0+PTX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability {
    /// Before the dot.
    pub major: u32,
    /// After the dot, one digit.
    pub minor: u32,
    /// `a`, `f` or nothing.
    pub suffix: CapabilitySuffix,
    /// Whether PTX is kept beside the machine code, for GPUs that do not exist yet.
    pub ptx: bool,
}

impl Capability {
    /// What `compute_` and `sm_` are followed by: `80`, `90a`.
    pub fn digits(self) -> String {
        format!("{}{}{}", self.major, self.minor, self.suffix.as_str())
    }

    /// As build.toml writes it, without `+PTX`: `8.0`, `9.0a`.
    pub fn number(self) -> String {
        format!("{}.{}{}", self.major, self.minor, self.suffix.as_str())
    }
}

impl FromStr for Capability {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, ptx) = text.strip_suffix("+PTX").map_or((text, false), |number| (number, true));
        let (number, suffix) = match (number.strip_suffix('a'), number.strip_suffix('f')) {
            (Some(number), _) => (number, CapabilitySuffix::A),
            (_, Some(number)) => (number, CapabilitySuffix::F),
            _ => (number, CapabilitySuffix::None),
        };
        two_numbers(number)
            .filter(|&(_, minor)| minor < 10)
            .map(|(major, minor)| Self { major, minor, suffix, ptx })
            .ok_or_else(|| {
                unit_error(
                    text,
                    "a CUDA capability",
                    "write it as in \"9.0\", \"9.0a\", \"10.0f\" or \"12.0+PTX\"",
                )
            })
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.number())?;
        f.write_str(if self.ptx { "+PTX" } else { "" })
    }
}

serialize_as_string!(Version, Capability);

/// `major.minor`, both decimal without sign or needless zeros, so that printing gives the text back.
fn two_numbers(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((plain_number(major)?, plain_number(minor)?))
}

/// A decimal number of at most four digits, without sign or leading zero.
pub(crate) fn plain_number(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain && text.len() <= 4 { text.parse().ok() } else { None }
}
