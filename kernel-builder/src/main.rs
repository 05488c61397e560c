//! The `kernelwright` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(kernel_builder::cli::main())
}
