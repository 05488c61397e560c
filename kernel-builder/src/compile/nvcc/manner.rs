//! How CUDA sources are compiled in this run.
//!
//! Owns: which sources nvcc compiles, and the variable that keeps it whole. Never: compiles.

use kernel_plan::kit::Toolchain;
use kernel_plan::plan::Unit;

use crate::base::env;

/// The name of the step that is nvcc as it is.
pub(in crate::compile) const WHOLE: &str = "nvcc";

/// Whether a unit is a CUDA source of this toolchain.
pub(in crate::compile) fn drives(unit: &Unit, kit: &Toolchain) -> bool {
    kit.cuda.as_ref().is_some_and(|cuda| unit.command.program == cuda.nvcc)
}

/// How CUDA sources are compiled in this run; belongs into the keys of what they become.
pub(in crate::compile) fn manner() -> &'static str {
    if env::text(env::NVCC).as_deref() == Some("whole") { "whole" } else { "steps-4" }
}
