//! pybind11, which needs more of Python than the limited API that one binary for all Pythons is built on.
//!
//! Never: objects to Python.h, of which the limited part may be used, or to a header that nothing includes.

use crate::diagnostic::Problem;
use crate::spec::{codes, headers};

use crate::spec::project::Project;
use crate::spec::wording::once;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let help = "include <torch/all.h> (or torch/csrc/stable/library.h for the stable ABI) and register operators with \
                TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops)";
    let mut problems = Vec::new();
    for (compiled, backend) in project.compiled() {
        for (include, certain) in &compiled.outside {
            if *certain && headers::is_pybind(&include.path) && !project.has_vendored(&include.path) {
                let message = format!(
                    "`{}` includes pybind11, which does not support Python's limited API",
                    include.path
                );
                let problem = Problem::error(codes::PYBIND, message).help(help);
                problems.push(problem.at(compiled.file, &include.span, "this does not compile"));
            }
        }
        for registration in &compiled.cpp.registrations {
            let certain = compiled.certain && registration.condition.under(backend) == Some(true);
            if certain && registration.name == "PYBIND11_MODULE" {
                let message = "a pybind11 module does not support Python's limited API";
                let problem = Problem::error(codes::PYBIND, message).help(help);
                problems.push(problem.at(compiled.file, &registration.span, "this does not compile"));
            }
        }
    }
    once(problems)
}
