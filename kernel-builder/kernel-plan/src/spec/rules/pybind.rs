//! pybind11, which needs more of Python than the limited API that one binary for all Pythons is built on.
//!
//! Never: objects to Python.h, of which the limited part may be used.

use crate::diagnostic::Problem;
use crate::spec::{codes, headers};

use super::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let help = "include <torch/all.h> (or torch/csrc/stable/library.h for the stable ABI) and register operators with \
                TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops)";
    let mut problems = Vec::new();
    for (file, cpp) in project.sources.cpp() {
        for include in cpp.includes.iter().filter(|include| headers::is_pybind(&include.path)) {
            if project.compiles(&include.condition) && !project.has_vendored(&include.path) {
                let message =
                    format!("`{}` brings pybind11, which Python's limited API does not allow", include.path);
                let problem = Problem::error(codes::PYBIND, message).help(help);
                problems.push(problem.at(file, &include.span, "this does not compile"));
            }
        }
        for registration in
            cpp.registrations.iter().filter(|registration| registration.name == "PYBIND11_MODULE")
        {
            if project.compiles(&registration.condition) {
                let message = "a module of pybind11 needs more than Python's limited API";
                let problem = Problem::error(codes::PYBIND, message).help(help);
                problems.push(problem.at(file, &registration.span, "this does not compile"));
            }
        }
    }
    problems
}
