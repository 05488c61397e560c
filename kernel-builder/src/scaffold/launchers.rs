//! The Rust module that starts the device code of an operation.
//!
//! Owns: its text, out of the plan and the files of machine code. Never: decides anything that `kernel_plan::host::rust` can;
//! knows where the files are.

use kernel_plan::host::rust::RustPlan;
use minijinja::{Environment, UndefinedBehavior, context};
use serde::Serialize;

use super::host::to_value;
use super::{ScaffoldError, template};

const NAME: &str = "launchers.rs";
const TEXT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/resources/rust/launchers.rs.j2"));

/// Machine code of one part of the plan for one architecture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Image {
    /// The place of the part.
    pub(crate) part: usize,
    /// Major version of the compute capability.
    pub(crate) major: u32,
    /// Minor version.
    pub(crate) minor: u32,
    /// On which GPUs it runs: a variant of the runtime's `Reach`.
    pub(crate) reach: &'static str,
    /// The file, beside the module.
    pub(crate) file: String,
    /// The names of its functions, in the order of the plan's expressions.
    #[serde(skip)]
    pub(crate) functions: Vec<String>,
}

/// Renders the module; without images, it can be compiled and refuses every call.
///
/// # Errors
/// A defect of the template.
pub(crate) fn render(plan: &RustPlan, file: &str, images: &[Image]) -> Result<String, ScaffoldError> {
    // Most images have the same names, so each list is written once.
    let mut names: Vec<&Vec<String>> = vec![];
    let mut listed = vec![];
    for image in images {
        let place = names.iter().position(|known| **known == image.functions).unwrap_or_else(|| {
            names.push(&image.functions);
            names.len() - 1
        });
        listed.push(context! { names => place, ..to_value(image) });
    }
    let mut engine = Environment::new();
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_syntax(template::syntax(NAME)?);
    let variables = context! { op => to_value(plan), file, images => listed, names => to_value(&names) };
    engine.render_str(TEXT, variables).map_err(|cause| ScaffoldError::Render { file: NAME.to_owned(), cause })
}

#[cfg(test)]
mod tests;
