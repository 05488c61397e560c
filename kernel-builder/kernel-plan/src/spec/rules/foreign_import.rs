//! Python of the kernel that imports what need not be installed where the kernel is loaded.
//!
//! What a kernel may import: the standard library, torch, itself, and what `python-depends` names (the requirements of
//! huggingface/kernels, docs/source/kernel-requirements.md); Triton too, where torch brings it, and the client.
//! Never: objects to an import that may fail or depends on something.

use std::collections::BTreeSet;

use crate::diagnostic::Problem;
use crate::spec::codes;
use crate::spec::python_names::{dependency_of, is_always_there};
use crate::spec::scan::python::Place;
use crate::units::{PythonDependency, RelPath};

use super::python_depends::section;
use crate::spec::project::Project;
use crate::spec::wording::once;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let general = &project.build.general;
    let named: Vec<PythonDependency> = general
        .python_depends
        .iter()
        .chain(general.backend_depends.iter().flat_map(|depends| &depends.python))
        .map(|name| name.value)
        .collect();
    let own = general.name.module();
    let mut problems = Vec::new();
    for (path, file, python) in project.sources.python() {
        let mut told = BTreeSet::new();
        for import in
            python.imports.iter().filter(|import| !import.relative && import.place <= Place::Function)
        {
            let module = import.module.split('.').next().unwrap_or_default();
            let dependency = dependency_of(module);
            let for_tvm = module == "tvm_ffi" && path.as_str().starts_with("tvm-ffi-ext/");
            if module == own
                || for_tvm
                || is_always_there(module, |backend| project.build.declares(backend))
                || dependency.is_some_and(|depend| named.contains(&depend))
                || !told.insert(module)
            {
                continue;
            }
            let help = match dependency {
                Some(depend) => {
                    format!("add \"{depend}\" to `python-depends` under {}", section(depend.backend()))
                }
                None if is_beside(project, path, module) => {
                    format!(
                        "`{module}` is a module of this kernel: write `from . import {module}`, with a dot"
                    )
                }
                None => {
                    "a kernel may import the standard library, torch and the packages in `python-depends`; \
                     remove this import, or put it inside `try`"
                        .to_owned()
                }
            };
            let message = format!("`{module}` may not be installed where the kernel is loaded");
            let (problem, label) = if import.place == Place::Plain {
                (Problem::warning(codes::FOREIGN_IMPORT, message), "imported when the kernel is loaded")
            } else {
                (Problem::note(codes::FOREIGN_IMPORT, message), "imported when this function is called")
            };
            problems.push(problem.help(help).at(file, &import.span, label));
        }
    }
    once(problems)
}

/// Whether `module` lies in the folder of the Python file at `path`.
fn is_beside(project: &Project<'_>, path: &RelPath, module: &str) -> bool {
    let Some((folder, _)) = path.as_str().rsplit_once('/') else { return false };
    let candidates = [format!("{folder}/{module}.py"), format!("{folder}/{module}/__init__.py")];
    candidates
        .iter()
        .any(|candidate| candidate.parse().is_ok_and(|file: RelPath| project.files.contains(&file)))
}
