//! Editions 1 and 2, which no tool of Hugging Face's reads any more.
//!
//! Owns: what their keys are in edition 5 (huggingface/kernels, kernels-data/src/config/v1.rs and v2.rs).
//! Never: writes; it tells the draft.

use std::collections::BTreeSet;

use toml_edit::Item;

use crate::diagnostic::Problem;
use crate::spec::codes;
use crate::spec::read::Table;
use crate::units::{BackendId, SectionName};

use super::layout::{Draft, entry};
use crate::spec::dialect::quoted;

/// What `universal = true` stood for: every backend of its time.
const UNIVERSAL: [BackendId; 7] = [
    BackendId::Cann,
    BackendId::Cpu,
    BackendId::Cuda,
    BackendId::Metal,
    BackendId::Neuron,
    BackendId::Rocm,
    BackendId::Xpu,
];

/// Rewrites the keys that edition 2 alone has; gives `backends` where it has to be added.
pub(super) fn two(root: &toml_edit::Table, general: &Table<'_>, draft: &mut Draft<'_>) -> Option<String> {
    let section = root.get("general")?;
    for key in ["cuda-minver", "cuda-maxver"] {
        if let Some(found) = entry(section, key) {
            draft.replace(found.key, key.replace("cuda-", "cuda."));
        }
    }
    python_depends(section, general, draft);
    if section.get("backends").is_some() {
        return None;
    }
    let backends = if section.get("universal").and_then(Item::as_bool) == Some(true) {
        UNIVERSAL.into_iter().collect()
    } else {
        let kernels = kernels(root);
        kernels.filter_map(|(_, kernel)| kernel.get("backend")?.as_str()?.parse().ok()).collect()
    };
    let backends = list(&backends, general)?;
    match entry(section, "universal") {
        Some(found) => {
            draft.replace(found.key, "backends");
            draft.replace(found.value, backends);
            None
        }
        None => Some(backends),
    }
}

/// Rewrites the keys that edition 1 alone has; gives `backends` where it has to be added.
pub(super) fn edition_one(
    root: &toml_edit::Table,
    general: &Table<'_>,
    draft: &mut Draft<'_>,
) -> Option<String> {
    let mut backends = BTreeSet::new();
    if let Some(torch) = root.get("torch")
        && let Some(found) = entry(torch, "universal")
    {
        if torch.get("universal").and_then(Item::as_bool) == Some(true) {
            backends.extend(UNIVERSAL);
        }
        draft.remove(&found);
    }
    for (name, kernel) in kernels(root) {
        let language = kernel.get("language").and_then(Item::as_str).unwrap_or("cuda");
        let backend = if language == "metal" { BackendId::Metal } else { BackendId::Cuda };
        backends.insert(backend);
        if language == "cuda-hipify" {
            backends.insert(BackendId::Rocm);
            hipified(root, name, kernel, general, draft);
        }
        if let Some(found) = entry(kernel, "language") {
            draft.replace(found.key, "backend");
            draft.replace(found.value, quoted(backend.as_str()));
        } else if kernel.get("backend").is_none()
            && let Some(anchor) = ["depends", "src"].into_iter().find_map(|key| entry(kernel, key))
        {
            draft.add_after(&anchor, &[("backend", quoted(backend.as_str()))]);
        }
    }
    if root.get("general")?.get("backends").is_some() { None } else { list(&backends, general) }
}

/// The sections of `[kernel.NAME]`.
pub(super) fn kernels(root: &toml_edit::Table) -> impl Iterator<Item = (&str, &Item)> {
    root.get("kernel").and_then(Item::as_table_like).into_iter().flat_map(|kernels| kernels.iter())
}

/// A kernel that was compiled for CUDA and, translated, for ROCm: in edition 5 these are two.
fn hipified(root: &toml_edit::Table, name: &str, kernel: &Item, general: &Table<'_>, draft: &mut Draft<'_>) {
    let copy = format!("{name}_rocm");
    let is_free = kernels(root).all(|(other, _)| other != copy);
    if !is_free || copy.parse::<SectionName>().is_err() {
        let message = format!(
            "`kernel.{name}` is for CUDA and ROCm, but the name `kernel.{copy}` cannot be used for \
             the second section"
        );
        let problem = Problem::error(codes::EDITION, message)
            .help("edition 5 has a section for each backend: rename one of the two");
        return general.report(problem, &kernel.span().unwrap_or(0..0), "to be split");
    }
    let mut entries = vec![("backend", quoted("rocm"))];
    for key in ["depends", "src", "include", "rocm-archs"] {
        if let Some(found) = entry(kernel, key) {
            entries.push((key, draft.at(found.value.clone()).to_owned()));
            if key == "rocm-archs" {
                draft.remove(&found);
            }
        }
    }
    draft.add_section(&format!("kernel.{copy}"), &entries);
}

/// `python-depends` of edition 2 had a package that is one of CUDA alone since.
fn python_depends(section: &Item, general: &Table<'_>, draft: &mut Draft<'_>) {
    const CUDA_ONLY: &str = "nvidia-cutlass-dsl";
    let Some(found) = entry(section, "python-depends") else { return };
    let packages = section.get("python-depends").and_then(Item::as_array);
    let packages: Vec<_> = packages.into_iter().flatten().map(|package| package.as_str()).collect();
    if !packages.contains(&Some(CUDA_ONLY)) {
        return;
    }
    if packages.iter().all(|package| *package == Some(CUDA_ONLY)) {
        return draft.replace(found.key, "cuda.python-depends");
    }
    let message = format!("`{CUDA_ONLY}` is only for CUDA, but is listed with other packages");
    let problem = Problem::error(codes::EDITION, message)
        .help(format!("move it to a line of its own: cuda.python-depends = [\"{CUDA_ONLY}\"]"));
    general.report(problem, &found.value, "two kinds of packages");
}

/// The value of `backends`, or a problem where there are none.
fn list(backends: &BTreeSet<BackendId>, general: &Table<'_>) -> Option<String> {
    if backends.is_empty() {
        let problem = Problem::error(codes::MISSING_KEY, "the file does not list the backends of the kernel")
            .help("add them under [general], for example: backends = [\"cuda\"]");
        general.report(problem, &general.place(), "`backends` is missing");
        return None;
    }
    let names: Vec<_> = backends.iter().map(|backend| quoted(backend.as_str())).collect();
    Some(format!("[{}]", names.join(", ")))
}
