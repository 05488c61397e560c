//! Reads the values of `units` out of TOML strings.
//!
//! Owns: which code a malformed value has, and the suggestions for fixed names.
//! Never: restates a grammar; `units` has them.

use std::str::FromStr;

use crate::diagnostic::{Problem, did_you_mean};
use crate::units::{
    BackendId, Capability, Dtype, FileExtension, GitRef, GitUrl, KernelName, License, PythonDependency,
    PythonName, RelPath, RepoId, RocmArch, UnitError, VariantId, Version, WorkloadName,
};
use crate::variant::{AbiName, Cpu, Os, Provider};

use super::build::Dependency;
use super::launch::{Interleave, L2Promotion, OobFill, Swizzle};
use super::op::{Device, Purpose};
use super::read::{Node, Read};
use super::{Spanned, codes};

/// A text of the file, parsed; a failure is reported with `code`, and with the closest of `choices`.
fn parse<T: FromStr<Err = UnitError>>(
    node: &Node<'_>,
    code: &'static str,
    choices: &[&'static str],
) -> Option<T> {
    parse_or(node, code, choices, |error| error.want)
}

/// As `parse`, with a help of its own.
fn parse_or<T: FromStr<Err = UnitError>>(
    node: &Node<'_>,
    code: &'static str,
    choices: &[&'static str],
    help: impl FnOnce(UnitError) -> String,
) -> Option<T> {
    let text = String::read(node)?;
    match text.parse() {
        Ok(value) => Some(value),
        Err(error) => {
            let label = did_you_mean(&text, choices.iter().copied(), "here");
            let message = format!("`{}` is not {}", error.text, error.kind);
            node.report(Problem::error(code, message).help(help(error)), &node.span(), label);
            None
        }
    }
}

/// A name that is a key of the file, parsed.
pub(crate) fn name<T: FromStr<Err = UnitError>>(
    key: &Spanned<String>,
    node: &Node<'_>,
    code: &'static str,
) -> Option<Spanned<T>> {
    match key.value.parse() {
        Ok(value) => Some(Spanned::new(value, key.span.clone())),
        Err(error) => {
            let message = format!("`{}` is not {}", error.text, error.kind);
            node.report(Problem::error(code, message).help(error.want), &key.span, "here");
            None
        }
    }
}

macro_rules! read_parsed {
    ($($type:ty => $code:ident),* $(,)?) => { $(
        impl Read for $type {
            fn read(node: &Node<'_>) -> Option<Self> {
                parse(node, codes::$code, &[])
            }
        }
    )* };
}

read_parsed! {
    KernelName => BAD_VALUE,
    WorkloadName => BAD_VALUE,
    VariantId => BAD_VALUE,
    Version => BAD_VALUE,
    PythonName => NOT_AN_IDENTIFIER,
    RelPath => SOURCE_OUTSIDE,
    Capability => BAD_CAPABILITY,
    RocmArch => BAD_ROCM_ARCH,
    License => EMPTY_LICENSE,
    RepoId => HUB_REPO_ID,
    GitUrl => BAD_VALUE,
    GitRef => BAD_VALUE,
    FileExtension => BAD_VALUE,
}

macro_rules! read_named {
    ($($type:ty => $code:ident),* $(,)?) => { $(
        impl Read for $type {
            fn read(node: &Node<'_>) -> Option<Self> {
                let choices: Vec<_> = <$type>::ALL.iter().map(|choice| choice.as_str()).collect();
                parse(node, codes::$code, &choices)
            }
        }
    )* };
}

read_named! {
    BackendId => BAD_VALUE,
    Dependency => BAD_VALUE,
    Purpose => BAD_VALUE,
    Device => BAD_VALUE,
    Swizzle => BAD_VALUE,
    Interleave => BAD_VALUE,
    L2Promotion => BAD_VALUE,
    OobFill => BAD_VALUE,
    AbiName => BAD_VALUE,
    Cpu => BAD_VALUE,
    Os => BAD_VALUE,
    Provider => BAD_VALUE,
}

impl Read for Dtype {
    fn read(node: &Node<'_>) -> Option<Self> {
        let choices: Vec<_> = Self::ALL.iter().map(|choice| choice.as_str()).collect();
        let text = node.value().as_str().filter(|text| !choices.contains(text));
        if let Some((text, dtype)) = text.and_then(|text| Some((text, Self::named_elsewhere(text)?))) {
            let problem = Problem::error(codes::UNKNOWN_DTYPE, format!("`{text}` is not a dtype"))
                .help(format!("valid values: {}", choices.join(", ")));
            node.report(problem, &node.span(), format!("did you mean `{dtype}`?"));
            return None;
        }
        parse(node, codes::UNKNOWN_DTYPE, &choices)
    }
}

impl Read for PythonDependency {
    fn read(node: &Node<'_>) -> Option<Self> {
        let choices: Vec<_> = Self::ALL.iter().map(|choice| choice.as_str()).collect();
        parse_or(node, codes::PYTHON_DEPENDS, &choices, |_| {
            format!("the client supports only these packages, each in its section: {}", Self::homes())
        })
    }
}
