//! Which variant of a folder the stock client takes.
//!
//! Owns: the client's rules for one environment, and its order among what is left.
//! Never: looks at the environment of this machine.
//!
//! Source: huggingface/kernels 0.17.2, `variants.py`; a test compares both.

use std::fmt;
use std::str::FromStr;

use crate::units::{BackendId, UnitError, Version};

use super::{Abi, Compiled, Cpu, Framework, Noarch, Os, Tag, Toolkit, Torch, Variant};

/// Metal kernels are built for this macOS and later ones.
const METAL_NEEDS_MACOS: Version = Version::new(26, 0);

/// What the client sees of the process that it runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Environment {
    /// torch, if it is installed.
    pub torch: Option<Version>,
    /// tvm-ffi, if it is installed.
    pub tvm_ffi: Option<Version>,
    /// What torch was built for, whatever device there is; else the backend that is asked for.
    pub toolkit: Toolkit,
    /// The processor.
    pub cpu: Cpu,
    /// The operating system.
    pub os: Os,
    /// The version of macOS, on macOS.
    pub macos: Option<Version>,
    /// Whether Python is free-threaded and older than 3.15, where compiled kernels do not load.
    pub free_threaded: bool,
}

/// The variants of a folder as the client sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranking {
    /// Those that load, best first. The client takes the first.
    pub accepted: Vec<Variant>,
    /// Those that do not, each with the reason, in the given order.
    pub rejected: Vec<(Variant, Unfit)>,
}

/// Why a variant does not load in an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// Compiled code, and a Python that it cannot be loaded into.
    FreeThreaded,
    /// Another processor or system.
    Machine,
    /// Another torch, or none.
    Torch(Option<Version>),
    /// The tag names another C++ ABI than torch's.
    Tag,
    /// Another tvm-ffi, or none.
    TvmFfi(Option<Version>),
    /// Another backend, another major version of CUDA, a newer minor version, or another version at all.
    Toolkit(Toolkit),
    /// Metal on a macOS that is too old.
    Macos,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_none =
            |version: &Option<Version>| version.map_or("none".to_owned(), |version| version.to_string());
        match self {
            Self::FreeThreaded => {
                f.write_str("compiled code does not load into a free-threaded Python before 3.15")
            }
            Self::Machine => f.write_str("built for another machine"),
            Self::Torch(version) => write!(f, "torch is {}", or_none(version)),
            Self::Tag => f.write_str("torch has another C++ ABI"),
            Self::TvmFfi(version) => write!(f, "tvm-ffi is {}", or_none(version)),
            Self::Toolkit(toolkit) => write!(f, "the client has {toolkit}"),
            Self::Macos => write!(f, "Metal kernels need macOS {METAL_NEEDS_MACOS} or later"),
        }
    }
}

/// Sorts `variants` as the client does. Among equals the given order stays, as it does there.
pub fn rank(variants: &[Variant], environment: &Environment) -> Ranking {
    let mut ranking = Ranking { accepted: Vec::new(), rejected: Vec::new() };
    for variant in variants {
        match unfit(variant, environment) {
            None => ranking.accepted.push(*variant),
            Some(reason) => ranking.rejected.push((*variant, reason)),
        }
    }
    ranking.accepted.sort_by_key(order);
    ranking
}

/// What is smaller is better: the class, then what orders within it.
///
/// tvm-ffi shares its class with Python alone, so the two tie where the toolkit's minor version is 0 or absent; the
/// client's folder listing decides then.
fn order(variant: &Variant) -> (u8, [i64; 3]) {
    let Compiled { framework, toolkit, .. } = match variant {
        Variant::Compiled(compiled) => compiled,
        Variant::Noarch(Noarch::For(_)) => return (2, [0, 0, 0]),
        Variant::Noarch(Noarch::Universal) => return (2, [0, 0, 1]),
    };
    let minor = toolkit.version().map_or(0, |version| -i64::from(version.minor));
    match framework {
        Framework::Torch(Torch { version, abi: Abi::Stable }) => {
            (0, [-i64::from(version.major), -i64::from(version.minor), minor])
        }
        Framework::Torch(Torch { abi: Abi::Full(tag), .. }) => (1, [0, i64::from(*tag != Tag::None), minor]),
        Framework::TvmFfi(_) => (2, [0, 0, minor]),
    }
}

fn unfit(variant: &Variant, environment: &Environment) -> Option<Unfit> {
    let own = environment.toolkit;
    let compiled = match variant {
        Variant::Compiled(compiled) => compiled,
        Variant::Noarch(Noarch::Universal) => return None,
        Variant::Noarch(Noarch::For(backend)) => {
            return (*backend != own.id()).then_some(Unfit::Toolkit(own));
        }
    };
    if environment.free_threaded {
        return Some(Unfit::FreeThreaded);
    }
    if (compiled.cpu, compiled.os) != (environment.cpu, environment.os) {
        return Some(Unfit::Machine);
    }
    unfit_framework(compiled.framework, environment).or_else(|| unfit_toolkit(compiled.toolkit, environment))
}

fn unfit_framework(framework: Framework, environment: &Environment) -> Option<Unfit> {
    let there = environment.torch;
    match framework {
        Framework::Torch(Torch { version, abi: Abi::Stable }) => {
            there.is_none_or(|there| version > there).then_some(Unfit::Torch(there))
        }
        Framework::Torch(Torch { version, abi: Abi::Full(tag) }) => {
            if there != Some(version) {
                return Some(Unfit::Torch(there));
            }
            // Every torch for Linux has the new strings; elsewhere the client knows of no tag that would fit.
            let fits = tag == Tag::None || (tag == Tag::Cxx11 && environment.os == Os::Linux);
            (!fits).then_some(Unfit::Tag)
        }
        Framework::TvmFfi(version) => {
            (environment.tvm_ffi != Some(version)).then_some(Unfit::TvmFfi(environment.tvm_ffi))
        }
    }
}

fn unfit_toolkit(toolkit: Toolkit, environment: &Environment) -> Option<Unfit> {
    let own = environment.toolkit;
    match (toolkit, own) {
        (Toolkit::Cuda(built), Toolkit::Cuda(there)) => {
            let loads = built.major == there.major && built.minor <= there.minor;
            (!loads).then_some(Unfit::Toolkit(own))
        }
        _ if toolkit != own => Some(Unfit::Toolkit(own)),
        (Toolkit::Metal, _) => {
            environment.macos.is_none_or(|macos| macos < METAL_NEEDS_MACOS).then_some(Unfit::Macos)
        }
        _ => None,
    }
}

/// How an environment is written: `torch=2.12,cuda=13.2`; see [`Environment::from_str`].
const WANT: &str = "write it as in torch=2.12,cuda=13.2 or torch=2.11,cpu,arch=aarch64; the names are torch, tvm-ffi, \
                    a backend, arch, os, macos and free-threaded";

impl FromStr for Environment {
    type Err = UnitError;

    /// Reads `name` and `name=value` between commas. Without a backend it is cpu, without a machine x86_64 and linux;
    /// metal means macOS on arm.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let mut environment = Self {
            torch: None,
            tvm_ffi: None,
            toolkit: Toolkit::Cpu,
            cpu: Cpu::X86_64,
            os: Os::Linux,
            macos: None,
            free_threaded: false,
        };
        let mut seen = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (name, value) =
                part.split_once('=').map_or((part, None), |(name, value)| (name, Some(value)));
            let known = environment.set(name.trim(), value.map(str::trim))?;
            // A process has one backend, so any two of them are the same part.
            let key = name.trim().parse::<BackendId>().map_or(name.trim(), |_| "backend");
            if seen.contains(&key) {
                return Err(UnitError {
                    text: text.to_owned(),
                    kind: "one environment",
                    want: format!("it has more than one {key}; keep one of them"),
                });
            }
            seen.push(key);
            known.ok_or_else(|| UnitError {
                text: part.to_owned(),
                kind: "a part of an environment",
                want: WANT.to_owned(),
            })?;
        }
        Ok(environment)
    }
}

impl Environment {
    /// Applies one part; `None`: there is no such part.
    fn set(&mut self, name: &str, value: Option<&str>) -> Result<Option<()>, UnitError> {
        match (name, value) {
            ("torch", Some(value)) => self.torch = Some(value.parse()?),
            ("tvm-ffi", Some(value)) => self.tvm_ffi = Some(value.parse()?),
            ("arch", Some(value)) => self.cpu = value.parse()?,
            ("os", Some(value)) => self.os = value.parse()?,
            ("macos", Some(value)) => {
                self.macos = Some(value.parse()?);
                self.os = Os::Darwin;
            }
            ("free-threaded", None) => self.free_threaded = true,
            _ => {
                let Ok(backend) = name.parse::<BackendId>() else { return Ok(None) };
                let version = value.map(str::parse).transpose()?;
                let Some(toolkit) = Toolkit::new(backend, version) else { return Ok(None) };
                self.toolkit = toolkit;
                if backend == BackendId::Metal {
                    (self.cpu, self.os) = (Cpu::Aarch64, Os::Darwin);
                }
            }
        }
        Ok(Some(()))
    }
}
