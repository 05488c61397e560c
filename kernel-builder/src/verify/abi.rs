//! The gates on libraries of which nothing is known but the file and what is declared of it: anybody's.
//!
//! Owns: which gates these are, and what is declared where nobody says it. Never: runs or loads the file.

use std::path::{Path, PathBuf};

use kernel_plan::units::Version;
use kernel_plan::variant::Variant;
use serde::Serialize;
use serde_json::{Value, json};

use super::checks::portability::{self, Promise};
use super::checks::symbols::{self, Entry};
use super::checks::{archs, resources};
use super::clashes::{self, OtherLibrary};
use super::elf;
use super::evidence::{CheckResult, Outcome};
use crate::base::digest::Digest;
use crate::base::files::{self, FileError};

/// What a library is said to be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Declared {
    /// The variant's id, where one is known; one of another program need not be in our matrix.
    pub variant: Option<String>,
    /// The name of the module.
    pub id: Option<String>,
    /// Architectures, as build.toml writes them.
    pub archs: Option<Vec<String>>,
    /// The oldest torch, of a library that is said to be for torch's stable ABI.
    pub torch_stable_abi: Option<String>,
}

impl Declared {
    /// What lies beside a file says: `metadata.json` in its folder, or what `build` wrote beside that; and the folder's name
    /// where it is that of a variant.
    pub fn beside(library: &Path) -> Self {
        let folder = library.parent().unwrap_or(Path::new(""));
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let variant = name.filter(|name| name.parse::<Variant>().is_ok());
        let read =
            |file: PathBuf| -> Option<Value> { serde_json::from_str(&files::read_text(&file).ok()?).ok() };
        let metadata = read(folder.join("metadata.json"));
        // A build of a project has its description beside its folder.
        let build = || {
            let build = read(folder.with_extension("json"))?;
            let backend = json!({ "type": build["backend"], "archs": build["capabilities"] });
            Some(json!({ "id": build["id"], "backend": backend }))
        };
        let metadata = metadata.or_else(build).unwrap_or(Value::Null);
        let archs = match metadata["backend"]["type"].as_str() {
            None => None,
            // Of other backends the machine code is not read, and this one's must not be there.
            Some(backend) if backend != "cuda" => Some(Vec::new()),
            Some(_) => metadata["backend"]["archs"]
                .as_array()
                .map(|archs| archs.iter().filter_map(|arch| Some(arch.as_str()?.to_owned())).collect()),
        };
        Self { variant, id: metadata["id"].as_str().map(str::to_owned), archs, torch_stable_abi: None }
    }
}

/// What the gates say of one file.
#[derive(Debug, Serialize)]
pub struct Examined {
    /// The file, as it was named.
    pub file: PathBuf,
    /// What it was held against.
    pub declared: Declared,
    /// In the order of the gates.
    pub checks: Vec<CheckResult>,
}

impl Examined {
    /// The checks that refuse the file.
    pub fn refusals(&self) -> impl Iterator<Item = &CheckResult> {
        self.checks.iter().filter(|check| check.outcome == Outcome::Refused)
    }
}

/// Holds a file against every gate that reads libraries. What needs a newer system than manylinux_2_28 is refused when
/// `require_portable`, else told.
///
/// # Errors
/// The file cannot be read.
pub fn examine(file: &Path, declared: Declared, require_portable: bool) -> Result<Examined, FileError> {
    let bytes = files::read(file)?;
    let variant: Option<Variant> = declared.variant.as_deref().and_then(|text| text.parse().ok());
    let mut checks = Vec::new();
    if elf::interface(&bytes).is_ok() {
        checks.push(archs::judged(&bytes, archs_of(&declared, variant).as_deref()));
        // What cannot be read was refused by the gate before.
        let kernels = resources::usages(&bytes).unwrap_or_default();
        checks.extend((!kernels.is_empty()).then(|| resources::report(&kernels)));
    }
    let mut promise = Promise::new(file, variant);
    // The version was read when it was declared.
    let floor: Option<Version> = declared.torch_stable_abi.as_deref().and_then(|text| text.parse().ok());
    promise.any_torch = floor.or(promise.any_torch);
    checks.extend(portability::judged(&bytes, promise, require_portable));
    // What is no library was refused by the gates above.
    let Ok(interface) = elf::interface(&bytes) else {
        return Ok(Examined { file: file.to_owned(), declared, checks });
    };
    let entry = match (variant.map(is_tvm_ffi), &declared.id) {
        (Some(true), _) => Entry::Functions,
        (_, Some(id)) => Entry::Module(id),
        (_, None) => Entry::AnyModule,
    };
    let (outcome, summary) = symbols::judged(&interface, entry, require_portable);
    checks.push(CheckResult::new("symbols", symbols::CODE, outcome, summary, symbols::facts(&interface)));
    Ok(Examined { file: file.to_owned(), declared, checks })
}

/// Whether a file is a library of the kind that is judged, by its first bytes.
///
/// # Errors
/// The file cannot be read.
pub fn is_library(file: &Path) -> Result<bool, FileError> {
    Ok(elf::is_elf(&files::read(file)?))
}

/// The constants of a library, in which its texts are; nothing where it has none.
pub(crate) fn constants(library: &[u8]) -> Vec<u8> {
    elf::section(library, ".rodata").ok().flatten().map(<[u8]>::to_vec).unwrap_or_default()
}

/// The functions that tvm-ffi finds in a library, by the names that it has for them.
pub(crate) fn tvm_ffi_functions(library: &[u8]) -> Vec<String> {
    let interface = elf::interface(library).unwrap_or_default();
    let names = interface.exported.iter().filter_map(|name| name.strip_prefix(symbols::TVM_FFI));
    names.map(str::to_owned).collect()
}

/// What the files take from each other when one process loads all of them, each with the name that it is told by; nothing
/// for fewer than two libraries. One that cannot be read as a library is left out: its own gates say so.
///
/// # Errors
/// A file cannot be read.
pub fn clashes_among(libraries: &[(PathBuf, PathBuf)]) -> Result<Option<CheckResult>, FileError> {
    let mut beside = Vec::new();
    for (name, file) in libraries {
        let bytes = files::read(file)?;
        let Ok(interface) = elf::interface(&bytes) else { continue };
        let folder = file.parent().unwrap_or(Path::new(""));
        let in_variant = files::exists(&folder.join("metadata.json"));
        let package = folder.parent().filter(|_| in_variant).map(Path::to_owned);
        let digest = Digest::blake3(&bytes);
        beside.push(OtherLibrary { name: name.display().to_string(), package, digest, interface });
    }
    Ok(clashes::among(&beside))
}

/// What is declared of architectures: a variant that is not for CUDA declares none of its.
fn archs_of(declared: &Declared, variant: Option<Variant>) -> Option<Vec<String>> {
    let elsewhere = variant.is_some_and(|variant| variant.cuda().is_none());
    if elsewhere { Some(Vec::new()) } else { declared.archs.clone() }
}

fn is_tvm_ffi(variant: Variant) -> bool {
    use kernel_plan::variant::Framework;
    variant.compiled().is_some_and(|compiled| matches!(compiled.framework, Framework::TvmFfi(_)))
}
