//! op.toml and build.toml should speak of the same operation, or records of it are filed under two names.
//!
//! Never: an error, because one kernel may hold several operations.

use crate::diagnostic::Problem;
use crate::spec::codes;

use super::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let Some(op) = project.op else { return Vec::new() };
    let kernel = &project.build.general.name.value;
    if op.name.as_str() == kernel.module() {
        return Vec::new();
    }
    let message = format!("op.toml is about `{}`, and build.toml builds `{kernel}`", op.name.value);
    vec![
        Problem::warning(codes::OP_NAME_MISMATCH, message)
            .at(&op.file, &op.name.span, format!("`{}` would be the same name", kernel.module()))
            .help("give both the same name; `-` in build.toml is `_` in op.toml"),
    ]
}
