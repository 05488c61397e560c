//! Python of the kernel that imports the kernel by its name: it is loaded under another one.
//!
//! Never: objects to an import that may fail or never runs.

use crate::diagnostic::Problem;
use crate::spec::codes;
use crate::spec::scan::python::Place;

use crate::spec::project::Project;
use crate::spec::wording::once;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let module = project.build.general.name.module();
    let mut problems = Vec::new();
    for (path, file, python) in project.sources.python() {
        let own = python.imports.iter().filter(|import| !import.relative && import.place != Place::Guarded);
        for import in own {
            let Some(rest) = import.module.strip_prefix(&module) else { continue };
            if !rest.is_empty() && !rest.starts_with('.') {
                continue;
            }
            // `torch-ext/<module>/a.py` is one dot away from the package, each folder below one more.
            let dots = ".".repeat(path.as_str().matches('/').count().saturating_sub(1).max(1));
            let message = format!("`{}` is this kernel, which is loaded under another name", import.module);
            problems.push(
                Problem::error(codes::SELF_IMPORT, message)
                    .at(file, &import.span, "no module has this name when the kernel is loaded")
                    .help(format!("write `from {dots}{} import ...`", rest.trim_start_matches('.'))),
            );
        }
    }
    once(problems)
}
