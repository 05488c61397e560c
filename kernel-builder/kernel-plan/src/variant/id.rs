//! The ids of variants, in the grammar of the hub's client.
//!
//! Owns: printing an id and reading it back.
//! Never: says whether a variant exists.
//!
//! Source: huggingface/kernels 0.17.2, `variants.py` and `backends.py`.

use std::fmt;
use std::str::FromStr;

use crate::units::{BackendId, UnitError, VariantId, Version, plain_number};

use super::{Abi, Compiled, Framework, Noarch, Tag, Toolkit, Torch, Variant};

impl Variant {
    /// The name of the variant's folder.
    pub fn id(&self) -> VariantId {
        self.to_string().parse().expect("the parts of an id are lower-case letters, digits, `_` and `-`")
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Compiled(compiled) => {
                let Compiled { framework, toolkit, cpu, os } = compiled;
                format!("{}-{toolkit}-{cpu}-{os}", framework_part(framework))
            }
            Self::Noarch(Noarch::For(backend)) => format!("torch-{}", noarch_name(*backend)),
            Self::Noarch(Noarch::Universal) => "torch-universal".to_owned(),
        };
        f.pad(&text)
    }
}

fn framework_part(framework: &Framework) -> String {
    match framework {
        Framework::Torch(Torch { version, abi }) => {
            let digits = version.digits();
            match abi {
                Abi::Stable => format!("torch-stable-abi{digits}"),
                Abi::Full(Tag::None) => format!("torch{digits}"),
                Abi::Full(Tag::Cxx11) => format!("torch{digits}-cxx11"),
                Abi::Full(Tag::Cxx98) => format!("torch{digits}-cxx98"),
            }
        }
        Framework::TvmFfi(version) => format!("tvm-ffi{}", version.digits()),
    }
}

/// The client calls CANN's devices by torch's name for them.
fn noarch_name(backend: BackendId) -> &'static str {
    if backend == BackendId::Cann { "npu" } else { backend.as_str() }
}

impl FromStr for Variant {
    type Err = UnitError;

    /// Reads an id back. Torch's and tvm-ffi's major version is one digit, the minor version of a toolkit too.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        from_id(text).ok_or_else(|| UnitError {
            text: text.to_owned(),
            kind: "the id of a variant",
            want: "write it as in torch-stable-abi211-cu130-x86_64-linux, torch211-cxx11-cpu-x86_64-linux, \
                   tvm-ffi01-cu130-x86_64-linux or torch-cuda"
                .to_owned(),
        })
    }
}

fn from_id(text: &str) -> Option<Variant> {
    if let Some(rest) = text.strip_prefix("torch-stable-abi") {
        let (digits, rest) = rest.split_once('-')?;
        return compiled(Framework::Torch(Torch { version: version(digits)?, abi: Abi::Stable }), rest);
    }
    if let Some(rest) = text.strip_prefix("tvm-ffi") {
        let (digits, rest) = rest.split_once('-')?;
        return compiled(Framework::TvmFfi(version(digits)?), rest);
    }
    if let Some(name) = text.strip_prefix("torch-") {
        let backend = BackendId::ALL.iter().copied().find(|backend| noarch_name(*backend) == name);
        let noarch = backend.map(Noarch::For).or((name == "universal").then_some(Noarch::Universal));
        return noarch.map(Variant::Noarch);
    }
    let (digits, rest) = text.strip_prefix("torch")?.split_once('-')?;
    let (tag, rest) = match (rest.strip_prefix("cxx11-"), rest.strip_prefix("cxx98-")) {
        (Some(rest), _) => (Tag::Cxx11, rest),
        (_, Some(rest)) => (Tag::Cxx98, rest),
        _ => (Tag::None, rest),
    };
    compiled(Framework::Torch(Torch { version: version(digits)?, abi: Abi::Full(tag) }), rest)
}

/// `cu130-x86_64-linux`.
fn compiled(framework: Framework, rest: &str) -> Option<Variant> {
    let mut parts = rest.split('-');
    let toolkit = Toolkit::from_id(parts.next()?)?;
    let (cpu, os) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().is_none().then_some(Variant::Compiled(Compiled { framework, toolkit, cpu, os }))
}

/// `211` is 2.11: the first digit is the major version.
fn version(digits: &str) -> Option<Version> {
    let (major, minor) = digits.split_at_checked(1)?;
    Some(Version::new(plain_number(major)?, plain_number(minor)?))
}
