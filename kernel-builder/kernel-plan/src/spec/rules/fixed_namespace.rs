//! Operators in a namespace that the source names itself: two versions of the kernel cannot be loaded together.
//!
//! Never: objects to operators of torch's own namespaces, which are everybody's.

use std::sync::Arc;

use crate::diagnostic::{Problem, SourceFile};
use crate::spec::codes;
use crate::spec::scan::{cpp, python};

use crate::spec::project::Project;
use crate::spec::wording::once;

/// The name that a build gives to each extension.
const EXTENSION: &str = "TORCH_EXTENSION_NAME";

/// Namespaces of torch's, and the one that means all.
const SHARED: &[&str] = &["_", "aten", "prim", "prims", "quantized"];

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let cpp = project.compiled().into_iter().flat_map(|(compiled, backend)| {
        let certain = move |registration: &&cpp::Registration| {
            compiled.certain && registration.condition.under(backend) == Some(true)
        };
        let registrations = compiled.cpp.registrations.iter().filter(certain);
        registrations.filter_map(move |registration| in_cpp(compiled.file, registration))
    });
    let python = project.sources.python().flat_map(|(_, file, python)| {
        python.registrations.iter().filter_map(|registration| in_python(file, registration))
    });
    once(cpp.chain(python).collect())
}

fn in_cpp(file: &Arc<SourceFile>, registration: &cpp::Registration) -> Option<Problem> {
    let cpp::Registration { name, argument, span, .. } = registration;
    if !name.contains("TORCH_LIBRARY") || SHARED.contains(&argument.as_str()) {
        return None;
    }
    let (message, label) = if argument == EXTENSION {
        (
            format!("`{name}` does not expand `{EXTENSION}`"),
            format!("registers in a namespace named {EXTENSION}"),
        )
    } else {
        (
            format!(
                "`{name}` registers in the namespace `{argument}`, which is the same for every version \
                 of the kernel"
            ),
            "two versions cannot be loaded together, and `_ops.py` does not find these operators".to_owned(),
        )
    };
    let rest = if name.ends_with("_IMPL") { "KEY, ops" } else { "ops" };
    let help = format!("include \"registration.h\" and write {name}_EXPAND({EXTENSION}, {rest})");
    Some(Problem::warning(codes::FIXED_NAMESPACE, message).at(file, span, label).help(help))
}

fn in_python(file: &Arc<SourceFile>, registration: &python::Registration) -> Option<Problem> {
    let (namespace, operator) = registration.name.split_once("::")?;
    if SHARED.contains(&namespace) {
        return None;
    }
    let message = format!(
        "`torch.library.{}` uses the namespace `{namespace}`, which is the same for every version of the \
         kernel",
        registration.function
    );
    Some(
        Problem::warning(codes::FIXED_NAMESPACE, message)
            .at(file, &registration.span, "two versions cannot be loaded together")
            .help(format!(
                "write add_op_namespace_prefix(\"{operator}\"), after `from ._ops import add_op_namespace_prefix`"
            )),
    )
}
