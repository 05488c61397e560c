//! The matrix of variants, and what of it this machine can build.

use kernel_plan::variant::{Cpu, Matrix, Os, Provision, Selector, Tool};

use crate::exit::{self, Failure};
use crate::toolchain::{self, Provider};

/// The list of every variant that exists, compiled in: `variants.toml` of the repository.
const MATRIX: &str = include_str!("../../../../variants.toml");

/// The matrix of variants. It is part of the program, so an error in it is a defect that the tests find.
pub(crate) fn matrix() -> Result<Matrix, Failure> {
    Matrix::parse(MATRIX).map_err(|problems| Failure::from_problems(exit::PLAN, problems))
}

/// What can be built on this machine with the toolchains of `provider` and the installed `tools`.
pub(crate) fn provision(provider: Provider, tools: Vec<Tool>) -> Provision {
    // The machine that this program was built for is the one it runs on.
    let cpu = if cfg!(target_arch = "aarch64") { Cpu::Aarch64 } else { Cpu::X86_64 };
    let os = if cfg!(target_os = "macos") { Os::Darwin } else { Os::Linux };
    Provision { cpu, os, offers: vec![toolchain::offer(provider)], tools }
}

/// Reads a selector of the command line.
pub(crate) fn selector(text: &str) -> Result<Selector, Failure> {
    Selector::parse(text).map_err(|problem| Failure::from_problems(exit::PLAN, [problem]))
}
