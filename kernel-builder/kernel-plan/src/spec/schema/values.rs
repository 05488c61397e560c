//! The texts of both files as schemas: patterns, choices, examples.
//!
//! Owns: a pattern for each text of `units`, which the tests hold against its grammar.
//! Never: refuses what the parser reads. Some patterns let more pass, where a pattern would be unreadable.

use std::borrow::Cow;

use schemars::{Schema, json_schema};
use serde_json::{Value, json};

use super::by_hand::schemas;
use crate::spec::build::Dependency;
use crate::units::{
    BackendId, Capability, FileExtension, GitRef, GitUrl, KernelName, License, PythonDependency, RelPath,
    RepoId, RocmArch, SectionName, Version,
};

/// A text that fits a pattern.
pub(super) fn text<const N: usize>(pattern: impl Into<Value>, examples: [&str; N]) -> Schema {
    json_schema!({ "type": "string", "pattern": pattern.into(), "examples": examples.to_vec() })
}

schemas! {
    KernelName => text("^[a-z][-a-z0-9]*[a-z0-9]$", ["fast-norm"]);
    SectionName => text("^[_A-Za-z0-9][-_A-Za-z0-9]*$", ["norm_cuda"]);
    Version => text(VERSION, ["2.11", "13.0"]);
    Capability => text(r"^(0|[1-9][0-9]{0,3})\.[0-9][af]?(\+PTX)?$", ["8.0", "9.0a", "10.0f", "12.0+PTX"]);
    RocmArch => text(ROCM_ARCH, ["gfx942", "gfx1100"]);
    // No part is `..`.
    RelPath => text(format!(r"^(\.|{PART})(/(\.|{PART})?)*$"), ["norm_cuda/norm.cu"]);
    License => text(r"^[^\x00-\x1f\x7f]*\S[^\x00-\x1f\x7f]*$", ["Apache-2.0", "MIT", "BSD-3-Clause"]);
    FileExtension => text(r"^[-+_A-Za-z0-9]+(\.[-+_A-Za-z0-9]+)*$", ["py", "pyi", "json"]);
    RepoId => text(format!("^{HUB_NAME}/{HUB_NAME}$"), ["kernels-community/activation"]);
    GitRef => text(r"^[^-\s/.~^:?*\[\\][^\s~^:?*\[\\]*$", ["v1", "main"]);
    GitUrl => text(git_url(), ["https://github.com/owner/name", "git@github.com:owner/name.git"]);
    BackendId => choice(Self::ALL.iter().map(|backend| (backend.as_str(), hardware(*backend).into())));
    CompiledBackend => choice(COMPILED.iter().map(|backend| (backend.as_str(), hardware(*backend).into())));
    Dependency => choice(Self::ALL.iter().map(|dependency| (dependency.as_str(), provided(dependency.as_str()))));
    StableAbi => stable_abi(text(VERSION, ["2.11"]));
    PackagesOfAll => packages(None);
    PackagesOfCuda => packages(Some(BackendId::Cuda));
    PackagesOfNeuron => packages(Some(BackendId::Neuron));
    PackagesOfTpu => packages(Some(BackendId::Tpu));
    PackagesOfXpu => packages(Some(BackendId::Xpu));
}

/// The backend of a kernel section.
pub(super) struct CompiledBackend;
/// `torch.stable-abi`.
pub(super) struct StableAbi;
/// `python-depends` of `[general]`.
pub(super) struct PackagesOfAll;
/// `python-depends` of `[general.cuda]`.
pub(super) struct PackagesOfCuda;
/// `python-depends` of `[general.neuron]`.
pub(super) struct PackagesOfNeuron;
/// `python-depends` of `[general.tpu]`.
pub(super) struct PackagesOfTpu;
/// `python-depends` of `[general.xpu]`.
pub(super) struct PackagesOfXpu;

/// The backends with code that is compiled.
const COMPILED: [BackendId; 5] =
    [BackendId::Cpu, BackendId::Cuda, BackendId::Metal, BackendId::Rocm, BackendId::Xpu];

const VERSION: &str = r"^(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})$";
const ROCM_ARCH: &str = r"^gfx[0-9][0-9a-f]*(-[0-9]+)?(-generic)?(:sramecc[-+])?(:xnack[-+])?$";
const HUB_NAME: &str = "[A-Za-z0-9_][-_.A-Za-z0-9]{0,95}";
/// One part of a path in the project, but for `.`.
const PART: &str = r"([^./\\:\x00]|\.[^./\\:\x00]|\.\.[^/\\:\x00])[^/\\:\x00]*";

/// A URL of one of git's schemes, in any case, or `user@host:path`.
fn git_url() -> String {
    let letter = |letter: char| match letter {
        '+' => r"\+".to_owned(),
        letter => format!("[{letter}{}]", letter.to_ascii_uppercase()),
    };
    let schemes: Vec<String> =
        GitUrl::SCHEMES.iter().map(|scheme| scheme.chars().map(letter).collect()).collect();
    format!(
        r"^(({})://[^\s\\/?#@][^\s\\]*|[^\s\\/?#:@\[\]]+@[^\s\\/:]+:[^\s\\/][^\s\\]*)$",
        schemes.join("|")
    )
}

/// One of a few names, each with what it stands for.
fn choice(names: impl Iterator<Item = (&'static str, Cow<'static, str>)>) -> Schema {
    let (names, docs): (Vec<_>, Vec<_>) = names.unzip();
    let mut schema = json_schema!({ "type": "string", "enum": names });
    if docs.iter().any(|text| !text.is_empty()) {
        schema.insert("x-taplo".to_owned(), json!({ "docs": { "enumValues": docs } }));
    }
    schema
}

/// What a backend's code runs on.
const fn hardware(backend: BackendId) -> &'static str {
    match backend {
        BackendId::Cann => "Huawei Ascend",
        BackendId::Cpu => "the host processor",
        BackendId::Cuda => "NVIDIA GPUs",
        BackendId::Metal => "Apple GPUs",
        BackendId::Neuron => "AWS Trainium and Inferentia",
        BackendId::Rocm => "AMD GPUs",
        BackendId::Tpu => "Google TPUs",
        BackendId::Xpu => "Intel GPUs",
    }
}

/// What a dependency of a kernel section provides.
fn provided(dependency: &str) -> Cow<'static, str> {
    match dependency.strip_prefix("cutlass_") {
        Some(version) => format!("the headers of CUTLASS {}", version.replace('_', ".")).into(),
        None if dependency == "torch" => "the headers and libraries of PyTorch".into(),
        None if dependency == "sycl_tla" => "the headers of SYCL*TLA".into(),
        None => "the headers of metal-cpp".into(),
    }
}

/// A list of the Python packages that one section may name.
fn packages(backend: Option<BackendId>) -> Schema {
    let names: Vec<_> = PythonDependency::allowed(backend).map(PythonDependency::as_str).collect();
    if names.is_empty() {
        return json_schema!({ "type": "array", "maxItems": 0 });
    }
    json_schema!({ "type": "array", "items": { "type": "string", "enum": names } })
}

/// A version for every backend, or one for each.
fn stable_abi(version: Schema) -> Schema {
    let version: Value = version.into();
    let backends: serde_json::Map<String, Value> = BackendId::ALL
        .iter()
        .map(|backend| {
            let mut version = version.clone();
            version["description"] = format!("The oldest torch for {}.", hardware(*backend)).into();
            (backend.to_string(), version)
        })
        .collect();
    json_schema!({
        "oneOf": [version, { "type": "object", "properties": backends, "additionalProperties": false }]
    })
}
