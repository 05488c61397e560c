//! What a project begins with.

pub(crate) mod exchange;
pub(crate) mod fresh;
pub(crate) mod generate;
pub(crate) mod published;
pub(crate) mod pull;
pub(crate) mod told;
pub(crate) mod tracing;
#[cfg(test)]
mod tracing_tests;
