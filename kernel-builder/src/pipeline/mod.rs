//! The stages of a project. The only place where the modules that do the work meet.
//!
//! Each stage may use those above it in this list, and none below:
//!
//! 1. [`project`]: reads a project; which variants, which device code, which settings.
//! 2. `create`: what a project begins with, and the code that is generated from op.toml.
//! 3. `build`: compiles the variants, and reads every library before anything may package it.
//! 4. `judge`: holds what was built, or device code, against the reference.
//! 5. `measure`: times what the judge accepts; many candidates of device code on one workload.
//! 6. `tune`: searches settings of device code.
//! 7. `candidates`: the judge as tools for agents, and the kernels that they hand in.
//! 8. `ship`: packages, publishes, loads, and builds a publication again.
//! 9. `make`: all of them on one project.
//!
//! Owns: the order of work, what is remembered in a project, what is told on the way. Never: parses an argument or prints a
//! result (`commands` does).

pub(crate) mod build;
pub(crate) mod candidates;
pub(crate) mod create;
pub(crate) mod judge;
pub(crate) mod make;
pub(crate) mod measure;
pub mod project;
pub(crate) mod ship;
pub(crate) mod tune;
