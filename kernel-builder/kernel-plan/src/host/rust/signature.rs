//! The signature of a generated function.
//!
//! Owns: its text, by which two versions of an operation are compared. Never: has shapes, which a call checks.

use super::types::{Access, ParameterPlan, RustPlan};

impl RustPlan {
    /// The signature as Rust, without the stream and the lifetimes:
    /// `rms_norm<T: bf16 | f16>(out: &mut TensorMut<T>, input: &Tensor<T>, eps: f64)`.
    pub fn signature(&self) -> String {
        let variables: Vec<String> =
            self.variables.iter().map(|one| format!("{}: {}", one.generic, one.dtypes.join(" | "))).collect();
        let tensors = self.parameters.iter().map(parameter);
        let scalars = self.scalars.iter().map(|one| format!("{}: {}", one.argument, one.kind));
        let parameters: Vec<String> = tensors.chain(scalars).collect();
        let variables =
            if variables.is_empty() { String::new() } else { format!("<{}>", variables.join(", ")) };
        format!("{}{variables}({})", self.module, parameters.join(", "))
    }
}

fn parameter(one: &ParameterPlan) -> String {
    let tensor = match one.access {
        Access::Input => format!("&Tensor<{}>", one.element),
        Access::Output | Access::Both => format!("&mut TensorMut<{}>", one.element),
    };
    let tensor = if one.optional { format!("Option<{tensor}>") } else { tensor };
    format!("{}: {tensor}", one.argument)
}
